"""How heavy the tails of an action's worth are, and what clipping them in the warm start hides.

    python scripts/worth_tails.py                      Medium
    python scripts/worth_tails.py --scenario easy --worlds 128

Random admissible actions on days on which one tick in twenty has another random action, measured by forks to the
end of the day against doing nothing, as the warm start of trainers.ppo measures them. Unit: baseline ticks.
"""

from __future__ import annotations

import argparse

import numpy as np

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.policies.lookahead import Lookahead
from cloudrl.scenarios.library import load_scenario
from cloudrl.simulator import Simulator
from trainers.common.warm_start import CLIP

EVERY, ACTIONS = 24, 8
"""Ticks between measurements, and actions per measurement."""


def measure(scenario: str, worlds: int, batch: int = 32) -> dict[str, np.ndarray]:
    """Worths by operation."""
    sim, rng = Simulator(load_scenario(scenario), n_worlds=batch), np.random.default_rng(0)
    ahead = Lookahead(sim)
    found: dict[str, list[float]] = {name: [] for name in OP_NAMES[:N_OPS]}
    for start in range(0, worlds, batch):
        sim.reset(np.arange(start, start + batch))
        for tick in range(sim.ticks - 2 * EVERY):
            allowed = [np.flatnonzero(mask) for mask in sim.masks]
            if tick % EVERY == 0:
                actions = np.array([rng.choice(some, ACTIONS) for some in allowed])
                for action, worth in zip(actions.ravel(), ahead.worth(actions).ravel(), strict=True):
                    if action != sim.noop and not np.isnan(worth):  # NaN: a second ANALYZE in a row
                        found[OP_NAMES[action % N_OPS]].append(float(worth))
            sim.step(np.array([rng.choice(some) if rng.random() < 0.05 else sim.noop for some in allowed]))
    return {name: np.array(worths) for name, worths in found.items() if worths}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="medium")
    parser.add_argument("--worlds", type=int, default=64, help="a multiple of 32")
    args = parser.parse_args()
    print(f"| operation | measured | mean | mean, clipped at {CLIP:.0f} | least | most | beyond the clip |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, worth in measure(args.scenario, args.worlds).items():
        clipped = np.clip(worth, -CLIP, CLIP)
        print(
            f"| {name} | {len(worth)} | {worth.mean():.2f} | {clipped.mean():.2f} | {worth.min():.0f} "
            f"| {worth.max():.0f} | {100 * np.mean(np.abs(worth) > CLIP):.1f} % |"
        )


if __name__ == "__main__":
    main()
