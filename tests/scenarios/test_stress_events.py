"""Timed events: what they do, that nobody sees them coming, and that nothing else shifts because of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloudrl import Simulator
from cloudrl.actions import N_OPS, Op
from cloudrl.errors import UserError
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.scenarios.events import Event
from cloudrl.scenarios.library import fill
from cloudrl.scenarios.ranges import check_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.types import CRASHED, DELETED, KIND_NAMES, MAX_EVENTS, QUEUE, RUNNING, VM
from tests.core.play import random_actions, same_state, scenario_of, seed_of
from tests.core.test_parity import assert_equal
from tests.twin import TwinEnv

STORM = [
    Event("surge", 5, 60, 10, 40, 1.5, 3.0),
    Event("alarms", 0, 40, 20, 60, 0.1, 0.5),
    Event("zone", 10, 90, 5, 30),
    Event("service", 0, 99, 2, 9, hits="vm", share=0.8),
    Event("hole", 0, 80, 1, 1, 0.3, 0.9, hits="vm", share=0.6),
    Event("leak", 0, 90, 1, 1, 100.0, 400.0, share=0.5),
]
PRICES = [*STORM[:5], Event("price", 0, 90, 1, 1, 1.5, 3.0, hits="one")]
KINDS = [*STORM, PRICES[-1]]
FIELDS = ("event_start", "event_end", "event_strength", "event_pick")


def scenario_with(*events: Event, name: str = "medium", **changes: Any) -> Scenario:
    scenario = scenario_of(name, **changes)
    scenario.events = list(events)
    return scenario


def started(*events: Event, n: int = 24, **changes: Any) -> Simulator:
    """Worlds of several splits at tick 0; `zoned` shapes have replicas in every zone."""
    sim = Simulator(scenario_with(*events, **changes), n)
    sim.reset([seed_of(chain, 0) for chain in range(n)])
    return sim


def idle(sim: Simulator, ticks: int) -> None:
    for _ in range(ticks):
        sim.step(np.full(sim.n_worlds, sim.noop))


CALM: dict[str, Any] = {
    "failures__failure_rate": 0.0, "failures__health_leak": 0.0, "failures__initial_health_low": 1.0,
    "load__bursts_per_tick": 0.0, "load__utilisation_high": 0.1, "start__initial_vulnerabilities": 0.0,
    "security__vulnerability_rate": 0.0,
}  # fmt: skip
"""Nothing crashes, no holes: what happens is the event's."""


# ---------------------------------------------------------------- the same equations


@pytest.mark.parametrize(("name", "events"), [("medium", STORM), ("hard", PRICES)])
def test_kernels_equal_twin_when_everything_happens_at_once(name: str, events: list[Event]) -> None:
    sim = Simulator(scenario_with(*events, name=name), 4)
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


# ---------------------------------------------------------------- luck


@pytest.mark.parametrize("event", KINDS, ids=lambda event: event.kind)
def test_nobody_sees_an_event_coming(event: Event) -> None:
    """Two days that differ only in when it happens, how long and how strong it is, look alike until it does."""
    early = replace(event, start_min=20, start_max=40)
    late = replace(event, start_min=60, start_max=90, ticks_max=event.ticks_max + 5, strength_high=9.0)
    here, there = started(early), started(late)
    first = here.state.worlds["event_start"][:, 0].copy()
    differed = np.zeros(here.n_worlds, bool)
    for t, u in enumerate(np.random.default_rng(1).random((56, here.n_worlds, 2))):
        before = t <= first  # ticks 0 .. t-1 are played
        assert np.array_equal(here.observations[before], there.observations[before])
        assert np.array_equal(here.masks[before], there.masks[before])
        differed |= (here.observations != there.observations).any(axis=1)
        actions = random_actions(u, here.masks & there.masks)
        here.step(actions)
        there.step(actions)
    assert differed.mean() > 0.5, "the event shows once it is there, or this test could not fail"


def test_no_action_shifts_an_event() -> None:
    free = SafetyConfig(SafetyMode.off)
    calm, busy = (Simulator(scenario_with(*PRICES), 24, safety=free) for _ in range(2))
    for sim in (calm, busy):
        sim.reset(np.arange(24))
    price = calm.state.resources["unit_price"].copy()
    rng = np.random.default_rng(2)
    for _ in range(100):
        calm.step(np.full(24, calm.noop))
        busy.step(rng.integers(0, busy.n_actions, 24))
    for field in FIELDS:
        assert np.array_equal(calm.state.worlds[field], busy.state.worlds[field])
    there = busy.state.resources["status"] < DELETED
    dearer = calm.state.resources["unit_price"] > price
    assert dearer.any() and np.array_equal(dearer[there], (busy.state.resources["unit_price"] > price)[there])


def test_an_event_shifts_no_other_draw() -> None:
    """With a leak in it a day has the same load, wear and holes as without."""
    plain, leaky = started(), started(STORM[-1])
    for _ in range(100):
        idle(plain, 1)
        idle(leaky, 1)
        assert np.array_equal(plain.state.worlds["load"], leaky.state.worlds["load"])
    spared = (plain.state.resources["ticks_since_analyze"] > 100) & (
        leaky.state.resources["ticks_since_analyze"] > 100
    )  # no breach has closed the holes
    assert spared.mean() > 0.5
    for field in ("hidden_count", "hidden_epss", "leak", "exposed"):
        assert np.array_equal(plain.state.resources[field][spared], leaky.state.resources[field][spared])


def test_times_strengths_and_victims_are_drawn_as_the_scenario_says() -> None:
    event = Event("hole", 30, 59, 4, 9, 0.2, 0.6, share=0.3)
    sim = started(event, n=600, **CALM)
    w = sim.state.worlds
    start, length = w["event_start"][:, 0], (w["event_end"] - w["event_start"])[:, 0]
    assert set(start) == set(range(30, 60)) and set(length) == set(range(4, 10))
    assert stats.chisquare(np.bincount(start - 30)).pvalue > 1e-4
    assert stats.kstest(w["event_strength"][:, 0], "uniform", (0.2, 0.4)).pvalue > 1e-4
    assert stats.kstest(w["event_pick"][:, 0], "uniform").pvalue > 1e-4
    idle(sim, 61)
    r = sim.state.resources
    can = (r["kind"] != QUEUE) & (r["status"] < DELETED) & (r["ticks_since_analyze"] > 61)
    hit = r["known_count"][can] == 1
    assert hit.mean() == pytest.approx(0.3, abs=0.03)
    assert np.allclose(r["known_epss"][can][hit], np.repeat(w["event_strength"][:, 0], can.sum(1))[hit])


# ---------------------------------------------------------------- forks


def test_a_fork_keeps_the_events_and_a_resampled_one_draws_those_to_come() -> None:
    sim = started(*STORM, n=4)
    idle(sim, 45)
    same = sim.fork(1, 3)
    assert same_state(same.state, sim.fork(1, 3).state)
    for field in FIELDS:
        assert np.array_equal(same.state.worlds[field], np.repeat(sim.state.worlds[field][1:2], 3, axis=0))
    drawn = sim.fork(1, 400, luck="resampled").state.worlds
    for e, event in enumerate(STORM):
        start, end = sim.state.worlds["event_start"][1, e], sim.state.worlds["event_end"][1, e]
        if start >= 45:
            assert drawn["event_start"][:, e].min() >= 45
            assert set(drawn["event_start"][:, e]) == set(range(max(45, event.start_min), event.start_max + 1))
            assert len(set(drawn["event_strength"][:, e])) > 1 or event.strength_low == event.strength_high
        else:
            assert (drawn["event_start"][:, e] == start).all()
            assert (drawn["event_strength"][:, e] == sim.state.worlds["event_strength"][1, e]).all()
            if end >= 45:
                length = drawn["event_end"][:, e] - start
                assert length.min() >= max(45 - start, event.ticks_min) and length.max() <= event.ticks_max
            else:
                assert (drawn["event_end"][:, e] == end).all()


def test_a_resampled_fork_holds_nothing_of_the_events_to_come() -> None:
    """Worlds that differ only in what is to come are imagined alike."""
    sim = started(*STORM, n=1)
    idle(sim, 30)
    imagined = sim.fork(0, 5, luck="resampled", key=7).state
    w = sim.state.worlds
    to_come = w["event_start"][0, : len(STORM)] >= 30
    assert to_come.any() and not to_come.all()
    for field in FIELDS:
        w[field][0, : len(STORM)][to_come] += 3
    under_way = ~to_come & (w["event_end"][0, : len(STORM)] >= 30)
    assert under_way.any()
    w["event_end"][0, : len(STORM)][under_way] += 2
    assert same_state(imagined, sim.fork(0, 5, luck="resampled", key=7).state)


def test_what_crashed_with_its_zone_comes_back_with_it_in_every_imagined_world() -> None:
    sim = started(Event("zone", 10, 10, 6, 40), n=8, **CALM)
    idle(sim, 14)
    for world in range(8):
        forks = sim.fork(world, 30, luck="resampled")
        down = sim.state.resources["status"][world] == CRASHED
        assert down.any()
        left = forks.state.worlds["event_end"][:, :1] - 14 + 1
        assert (forks.state.resources["repair_ticks"][:, down] == left).all()
        assert len(set(left.ravel())) > 5


# ---------------------------------------------------------------- what they do


def test_a_surge_rises_for_half_an_hour_and_ends_at_once() -> None:
    plain, sale = started(**CALM), started(Event("surge", 8, 8, 20, 20, 3.0, 3.0), **CALM)
    factor = []
    for _ in range(40):
        idle(plain, 1)
        idle(sale, 1)
        factor.append((sale.state.worlds["load"] / plain.state.worlds["load"]).tolist())
    found = np.array(factor)
    expected = np.ones(40)
    expected[8:28] = 3.0
    expected[8:13] = 1.0 + 2.0 * np.arange(1, 6) / 6
    np.testing.assert_allclose(found, expected[:, None].repeat(sale.n_worlds, 1), rtol=1e-12)


def test_false_alarms_come_during_the_flood_only_and_as_often_as_said() -> None:
    sim = started(Event("alarms", 30, 30, 60, 60, 0.25, 0.25), n=64, **CALM)
    rate = []
    for _ in range(120):
        idle(sim, 1)
        well = (sim.state.resources["status"] == RUNNING) & (sim.state.resources["utilisation"] < 0.9)
        rate.append(sim.state.resources["alarm"][well].mean())
    assert max(rate[:30]) == 0.0 and max(rate[90:]) == 0.0
    assert np.mean(rate[30:90]) == pytest.approx(0.25, abs=0.01)


def test_a_lost_zone_takes_a_third_of_the_machines_and_no_restart_brings_them_back() -> None:
    sim = started(Event("zone", 10, 10, 12, 12), n=60, **CALM)
    r = sim.state.resources
    single = (r["kind"] != QUEUE) & (r["multi_az"] == 0) & (r["status"] == RUNNING)
    idle(sim, 10)
    assert not (r["status"] == CRASHED).any()
    idle(sim, 1)
    down = r["status"] == CRASHED
    assert not (down & ~single).any(), "neither a queue nor what is multi-AZ"
    assert down.sum() / single.sum() == pytest.approx(1 / 3, abs=0.05)
    firsts = sim.state.groups["first"], sim.state.groups["count"]
    for b in range(sim.n_worlds):
        for first, count in zip(firsts[0][b], firsts[1][b], strict=True):
            if 1 < count <= 3:
                assert down[b, first : first + count].sum() <= 1, "replicas stand in different zones"
    for _ in range(11):
        slot = down.argmax(axis=1)
        sim.step(np.where(down.any(axis=1), slot * N_OPS + Op.RESTART, sim.noop))
        assert np.array_equal(r["status"] == CRASHED, down)
    idle(sim, 1)
    assert not (r["status"] == CRASHED).any(), "the zone is back"
    assert sim.state.worlds["labour"].sum() > 0, "restarts have been paid"


def test_a_service_falls_with_all_its_replicas_and_a_restart_helps() -> None:
    sim = started(Event("service", 5, 5, 9, 9, hits="vm"), n=60, **CALM)
    idle(sim, 6)
    r, groups = sim.state.resources, sim.state.groups
    for b in range(sim.n_worlds):
        down = np.flatnonzero(r["status"][b] == CRASHED)
        hit = set(r["group"][b, down])
        assert len(hit) == 1
        group = groups[b, hit.pop()]
        assert down.tolist() == list(range(group["first"], group["first"] + group["count"]))
        assert not group["idle"] and (r["kind"][b, down] == VM).all() and r["alarm"][b, down].all()
    which = (r["status"] == CRASHED).argmax(axis=1)
    hit_groups = set(zip(sim.state.worlds["template"], r["group"][np.arange(60), which], strict=True))
    assert len(hit_groups) > 8, "not always the same service"
    sim.step((r["status"] == CRASHED).argmax(axis=1) * N_OPS + Op.RESTART)
    assert (r["status"][np.arange(60), (r["ticks_since_restart"] < 5).argmax(axis=1)] == RUNNING).all()
    idle(sim, 9)
    assert not (r["status"] == CRASHED).any(), "the rest came back unattended"


@pytest.mark.parametrize("hits", ["vm", "database", "one", "any"])
def test_a_price_rises_for_good_on_what_the_event_hits(hits: str) -> None:
    sim = started(Event("price", 5, 5, 1, 1, 2.0, 2.0, hits=hits), n=60, **CALM)
    before = sim.state.resources["unit_price"].copy()
    idle(sim, 5)
    assert np.array_equal(sim.state.resources["unit_price"], before)
    idle(sim, 30)
    r = sim.state.resources
    dearer = np.isclose(r["unit_price"], 2.0 * before) & (before > 0)
    for b in range(sim.n_worlds):
        hit = {KIND_NAMES[k] for k in r["kind"][b, dearer[b]]}
        spared = {KIND_NAMES[k] for k in r["kind"][b, ~dearer[b] & (before[b] > 0)]}
        assert hit.isdisjoint(spared)
        assert hit <= set(KIND_NAMES) if hits == "any" else len(hit) <= 1
    reached = {"vm": {"vm"}, "database": {"database"}, "one": {"vm", "database", "cache"}, "any": set(KIND_NAMES)}
    assert {KIND_NAMES[k] for k in r["kind"][dearer]} == reached[hits]


def test_a_leak_makes_credentials_as_bad_as_old_ones_and_rotation_mends_it() -> None:
    sim = started(Event("leak", 5, 5, 1, 1, 300.0, 300.0, share=0.5), n=60, **CALM)
    sim.state.resources["credential_days"][:] = 0.0
    idle(sim, 6)
    r = sim.state.resources
    there = r["status"] < DELETED
    leaked = r["credential_days"] > 290
    assert leaked[there].mean() == pytest.approx(0.5, abs=0.05)
    slot = leaked.argmax(axis=1)
    allowed = sim.masks[np.arange(60), slot * N_OPS + Op.ROTATE_CREDS]
    assert allowed[leaked.any(axis=1)].all(), "they may be rotated at once"
    sim.step(np.where(leaked.any(axis=1), slot * N_OPS + Op.ROTATE_CREDS, sim.noop))
    assert (r["credential_days"][np.arange(60), slot] < 10).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([Event("surg")], r"events\[0\]\.kind='surg': no such event; did you mean 'surge'"),
        ([Event("hole", hits="vms")], r"events\[0\]\.hits='vms': no such kind; did you mean 'vm'"),
        ([Event("surge", 300, 300)], r"events\[0\]\.start_max=300: the episode has 288 ticks"),
        (
            [Event("surge", 9, 8)],
            r"events\[0\]\.start_min=9: must not lie above .*start_max=8",
        ),
        ([Event("leak", share=1.5)], r"events\[0\]\.share=1\.5"),
        ([Event("surge", ticks_min=0)], r"events\[0\]\.ticks_min=0"),
        ([Event("surge", strength_low=-1.0)], r"events\[0\]\.strength_low=-1"),
        ([Event("surge")] * (MAX_EVENTS + 1), rf"{MAX_EVENTS + 1} events; a scenario has at most {MAX_EVENTS}"),
    ],
)
def test_a_wrong_event_is_refused_in_one_line(events: list[Event], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        check_scenario("scenario", scenario_with(*events))
    assert "\n" not in str(error.value)


def test_an_unknown_key_of_an_event_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"mine\.events\[1\]: unknown key 'begin'"):
        fill(Scenario(), {"events": [{"kind": "surge"}, {"kind": "leak", "begin": 3}]}, "mine")
