"""Worlds that the tests of prompts share."""

from __future__ import annotations

import numpy as np

from cloudrl import ImmuneMemory, Simulator
from cloudrl.memory.config import MemoryConfig
from cloudrl.observation import RESOURCE_FEATURES, WORLD_FEATURES
from tests.core.play import play, scenario_of, seed_of


def played(name: str, n_worlds: int = 4, ticks: int = 30, memory: ImmuneMemory | None = None) -> Simulator:
    """Worlds of one scenario after some random play: something has happened to every one of them."""
    sim = Simulator(scenario_of(name), n_worlds, memory=memory)
    sim.reset([seed_of(b, b) for b in range(n_worlds)])
    play(sim, ticks, seed=3, noop_share=0.6, stray_share=0.0)
    return sim


def experienced() -> ImmuneMemory:
    """A memory that has seen bad outcomes."""
    memory = ImmuneMemory(MemoryConfig(window_ticks=6))
    sim = Simulator(scenario_of("easy"), 16, memory=memory)
    sim.reset(np.arange(16))
    play(sim, 90, seed=1, noop_share=0.2)
    return memory


def any_observations(seed: int, n_worlds: int, n_slots: int) -> np.ndarray:
    """Observations (B, D) that need not come from any world: every number at random, kinds and states one-hot."""
    rng = np.random.default_rng(seed)
    resources = 10.0 * rng.random((n_worlds, n_slots, len(RESOURCE_FEATURES))) ** 4
    quiet = rng.random((n_worlds, n_slots, 1))
    resources[rng.random(resources.shape) < quiet] = 0.0
    resources[rng.random(resources.shape) < 0.1] = -1.0
    column = {name: k for k, name in enumerate(RESOURCE_FEATURES)}
    for names in (("vm", "database", "cache", "queue"), ("running", "stopped", "crashed", "deleted")):
        one = rng.integers(0, 4, (n_worlds, n_slots))
        for k, name in enumerate(names):
            resources[..., column[name]] = one == k
    for name in ("critical", "data_bearing", "multi_az", "idle", "exposure_seen", "encrypted", "logging", "alarm"):
        resources[..., column[name]] = rng.random((n_worlds, n_slots)) < 0.4
    resources[..., column["busy"]] *= rng.random((n_worlds, n_slots)) < 0.3
    for k in range(4):
        resources[..., column[f"dependency_{k}"]] = rng.integers(0, n_slots + 1, (n_worlds, n_slots)) / n_slots
    resources[..., column["present"]] = 1.0
    worlds = rng.uniform(0.0, 2.0, (n_worlds, len(WORLD_FEATURES)))
    return np.concatenate([resources.reshape(n_worlds, -1), worlds], axis=1).astype(np.float32)
