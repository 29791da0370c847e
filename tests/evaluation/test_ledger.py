"""The ledger against worlds stepped by hand: what a decision was worth is a difference of two bills."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrl.actions import ANALYZE, ENABLE_LOGGING, N_OPS, PATCH, RESIZE_DOWN, RESTART, START, STOP
from cloudrl.compose import load_scenario
from cloudrl.policies import scripted
from cloudrl.reward.bill import BILL_PARTS, bill
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation import ledger
from evaluation.counterfactual import unnecessary, worths
from evaluation.metrics import Recorder
from evaluation.rollout import play_episodes

SEEDS = np.arange(10_100, 10_106)
MODES = [SafetyConfig(mode=mode) for mode in SafetyMode]


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario("medium", {"horizon.ticks": 72})


@pytest.fixture(scope="module")
def quick() -> Scenario:
    return load_scenario("easy", {"horizon.ticks": 40})


def fresh(scenario: Scenario, seeds: np.ndarray, safety: SafetyConfig | None = None) -> Simulator:
    sim = Simulator(scenario, len(seeds), safety=safety)
    sim.reset(seeds)
    return sim


def stepped(
    scenario: Scenario, seeds: np.ndarray, actions: np.ndarray, safety: SafetyConfig | None = None
) -> Simulator:
    """Worlds that are played under `actions` (B, T) by the simulator itself."""
    sim = fresh(scenario, seeds, safety)
    for t in range(sim.ticks):
        sim.step(actions[:, t])
    return sim


def actions_of(
    policy: scripted.ScriptedPolicy, scenario: Scenario, safety: SafetyConfig | None = None
) -> np.ndarray:
    recorder = Recorder()
    play_episodes(policy, scenario, SEEDS, safety=safety, on_tick=recorder)
    return recorder.actions


@pytest.mark.parametrize("safety", MODES, ids=lambda s: s.mode.value)
@pytest.mark.parametrize("policy", [scripted.handwritten(), scripted.random()], ids=lambda p: p.name)
def test_a_worth_is_the_bill_of_the_twin_minus_the_bill(
    policy: scripted.ScriptedPolicy, safety: SafetyConfig, scenario: Scenario
) -> None:
    """Bit for bit what the simulator itself says of the episode without the decision."""
    actions = actions_of(policy, scenario, safety)
    found = worths(fresh(scenario, SEEDS, safety), actions)
    real = stepped(scenario, SEEDS, actions, safety)
    assert np.array_equal(found.bill, bill(real.state.worlds))
    assert np.array_equal(found.worlds, real.state.worlds)
    acted = actions != real.noop
    assert np.array_equal(~np.isnan(found.dollars), acted)
    for b, t in np.argwhere(acted)[::5]:
        without = actions[[b]].copy()
        without[0, t] = real.noop
        twin = stepped(scenario, SEEDS[[b]], without, safety).state.worlds
        assert found.dollars[b, t] == bill(twin)[0] - found.bill[b]
        assert found.lost[b, t] == (twin["invalid"] + twin["vetoed"] - twin["violations"])[0]
        for k, part in enumerate(BILL_PARTS):
            assert found.parts[b, t, k] == twin[part][0] - real.state.worlds[part][b]


@given(st.integers(0, 39), st.integers(0, 10**6), st.integers(10_000, 10_500))
@settings(max_examples=60, deadline=None)
def test_an_action_alone_is_worth_what_the_episode_saved(tick: int, choice: int, seed: int) -> None:
    scenario = load_scenario("easy", {"horizon.ticks": 40})
    sim = fresh(scenario, np.array([seed]))
    idle = np.full((1, sim.ticks), sim.noop)
    for _ in range(tick):
        sim.step([sim.noop])
    allowed = np.flatnonzero(sim.masks[0])
    actions = idle.copy()
    actions[0, tick] = allowed[choice % len(allowed)]
    found = worths(fresh(scenario, np.array([seed])), actions)
    saved = bill(stepped(scenario, np.array([seed]), idle).state.worlds)[0] - found.bill[0]
    if actions[0, tick] == sim.noop:
        assert np.isnan(found.dollars).all() and saved == 0.0
    else:
        assert found.dollars[0, tick] == saved


def test_parts_add_up(scenario: Scenario) -> None:
    found = worths(fresh(scenario, SEEDS), actions_of(scripted.handwritten(), scenario))
    acted = ~np.isnan(found.dollars)
    assert np.allclose(found.parts.sum(axis=2)[acted], found.dollars[acted], atol=1e-9)


def test_nothing_depends_on_threads_or_neighbours(scenario: Scenario) -> None:
    actions = actions_of(scripted.random(), scenario)
    one = worths(fresh(scenario, SEEDS), actions, threads=1)
    many = worths(fresh(scenario, SEEDS), actions, threads=5)
    assert np.array_equal(one.dollars, many.dollars, equal_nan=True) and np.array_equal(one.lost, many.lost)
    for b in range(len(SEEDS)):
        alone = worths(fresh(scenario, SEEDS[[b]]), actions[[b]])
        assert np.array_equal(alone.dollars[0], one.dollars[b], equal_nan=True)


def test_what_a_decision_made_possible_is_lost_with_it(quick: Scenario) -> None:
    """Without the first STOP the second one is as good; without START's STOP, START makes no sense."""
    seeds = np.array([10_003])
    sim = fresh(quick, seeds)
    idle_vm = int(np.flatnonzero((sim.state.resources["idle"][0] == 1) & (sim.state.resources["kind"][0] == 0))[0])
    actions = np.full((1, sim.ticks), sim.noop)
    actions[0, 2] = idle_vm * N_OPS + STOP
    actions[0, 20] = idle_vm * N_OPS + START
    found = worths(fresh(quick, seeds), actions)
    assert found.lost[0, 2] == 1 and found.lost[0, 20] == 0


def test_labour_is_what_a_useless_act_costs(quick: Scenario) -> None:
    """Logging that is on is switched on: dollars of labour, nothing else, and nothing disturbed."""
    seeds = np.array([10_001])
    sim = fresh(quick, seeds)
    slot = int(np.flatnonzero(sim.state.resources["logging"][0] == 1)[0])
    actions = np.full((1, sim.ticks), sim.noop)
    actions[0, 0] = slot * N_OPS + ENABLE_LOGGING
    found = worths(fresh(quick, seeds), actions)
    labour = quick.operations.labour_logging * sim.state.worlds["labour_factor"][0]
    assert found.dollars[0, 0] == pytest.approx(-labour)
    assert found.parts[0, 0].tolist() == pytest.approx([0, 0, 0, -labour])
    assert not found.disrupted.any() and not found.unnecessary.any()


def test_unnecessary_is_a_disruption_without_which_nothing_is_worse(scenario: Scenario) -> None:
    for policy in (scripted.constant(RESTART), scripted.constant(PATCH), scripted.handwritten()):
        actions = actions_of(policy, scenario)
        found = worths(fresh(scenario, SEEDS), actions)
        counted = unnecessary(fresh(scenario, SEEDS), actions)
        assert np.array_equal(counted, (found.disrupted & (found.dollars <= 0)).sum(axis=1))
        assert np.array_equal(found.disrupted.sum(axis=1), found.worlds["disruptions"])
        assert (counted <= found.worlds["disruptions"]).all()
    assert unnecessary(fresh(scenario, SEEDS), actions_of(scripted.constant(RESTART), scenario)).mean() > 5
    assert not unnecessary(fresh(scenario, SEEDS), actions_of(scripted.constant(ANALYZE), scenario)).any()


def test_refusals(quick: Scenario) -> None:
    sim = fresh(quick, SEEDS)
    good = np.full((len(SEEDS), sim.ticks), sim.noop)
    with pytest.raises(ValueError, match="shape"):
        worths(sim, good[:, :-1])
    with pytest.raises(ValueError, match="outside"):
        worths(sim, good + 1)
    with pytest.raises(ValueError, match="outside"):
        worths(sim, good * -1)
    sim.step(good[:, 0])
    with pytest.raises(ValueError, match="reset"):
        worths(sim, good)


# ---- the ledger of people --------------------------------------------------------------------------------------


def test_totals_hold_every_decision_once(scenario: Scenario) -> None:
    actions = actions_of(scripted.handwritten(), scenario)
    found = ledger.ledgers(scenario, SEEDS, actions)
    assert [x.seed for x in found] == SEEDS.tolist()
    by_op = ledger.totals(found)
    assert sum(t.count for t in by_op) == (actions != fresh(scenario, SEEDS).noop).sum()
    assert sum(t.net for t in by_op) == pytest.approx(sum(e.dollars for x in found for e in x.entries))
    for total in by_op:
        assert total.net == pytest.approx(total.earned + total.burned)
        assert total.burned <= 0 <= total.earned and total.unnecessary <= total.disruptive <= total.count
    assert [t.net for t in by_op] == sorted((t.net for t in by_op), reverse=True)
    for x in found:
        assert x.saved == pytest.approx(sum(e.dollars for e in x.entries) + x.together)


def test_ruin_is_found(scenario: Scenario) -> None:
    """Shrinking everything burns money by outage; the ledger says so."""
    found = ledger.ledgers(scenario, SEEDS, actions_of(scripted.constant(RESIZE_DOWN), scenario))
    (total,) = ledger.totals(found)
    assert total.op == "RESIZE_DOWN" and total.net < 0 and total.unnecessary > 0


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        ledger.main(list(arguments))
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    code, out, _ = run(capsys, "suite=easy", "agent=handwritten", "seed=10003", f"out={file}")
    assert code == 0 and "handwritten in world 10003" in out and "By operation" in out and "Bill $" in out
    (written,) = json.loads(file.read_text())
    assert written["seed"] == 10003 and written["saved"] == pytest.approx(written["idle_bill"] - written["bill"])
    code, out, _ = run(capsys, "suite=easy", "agent=handwritten", "seed=10003-10006")
    assert code == 0 and "mean of 4 episodes" in out
    code, out, _ = run(capsys, "suite=easy", "agent=noop", "seed=10003")
    assert code == 0 and "+$0.00 saved" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["agent=runbok"], "did you mean 'runbook'"),
        (["agent=planners"], "is 3 agents; name one"),
        (["suite=mdium"], "did you mean 'medium'"),
        (["seed=x"], "seed"),
        (["run=/nowhere/at/all"], "no results.json here"),
        (["lines=-1"], "lines=-1"),
        (["agnt=noop"], "agnt"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 1 and out == "" and message in err and err.count("\n") == 1
