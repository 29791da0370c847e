"""Each safety rule and each precondition in a world set by hand, and the layer's order of the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloudrl import ImmuneMemory, Simulator, engine
from cloudrl.actions import ALL_OPS, DISRUPTIVE_OPS, N_OPS, Op, contains
from cloudrl.jit import kernel
from cloudrl.memory.signature import context
from cloudrl.safety.layer import N_RULES, Verdict, new_scratch, survey, without
from cloudrl.safety.rule import SEVERITIES
from cloudrl.safety.rules import RULES
from cloudrl.types import (
    ADMISSIBLE,
    CACHE,
    CRASHED,
    DATABASE,
    DELETED,
    HARD,
    INVALID,
    MAX_SIZE,
    QUEUE,
    STOPPED,
    VETOED,
    VM,
)
from tests.core.play import WORLDS, play, scenario_of, seed_of


class Hand:
    """A calm shop whose parts a test sets by hand."""

    def __init__(self) -> None:
        scenario = scenario_of("medium", topology__train=["shop"], jobs__job_probability=1.0)
        self.memory = ImmuneMemory()
        self.sim = Simulator(scenario, memory=self.memory)
        self.sim.reset([2])
        state = self.sim.state
        self.w, self.p = state.worlds[0], self.sim.params[0]
        self.resources, self.groups, self.edges = state.resources[0], state.groups[0], state.edges[0]
        self.resources["credential_days"] = 100.0
        self.resources["size"] = 2
        self.groups["load"] = 0.0  # nothing is near its capacity
        self.idle = self.find(lambda r, g: r["kind"] == VM and r["idle"])
        self.data = self.find(lambda r, g: r["kind"] == DATABASE and r["data_bearing"])
        self.replica = self.find(lambda r, g: r["kind"] == VM and g["count"] > 1)
        self.lonely = self.find(
            lambda r, g: r["kind"] == VM and g["count"] == 1 and not r["critical"] and not r["idle"]
        )

    def find(self, test: Callable[[np.void, np.void], Any]) -> int:
        r = self.resources
        return next(i for i in range(int(self.w["n_resources"])) if test(r[i], self.groups[r[i]["group"]]))

    def group(self, slot: int) -> np.void:
        return self.groups[self.resources[slot]["group"]]

    def set(self, slot: int, **fields: Any) -> None:
        for name, value in fields.items():
            self.resources[slot][name] = value

    def targets(self, slot: int, hard: bool) -> list[np.void]:
        """Groups on which a resource's group depends, hard or otherwise."""
        g = self.group(slot)
        edges = self.edges[g["edge_first"] : g["edge_first"] + g["edge_count"]]
        return [self.groups[e["target"]] for e in edges if (e["kind"] == HARD) == hard]

    def broken(self, slot: int, op: Op) -> tuple[str, ...]:
        """Ids of the rules that forbid `op` on `slot`, by the verdict."""
        self.sim.look()
        verdict = self.sim.verdict(0, slot * N_OPS + op)
        assert verdict.code != INVALID, verdict.reason
        assert verdict.reason == "; ".join(rule.reason for rule in RULES if rule.id in verdict.rules)
        return verdict.rules


Case = tuple[str, str, Op, Callable[[Hand, bool], None]]
CASES: list[Case] = []


def case(
    rule: str, where: str, *ops: Op
) -> Callable[[Callable[[Hand, bool], None]], Callable[[Hand, bool], None]]:
    """A pair of states: with `danger` the rule forbids each op on the resource `where`, without it does not."""

    def add(set_up: Callable[[Hand, bool], None]) -> Callable[[Hand, bool], None]:
        CASES.extend((rule, where, op, set_up) for op in ops)
        return set_up

    return add


@case("delete_in_use", "replica", Op.DELETE)
def in_use(h: Hand, danger: bool) -> None:
    h.group(h.replica)["idle"] = not danger


@case("delete_protected", "data", Op.DELETE)
def holds_data(h: Hand, danger: bool) -> None:
    h.set(h.data, data_bearing=danger, critical=False)


@case("delete_protected", "idle", Op.DELETE)
def critical(h: Hand, danger: bool) -> None:
    h.set(h.idle, critical=danger)


@case("scheduled_job", "idle", Op.DELETE)
def job_ahead(h: Hand, danger: bool) -> None:
    h.set(h.idle, job_start=100 if danger else -1)


@case("scheduled_job", "idle", Op.DELETE, Op.STOP)
def job_running(h: Hand, danger: bool) -> None:
    h.set(h.idle, job_start=100)
    h.w["tick"] = 100 + h.p["job_ticks"] - (1 if danger else 0)


@case("scheduled_job", "idle", Op.STOP)
def job_near(h: Hand, danger: bool) -> None:
    h.set(h.idle, job_start=100)
    h.w["tick"] = 100 - h.p["job_guard_ticks"] + (1 if danger else 0)


@case("last_replica", "lonely", Op.STOP)
def no_replica(h: Hand, danger: bool) -> None:
    h.group(h.lonely)["idle"] = not danger


@case("last_replica", "replica", Op.STOP)
def critical_replica(h: Hand, danger: bool) -> None:
    h.set(h.replica, critical=danger)


@case("last_replica", "replica", Op.STOP)
def others_stopped(h: Hand, danger: bool) -> None:
    g = h.group(h.replica)
    for slot in range(h.replica + 1, g["first"] + g["count"]):
        h.set(slot, status=STOPPED)
    if not danger:
        h.set(h.replica + 1, status=0)


def need(h: Hand, slot: int, vcpu: float) -> None:
    """Let the group of `slot` need this many vCPU at the forecast peak, margin included."""
    g = h.group(slot)
    h.w["load"], g["load"], g["demand"] = 1.0, 1.0, 1.0
    h.w["forecast_peak"] = vcpu / h.p["forecast_margin"]


@case("capacity", "replica", Op.STOP)
def peak_above_the_others(h: Hand, danger: bool) -> None:
    others = (h.group(h.replica)["count"] - 1) * 2.0 ** h.resources[h.replica]["size"]
    need(h, h.replica, h.p["capacity_limit"] * others * (1.01 if danger else 0.99))


@case("capacity", "replica", Op.RESIZE_DOWN)
def peak_above_half_a_machine(h: Hand, danger: bool) -> None:
    half = 2.0 ** (h.resources[h.replica]["size"] - 1)
    need(h, h.replica, h.p["capacity_limit"] * half * h.group(h.replica)["count"] * (1.01 if danger else 0.99))


@case("replica_trouble", "replica", Op.PATCH, Op.STOP, Op.RESTART, Op.RESIZE_DOWN, Op.ENCRYPT)
def neighbour_crashed(h: Hand, danger: bool) -> None:
    h.set(h.replica + 1, status=CRASHED if danger else STOPPED)


@case("replica_trouble", "replica", Op.PATCH)
def neighbour_busy(h: Hand, danger: bool) -> None:
    h.set(h.replica + 1, busy_ticks=int(danger))


@case("dependency_trouble", "lonely", Op.PATCH, Op.RESTART, Op.RESIZE_DOWN)
def dependency_down(h: Hand, danger: bool) -> None:
    h.targets(h.lonely, hard=True)[0]["availability"] = h.p["unhealthy_dependency"] - (0.01 if danger else 0.0)


@case("restart_loop", "replica", Op.RESTART)
def restarted_before(h: Hand, danger: bool) -> None:
    h.set(h.replica, ticks_since_restart=h.p["restart_cooldown_ticks"] - (1 if danger else 0))


@case("recovery_only", "replica", Op.PATCH, Op.ENCRYPT, Op.DELETE)
def cascade(h: Hand, danger: bool) -> None:
    h.w["cascade"] = danger


@case("recovery_only", "replica", Op.RESIZE_DOWN)
def outage(h: Hand, danger: bool) -> None:
    h.w["served"] = h.p["recovery_only_served"] - (0.01 if danger else 0.0)


@case("change_budget", "replica", Op.RESIZE_UP, Op.PATCH, Op.RESTART)
def many_changes(h: Hand, danger: bool) -> None:
    h.w["changes"] = h.p["change_budget"] + (0.01 if danger else 0.0)


@case("rotation_cooldown", "replica", Op.ROTATE_CREDS)
def fresh_credentials(h: Hand, danger: bool) -> None:
    h.set(h.replica, credential_days=h.p["rotation_cooldown_days"] - (0.1 if danger else 0.0))


@case("antibody", "replica", Op.PATCH)
def failed_before(h: Hand, danger: bool) -> None:
    r = h.resources[h.replica]
    h.memory.tables.antibodies[context(h.group(h.replica), r)] = 1 << (Op.PATCH if danger else Op.STOP)


@pytest.mark.parametrize(
    ("rule", "where", "op", "set_up"), CASES, ids=[f"{c[0]}-{c[3].__name__}-{c[2].name}" for c in CASES]
)
def test_a_rule_forbids_in_danger_and_not_without(
    rule: str, where: str, op: Op, set_up: Callable[[Hand, bool], None]
) -> None:
    dangerous, safe = Hand(), Hand()
    set_up(dangerous, True)
    set_up(safe, False)
    assert rule in dangerous.broken(getattr(dangerous, where), op)
    assert rule not in safe.broken(getattr(safe, where), op)


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, *_ in CASES} == {rule.id for rule in RULES}


def test_rules_have_their_own_ids_and_reasons() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.reason for rule in RULES}) == len(RULES) == N_RULES
    assert {rule.severity for rule in RULES} == set(SEVERITIES)


def test_a_verdict_has_the_severity_of_its_worst_rule() -> None:
    assert Verdict(VETOED, ("rotation_cooldown",)).severity == "medium"
    assert Verdict(VETOED, ("change_budget", "capacity", "restart_loop")).severity == "high"
    assert Verdict(VETOED, ("capacity", "delete_in_use", "antibody")).severity == "critical"
    assert Verdict(ADMISSIBLE).severity == Verdict(INVALID, reason="no such action").severity == ""


@pytest.mark.parametrize("set_up", [neighbour_crashed, cascade, outage, many_changes])
def test_idle_machines_are_not_bound_by_rules_about_traffic(set_up: Callable[[Hand, bool], None]) -> None:
    h = Hand()
    h.set(h.idle, job_start=-1)
    set_up(h, True)
    for op in (Op.DELETE, Op.STOP, Op.PATCH, Op.RESTART, Op.RESIZE_DOWN):
        assert h.broken(h.idle, op) == ()


def test_a_soft_dependency_in_trouble_forbids_nothing() -> None:
    h = Hand()
    for target in h.targets(h.lonely, hard=False):
        target["availability"] = 0.0
    assert "dependency_trouble" not in h.broken(h.lonely, Op.PATCH)


def test_a_crashed_resource_may_always_be_restarted() -> None:
    h = Hand()
    for set_up in (dependency_down, cascade, many_changes):
        set_up(h, True)
    h.set(h.lonely, ticks_since_restart=0)
    all_four = {"recovery_only", "change_budget", "restart_loop", "dependency_trouble"}
    assert all_four <= set(h.broken(h.lonely, Op.RESTART))
    h.set(h.lonely, status=CRASHED)
    assert h.broken(h.lonely, Op.RESTART) == ()


@pytest.mark.parametrize("op", [Op.ANALYZE, Op.ROTATE_CREDS, Op.ENABLE_LOGGING, Op.RESTRICT_ACCESS])
def test_looking_and_locking_down_are_free_in_an_outage(op: Op) -> None:
    h = Hand()
    for set_up in (neighbour_crashed, cascade, outage, many_changes):
        set_up(h, True)
    assert not contains(DISRUPTIVE_OPS, op)
    assert h.broken(h.replica, op) == ()


def test_more_capacity_may_be_added_in_an_outage() -> None:
    h = Hand()
    for set_up in (neighbour_crashed, cascade, outage, dependency_down):
        set_up(h, True)
    assert h.broken(h.replica, Op.RESIZE_UP) == ()
    assert h.broken(h.lonely, Op.RESIZE_UP) == ()


# ---------------------------------------------------------------- preconditions

ALWAYS = {Op.ROTATE_CREDS, Op.DELETE, Op.ENABLE_LOGGING, Op.RESTRICT_ACCESS}
RUNS = ALWAYS | {Op.ANALYZE, Op.PATCH, Op.ENCRYPT, Op.RESTART, Op.RESIZE_DOWN, Op.RESIZE_UP, Op.STOP}


@pytest.mark.parametrize(
    ("change", "possible"),
    [
        ({}, RUNS),
        ({"status": STOPPED}, ALWAYS | {Op.START}),
        ({"status": CRASHED}, ALWAYS | {Op.RESTART}),
        ({"status": DELETED}, set()),
        ({"busy_ticks": 1}, set()),
        ({"size": 0}, RUNS - {Op.RESIZE_DOWN}),
        ({"size": MAX_SIZE}, RUNS - {Op.RESIZE_UP}),
        ({"kind": CACHE}, RUNS - {Op.STOP}),
        ({"kind": QUEUE}, ALWAYS | {Op.ANALYZE, Op.ENCRYPT}),
    ],
    ids=lambda x: ",".join(f"{k}={v}" for k, v in x.items()) or "running" if isinstance(x, dict) else "",
)
def test_what_is_possible_in_each_state(change: dict[str, int], possible: set[Op]) -> None:
    h = Hand()
    h.set(h.lonely, **change)
    h.sim.look()
    found = ALL_OPS & ~int(h.resources[h.lonely]["impossible"])
    assert {Op(k) for k in range(N_OPS) if contains(found, k)} == possible


# ---------------------------------------------------------------- the layer asks the same rules


@kernel
def surroundings(p, w, groups, resources, edges, i, antibodies):  # type: ignore[no-untyped-def]
    whole = survey(p, w, groups, resources, edges, resources[i].group)
    return without(whole, resources[i], antibodies[i])


@pytest.mark.parametrize("name", WORLDS)
def test_the_layer_asks_the_rules_in_their_order(name: str) -> None:
    sim = Simulator(scenario_of(name), 3)
    sim.reset([seed_of(b, b) for b in range(3)])
    play(sim, 40, seed=1, noop_share=0.2)
    state, p, scratch = sim.state, sim.params[0], new_scratch()
    antibodies = np.resize(np.array([0, 1 << Op.PATCH, ALL_OPS]), sim.n_slots)
    for b in range(sim.n_worlds):
        w, groups, resources, edges = state.worlds[b], state.groups[b], state.resources[b], state.edges[b]
        for i in range(w["n_resources"]):
            r = resources[i]
            if r["status"] >= DELETED:
                continue
            engine.broken_rules(p, w, groups, resources, edges, antibodies, i, scratch)
            around = surroundings(p, w, groups, resources, edges, i, antibodies)
            spared = 1 << Op.RESTART if r["status"] == CRASHED else 0
            alone = [int(rule.forbids(p, w, groups[r["group"]], around, r)) & ~spared for rule in RULES]
            assert scratch.tolist() == alone
