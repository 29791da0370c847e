"""Ablations: what the immune memory, the safety layer, the curriculum and the edges in the policy do.

    python scripts/ablations.py train            # 3 seeds of each variant, into runs/ablations (over an hour)
    python scripts/ablations.py judge            # 200 test worlds each; writes docs/ablations.md and .json

`train` skips what is there and finished. Every variant differs from `default` of its suite in one thing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import Run, latest_checkpoint, save_json, write_atomic
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.scenarios.library import load_scenario, scenario_hash
from cloudrl.seeding import TEST_SEEDS
from evaluation.agents.policy_agent import PolicyAgent
from evaluation.rollout import Episodes, play_episodes
from evaluation.statistics import Interval, mean, stratified

OUT, PAGE = Path("docs/ablations.json"), Path("docs/ablations.md")
BEGIN, END = "<!-- begin table -->", "<!-- end table -->"
RUNS = Path("runs/ablations")
SEEDS = (0, 1, 2)
EASY, MEDIUM = ("+curriculum=easy",), ("scenario=medium", "warm_start.states=8e4")


@dataclass(frozen=True)
class Variant:
    """One way to train, and how its name reads."""

    suite: str
    name: str
    overrides: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return RUNS / self.suite / self.name

    def run(self, seed: int) -> Run | None:
        """The finished run of a seed, None if there is none."""
        for path in sorted(self.folder.glob("ppo/*")):
            run = Run(path)
            if (run.eval / "final.json").exists() and run.manifest()["seed"] == seed:
                return run
        return None


VARIANTS = [
    Variant("easy", "default", EASY),
    Variant("easy", "memory off", (*EASY, "memory=off")),
    Variant("easy", "safety observe", (*EASY, "safety=observe")),
    Variant("easy", "safety off", (*EASY, "safety=off")),
    Variant("easy", "no curriculum", ("scenario=easy",)),
    Variant("easy", "no edges", (*EASY, "ppo.edges=false")),
    Variant("medium", "default", MEDIUM),
    Variant("medium", "memory off", (*MEDIUM, "memory=off")),
]


def train(variants: list[Variant], seeds: tuple[int, ...]) -> None:
    """Train what is missing, one run after the other."""
    for seed in seeds:
        for variant in variants:
            if variant.run(seed) is None:
                print(f"{variant.suite}, {variant.name}, seed {seed}", flush=True)
                command = [
                    sys.executable, "-m", "trainers.ppo", *variant.overrides, f"seed={seed}",
                    f"runs_dir={json.dumps(str(variant.folder))}", "progress_bar=false",
                ]  # fmt: skip
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# ---- judging --------------------------------------------------------------------------------------------------


def sampled(run: Run) -> PolicyAgent:
    """The sampled policy of a run's best checkpoint."""
    return PolicyAgent.load(best(run), observation_version=OBSERVATION_VERSION, deterministic=False)


def best(run: Run) -> Path:
    folder = latest_checkpoint(run.best) or latest_checkpoint(run.checkpoints)
    assert folder is not None, run.path
    return folder


def own_memory(run: Run) -> ImmuneMemory:
    """What the run had learned, read only."""
    return ImmuneMemory.load(best(run) / "memory.json", MemoryConfig(frozen=True))


def judge(variants: list[Variant], seeds: tuple[int, ...], worlds: int) -> list[dict[str, Any]]:
    """One row per way to train and to play. Differences are taken world by world and seed by seed."""
    rows = []
    for suite in dict.fromkeys(v.suite for v in variants):
        scenario, numbers = load_scenario(suite), TEST_SEEDS.start + np.arange(worlds)
        base: list[Episodes] | None = None
        for variant in (v for v in variants if v.suite == suite):
            found = [variant.run(seed) for seed in seeds]
            runs = [run for run in found if run is not None]
            if len(runs) < len(seeds):
                print(f"{suite}, {variant.name}: {len(runs)} of {len(seeds)} seeds are trained; left out")
                continue
            ways: list[tuple[str, list[Episodes]]] = [
                ("enforce", [play_episodes(sampled(run), scenario, numbers) for run in runs])
            ]
            if variant.name.startswith("safety"):
                mode = SafetyConfig(SafetyMode[variant.name.split()[1]])
                ways.append(
                    (mode.mode.value, [play_episodes(sampled(r), scenario, numbers, safety=mode) for r in runs])
                )
            if variant.name == "default":
                base = ways[0][1]
                ways.append(
                    (
                        "enforce, with its memory",
                        [play_episodes(sampled(r), scenario, numbers, memory=own_memory(r)) for r in runs],
                    )
                )
            assert base is not None, f"{suite}: default is not trained"
            for way, episodes in ways:
                rows.append(row(suite, variant.name, way, episodes, base))
                print(markdown([rows[-1]]).splitlines()[-1])
    return rows


def row(suite: str, name: str, way: str, episodes: list[Episodes], base: list[Episodes]) -> dict[str, Any]:
    def over(values: Callable[[Episodes], np.ndarray]) -> Interval:
        return stratified(np.stack([values(e) for e in episodes]), mean)

    gain = np.stack([b.bill - e.bill for b, e in zip(base, episodes)])
    return {
        "suite": suite,
        "trained": name,
        "played": way,
        "bill": over(lambda e: e.bill),
        "each": [float(e.bill.mean()) for e in episodes],
        "saves": stratified(gain, mean),
        "reward": over(lambda e: e.reward),
        "win_rate": over(lambda e: e.won.astype(float)),
        "violations": over(lambda e: e.violations.astype(float)),
        "cascades": over(lambda e: e.cascades.astype(float)),
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| suite | trained with | played under | bill $ | each seed | saves $ against default | reward | wins % "
        "| violations | cascades |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        same = r["trained"] == "default" and r["played"] == "enforce"
        saves = "" if same else f"{r['saves'][0]:+.2f} [{r['saves'][1]:+.2f}, {r['saves'][2]:+.2f}]"
        lines.append(
            f"| {r['suite']} | {r['trained']} | {r['played']} | {r['bill'].mean:.2f} ± {r['bill'].half_width:.2f} "
            f"| {', '.join(f'{b:.1f}' for b in r['each'])} | {saves} "
            f"| {r['reward'].mean:.1f} ± {r['reward'].half_width:.1f} | {100 * r['win_rate'].mean:.0f} "
            f"| {r['violations'].mean:.2f} | {r['cascades'].mean:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "judge"))
    parser.add_argument("--suite", choices=("easy", "medium"), help="only this one")
    parser.add_argument("--name", help="only this variant (train)")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--worlds", type=int, default=200, help="test worlds (judge)")
    args = parser.parse_args()
    chosen = [v for v in VARIANTS if args.suite in (None, v.suite) and args.name in (None, v.name)]
    if args.what == "train":
        train(chosen, tuple(args.seeds))
        return
    rows = judge(chosen, tuple(args.seeds), args.worlds)
    hashes = {suite: scenario_hash(load_scenario(suite)) for suite in dict.fromkeys(r["suite"] for r in rows)}
    save_json(OUT, {"worlds": args.worlds, "seeds": list(args.seeds), "scenario_hash": hashes, "rows": rows})
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    write_atomic(PAGE, page[:start] + "\n" + markdown(rows) + page[end:])


if __name__ == "__main__":
    main()
