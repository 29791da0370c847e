"""A world from a shape and a seed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from cloudrl.scenarios.blueprint import Blueprints
from cloudrl.scenarios.generator import LEAK_CLASSES
from cloudrl.seeding import WORLD
from cloudrl.types import CACHE, CACHED, DATABASE, QUEUE, RUNNING, SOFT, STOPPED, VM
from tests.twin.model import Edge, Group, Resource, World
from tests.twin.risk import new_vulnerability
from tests.twin.streams import Luck, key_of_seed, log_uniform, uniform

QUEUE_UTILISATION = 0.1  # mean, of a managed queue
FIRST_JOB = 24  # ticks: no job starts within the first two hours
VULNERABILITIES_MAX = 12


class Shape:
    """One blueprint as Python objects."""

    def __init__(self, blueprints: Blueprints, template: int) -> None:
        head = blueprints.heads[template]
        self.template = template
        self.groups = _rows(blueprints.groups[template], int(head["n_groups"]))
        self.resources = _rows(blueprints.resources[template], int(head["n_resources"]))
        self.edges = _rows(blueprints.edges[template], int(head["n_edges"]))


def _rows(table: np.ndarray, n: int) -> list[SimpleNamespace]:
    names = table.dtype.names or ()
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in table[:n].tolist()]


def create(p: SimpleNamespace, shape: Shape, seed: int, period: int) -> World:
    """Throw the first dice. `period`: ticks of the load profile."""
    luck = Luck(key_of_seed(seed))
    resources = [_resource(p, luck, plan, i) for i, plan in enumerate(shape.resources)]
    groups = _connect(p, luck, shape, resources)
    w = World(luck, seed, shape.template, groups, resources)
    draws = luck.stream(WORLD, 0)
    w.phase = float(math.floor(period * uniform(draws, 0, 0)))
    for r in resources:
        if r.status == RUNNING:
            w.base_cost += r.unit_price * (1.0 if r.kind == QUEUE else r.vcpu)
    w.value = log_uniform(uniform(draws, 0, 1), p.value_low, p.value_high) * w.base_cost
    w.breach_factor = log_uniform(uniform(draws, 0, 2), p.breach_factor_low, p.breach_factor_high)
    w.labour_factor = log_uniform(uniform(draws, 0, 3), p.labour_factor_low, p.labour_factor_high)
    w.burst_factor = log_uniform(uniform(draws, 0, 4), p.burst_factor_low, p.burst_factor_high)
    w.log_value = 0.25 * math.log(w.value / w.base_cost)
    w.log_breach = math.log(w.breach_factor)
    w.log_burst = math.log(w.burst_factor)
    w.log_cost = math.log(w.base_cost)
    return w


def _resource(p: SimpleNamespace, luck: Luck, plan: SimpleNamespace, i: int) -> Resource:
    draws = luck.stream(WORLD, 1)
    r = Resource(
        i, plan.kind, bool(plan.critical), bool(plan.data_bearing), bool(plan.multi_az), bool(plan.idle),
        status=STOPPED if plan.stopped else RUNNING,
    )  # fmt: skip
    r.serving = 0.0 if plan.stopped else 1.0
    if plan.size >= 0:
        r.size = plan.size
    else:  # replicas of a group are of one size
        u = uniform(luck.stream(WORLD, 3), plan.group, 0)
        r.size = 1 if u < p.size_2 else 2 if u < p.size_2 + p.size_4 else 3
    if plan.price >= 0.0:
        r.unit_price = plan.price
    else:
        table = {VM: p.vm_vcpu_hour, DATABASE: p.database_vcpu_hour, CACHE: p.cache_vcpu_hour, QUEUE: p.queue_hour}
        r.unit_price = table[r.kind] * p.multi_az_factor if r.multi_az else table[r.kind]
    if plan.front:
        r.exposure_base = p.exposure_front
    else:
        r.exposure_base = p.exposure_service if r.kind == VM else p.exposure_isolated
    if r.kind != QUEUE:
        u = uniform(draws, i, 0)
        r.leak = p.health_leak * LEAK_CLASSES[0 if u < 0.5 else 1 if u < 0.8 else 2]
    r.health = p.initial_health_low + (1.0 - p.initial_health_low) * uniform(draws, i, 1)
    r.exposed = uniform(draws, i, 2) < (plan.exposed if plan.exposed >= 0 else p.initial_exposed)
    r.encrypted = uniform(draws, i, 3) < (plan.encrypted if plan.encrypted >= 0 else p.initial_encrypted)
    r.logging = uniform(draws, i, 4) < (plan.logging if plan.logging >= 0 else p.initial_logged)
    r.exposure_seen = r.exposed and r.logging
    if plan.credential_days >= 0:
        r.credential_days = plan.credential_days
    else:
        r.credential_days = p.initial_credential_days * uniform(draws, i, 5)
    if r.idle and r.kind == VM and uniform(draws, i, 6) < (plan.job if plan.job >= 0 else p.job_probability):
        span = max(0, p.ticks - p.job_ticks - FIRST_JOB)
        r.job_start = FIRST_JOB + math.floor(span * uniform(draws, i, 7))
    r.lag = math.floor((p.lag_ticks_max + 1) * uniform(draws, i, 8))
    if r.kind == QUEUE:  # managed: no holes of its own
        return r
    r.hidden_count = _poisson(p.initial_vulnerabilities, uniform(draws, i, 9))
    for k in range(r.hidden_count):
        hole = luck.stream(WORLD, 4 + k)
        epss, cvss = new_vulnerability(p, *(uniform(hole, i, slot) for slot in range(4)))
        r.hidden_epss += epss
        r.hidden_cvss = max(r.hidden_cvss, cvss)
    return r


def _connect(p: SimpleNamespace, luck: Luck, shape: Shape, resources: list[Resource]) -> list[Group]:
    groups = []
    for g, plan in enumerate(shape.groups):
        members = resources[plan.first : plan.first + plan.count]
        group = Group(
            g, bool(plan.idle), plan.entry_share, members, weight=plan.entry_share, load=plan.entry_share
        )
        for r in members:
            r.group = group
        groups.append(group)
    draws = luck.stream(WORLD, 2)
    for e, plan in enumerate(shape.edges):
        calls = plan.calls_low + (plan.calls_high - plan.calls_low) * uniform(draws, e, 0)
        cache = resources[plan.cache] if plan.cache >= 0 else None
        groups[plan.source].edges.append(Edge(groups[plan.target], plan.kind, calls, cache))
        groups[plan.target].dependents += 1
    draws = luck.stream(WORLD, 3)
    for group, plan in zip(groups, shape.groups, strict=True):  # callers first: their load is complete
        for edge in group.edges:
            through_cache = 1.0 if edge.cache is None else 1.0 - p.cache_hit
            edge.target.load += group.load * edge.calls * through_cache
            edge.target.weight += group.weight * edge.calls * dependency_weight(p, edge.kind)
        lead = group.members[0]
        if plan.utilisation >= 0.0:
            target = plan.utilisation
        elif lead.kind == QUEUE:
            target = QUEUE_UTILISATION
        else:
            target = p.utilisation_low + (p.utilisation_high - p.utilisation_low) * uniform(draws, group.index, 2)
        if group.load > 0.0:
            group.demand = target * lead.vcpu * len(group.members) / group.load
        for r in group.members:
            r.utilisation = target if group.load > 0.0 else 0.0
            r.fill_past()
    return groups


def dependency_weight(p: SimpleNamespace, kind: int) -> float:
    """Part of a caller's availability that hangs on one call."""
    return p.soft_weight if kind == SOFT else p.cache_weight if kind == CACHED else 1.0


def _poisson(mean: float, u: float) -> int:
    """Inversion of the distribution function."""
    n, term = 0, math.exp(-mean)
    below = term
    while u > below and n < VULNERABILITIES_MAX:
        n += 1
        term *= mean / n
        below += term
    return n
