"""What an agent is told, and what it is not: worlds that look alike are imagined alike."""

from __future__ import annotations

import numpy as np
import pytest

from cloudrl.compose import load_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from cloudrl.types import CRASHED, DELETED, LAG, NO_INCIDENT, State
from evaluation.agents.agent import Agent, View, checked, own_luck, view_of
from evaluation.rollout import play_episodes
from tests.core.play import play

SUITES = ("easy", "medium", "hard")


def changed_behind_the_scenes(state: State, rng: np.random.Generator, whole_luck: bool = True) -> State:
    """The same world to look at, with everything that cannot be seen drawn anew."""
    other = state.copy()
    w, r = other.worlds, other.resources
    shape = r.shape
    if whole_luck:
        w["key"] = rng.integers(0, 2**63, len(w))
        w["seed"] = rng.integers(0, 2**31, len(w))
    for total in ("exposure", "tick_exposure", "exposure_hours", "reward", "reward_security", "reward_total"):
        w[total] = rng.random(len(w)) * 100
    split = rng.random(len(w)) - 0.5
    w["noise"] += split  # the load is their product, and only the load is seen
    w["burst"] *= np.exp(-split)
    w["burst_ticks"] = rng.integers(0, 24, len(w))
    r["hidden_count"], r["hidden_epss"] = rng.integers(0, 9, shape), rng.random(shape)
    r["hidden_cvss"] = 10 * rng.random(shape)
    r["leak"] = 0.01 * rng.random(shape)
    unseen = (r["exposure_seen"] == 0) & (r["logging"] == 0)
    r["exposed"] = np.where(unseen, rng.integers(0, 2, shape), r["exposed"])
    down = (r["status"] == CRASHED) & (r["incident"] == NO_INCIDENT)
    r["repair_ticks"] = np.where(down, rng.integers(1, 90, shape), r["repair_ticks"])
    late = r["lag"] > 0
    for now, past in (("health", "past_health"), ("utilisation", "past_utilisation"), ("latency", "past_latency")):
        r[now] = np.where(late, rng.random(shape), r[now])
        behind = np.arange(LAG + 1) < r["lag"][:, :, None]
        r[past] = np.where(behind, rng.random((*shape, LAG + 1)), r[past])
    return other


def at_tick(scenario: Scenario, seeds: list[int], tick: int) -> Simulator:
    sim = Simulator(scenario, len(seeds))
    sim.reset(seeds)
    play(sim, tick, seed=4, noop_share=0.6)
    return sim


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("tick", [0, 1, 37, 80])
def test_worlds_that_look_alike_are_imagined_alike(suite: str, tick: int) -> None:
    sim = at_tick(load_scenario(suite), list(range(10_000, 10_012)), tick)
    twin = Simulator(sim.scenario, sim.n_worlds)
    twin.restore(changed_behind_the_scenes(sim.state, np.random.default_rng(tick)))
    # the mask of the true world stands: it is seen, whatever is behind it
    for bits in ("impossible", "forbidden"):
        twin.state.resources[bits] = sim.state.resources[bits]
    assert np.array_equal(sim.observations, twin.observations)
    luck = own_luck(range(sim.n_worlds))
    for world in range(sim.n_worlds):
        a, b = (view_of(s, luck).imagine(world, 4, salt=9) for s in (sim, twin))
        there = a.state.resources["status"] < DELETED
        for mine, theirs in zip(a.state, b.state, strict=True):
            for field in mine.dtype.names or ():
                x, y = mine[field], theirs[field]
                if mine is a.state.resources:
                    x, y = x[there], y[there]
                assert np.array_equal(x, y), field
        for _ in range(3):  # and they go on alike
            action = np.argmax(a.masks, axis=1)
            a.step(action)
            b.step(action)
            assert np.array_equal(a.observations, b.observations) and np.array_equal(a.masks, b.masks)


def test_imagined_worlds_hold_neither_seed_nor_key_nor_what_would_tell() -> None:
    sim = at_tick(load_scenario("medium"), [10_000, 10_001], 50)
    fork = view_of(sim, own_luck([10_000, 10_001])).imagine(1, 3)
    w = fork.state.worlds
    assert (w["seed"] == -1).all()
    assert not np.isin(sim.state.worlds["key"], w["key"]).any()
    assert not w["exposure"].any() and not w["reward_total"].any()
    assert sim.state.worlds["exposure"][1] > 0
    assert np.array_equal(w["labour"], np.repeat(sim.state.worlds["labour"][1], 3))
    assert len(set(w["key"].tolist())) == 3


def test_the_burst_is_believed_as_often_as_it_is_there() -> None:
    """Over many worlds: where the load stands so far above the forecast, how often is it a burst?"""
    scenario = load_scenario("medium", {"load.bursts_per_tick": 0.02, "load.burst_low": 1.2})
    sim = Simulator(scenario, 600)
    sim.reset(np.arange(600))
    truth, belief, rest = [], [], []
    for _ in range(12):
        for _ in range(15):
            sim.step(np.full(600, sim.noop), look=False)
        truth.append(sim.state.worlds["burst"] > 1)
        forks = Simulator(scenario, 600)
        forks.state.put(sim.state)
        forks._kernels.resample(forks.params, forks.rules.events, forks.state, np.uint64(3), 1)
        belief.append(forks.state.worlds["burst"] > 1)
        w = forks.state.worlds
        np.testing.assert_allclose(w["burst"] * np.exp(w["noise"]) * w["forecast_now"], w["load"], rtol=1e-12)
        rest.append(((w["burst_ticks"] > 0) == (w["burst"] > 1)).all())
    is_so, believed = np.array(truth), np.array(belief)
    assert 0.1 < is_so.mean() < 0.6
    assert believed.mean() == pytest.approx(is_so.mean(), abs=0.05)
    agree = (is_so == believed).mean()
    chance = is_so.mean() * believed.mean() + (1 - is_so.mean()) * (1 - believed.mean())
    assert agree > chance + 0.6 * (1 - chance)
    assert all(rest)


class Recorder:
    """Looks at everything and does nothing."""

    name = "recorder"

    def __init__(self) -> None:
        self.ticks: list[int] = []
        self.began = 0
        self.luck: list[np.ndarray] = []

    def begin(self, view: View) -> None:
        assert view.tick == 0
        self.began += 1

    def act(self, view: View) -> np.ndarray:
        self.ticks.append(view.tick)
        self.luck.append(view.luck)
        assert view.masks[:, view.noop].all()
        assert view.resource_feature("present").shape == (view.n_worlds, view.n_slots)
        left = view.world_feature("time_left") * 288
        np.testing.assert_allclose(left, view.ticks - view.tick, rtol=1e-5)
        return np.full(view.n_worlds, view.noop)


def test_a_view_tells_time_and_names_its_numbers() -> None:
    agent = Recorder()
    assert isinstance(agent, Agent)
    play_episodes(agent, load_scenario("easy", {"horizon.ticks": 12}), [10_000, 10_005])
    assert agent.ticks == list(range(12)) and agent.began == 1
    assert len({luck.tobytes() for luck in agent.luck}) == 1


def test_own_luck_is_a_hash_of_the_seed() -> None:
    luck = own_luck([5, 6, 5])
    assert luck.dtype == np.uint64 and luck[0] == luck[2] != luck[1]
    sim = Simulator(load_scenario("easy"), 3)
    sim.reset([5, 6, 5])
    assert not (luck == sim.state.worlds["key"]).any()


def test_a_view_without_a_simulator_imagines_nothing() -> None:
    view = View(np.zeros((1, 5), np.float32), np.ones((1, 13), bool), 0, 10, 1, own_luck([0]))
    with pytest.raises(RuntimeError, match="no imagined worlds"):
        view.imagine(0)


@pytest.mark.parametrize(
    "actions",
    [
        [1, 2],
        [[1, 2, 3]],
        [0.5, 1, 2],
        [np.nan, 1, 2],
        [np.inf, 1, 2],
        ["a", "b", "c"],
        None,
        7,
        [0, -1, 2],
        [0, 1, 145],
    ],
)
def test_what_is_no_action_is_refused(actions: object) -> None:
    with pytest.raises(ValueError, match="the agent returned"):
        checked(actions, 3, 145)


def test_whole_numbers_of_any_kind_are_actions() -> None:
    for good in ([1, 2, 3], np.array([1, 2, 3], np.int8), [1.0, 2.0, 3.0]):
        out = checked(good, 3, 145)
        assert out.dtype == np.int64 and out.tolist() == [1, 2, 3]
