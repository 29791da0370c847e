"""Ablations: what the immune memory, the safety layer, the curriculum and the edges in the policy do.

    python scripts/ablations.py train            # 3 seeds of each variant, into runs/ablations (over an hour)
    python scripts/ablations.py judge            # 200 test worlds each; writes docs/ablations.{md,json}

`train` skips what is there and finished. Every variant differs from `default` of its suite in one thing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cloudrl.runs import Run

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train",))
    parser.add_argument("--suite", choices=("easy", "medium"), help="only this one")
    parser.add_argument("--name", help="only this variant")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    args = parser.parse_args()
    chosen = [v for v in VARIANTS if args.suite in (None, v.suite) and args.name in (None, v.name)]
    train(chosen, tuple(args.seeds))


if __name__ == "__main__":
    main()
