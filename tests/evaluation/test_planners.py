"""Greedy and MPC: they compute what stepping the simulator gives, and rest on what can be seen alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cloudrl.actions import N_OPS, RESTART
from cloudrl.compose import load_scenario
from cloudrl.policies import scripted
from cloudrl.policies.scripted import ScriptedPolicy
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.agent import Agent, own_luck, view_of
from evaluation.agents.greedy import Greedy, one_tick_bills
from evaluation.agents.mpc import MPC, Evidence, bills, considered, lists
from evaluation.agents.planning import Desk
from evaluation.rollout import play_episodes
from tests.evaluation.test_agent_view import at_tick, changed_behind_the_scenes

BROKEN = {"failures.failure_rate": 0.01, "failures.repair_median_ticks": 20.0}
"""So that there is something to do."""
SMALL = {"list_samples": 3, "samples": (2, 3), "few": 2, "list_ticks": 12, "noise": 0.3, "margin": 0.0}


def small_mpc(**changes: object) -> MPC:
    return MPC(**{**SMALL, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def short() -> Scenario:
    return load_scenario("medium", {"horizon.ticks": 30, **BROKEN})


def by_hand(sim: Simulator, action: int, policy: ScriptedPolicy, every: int) -> np.ndarray:
    """Bills of the worlds of `sim` under an action and then a policy, by stepping copies."""
    out = []
    for world in range(sim.n_worlds):
        fork = sim.fork(world)
        first = True
        while not fork.done[0]:
            w = fork.state.worlds
            asked = w["tick"][0] % every == 0 or w["tick_crashes"][0] > 0
            step = np.array([fork.noop])
            if first and action >= 0:
                step = np.array([action])
            elif asked:
                step = policy.act(fork.observations, fork.masks, w["key"], int(w["tick"][0]))
            fork.step(step)
            first = False
        out.append(fork.bill()[0])
    return np.array(out)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("name", ["noop", "runbook"])
def test_rollouts_are_the_simulator_stepped_by_hand(every: int, name: str) -> None:
    sim = at_tick(load_scenario("medium", {"horizon.ticks": 120}), [10_000, 10_004], 40)
    imagined = view_of(sim, own_luck([10_000, 10_004])).imagine(1, 3)
    policy = {p.name: p for p in scripted.baselines(sim.scenario.name)}[name]
    actions = np.append(-1, np.flatnonzero(imagined.masks[0])[::17])
    figures = bills(imagined, actions, policy, every)
    assert figures.shape == (3, len(actions))
    for column, action in enumerate(actions):
        assert np.array_equal(figures[:, column], by_hand(imagined, int(action), policy, every)), action


def test_greedy_takes_the_least_expected_bill_of_one_tick() -> None:
    sim = at_tick(load_scenario("medium"), list(range(10_000, 10_006)), 60)
    luck = own_luck(range(sim.n_worlds))
    view = view_of(sim, luck)
    actions = Greedy(samples=5).act(view)
    for world in range(sim.n_worlds):
        imagined = view.imagine(world, 5, salt=view.tick)
        allowed = np.flatnonzero(view.masks[world])
        desk, means = Desk(imagined), np.empty(len(allowed))
        one_tick_bills(
            imagined.rules, imagined.tables, imagined.state, allowed, desk.aside, desk.scratch, means
        )  # fmt: skip
        for k, action in enumerate(allowed[::19]):
            dollars = [imagined.peek(s, [action])[1][0] for s in range(5)]
            assert means[19 * k] == pytest.approx(np.mean(dollars), abs=1e-12)
        chosen = means[list(allowed).index(actions[world])]
        assert chosen <= means.min() + 1e-9
        assert actions[world] == view.noop or chosen < means[-1]


def test_greedy_brings_back_what_is_down() -> None:
    """A crashed machine costs at once; that is what one tick shows."""
    scenario = load_scenario("medium", {"failures.failure_rate": 0.02, "failures.repair_median_ticks": 40.0})
    sim = at_tick(scenario, list(range(10_000, 10_010)), 8)
    view = view_of(sim, own_luck(range(10)))
    crashed = (view.resource_feature("crashed") > 0) & view.masks[:, RESTART::N_OPS]
    actions = Greedy().act(view)
    restarts = (actions % N_OPS == RESTART) & (actions != view.noop)
    assert crashed.any(axis=1).sum() >= 5
    assert restarts.sum() >= 3
    slots = actions[restarts] // N_OPS
    assert crashed[restarts, slots].all()


@pytest.mark.parametrize("suite", ["medium", "hard"])
@pytest.mark.parametrize("make", [Greedy, small_mpc])
def test_planners_act_alike_in_worlds_that_look_alike(suite: str, make: type) -> None:
    """The worlds differ in all that is hidden, in their luck and in their seed; the planner cannot tell."""
    broken = {
        "failures.failure_rate": 0.01,
        "failures.repair_median_ticks": 20.0,
    }  # so that there is something to do
    scenario = load_scenario(suite, {"horizon.ticks": 100, **broken})
    luck = own_luck(range(4))
    acted = 0
    for tick in (0, 24, 72):
        sim = at_tick(scenario, [10_000, 10_001, 10_002, 10_003], tick)
        twin = Simulator(scenario, sim.n_worlds)
        twin.restore(changed_behind_the_scenes(sim.state, np.random.default_rng(tick)))
        for bits in ("impossible", "forbidden"):
            twin.state.resources[bits] = sim.state.resources[bits]
        one, other = make(), make()
        mine, theirs = one.act(view_of(sim, luck)), other.act(view_of(twin, luck))
        assert np.array_equal(mine, theirs)
        assert sim.masks[np.arange(4), mine].all()
        acted += int((mine != sim.noop).sum())
    assert acted > 0


@pytest.mark.parametrize("make", [Greedy, small_mpc])
def test_worlds_stand_alone_and_threads_do_not_matter(make: type, short: Scenario) -> None:
    seeds = np.array([10_005, 10_006, 10_007])
    together = play_episodes(make(), short, seeds)
    threaded = play_episodes(make(threads=2), short, seeds)
    alone = [play_episodes(make(), short, seeds[k : k + 1]) for k in range(3)]
    assert together.ops is not None and together.ops[:, :-1].sum() > 0
    assert np.array_equal(together.bill, threaded.bill) and np.array_equal(together.ops, threaded.ops)
    assert np.array_equal(together.bill, np.concatenate([e.bill for e in alone]))


def test_an_agent_may_be_played_again(short: Scenario) -> None:
    agent: Agent = small_mpc()
    first, again = (play_episodes(agent, short, [10_005, 10_006]).bill for _ in range(2))
    assert np.array_equal(first, again)


def test_considered_actions_are_admissible_and_of_use() -> None:
    sim = at_tick(load_scenario("medium"), list(range(10_000, 10_012)), 50)
    view = view_of(sim, own_luck(range(12)))
    for world in range(12):
        actions = considered(view, world)
        assert view.masks[world, actions].all() and view.noop not in actions
        assert (np.diff(actions) > 0).all()
        assert len(actions) < view.masks[world].sum()
        crashed = np.flatnonzero(view.resource_feature("crashed")[world] * view.masks[world, RESTART::N_OPS])
        assert set(crashed * N_OPS + RESTART) <= set(actions)


def test_evidence_is_mean_and_standard_error() -> None:
    rng = np.random.default_rng(0)
    evidence, actions = Evidence(5), np.array([1, 3])
    gains = rng.normal(1.0, 2.0, (30, 2))
    evidence.add(actions, gains[:10])
    evidence.add(actions, gains[10:])
    assert evidence.means(actions) == pytest.approx(gains.mean(axis=0))
    error = gains.std(axis=0, ddof=1) / np.sqrt(30)
    assert evidence.bounds(actions, 2.0) == pytest.approx(gains.mean(axis=0) - 2.0 * error)
    evidence.fade(0.5)
    assert evidence.means(actions) == pytest.approx(gains.mean(axis=0))  # older, not different
    evidence.add(actions, np.full((15, 2), 7.0))
    assert evidence.means(actions) == pytest.approx((gains.mean(axis=0) + 7.0) / 2)


def test_the_portfolio_differs() -> None:
    policies = lists("CloudOps-Medium")
    assert policies[0].kind == scripted.noop().kind
    settings = {(p.kind, p.settings.tobytes()) for p in policies}
    assert len(settings) == len(policies) >= 10
    assert np.array_equal(policies[1].settings, scripted.searched_runbook("CloudOps-Medium").vector())


@pytest.mark.parametrize("agent", [Greedy(samples=4), MPC(every=24)], ids=["greedy", "mpc"])
def test_planners_leave_the_quiet_day_alone(agent: Agent) -> None:
    """Nobody who cannot see the future gains more than a hundredth of the bill there, and nobody burns money."""
    scenario, seeds = load_scenario("quiet"), [10_000, 10_001, 10_002, 10_003]
    idle, played = play_episodes(scripted.noop(), scenario, seeds), play_episodes(agent, scenario, seeds)
    assert played.bill.mean() > 0.99 * idle.bill.mean()
    assert (played.bill < 1.01 * idle.bill).all()


def test_settings_of_mpc_matter(short: Scenario) -> None:
    """A planner that trusts nothing plays its list; one that trusts everything does not."""
    timid = small_mpc(margin=1e9)
    bold = small_mpc(noise=0.0, margin=-1e9)
    ops = [play_episodes(agent, short, [10_005, 10_006]).ops for agent in (timid, bold)]
    assert ops[0] is not None and ops[1] is not None
    assert ops[1][:, :-1].sum() > ops[0][:, :-1].sum()


def test_names_are_what_tables_show() -> None:
    assert [Greedy().name, MPC().name] == ["greedy", "mpc"]
    assert dataclasses.is_dataclass(type(view_of(at_tick(load_scenario("easy"), [10_000], 0), own_luck([0]))))
