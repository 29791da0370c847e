"""The oracle: its search, and the plans that ship."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrl.actions import N_OPS, OP_NAMES, Op
from cloudrl.compose import load_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import POLICY, stream
from cloudrl.simulator import Simulator
from cloudrl.types import State
from evaluation import oracle_data
from evaluation.agents import planning_edits as edits
from evaluation.agents.agent import Agent, Clairvoyant
from evaluation.agents.oracle import Oracle
from evaluation.agents.planning import Desk, portfolio
from evaluation.oracle_data import OracleFile, differing, oracle_bills, oracle_path
from evaluation.rollout import play_episodes
from evaluation.suites import find_scenario, find_seeds, suite_names
from scripts.build_oracle import build
from tests.core.play import FULL, same_state

SEEDS = np.array([10_000, 10_001, 10_002])
SHIPPED = [name for name in suite_names() if oracle_path(find_scenario(name)).exists()]


@pytest.fixture(scope="module")
def short() -> Scenario:
    return load_scenario("medium", {"horizon.ticks": 60})


# ---------------------------------------------------------------- the search
def test_the_oracle_is_clairvoyant_and_no_agent() -> None:
    assert isinstance(Oracle(), Clairvoyant)
    assert not isinstance(Oracle(), Agent)


def test_it_is_deterministic_and_worlds_stand_alone(short: Scenario) -> None:
    sim = Simulator(short, 3)
    sim.reset(SEEDS)
    before = sim.snapshot()
    plans = Oracle(edits=300).foresee(sim)
    assert same_state(sim.state, before)
    assert np.array_equal(plans, Oracle(edits=300, threads=2).foresee(sim))
    for k, seed in enumerate(SEEDS):
        one = Simulator(short, 1)
        one.reset([seed])
        assert np.array_equal(Oracle(edits=300).foresee(one)[:, 0], plans[:, k])


def test_it_beats_all_that_it_starts_from_and_more_search_is_no_worse(short: Scenario) -> None:
    starts = np.min([play_episodes(policy, short, SEEDS).bill for policy in portfolio(short.name)], axis=0)
    few, many = (play_episodes(Oracle(edits=n), short, SEEDS) for n in (200, 3_000))
    assert (few.bill <= starts + 1e-9).all() and (many.bill < starts).all()
    assert many.bill.mean() < few.bill.mean()
    for episodes in (few, many):
        assert not episodes.vetoed.any() and not episodes.invalid.any() and not episodes.violations.any()


class Plans:
    """The work space of a search in one world."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.sim = Simulator(scenario, 1)
        self.sim.reset([seed])
        self.desk, self.marks = Desk(self.sim), -(-self.sim.ticks // edits.STRIDE)
        self.store = State.empty(2 * self.marks, self.sim.n_slots, self.sim.state.edges.shape[1])
        self.which = np.zeros(self.marks, np.int64)
        edits.put(self.sim.state, 0, self.store, 0)

    def replay(self, plan: np.ndarray, start: int, limit: float = np.inf, trial: bool = True) -> float:
        """The bill by the search's own replay, from where the plan changed."""
        return edits.replay(  # type: ignore[no-any-return]
            self.sim.rules, self.sim.tables, self.store, self.which, self.desk.aside, self.desk.scratch,
            plan, start, limit, trial,
        )  # fmt: skip

    def played(self, plan: np.ndarray) -> float:
        """The bill by the simulator, from the start."""
        fork = self.sim.fork(0)
        fork.look()
        for action in plan:
            fork.step([action])
        return float(fork.bill()[0])


@given(seed=st.integers(0, 2**32), accepted=st.lists(st.booleans(), min_size=5, max_size=25))
@settings(max_examples=25, deadline=None)
def test_replays_from_stored_states_are_replays_from_the_start(seed: int, accepted: list[bool]) -> None:
    """Whatever sequence of edits is accepted or not, stored states are those of the current plan."""
    search = Plans(load_scenario("easy"), 10_000 + seed % 50)
    sim = search.sim
    plan = np.full(sim.ticks, sim.noop)
    assert search.replay(plan, 0, trial=False) == search.played(plan)
    edits.accept(search.which, 0)
    n = int(sim.state.worlds["n_resources"][0])
    for k, yes in enumerate(accepted):
        trial = plan.copy()
        draws = np.uint64(stream(np.uint64(seed), POLICY, k))
        start = edits.edit(trial, search.store, search.which, n, sim.noop, draws)
        assert (trial[:start] == plan[:start]).all()
        if start == sim.ticks:
            continue
        cost = search.replay(trial, start)
        if np.isfinite(cost):
            assert cost == search.played(trial)
            if yes:
                edits.accept(search.which, start)
                plan = trial
    assert search.replay(plan, sim.ticks - 1, trial=False) == search.played(plan)


def test_a_replay_above_the_limit_is_given_up() -> None:
    search = Plans(load_scenario("easy"), 10_000)
    plan = np.full(search.sim.ticks, search.sim.noop)
    whole = search.replay(plan, 0, trial=False)
    edits.accept(search.which, 0)
    assert search.replay(plan, 0, whole + 1.0) == whole
    assert search.replay(plan, 0, 0.5 * whole) == np.inf


def test_a_start_that_does_pointless_things_is_searched_all_the_same() -> None:
    """A list may begin with what changes nothing; only edits are asked for a point."""
    search = Plans(load_scenario("easy"), 10_000)
    plan = np.full(search.sim.ticks, search.sim.noop)
    clean = np.flatnonzero(search.sim.state.resources["encrypted"][0] == 1)
    plan[0] = clean[0] * N_OPS + Op.ENCRYPT
    cost = search.replay(plan, 0, trial=False)
    assert cost == search.played(plan)
    assert search.replay(plan, 0) == np.inf


def test_what_is_pointless_or_rejected_is_not_tried() -> None:
    search = Plans(load_scenario("easy"), 10_000)
    sim, r = search.sim, search.sim.state.resources[0]
    plan = np.full(sim.ticks, sim.noop)
    search.replay(plan, 0, trial=False)
    edits.accept(search.which, 0)
    for op, useless in (
        (Op.ENCRYPT, r["encrypted"] == 1),
        (Op.PATCH, (r["known_count"] == 0) & (r["health"] > 0.9)),
    ):
        for slot in np.flatnonzero(useless):
            trial = plan.copy()
            trial[0] = slot * N_OPS + op
            assert search.replay(trial, 0) == np.inf
    vetoed = np.flatnonzero(~sim.masks[0])[0]
    plan[0] = vetoed
    assert search.replay(plan, 0) == np.inf


# ---------------------------------------------------------------- the data
@pytest.mark.parametrize("suite", SHIPPED)
def test_shipped_plans_lead_to_the_stored_bills(suite: str) -> None:
    scenario = find_scenario(suite)
    seeds = find_seeds("public", scenario)
    if not FULL:
        seeds = seeds[:: len(seeds) // 10]
    bills, why = oracle_bills(scenario, seeds)
    assert bills is not None, why
    assert bills.shape == seeds.shape and (bills > 0).all()


def test_every_main_suite_ships() -> None:
    assert {"easy", "medium", "hard", "quiet"} <= set(SHIPPED)


def test_every_operation_is_best_somewhere() -> None:
    """No dead operation: the plans of the clairvoyant use each of them (docs/benchmark-notes.md has the table)."""
    worlds = np.zeros(N_OPS, int)
    for suite in SHIPPED:
        for world in OracleFile.read(oracle_path(find_scenario(suite))).worlds.values():
            worlds[sorted({action % N_OPS for _, action in world.plan})] += 1
    assert (worlds > 0).all(), dict(zip(OP_NAMES, worlds, strict=False))


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Easy's plans of a few validation worlds, in a folder of their own."""
    monkeypatch.setattr(oracle_data, "FOLDER", tmp_path)
    build("easy", "10000-10002", Oracle(edits=40), anew=False, folder=tmp_path)
    return tmp_path / "easy.json"


def edit_json(path: Path, change: object) -> None:
    data = json.loads(path.read_text())
    change(data)  # type: ignore[operator]
    path.write_text(json.dumps(data))


def test_bills_come_in_the_order_of_the_seeds(stored: Path) -> None:
    scenario = load_scenario("easy")
    bills, why = oracle_bills(scenario, [10_002, 10_000])
    assert bills is not None and why == ""
    assert np.array_equal(bills, play_episodes(Oracle(edits=40), scenario, [10_002, 10_000]).bill)


def test_a_build_goes_on_where_it_was(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(stored.read_text())
    data = build("easy", "10000-10004", Oracle(edits=40), anew=False, folder=stored.parent)
    assert "3 plans are there, 2 to search" in capsys.readouterr().out
    assert len(data.worlds) == 5
    after = json.loads(stored.read_text())
    assert {k: after["worlds"][k] for k in before["worlds"]} == before["worlds"]
    build("easy", "10000-10000", Oracle(edits=20), anew=False, folder=stored.parent)  # another search: all anew
    assert list(json.loads(stored.read_text())["worlds"]) == ["10000"]


def test_an_interrupted_build_leaves_the_file_whole_and_goes_on(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, searched = stored.read_bytes(), []

    class Stopped(Oracle):
        def foresee(self, sim: Simulator) -> np.ndarray:
            if len(searched) == 1:
                raise KeyboardInterrupt
            searched.append(sim.n_worlds)
            return super().foresee(sim)

    with pytest.raises(KeyboardInterrupt):
        build("easy", "10000-10007", Stopped(edits=30), anew=False, folder=stored.parent)
    assert stored.read_bytes() == whole
    capsys.readouterr()
    build("easy", "10000-10007", Oracle(edits=30), anew=False, folder=stored.parent)
    assert "4 plans are there, 4 to search" in capsys.readouterr().out
    assert len(OracleFile.read(stored).worlds) == 8
    assert [file.name for file in stored.parent.iterdir()] == ["easy.json"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["worlds"]["10001"]["parts"].update(labour=0.0), "seed 10001: the plan leads to"),
        (lambda d: d["worlds"]["10001"].update(plan=[]), "seed 10001: the plan leads to"),
        (lambda d: d["worlds"]["10001"].update(plan=[[5, 7 + 12 * 6]]), "is no tick and action"),
        (lambda d: d["worlds"]["10001"].update(plan=[[500, 3]]), "is no tick and action"),
        (lambda d: d["worlds"]["10001"].update(plan=[[0, 7], [1, 19], [2, 31]]), "is rejected"),
        (lambda d: d["worlds"]["10001"].update(plan=7), "does not fit"),
        (lambda d: d["worlds"].pop("10001"), "not 10001"),
        (lambda d: d.update(scenario_hash="0"), "other constants"),
        (lambda d: d.pop("worlds"), "holds no plans"),
        (lambda d: d["worlds"]["10001"].pop("parts"), "holds no plans"),
        (lambda d: d["worlds"]["10001"]["parts"].pop("labour"), "holds no plans"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(stored: Path, change: object, reason: str) -> None:
    edit_json(stored, change)
    bills, why = oracle_bills(load_scenario("easy"), SEEDS)
    assert bills is None and reason in why, why
    assert "\n" not in why


def test_a_broken_file_and_none_at_all_are_no_oracle(stored: Path) -> None:
    stored.write_text(stored.read_text()[:200])
    assert "holds no plans" in oracle_bills(load_scenario("easy"), SEEDS)[1]
    stored.unlink()
    assert "no plans of the oracle ship" in oracle_bills(load_scenario("easy"), SEEDS)[1]


def test_other_constants_are_refused(stored: Path) -> None:
    bills, why = oracle_bills(load_scenario("easy", {"failures.failure_rate": 0.001}), SEEDS)
    assert bills is None and "other constants" in why


def test_another_version_of_the_code_is_fine_if_the_bills_stand(stored: Path) -> None:
    edit_json(stored, lambda d: d.update(code="0"))
    assert oracle_bills(load_scenario("easy"), SEEDS)[0] is not None
    data = OracleFile.read(stored)
    assert differing(load_scenario("easy"), data.worlds) == ""
