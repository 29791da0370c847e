"""The safety rules, as functions that return the set of operations they forbid."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

from cloudrl.actions import N_OPS
from cloudrl.safety.layer import _LOAD_MIN as LOAD_MIN
from cloudrl.types import CACHE, CRASHED, DELETED, HARD, MAX_SIZE, QUEUE, RUNNING, STOPPED
from tests.twin.model import Group, Resource, World
from tests.twin.operations import (
    ANALYZE,
    DELETE,
    DISRUPTIVE,
    ENCRYPT,
    PATCH,
    RESIZE_DOWN,
    RESIZE_UP,
    RESTART,
    ROTATE_CREDS,
    START,
    STOP,
)

Ops = frozenset[int]
NONE: Ops = frozenset()
ALL: Ops = frozenset(range(N_OPS))
HARMFUL: Ops = DISRUPTIVE - {RESIZE_UP}
ONLY_DELETE, ONLY_STOP, ONLY_RESTART, ONLY_ROTATE = (
    frozenset({op}) for op in (DELETE, STOP, RESTART, ROTATE_CREDS)
)
NEED_RUNNING: Ops = frozenset({ANALYZE, PATCH, ENCRYPT, RESIZE_DOWN, RESIZE_UP, STOP})
UNMANAGED: Ops = frozenset({PATCH, RESTART, RESIZE_DOWN, RESIZE_UP})


class Site(NamedTuple):
    """A resource and what surrounds it."""

    p: SimpleNamespace
    w: World
    group: Group
    r: Resource
    others_free: int
    others_vcpu: float
    others_troubled: int
    peak: float  # vCPU that the group needs at the forecast peak
    dependency_unwell: bool
    antibody: Ops


def impossible(r: Resource, allowed: Ops) -> set[int]:
    """Operations that make no sense on `r` now."""
    if r.status >= DELETED or r.busy_ticks > 0:
        return set(ALL)
    ops = set(ALL - allowed)
    if r.status != RUNNING:
        ops |= NEED_RUNNING
        if r.status != CRASHED:
            ops.add(RESTART)
    if r.status != STOPPED:
        ops.add(START)
    if r.kind == QUEUE:
        ops |= UNMANAGED
    if r.kind in (CACHE, QUEUE):
        ops.add(STOP)
    if r.size == 0:
        ops.add(RESIZE_DOWN)
    if r.size == MAX_SIZE:
        ops.add(RESIZE_UP)
    return ops


def delete_in_use(s: Site) -> Ops:
    return NONE if s.group.idle else ONLY_DELETE


def delete_protected(s: Site) -> Ops:
    return ONLY_DELETE if s.r.data_bearing or s.r.critical else NONE


def scheduled_job(s: Site) -> Ops:
    start, now = s.r.job_start, s.w.tick
    if start < 0 or now >= start + s.p.job_ticks:
        return NONE
    return ONLY_DELETE | ONLY_STOP if now > start - s.p.job_guard_ticks else ONLY_DELETE


def last_replica(s: Site) -> Ops:
    return ONLY_STOP if not s.group.idle and (s.r.critical or s.others_free == 0) else NONE


def capacity(s: Site) -> Ops:
    if s.group.idle:
        return NONE
    ops = set()
    if s.peak > s.p.capacity_limit * s.others_vcpu:
        ops.add(STOP)
    if s.r.size > 0 and s.peak / (s.others_free + 1) > s.p.capacity_limit * 2.0 ** (s.r.size - 1):
        ops.add(RESIZE_DOWN)
    return frozenset(ops)


def replica_trouble(s: Site) -> Ops:
    return HARMFUL if s.others_troubled and not s.group.idle else NONE


def dependency_trouble(s: Site) -> Ops:
    return HARMFUL if s.dependency_unwell and not s.group.idle else NONE


def restart_loop(s: Site) -> Ops:
    return ONLY_RESTART if s.r.ticks_since_restart < s.p.restart_cooldown_ticks else NONE


def recovery_only(s: Site) -> Ops:
    outage = s.w.cascade or s.w.served < s.p.recovery_only_served
    return HARMFUL if outage and not s.group.idle else NONE


def change_budget(s: Site) -> Ops:
    return DISRUPTIVE if s.w.changes > s.p.change_budget and not s.group.idle else NONE


def rotation_cooldown(s: Site) -> Ops:
    return ONLY_ROTATE if s.r.credential_days < s.p.rotation_cooldown_days else NONE


def antibody(s: Site) -> Ops:
    return s.antibody & DISRUPTIVE if s.antibody else NONE


RULES: tuple[Callable[[Site], Ops], ...] = (
    delete_in_use, delete_protected, scheduled_job, last_replica, capacity, replica_trouble, dependency_trouble,
    restart_loop, recovery_only, change_budget, rotation_cooldown, antibody,
)  # fmt: skip


def look_around(p: SimpleNamespace, w: World, r: Resource, antibodies: Ops) -> Site:
    """Collect what the rules look at."""
    group = r.group
    free, vcpu, troubled = 0, 0.0, 0
    for other in group.members:
        if other is r:
            continue
        if other.serves:
            free += 1
            vcpu += other.vcpu
        elif other.status in (RUNNING, CRASHED):
            troubled += 1
    unwell = any(e.kind == HARD and e.target.availability < p.unhealthy_dependency for e in group.edges)
    peak = group.load / max(LOAD_MIN, w.load) * w.forecast_peak * p.forecast_margin * group.demand
    return Site(p, w, group, r, free, vcpu, troubled, peak, unwell, antibodies)


def judge(p: SimpleNamespace, w: World, antibodies: dict[Resource, Ops], allowed: Ops, rules_on: bool) -> None:
    """Refresh what is impossible and what is forbidden on every resource."""
    for r in w.resources:
        r.impossible = impossible(r, allowed)
        r.forbidden = set()
        if not rules_on or r.status >= DELETED:
            continue
        site = look_around(p, w, r, antibodies.get(r, NONE))
        for rule in RULES:
            r.forbidden |= rule(site)
        if r.status == CRASHED:
            r.forbidden.discard(RESTART)
