"""Timed events: what they do, that nobody sees them coming, and that nothing else shifts because of them."""

from __future__ import annotations

import numpy as np
import pytest

from cloudrl import Simulator
from cloudrl.scenarios.events import Event
from cloudrl.scenarios.schema import Scenario
from tests.core.play import random_actions, scenario_of, seed_of
from tests.core.test_parity import assert_equal
from tests.twin import TwinEnv

STORM = [
    Event("surge", 5, 60, 10, 40, 1.5, 3.0),
    Event("alarms", 0, 40, 20, 60, 0.1, 0.5),
    Event("zone", 10, 90, 5, 30),
    Event("service", 0, 99, 2, 9, on="vm", share=0.8),
    Event("hole", 0, 80, 1, 1, 0.3, 0.9, on="vm", share=0.6),
    Event("leak", 0, 90, 1, 1, 100.0, 400.0, share=0.5),
]
PRICES = [*STORM[:5], Event("price", 0, 90, 1, 1, 1.5, 3.0, on="one")]


def scenario_with(events: list[Event], name: str = "medium") -> Scenario:
    scenario = scenario_of(name)
    scenario.events = events
    return scenario


@pytest.mark.parametrize(("name", "events"), [("medium", STORM), ("hard", PRICES)])
def test_kernels_equal_twin_when_everything_happens_at_once(name: str, events: list[Event]) -> None:
    sim = Simulator(scenario_with(events, name), 4)
    seeds = [seed_of(chain, 0) for chain in range(sim.n_worlds)]
    sim.reset(seeds)
    twins = [TwinEnv(sim.scenario) for _ in seeds]
    for twin, seed in zip(twins, seeds, strict=True):
        twin.reset(seed=seed)
    for t, u in enumerate(np.random.default_rng(0).random((130, sim.n_worlds, 2))):
        for b, twin in enumerate(twins):
            assert_equal(twin, sim, b, f"world {b}, tick {t}")
        actions = random_actions(u, sim.masks)
        sim.step(actions)
        for twin, action in zip(twins, actions, strict=True):
            twin.play(int(action))
    assert (sim.state.worlds["event_start"] < sim.state.worlds["tick"][:, None]).all(), "all of them have happened"
