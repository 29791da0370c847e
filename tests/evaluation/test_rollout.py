"""Whole episodes: the fast path of scripted policies is the step-by-step path; every world stands alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cloudrl.compose import load_scenario
from cloudrl.config import SafetyConfig
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.policies import scripted
from cloudrl.reward.bill import bill
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.agent import Agent, View
from evaluation.rollout import Episodes, play_episodes

SEEDS = np.array([10_003, 10_050, 10_001, 10_777])
POLICIES = [scripted.noop(), scripted.random(), scripted.handwritten(), *scripted.single_objectives()]


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario("medium", {"horizon.ticks": 60})


class Wrapped:
    """A scripted policy that is not recognised as one."""

    def __init__(self, policy: scripted.ScriptedPolicy) -> None:
        self.name, self.policy = "wrapped", policy

    def act(self, view: View) -> np.ndarray:
        return self.policy.act(view.observations, view.masks, view.luck, view.tick)


def same(a: Episodes, b: Episodes) -> None:
    for field in dataclasses.fields(Episodes):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if field.name == "parts":
            assert all(np.array_equal(x[part], y[part]) for part in x)
        elif field.name != "ops":
            assert np.array_equal(x, y), field.name


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_both_paths_play_the_same_episodes(policy: scripted.ScriptedPolicy, mode: str, scenario: Scenario) -> None:
    safety = SafetyConfig(mode=type(SafetyConfig().mode)(mode))
    steps = play_episodes(policy, scenario, SEEDS, safety=safety, on_tick=lambda sim: None)
    same(play_episodes(policy, scenario, SEEDS, safety=safety), steps)
    assert steps.ops is not None and (steps.ops.sum(axis=1) == 60).all()


def test_an_agent_sees_what_a_policy_sees(scenario: Scenario) -> None:
    policy = scripted.handwritten()
    agent: Agent = Wrapped(policy)
    same(play_episodes(policy, scenario, SEEDS), play_episodes(agent, scenario, SEEDS))


def test_figures_are_those_of_a_simulator_stepped_by_hand(scenario: Scenario) -> None:
    policy = scripted.handwritten()
    episodes = play_episodes(policy, scenario, SEEDS)
    for i, seed in enumerate(SEEDS):
        sim = Simulator(scenario, 1)
        sim.reset([seed])
        total = 0.0
        for tick in range(sim.ticks):
            sim.step(policy.act(sim.observations, sim.masks, sim.state.worlds["key"], tick))
            total += float(sim.rewards[0])
        assert episodes.reward[i] == pytest.approx(total, abs=1e-9)
        assert (
            episodes.bill[i]
            == bill(sim.state.worlds)[0]
            == pytest.approx(sum(p[i] for p in episodes.parts.values()))
        )
        assert episodes.won[i] == sim.won()[0]
    assert list(episodes.seeds) == list(SEEDS)


def test_a_callback_sees_every_tick_and_changes_nothing(scenario: Scenario) -> None:
    ticks: list[int] = []
    watched = play_episodes(
        scripted.handwritten(), scenario, SEEDS, on_tick=lambda sim: ticks.append(int(sim.state.worlds["tick"][0]))
    )
    assert ticks == list(range(1, 61))
    same(watched, play_episodes(scripted.handwritten(), scenario, SEEDS))


def test_the_memory_is_read_only(scenario: Scenario) -> None:
    memory = ImmuneMemory()
    before = [table.copy() for table in memory.tables]
    play_episodes(scripted.random(), scenario, SEEDS, memory=memory, safety=SafetyConfig())
    assert all(np.array_equal(a, b) for a, b in zip(before, memory.tables, strict=True))


def test_padding_does_not_change_the_world(scenario: Scenario) -> None:
    same(
        play_episodes(scripted.noop(), scenario, SEEDS),
        play_episodes(scripted.noop(), scenario, SEEDS, n_slots=20),
    )
