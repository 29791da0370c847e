"""Properties of the world that hold whatever happens, and single mechanisms under constants set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudrl import Simulator
from cloudrl.actions import N_OPS, Op
from cloudrl.dynamics import cascade
from cloudrl.dynamics.cascade import IMPAIRED
from cloudrl.dynamics.failures import HEALTH_AFTER_REPAIR, HEALTH_MIN, OVERLOAD_TICKS
from cloudrl.dynamics.flow import response_ratio
from cloudrl.measurements import (
    CREDENTIAL_FACTOR_MAX,
    CREDENTIAL_LIMIT_DAYS,
    TICK_HOURS,
    TICKS_PER_DAY,
    credential_factor,
    draw_cvss,
    draw_epss,
    mean_epss,
)
from cloudrl.records import leaves
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.scenarios.library import CONFIG_DIR
from cloudrl.scenarios.profile import sine_profile, with_peaks
from cloudrl.scenarios.schema import Scenario
from cloudrl.types import (
    ABSENT,
    BREACH_INCIDENT,
    CACHE,
    CRASHED,
    DATABASE,
    DELETED,
    EDGE,
    FAILURE_INCIDENT,
    GROUP,
    HARD,
    MAX_SIZE,
    OVERLOAD_INCIDENT,
    QUEUE,
    RUNNING,
    STOPPED,
    VM,
    WORLD,
)
from tests.core.play import FULL, WORLDS, play, random_actions, scenario_of, seed_of

EPS = 1e-9
SHARED = {
    (name, mode): Simulator(scenario_of(name), 4, safety=SafetyConfig(mode))
    for name in WORLDS
    for mode in (SafetyMode.enforce, SafetyMode.off)
}
fast = settings(max_examples=40 if FULL else 10, deadline=None, suppress_health_check=list(HealthCheck))
INERT: dict[str, Any] = {
    "failures__failure_rate": 0.0, "failures__health_leak": 0.0, "security__security_clock": 0.0,
    "security__vulnerability_rate": 0.0, "drift__exposure_rate": 0.0, "drift__decryption_rate": 0.0,
    "drift__logging_loss_rate": 0.0, "load__noise_sd": 0.0, "load__bursts_per_tick": 0.0,
    "load__diurnal_amplitude": 0.0, "operations__rotation_break": 0.0, "jobs__job_probability": 0.0,
}  # fmt: skip
"""A world in which nothing happens by itself."""


def calm(shape: str = "shop", **changes: Any) -> Simulator:
    """One inert world of Medium, without rules, so that a test can do what it likes."""
    scenario = scenario_of("medium", topology__train=[shape], **{**INERT, **changes})
    sim = Simulator(scenario, 1, safety=SafetyConfig(SafetyMode.off))
    sim.reset([1])
    return sim


def find(sim: Simulator, kind: int, **fields: int) -> int:
    r = sim.state.resources[0]
    match = r["kind"] == kind
    for name, value in fields.items():
        match &= r[name] == value
    return int(np.flatnonzero(match & (r["status"] != ABSENT))[0])


def act(sim: Simulator, slot: int, op: Op) -> None:
    sim.step([slot * N_OPS + op])
    assert sim.state.worlds["verdict"][0] == 0, "the test asks for something impossible"


def idle(sim: Simulator, ticks: int = 1) -> None:
    for _ in range(ticks):
        sim.step(np.full(sim.n_worlds, sim.noop))


# ---------------------------------------------------------------- invariants


def check(sim: Simulator) -> None:
    """What holds in every state."""
    w = sim.state.worlds
    for b in range(sim.n_worlds):
        r = sim.state.resources[b, : w["n_resources"][b]]
        g = sim.state.groups[b, : w["n_groups"][b]]
        for field in ("served", "slow", "cascade_blast", "max_blast"):
            assert -EPS <= w[field][b] <= 1.0 + EPS, field
        for field in ("capability", "availability", "slow_self", "slow"):
            assert (g[field] >= -EPS).all() and (g[field] <= 1.0 + EPS).all(), field
        assert (g["availability"] <= g["capability"] + EPS).all()
        assert np.isfinite(g["load"]).all() and (g["load"] >= 0.0).all()
        assert w["load"][b] > 0.0 and np.isfinite(w["load"][b])
        assert ((r["health"] >= HEALTH_MIN) & (r["health"] <= 1.0)).all()
        assert ((r["warmth"] >= 0.0) & (r["warmth"] <= 1.0)).all()
        assert ((r["serving"] >= 0.0) & (r["serving"] <= 1.0)).all()
        assert ((r["size"] >= 0) & (r["size"] <= MAX_SIZE)).all()
        assert ((r["status"] >= RUNNING) & (r["status"] <= DELETED)).all()
        assert np.isfinite(r["utilisation"]).all() and (r["utilisation"] >= 0.0).all()
        assert np.isfinite(r["latency"]).all() and (r["latency"] >= 1.0).all()
        for field in ("known_count", "hidden_count", "busy_ticks", "overload_ticks", "credential_days"):
            assert (r[field] >= 0).all(), field
        for count, epss in (("known_count", "known_epss"), ("hidden_count", "hidden_epss")):
            assert ((r[epss] > 0.0) <= (r[count] > 0)).all() and (r[epss] >= 0.0).all()
        assert ((r["known_cvss"] >= 0.0) & (r["known_cvss"] <= 10.0)).all()
        assert (r["exposure_seen"] <= r["exposed"]).all()
        queue = r["kind"] == QUEUE
        assert not r["hidden_count"][queue].any() and not r["known_count"][queue].any()
        assert (r["serving"][r["status"] == STOPPED] == 0.0).all()
        for part in ("infrastructure", "outage", "exposure", "labour"):
            assert w[f"tick_{part}"][b] >= -EPS and np.isfinite(w[part][b])
        assert w["cascade"][b] in (0, 1)
        if w["cascade"][b]:
            root = g[w["cascade_root"][b]]
            assert not root["idle"]
        for total, tick in (
            ("crashes", "tick_crashes"),
            ("breaches", "tick_breaches"),
            ("cascades", "tick_cascades"),
        ):
            assert w[total][b] >= w[tick][b] >= 0
        assert w["executed"][b] == sim.noop or w["verdict"][b] != 1


GROWING = (
    "infrastructure", "outage", "exposure", "labour", "breach_realised", "traffic", "served_traffic",
    "exposure_hours",
    "crashes", "breaches", "cascades", "max_blast", "operations", "disruptions", "data_losses",
)  # fmt: skip


@fast
@given(
    name=st.sampled_from(WORLDS), mode=st.sampled_from([SafetyMode.enforce, SafetyMode.off]),
    seed=st.integers(0, 3_000), noop_share=st.sampled_from([0.0, 0.5, 0.95]),
)  # fmt: skip
def test_invariants_hold_under_random_play(name: str, mode: SafetyMode, seed: int, noop_share: float) -> None:
    sim = SHARED[name, mode]
    sim.reset([seed_of(seed + b, b) for b in range(4)])
    check(sim)
    rng = np.random.default_rng(seed)
    before = sim.snapshot()
    for _ in range(60):
        sim.step(random_actions(rng.random((4, 2)), sim.masks, noop_share))
        check(sim)
        now, was = sim.state, before
        assert ((was.resources["status"] != DELETED) | (now.resources["status"] == DELETED)).all()
        assert (now.worlds["tick"] == was.worlds["tick"] + 1).all()
        for field in GROWING:
            assert (now.worlds[field] >= was.worlds[field] - EPS).all(), field
        fixed = (
            "kind",
            "critical",
            "data_bearing",
            "multi_az",
            "idle",
            "group",
            "unit_price",
            "exposure_base",
            "leak",
        )
        assert all(np.array_equal(now.resources[f], was.resources[f]) for f in (*fixed, "job_start", "lag"))
        before = sim.snapshot()


@fast
@given(
    seed=st.integers(0, 1_000),
    changes=st.fixed_dictionaries(
        {
            "load__burst_high": st.floats(2.0, 50.0),
            "load__bursts_per_tick": st.floats(0.0, 1.0),
            "load__noise_sd": st.floats(0.0, 1.0),
            "failures__failure_rate": st.floats(0.0, 1.0),
            "failures__health_leak": st.floats(0.0, 0.5),
            "security__vulnerability_rate": st.floats(0.0, 1.0),
            "security__breach_loss": st.floats(0.0, 1e4),
            "drift__exposure_rate": st.floats(0.0, 1.0),
            "flow__unhealthy_capacity_loss": st.floats(0.0, 0.99),
            "flow__soft_weight": st.floats(0.0, 1.0),
            "operations__rotation_break": st.floats(0.0, 1.0),
        }
    ),
)
def test_invariants_hold_under_extreme_constants(seed: int, changes: dict[str, float]) -> None:
    sim = Simulator(scenario_of("hard", **changes), 2, safety=SafetyConfig(SafetyMode.off))
    sim.reset([seed, 20_000 + seed])
    for t in range(40):
        play(sim, 1, seed + t, noop_share=0.3)
        check(sim)
        assert np.isfinite(sim.rewards).all() and np.isfinite(sim.observations).all()


# ---------------------------------------------------------------- traffic


def test_everything_is_served_while_nothing_is_wrong() -> None:
    sim = calm()
    idle(sim, 5)
    w = sim.state.worlds[0]
    assert (
        w["served"] == pytest.approx(1.0) and w["slow"] == 0.0 and w["tick_outage"] == pytest.approx(0.0, abs=1e-9)
    )


@pytest.mark.parametrize("servers", [1, 2, 4, 8])
def test_the_queueing_form_is_exact_for_one_and_two_servers(servers: int) -> None:
    """M/M/1: R/S = 1 / (1 - rho). M/M/2: 1 / (1 - rho^2). More servers: less waiting at the same utilisation."""
    size = servers.bit_length() - 1
    for rho in (0.1, 0.5, 0.9):
        assert response_ratio(rho, size) == pytest.approx(1.0 / (1.0 - rho**servers))
    assert np.isfinite(response_ratio(5.0, size))


def test_utilisation_is_the_load_over_what_serves() -> None:
    sim = calm()
    idle(sim)
    front = find(sim, VM, group=0)
    before = sim.state.resources["utilisation"][0, front]
    sim.state.resources["status"][0, front + 1] = CRASHED
    sim.state.resources["repair_ticks"][0, front + 1] = 50
    idle(sim)
    n = int(sim.state.groups["count"][0, 0])
    assert sim.state.resources["utilisation"][0, front] == pytest.approx(before * n / (n - 1), rel=1e-9)


def test_an_unhealthy_machine_has_less_capacity() -> None:
    sim = calm()
    idle(sim)
    front = find(sim, VM, group=0)
    before = sim.state.resources["utilisation"][0, front] * (
        1.0 - sim.params[0]["unhealthy_capacity_loss"] * (1.0 - sim.state.resources["health"][0, front])
    )
    sim.state.resources["health"][0, front] = 0.5
    idle(sim)
    loss = 1.0 - sim.params[0]["unhealthy_capacity_loss"] * 0.5
    assert sim.state.resources["utilisation"][0, front] == pytest.approx(before / loss, rel=1e-9)


@pytest.mark.parametrize("trouble", ["cold", "busy"])
def test_a_cache_that_does_not_answer_multiplies_the_load_of_its_database(trouble: str) -> None:
    """In the same tick: caches are asked before the database."""
    sim = calm()
    idle(sim, 3)
    hit, r = sim.params[0]["cache_hit"], sim.state.resources[0]
    cache = find(sim, CACHE)
    edges = sim.state.edges[0]
    target = int(edges["target"][np.flatnonzero(edges["cache"] == cache)[0]])
    before = sim.state.groups["load"][0, target]
    if trouble == "cold":
        r["warmth"][cache] = 0.0
        idle(sim)
    else:
        act(sim, cache, Op.RESTART)
    after = sim.state.groups["load"][0, target]
    assert before * 1.0001 < after <= before / (1.0 - hit) + EPS


def test_a_hard_dependency_takes_its_callers_down_and_a_soft_one_does_not() -> None:
    sim = calm()
    idle(sim)
    database, queue = find(sim, DATABASE, critical=1), find(sim, QUEUE)
    sim.state.resources["status"][0, queue] = CRASHED
    sim.state.resources["repair_ticks"][0, queue] = 3
    idle(sim)
    assert 0.5 < sim.state.worlds["served"][0] < 1.0
    assert not sim.state.worlds["cascade"][0]
    sim.state.resources["status"][0, queue] = RUNNING
    sim.state.resources["status"][0, database] = CRASHED
    sim.state.resources["repair_ticks"][0, database] = 3
    idle(sim)
    w = sim.state.worlds[0]
    assert w["served"] < 0.2
    assert w["cascade"] == w["cascades"] == w["tick_cascades"] == 1
    assert w["cascade_root"] == sim.state.resources["group"][0, database]
    root = sim.state.groups[0, w["cascade_root"]]
    assert root["capability"] < IMPAIRED and 0.0 < w["cascade_blast"] <= 1.0
    idle(sim, 5)
    w = sim.state.worlds[0]
    assert (w["cascade"], w["cascades"], w["cascade_blast"]) == (0, 1, 0.0) and w["max_blast"] > 0.0
    assert w["cascade_root"] == -1


def test_the_root_of_a_cascade_is_what_drags_the_heaviest_group() -> None:
    """Another service that is down as well, before or behind it, is not blamed; it is when it is what is left."""
    sim = calm()
    idle(sim)
    r, edges = sim.state.resources[0], sim.state.edges[0]
    edges["calls"] = np.where(edges["kind"] == HARD, 1.0, edges["calls"])
    database, orders, queue = find(sim, DATABASE, critical=1), find(sim, DATABASE, critical=0), find(sim, QUEUE)
    for slot, ticks in ((database, 3), (orders, 6), (queue, 9)):
        r["status"][slot], r["repair_ticks"][slot] = CRASHED, ticks
    roots, w = [], sim.state.worlds
    for _ in range(8):
        idle(sim)
        roots.append(int(w["cascade_root"][0]))
        assert w["tick_cascades"][0] == (len(roots) == 1)
    assert roots == [r["group"][database]] * 3 + [r["group"][orders]] * 3 + [-1] * 2
    assert w["cascades"][0] == 1


def by_hand(capability: list[float], availability: list[float], edges: list[tuple[int, int, float]]) -> np.void:
    """The world after `cascade.track` on groups of weight 1, 1/2, ...; edges (source, target, calls)."""
    w, groups, deps = np.zeros(1, WORLD), np.zeros(len(capability), GROUP), np.zeros(len(edges), EDGE)
    w["n_groups"], w["served"] = len(capability), availability[0]
    groups["capability"], groups["availability"] = capability, availability
    groups["weight"] = 0.5 ** np.arange(len(capability))
    for g in range(len(capability)):
        mine = [e for e, (source, *_) in enumerate(edges) if source == g]
        groups["edge_first"][g], groups["edge_count"][g] = mine[0] if mine else 0, len(mine)
    deps["target"], deps["calls"] = [e[1] for e in edges], [e[2] for e in edges]
    cascade.track(SHARED["medium", SafetyMode.off].params[0], w[0], groups, deps)
    return w[0]


def test_a_cascade_by_many_half_failures_ends_at_the_worst_of_them() -> None:
    """No group fails by itself: the walk ends where no dependency costs anything; the blast is all of it."""
    w = by_hand([1.0, 0.7, 0.6], [0.42, 0.7, 0.6], [(0, 1, 1.0), (0, 2, 1.0)])
    assert (w["cascade"], w["cascade_root"]) == (1, 2)
    assert w["cascade_blast"] == pytest.approx(1.0 / 1.75)


def test_a_called_often_dependency_outweighs_one_that_is_worse() -> None:
    w = by_hand([1.0, 0.3, 0.0], [0.3, 0.3, 0.0], [(0, 1, 1.0), (0, 2, 0.5)])
    assert w["cascade_root"] == 1
    assert w["cascade_blast"] == pytest.approx(1.25 / 1.75)


def test_a_group_that_fails_by_itself_is_no_cascade() -> None:
    w = by_hand([0.2, 1.0], [0.2, 1.0], [(0, 1, 1.0)])
    assert (w["cascade"], w["cascade_root"], w["cascade_blast"]) == (0, -1, 0.0)


def test_overload_drops_traffic_then_crashes_then_comes_back() -> None:
    sim = calm(safety_limits__capacity_limit=0.85)
    front = int(sim.state.groups["first"][0, 0])
    members = slice(front, front + int(sim.state.groups["count"][0, 0]))
    sim.state.groups["demand"][0, 0] *= 1.3 / sim.state.resources["utilisation"][0, front]
    sim.state.resources["health"][0] = 1.0
    for t in range(1, OVERLOAD_TICKS + 1):
        idle(sim)
        r = sim.state.resources[0, members]
        assert (r["utilisation"] > 1.0).all() and sim.state.worlds["served"][0] < 1.0
        assert (r["incident"] == (OVERLOAD_INCIDENT if t == OVERLOAD_TICKS else 0)).all()
    assert (sim.state.resources["status"][0, members] == CRASHED).all()
    assert (sim.state.resources["repair_ticks"][0, members] == sim.params[0]["overload_repair_ticks"]).all()
    idle(sim, int(sim.params[0]["overload_repair_ticks"]))
    assert (sim.state.resources["status"][0, members] == RUNNING).all()


def test_retries_amplify_up_to_their_budget() -> None:
    sim = calm()
    idle(sim)
    calls = sim.state.groups["load"][0, 0]
    sim.state.worlds["served"] = 0.0
    idle(sim)
    assert sim.state.groups["load"][0, 0] == pytest.approx(calls * sim.params[0]["retry_cap"])


def test_a_missed_job_is_billed_and_a_running_machine_does_it() -> None:
    for stopped in (False, True):
        sim = calm(jobs__job_probability=1.0)
        spare = find(sim, VM, idle=1)
        start = int(sim.state.resources["job_start"][0, spare])
        assert start >= 24
        if stopped:
            act(sim, spare, Op.STOP)
        idle(sim, start - int(sim.state.worlds["tick"][0]))
        before = sim.state.worlds["outage"][0]
        idle(sim, int(sim.params[0]["job_ticks"]) + 5)
        w, p = sim.state.worlds[0], sim.params[0]
        missed = w["value"] * TICK_HOURS * p["job_value"] * p["job_ticks"] if stopped else 0.0
        assert w["outage"] - before == pytest.approx(missed, abs=1e-9)


# ---------------------------------------------------------------- operations


def test_stopped_machines_pay_for_storage_and_deleted_ones_nothing() -> None:
    sim = calm()
    spare = find(sim, VM, idle=1)
    idle(sim)
    r, w = sim.state.resources[0, spare], sim.state.worlds
    price = r["unit_price"] * 2.0 ** r["size"] * TICK_HOURS
    full = w["tick_infrastructure"][0]
    act(sim, spare, Op.STOP)
    assert w["tick_infrastructure"][0] == pytest.approx(full - (1.0 - sim.params[0]["stopped_fraction"]) * price)
    act(sim, spare, Op.DELETE)
    assert w["tick_infrastructure"][0] == pytest.approx(full - price)


@pytest.mark.parametrize("kind", [VM, DATABASE, CACHE])
def test_sizes_double_and_halve_price_and_capacity(kind: int) -> None:
    sim = calm()
    slot = find(sim, kind)
    sim.state.resources["size"][0, slot] = 1
    idle(sim)
    r, w = sim.state.resources[0, slot], sim.state.worlds
    before, price = w["tick_infrastructure"][0], r["unit_price"] * 2.0 * TICK_HOURS
    act(sim, slot, Op.RESIZE_UP)
    idle(sim)
    assert r["size"] == 2 and w["tick_infrastructure"][0] == pytest.approx(before + price)
    act(sim, slot, Op.RESIZE_DOWN)
    idle(sim)
    assert r["size"] == 1 and w["tick_infrastructure"][0] == pytest.approx(before)


def test_stop_and_start_bring_a_machine_back() -> None:
    sim = calm()
    slot = find(sim, VM, idle=1)
    act(sim, slot, Op.STOP)
    r = sim.state.resources[0, slot]
    assert r["status"] == STOPPED and r["serving"] == 0.0
    act(sim, slot, Op.START)
    idle(sim, int(sim.params[0]["start_vm_ticks"]) - 1)
    assert r["status"] == RUNNING and r["health"] == 1.0
    idle(sim)
    assert r["serving"] == 1.0


@pytest.mark.parametrize(("op", "field"), [(Op.RESTART, "health"), (Op.PATCH, "health")])
def test_restart_and_patch_heal_and_take_capacity_for_a_tick(op: Op, field: str) -> None:
    sim = calm()
    slot = find(sim, VM, idle=0)
    sim.state.resources[field][0, slot] = 0.4
    act(sim, slot, op)
    r = sim.state.resources[0, slot]
    assert r["serving"] == 1.0 - sim.params[0]["downtime_vm"] and r["health"] == 1.0
    idle(sim)
    assert r["serving"] == 1.0 and r["busy_ticks"] == 0


def test_analyze_costs_no_availability() -> None:
    sim = calm()
    act(sim, find(sim, VM, idle=0), Op.ANALYZE)
    assert sim.state.worlds["served"][0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "ticks", "down"),
    [
        (VM, "encrypt_vm_ticks", "downtime_vm"),
        (CACHE, "encrypt_cache_ticks", "downtime_vm"),
        (DATABASE, "encrypt_database_ticks", "downtime_multi_az"),
    ],
)
def test_encryption_copies_in_the_background_and_is_down_at_the_cut_over(kind: int, ticks: str, down: str) -> None:
    sim = calm()
    slot = find(sim, kind, multi_az=int(kind == DATABASE))
    r = sim.state.resources[0, slot]
    r["encrypted"] = 0
    act(sim, slot, Op.ENCRYPT)
    served = [float(r["serving"])]
    while r["busy_ticks"] > 0:
        assert not r["encrypted"]
        idle(sim)
        served.append(float(r["serving"]))
    assert r["encrypted"] and len(served) == sim.params[0][ticks]
    assert served == [1.0] * (len(served) - 1) + [1.0 - sim.params[0][down]]


def test_a_rotation_may_halve_service_for_one_tick() -> None:
    sim = calm(operations__rotation_break=1.0)
    slot = find(sim, VM, idle=0)
    act(sim, slot, Op.ROTATE_CREDS)
    r = sim.state.resources[0, slot]
    assert r["serving"] == 0.5 and r["credential_days"] == 0.0
    idle(sim)
    assert r["serving"] == 1.0


def test_a_crash_interrupts_the_operation_in_progress() -> None:
    sim = calm(security__security_clock=1e9, security__credential_rate=0.0)
    slot = find(sim, DATABASE, multi_az=1)
    r = sim.state.resources[0]
    r["hidden_epss"] = r["known_epss"] = r["credential_days"] = 0.0
    r["exposed"] = r["exposure_seen"] = 0
    r["encrypted"][slot], r["hidden_epss"][slot] = 0, 1.0
    act(sim, slot, Op.ENCRYPT)  # is breached in the same tick
    assert r["incident"][slot] == BREACH_INCIDENT and r["status"][slot] == CRASHED
    assert r["busy_ticks"][slot] == 0 and not r["encrypted"][slot]


def test_the_change_budget_refills() -> None:
    sim = calm()
    act(sim, find(sim, VM, idle=0), Op.PATCH)
    refill = sim.params[0]["change_refill"]
    assert sim.state.worlds["changes"][0] == pytest.approx(1.0 - refill)
    idle(sim, int(1.0 / refill) + 1)
    assert sim.state.worlds["changes"][0] == 0.0
    act(sim, find(sim, VM, idle=1), Op.PATCH)
    assert sim.state.worlds["changes"][0] == 0.0  # on idle machines it is free


def test_deleting_data_is_counted() -> None:
    sim = calm()
    act(sim, find(sim, DATABASE), Op.DELETE)
    act(sim, find(sim, VM, idle=1), Op.DELETE)
    assert sim.state.worlds["data_losses"][0] == 1


# ---------------------------------------------------------------- wear, failures, attack


def test_failures_come_at_their_rate_and_are_repaired_by_themselves() -> None:
    rate = 0.01
    sim = Simulator(
        scenario_of("medium", **{**INERT, "failures__failure_rate": rate, "failures__initial_health_low": 1.0}),
        256,
    )
    sim.reset(np.arange(256))
    crashes, exposed_ticks = 0, 0
    for _ in range(60):
        r = sim.state.resources
        exposed_ticks += int(((r["status"] == RUNNING) & (r["utilisation"] < 0.85) & (r["health"] == 1.0)).sum())
        before = r["health"].copy()
        idle(sim)
        crashes += int(((sim.state.resources["incident"] == FAILURE_INCIDENT) & (before == 1.0)).sum())
    assert crashes == pytest.approx(rate * exposed_ticks, rel=0.1)
    repaired = sim.state.resources["health"] == HEALTH_AFTER_REPAIR
    assert not repaired.any()  # repair keeps health where it was higher
    assert (sim.state.resources["status"][sim.state.resources["status"] != ABSENT] == RUNNING).mean() > 0.8


def test_the_worn_out_fail_more_often() -> None:
    counts = []
    for health in (1.0, 0.3):
        sim = Simulator(scenario_of("medium", **{**INERT, "failures__failure_rate": 0.002}), 256)
        sim.reset(np.arange(256))
        sim.state.resources["health"] = health
        for _ in range(20):
            sim.state.resources["health"] = health
            idle(sim)
        counts.append(int(sim.state.worlds["crashes"].sum()))
    assert counts[1] / counts[0] == pytest.approx(np.exp(2.0 * 0.7), rel=0.25)


def test_health_leaks_at_its_mean_rate_and_queues_do_not_wear() -> None:
    leak = 0.002
    changes = {**INERT, "failures__health_leak": leak, "failures__initial_health_low": 1.0}
    sim = Simulator(scenario_of("medium", **changes), 256)
    sim.reset(np.arange(256))
    idle(sim, 50)
    r = sim.state.resources
    here = r["status"] != ABSENT
    lost = (1.0 - r["health"]) / 50
    assert lost[here & (r["kind"] != QUEUE)].mean() == pytest.approx(
        leak * (0.5 * 0.3 + 0.3 * 1.0 + 0.2 * 3.0), rel=0.1
    )
    assert (lost[here & (r["kind"] == QUEUE)] == 0.0).all()


def test_credentials_grow_old_and_multiply_the_hazard_up_to_a_limit() -> None:
    sim = calm(security__security_clock=30.0)
    before = sim.state.resources["credential_days"][0].copy()
    idle(sim, 10)
    n = int(sim.state.worlds["n_resources"][0])
    np.testing.assert_allclose(
        sim.state.resources["credential_days"][0, :n], before[:n] + 10 * 30.0 / TICKS_PER_DAY
    )
    assert credential_factor(CREDENTIAL_LIMIT_DAYS) == 1.0
    assert credential_factor(2 * CREDENTIAL_LIMIT_DAYS) == 2.0
    assert credential_factor(1e6) == CREDENTIAL_FACTOR_MAX


def test_the_premium_is_the_mean_of_the_breaches() -> None:
    """Exposure is billed as hazard x loss: over many worlds it equals what the breaches really cost."""
    sim = Simulator(scenario_of("medium", security__breach_isolation_ticks=0), 512)
    sim.reset(np.arange(512))
    idle(sim, 200)
    w = sim.state.worlds
    premium, real = w["exposure"] / w["base_cost"], w["breach_realised"] / w["base_cost"]
    gap = real - premium
    assert abs(gap.mean()) < 4.0 * gap.std() / np.sqrt(len(gap))
    assert w["breaches"].sum() > 100


def test_a_breach_closes_the_holes_and_isolates_the_resource() -> None:
    sim = calm(security__security_clock=1e9, security__credential_rate=0.0)
    r = sim.state.resources[0]
    r["hidden_epss"] = r["known_epss"] = r["credential_days"] = 0.0
    r["exposed"] = r["exposure_seen"] = 0
    slot = find(sim, VM, idle=0)
    r["known_epss"][slot], r["known_count"][slot], r["exposed"][slot] = 0.5, 2, 1
    loss = sim.state.worlds["exposure"][0]
    idle(sim)
    w = sim.state.worlds[0]
    assert (w["breaches"], w["tick_breaches"], w["crashes"]) == (1, 1, 1)
    assert r["status"][slot] == CRASHED and r["repair_ticks"][slot] == sim.params[0]["breach_isolation_ticks"]
    assert r["known_count"][slot] == r["exposed"][slot] == 0 and r["known_epss"][slot] == 0.0
    assert w["breach_realised"] > 0.0 and w["exposure"] - loss == pytest.approx(w["breach_realised"], rel=1e-6)


def test_vulnerabilities_have_the_expected_probability_of_exploitation() -> None:
    sim = calm()
    p, u = sim.params[0], np.random.default_rng(0).random((40_000, 4))
    epss = np.array([draw_epss(p, a, b, c) for a, b, c, _ in u])
    cvss = np.array([draw_cvss(p, a, d) for a, _, _, d in u])
    assert epss.mean() == pytest.approx(mean_epss(p), rel=0.05)
    assert epss.min() >= 0.0 and epss.max() <= 0.9
    assert cvss.min() >= 0.0 and cvss.max() <= 10.0
    severe = u[:, 0] < p["severe_share"]
    assert epss[severe].min() >= 0.1 and (cvss[~severe] > 9.0).mean() > 0.1  # severity alone is a poor guide


def test_arrivals_come_at_their_rates() -> None:
    rates = {"vulnerability": 0.03, "exposure": 0.01, "decryption": 0.02, "logging_loss": 0.015}
    changes = {**INERT, "security__vulnerability_rate": 0.03}
    changes |= {f"drift__{k}_rate": v for k, v in rates.items() if k != "vulnerability"}
    sim = Simulator(scenario_of("medium", **changes), 256)
    sim.reset(np.arange(256))
    here = sim.state.resources["status"] != ABSENT
    queue = sim.state.resources["kind"] == QUEUE
    counts = dict.fromkeys(rates, 0)
    for _ in range(30):
        r = sim.state.resources
        r["exposed"], r["encrypted"], r["logging"], r["hidden_count"] = 0, 1, 1, 0
        idle(sim)
        counts["vulnerability"] += int(r["hidden_count"][here].sum())
        counts["exposure"] += int(r["exposed"][here].sum())
        counts["decryption"] += int((r["encrypted"][here & ~queue] == 0).sum())
        counts["logging_loss"] += int((r["logging"][here] == 0).sum())
        assert (r["encrypted"][here & queue] == 1).all() and not r["hidden_count"][queue].any()
    for name, rate in rates.items():
        n = 30 * int((here & ~queue).sum() if name in ("decryption", "vulnerability") else here.sum())
        assert counts[name] == pytest.approx(rate * n, rel=0.08), name


# ---------------------------------------------------------------- load


def test_the_constants_of_the_schema_are_those_of_the_base_scenario() -> None:
    base = yaml.safe_load((CONFIG_DIR / "scenario" / "base.yaml").read_text())
    flat = {**base, **{k: v for section in base.values() if isinstance(section, dict) for k, v in section.items()}}
    numbers = dict(leaves(Scenario()))
    assert {k: float(flat[k]) for k in numbers} == pytest.approx(numbers, rel=1e-12)  # yaml reads 2e-4 as text


def test_load_has_mean_one_and_the_amplitude_of_the_profile() -> None:
    table = sine_profile(0.4, 24)
    assert table.shape == (2, TICKS_PER_DAY)
    assert table[0].mean() == pytest.approx(1.0) and table[0].max() == pytest.approx(1.4)
    for t in (0, 100, 287):
        assert table[1, t] == max(table[0, (t + k) % TICKS_PER_DAY] for k in range(25))


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=40), st.integers(0, 60))
@settings(deadline=None)
def test_peaks_are_the_highest_load_within_the_horizon(load: list[float], horizon: int) -> None:
    table = with_peaks(np.array(load), horizon)
    for t in range(len(load)):
        assert table[1, t] == max(load[(t + k) % len(load)] for k in range(min(horizon, len(load) - 1) + 1))


def test_noise_is_an_autoregression_of_its_size() -> None:
    sim = Simulator(
        scenario_of("medium", **{**INERT, "load__noise_sd": 0.05, "load__noise_persistence": 0.9}), 512
    )
    sim.reset(np.arange(512))
    idle(sim, 60)
    a = sim.state.worlds["noise"].copy()
    assert a.std() == pytest.approx(0.05 / np.sqrt(1 - 0.81), rel=0.12)
    idle(sim)
    assert np.corrcoef(a, sim.state.worlds["noise"])[0, 1] == pytest.approx(0.9, abs=0.03)
    np.testing.assert_allclose(sim.state.worlds["load"], np.exp(sim.state.worlds["noise"]))


def test_bursts_last_and_lift_within_their_ranges() -> None:
    sim = Simulator(scenario_of("medium", **{**INERT, "load__bursts_per_tick": 0.02}), 256)
    sim.reset(np.arange(256))
    p, starts, bursting = sim.params[0], 0, np.zeros(256, bool)
    ticks = 0
    for _ in range(60):
        ticks += int((~bursting).sum())
        factor = sim.state.worlds["burst_factor"].copy()
        idle(sim)
        w = sim.state.worlds
        now = w["burst_ticks"] > 0
        fresh = now & ~bursting
        starts += int(fresh.sum())
        assert (w["burst"][now] >= p["burst_low"]).all() and (w["burst"][now] <= p["burst_high"]).all()
        assert (w["burst"][~now] == 1.0).all()
        assert (w["burst_ticks"][fresh] >= p["burst_ticks_min"]).all()
        assert (w["burst_ticks"][fresh] <= p["burst_ticks_max"]).all()
        bursting = now
    assert starts == pytest.approx(0.02 * factor.mean() * ticks, rel=0.15)
