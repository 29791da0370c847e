"""Scenarios, sizes and random play that the core's tests share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cloudrl import Simulator
from cloudrl.scenarios.library import CONFIG_DIR, available, load_scenario
from cloudrl.scenarios.schema import Scenario

FULL = os.environ.get("CLOUDRL_FULL") == "1"
"""The sizes that the issues state, instead of those of every day."""

SUITES = [name for name in available() if FULL or not name.startswith("stress-")]
"""Every day tests/scenarios looks at the stress suites, at sizes of their own."""
ESTATES = sorted((CONFIG_DIR / "estates").glob("*.yaml"))
WORLDS = [*SUITES, *(f"estate:{path.stem}" for path in ESTATES)]
"""Every scenario that ships, estates included."""

SPLIT_STARTS = (0, 10_000, 20_000)


def scenario_of(name: str, **changes: Any) -> Scenario:
    """The scenario of one of WORLDS."""
    if name.startswith("estate:"):
        changes["path"] = str(CONFIG_DIR / "estates" / f"{name.removeprefix('estate:')}.yaml")
        name = "estate"
    return load_scenario(name, **changes)


def seed_of(chain: int, episode: int) -> int:
    """Seed of the n-th episode of a chain of worlds: every split gets its turn."""
    return SPLIT_STARTS[(chain + episode) % 3] + 61 * chain + episode


def random_actions(
    u: np.ndarray, masks: np.ndarray, noop_share: Any = 0.5, stray_share: float = 0.1
) -> np.ndarray:
    """Actions (B,) from uniforms (B, 2): NOOP, or any index at all (some out of range), or an admissible one."""
    n_actions = masks.shape[1]
    kind, which = u[:, 0], u[:, 1]
    rank = np.floor(which * masks.sum(axis=1)).astype(np.int64)
    admissible = np.argmax(np.cumsum(masks, axis=1) > rank[:, None], axis=1)
    stray = np.floor(which * (n_actions + 4)).astype(np.int64) - 2
    out = np.where(kind > 1.0 - stray_share, stray, admissible)
    return np.where(kind < noop_share, n_actions - 1, out)


def play(sim: Simulator, ticks: int, seed: int = 0, noop_share: Any = 0.5, stray_share: float = 0.1) -> np.ndarray:
    """Random play of `ticks` ticks from where the worlds stand. Returns the actions (ticks, B)."""
    rng = np.random.default_rng(seed)
    actions = []
    for _ in range(ticks):
        action = random_actions(rng.random((sim.n_worlds, 2)), sim.masks, noop_share, stray_share)
        sim.step(action)
        actions.append(action)
    return np.array(actions)


def same_state(a: Any, b: Any) -> bool:
    """True if two states (or slices of them) are equal in every field."""
    return all(x.shape == y.shape and bool(np.all(x == y)) for x, y in zip(a, b, strict=True))
