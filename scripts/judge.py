"""Judge trained policies on worlds they have never seen, next to every scripted policy, world by world.

    python scripts/judge.py runs/ppo/<a> runs/ppo/<b> runs/ppo/<c> --worlds 200 --out docs/results/easy
    python scripts/judge.py runs/ppo/<a> --scenario scaled-30 --split validation
    python scripts/judge.py runs/ppo/<a> --scenario online_boutique

Splits: `test` has seeds from 20,000 and shapes that no training world has; `validation` seeds from 10,000. For
each run the sampled policy and the best action (NOOP tuned on other validation worlds, as stored by the run) are
played. Writes <out>.md and <out>.json; prints the tables.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.policies import scripted
from cloudrl.runs import latest_checkpoint, resolve_run, save_json, write_atomic
from cloudrl.scenarios.library import available, load_scenario, scenario_hash
from cloudrl.scenarios.scale import scaled_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TEST_SEEDS, VALIDATION_SEEDS
from evaluation import table
from evaluation.agents.policy_agent import PolicyAgent
from evaluation.rollout import Episodes, play_episodes

STARTS = {"validation": VALIDATION_SEEDS.start, "test": TEST_SEEDS.start}


def find_scenario(name: str) -> Scenario:
    """A suite, scaled-<n>, or an estate (its path or the name of a shipped one)."""
    if name in available():
        return load_scenario(name)
    if name.startswith("scaled-"):
        return scaled_scenario(int(name.removeprefix("scaled-")))
    return load_scenario("estate", path=name)


def run_agents(path: str) -> dict[str, PolicyAgent]:
    """The best checkpoint of a run, sampled and deterministic."""
    run = resolve_run(path, "ppo")
    folder = latest_checkpoint(run.best) or latest_checkpoint(run.checkpoints)
    if folder is None:
        raise UserError(f"{path}: has no whole checkpoint")
    final = run.eval / "final.json"
    offset = json.loads(final.read_text())["noop_offset"] if final.exists() else 0.0
    name = f"ppo seed {run.manifest()['seed']}"

    def load(**options: float | bool) -> PolicyAgent:
        return PolicyAgent.load(folder, observation_version=OBSERVATION_VERSION, **options)

    return {f"{name}, sampled": load(deterministic=False), f"{name}, best action": load(noop_offset=offset)}


def differences(results: dict[str, Episodes], trained: list[str]) -> list[table.Row]:
    """Paired differences of each trained policy against each other row: dollars saved and reward gained."""
    return [
        table.difference(results, name, other) for name in trained for other in results if other not in trained
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders of trainers.ppo")
    parser.add_argument("--scenario", default="easy", help="a suite, scaled-<n>, or an estate")
    parser.add_argument("--split", choices=STARTS, default="test")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--out", type=Path, help="write <out>.md and <out>.json")
    args = parser.parse_args()
    scenario = find_scenario(args.scenario)
    seeds = STARTS[args.split] + np.arange(args.worlds)
    agents: dict[str, object] = {a.name: a for a in scripted.baselines(scenario.name)}
    agents["searched runbook"] = agents.pop("runbook")
    trained: list[str] = []
    for path in args.runs:
        own = run_agents(path)
        trained += own
        agents |= own
    results = {name: play_episodes(agent, scenario, seeds) for name, agent in agents.items()}  # type: ignore[arg-type]
    rows = table.rows(results)
    title = f"{scenario.name}, {args.split} worlds {seeds[0]}-{seeds[-1]}; ± = half the 95 % interval"
    table.show(rows, title)
    gaps = differences(results, trained)
    lines = ["| policy | against | saves $ more | reward gained |", "|---|---|---|---|", *map(table.gained, gaps)]
    print("\n".join(lines))
    lost = [g for g in gaps if g["against"] != "searched runbook" and g["saves"][1] <= 0]
    print(
        f"\nNot separated from: {[(g['policy'], g['against']) for g in lost] or 'none (searched runbook aside)'}"
    )
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        where = f"{title}. Scenario hash {scenario_hash(scenario)}."
        write_atomic(
            args.out.with_suffix(".md"),
            f"# {where}\n\n{table.markdown(rows)}\nWorld by world (95 % interval):\n\n" + "\n".join(lines) + "\n",
        )
        save_json(
            args.out.with_suffix(".json"),
            {
                "scenario": scenario.name,
                "hash": scenario_hash(scenario),
                "rows": table.plain(rows),
                "paired": gaps,
            },
        )


if __name__ == "__main__":
    main()
