"""The oracle of the registry takes stored plans where they fit, and searches where they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloudrl.policies import scripted
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.simulator import Simulator
from evaluation import oracle_data
from evaluation.agents.entry import Context
from evaluation.agents.oracle import Oracle
from evaluation.agents.registry import find
from evaluation.agents.shipped_oracle import ShippedOracle, stored_plans
from evaluation.oracle_data import OracleFile, oracle_path, world_of
from evaluation.rollout import play_episodes
from evaluation.suites import find_scenario

SEEDS = np.array([10_000, 10_001])


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that takes the hand-written runbook's play for the oracle's plans."""
    monkeypatch.setattr(oracle_data, "FOLDER", tmp_path)
    scenario = find_scenario("easy")
    sim = Simulator(scenario, len(SEEDS))
    sim.reset(SEEDS)
    keys, plans = sim.state.worlds["key"].copy(), []
    for tick in range(sim.ticks):
        sim.step(scripted.handwritten().act(sim.observations, sim.masks, keys, tick))
        plans.append(sim.state.worlds["executed"].copy())
    data = OracleFile.empty(scenario, {})
    for k, seed in enumerate(SEEDS):
        data.worlds[int(seed)] = world_of(sim, np.array(plans)[:, k], k)
    data.write(oracle_path(scenario))
    return oracle_path(scenario)


def test_stored_plans_are_played(stored: Path) -> None:
    scenario = find_scenario("easy")
    oracle = play_episodes(ShippedOracle(), scenario, SEEDS)
    assert np.array_equal(oracle.bill, play_episodes(scripted.handwritten(), scenario, SEEDS).bill)


def test_what_does_not_fit_is_searched(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = find_scenario("easy")
    asked: list[int] = []
    monkeypatch.setattr(
        Oracle,
        "foresee",
        lambda self, sim: asked.append(sim.n_worlds) or np.full((sim.ticks, sim.n_worlds), sim.noop),
    )
    play_episodes(ShippedOracle(), scenario, SEEDS)
    assert asked == []
    play_episodes(ShippedOracle(), scenario, [10_000, 10_002])  # one is not stored
    observe = SafetyConfig(mode=SafetyMode.observe)
    play_episodes(ShippedOracle(), scenario, SEEDS[:1], safety=observe)  # other rules
    stored.write_text(stored.read_text().replace('"outage":', '"outage":1'))  # edited numbers
    play_episodes(ShippedOracle(), scenario, SEEDS)
    assert asked == [2, 1, 2]


def test_nothing_is_stored_for_other_constants(stored: Path) -> None:
    scenario = find_scenario("easy")
    scenario.prices.vm_vcpu_hour *= 2
    sim = Simulator(scenario, 2)
    sim.reset(SEEDS)
    assert stored_plans(sim) is None


def test_other_plans_are_another_oracle(stored: Path) -> None:
    context = Context(find_scenario("easy"))
    before = find(["oracle"], context)[0].identity
    stored.write_text(stored.read_text() + "\n")
    assert find(["oracle"], context)[0].identity != before
