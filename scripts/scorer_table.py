"""How good the group scorer's look-aheads are: play whoever picks its best action, on validation worlds.

    python scripts/scorer_table.py --worlds 32 --seconds 600

The scorer knows the luck to come, so the returns bound what a policy can learn from it; they are no policy's. What
counts is whether a look-ahead ranks actions well enough that greedy play on it is good, and what its score says of
doing nothing. The table goes to docs/llm-contract.md.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np

from cloudrl.llm.config import GroupConfig, LookaheadConfig, Reference
from cloudrl.policies.scripted import ScriptedPolicy, from_runbook, noop, play, random, searched_runbook
from cloudrl.runs import write_atomic
from cloudrl.scenarios.library import load_scenario, scenario_hash
from cloudrl.seeding import VALIDATION_SEEDS
from cloudrl.simulator import Simulator
from envs.group import GroupScorer

PAGE = Path(__file__).resolve().parents[1] / "docs" / "llm-contract.md"
BEGIN, END = "<!-- begin scorer -->", "<!-- end scorer -->"


def greedy(sim: Simulator, scorer: GroupScorer) -> tuple[float, float, float, float]:
    """Play the scorer's best action to the end.

    Returns the mean episode reward, the share of states in which nothing beats NOOP, the mean score of a random
    valid action, and milliseconds of processor time per state.
    """
    waits, valid, spent = [], [], 0.0
    for _ in range(sim.ticks):
        start = time.process_time()
        values = scorer.values_all()
        spent += time.process_time() - start
        waits.append(values.noop_wins().mean())
        valid.append(values.random_valid())
        best = np.where(values.noop_wins(), sim.noop, values.rewards.argmax(axis=1))
        sim.step(best)
    total = float(sim.state.worlds["reward_total"].mean())
    return total, float(np.mean(waits)), float(np.mean(valid)), 1e3 * spent / (sim.ticks * sim.n_worlds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="easy")
    parser.add_argument("--worlds", type=int, default=32, help="validation worlds")
    parser.add_argument("--seconds", type=float, default=900.0, help="stop before a row that would begin later")
    args = parser.parse_args()
    scenario = load_scenario(args.suite)
    seeds = np.arange(args.worlds) + VALIDATION_SEEDS.start

    def worlds() -> Simulator:
        sim = Simulator(scenario, args.worlds)
        sim.reset(seeds)
        return sim

    def scripted(policy: ScriptedPolicy) -> float:
        return float(play(worlds(), policy)["reward_total"].mean())

    idle, book = scripted(noop()), scripted(from_runbook("runbook", searched_runbook(scenario.name)))
    lines = [
        f"`python scripts/scorer_table.py --suite {args.suite} --worlds {args.worlds}`, {scenario.name} "
        f"(constants {scenario_hash(scenario)}), validation seeds {seeds[0]} to {seeds[-1]}. Mean episode reward "
        f"in baseline ticks: doing nothing {idle:.1f}, random valid {scripted(random()):.1f}, searched runbook "
        f"{book:.1f}. *share* is that of the runbook's gain over doing nothing.",
        "",
        "| horizon | reference | greedy on the scorer | share % | NOOP is best % | random valid | ms/state |",
        "| --: | --- | --: | --: | --: | --: | --: |",
    ]
    began = time.process_time()
    for horizon, reference in product((0, 5, 20, "end"), Reference):
        if horizon == 0 and reference is not Reference.noop:
            continue  # nobody plays on
        if time.process_time() - began > args.seconds:
            lines.append(f"| {horizon} | {reference.value} | not run | | | | |")
            continue
        sim = worlds()
        scorer = GroupScorer(sim, GroupConfig(LookaheadConfig(horizon, reference)))
        total, waits, valid, ms = greedy(sim, scorer)
        share = 100.0 * (total - idle) / (book - idle)
        lines.append(
            f"| {horizon} | {reference.value} | {total:.1f} | {share:.0f} | {100 * waits:.0f} | {valid:+.2f} "
            f"| {ms:.1f} |"
        )
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    before, rest = PAGE.read_text().split(BEGIN)
    write_atomic(PAGE, f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
