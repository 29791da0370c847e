"""From a blueprint and a seed to a world: the kernel that throws the first dice.

All draws come from the WORLD stream of the seed's key; "tick" 0 of that stream holds the world's own draws,
1 the resources', 2 the dependencies', 3 the groups', 4 and up the vulnerabilities that are there from the start.
"""

from __future__ import annotations

import math

from cloudrl.actions import ALL_OPS
from cloudrl.jit import kernel
from cloudrl.measurements import (
    UNANALYZED_TICKS,
    dependency_weight,
    draw_cvss,
    draw_epss,
    list_price,
    vcpu,
)
from cloudrl.scenarios.blueprint import UNSET
from cloudrl.seeding import WORLD, log_uniform, stream, uniform, world_key
from cloudrl.types import ABSENT, CACHE, DATABASE, LAG, QUEUE, RUNNING, STOPPED, VM

_NEVER = 10_000  # ticks since the last restart
_VULNERABILITIES_MAX = 12
_QUEUE_UTILISATION = 0.1
_SIZE_DRAW, _JOB_DRAW = 0, 1  # first slots of the groups' stream
LEAK_CLASSES = (0.3, 1.0, 3.0)  # x mean leak, with probabilities 1/2, 3/10, 1/5


@kernel
def populate(p, sizes, blueprints, template, seed, profile_length, w, groups, resources, edges):  # type: ignore[no-untyped-def]
    """Fill world `w` and its arrays from shape `template`.

    `sizes`: cumulative probabilities of 2 and 4 vCPU.
    """
    head = blueprints.heads[template]
    key = world_key(seed)
    w.seed = seed
    w.key = key
    w.template = template
    w.n_resources = head.n_resources
    w.n_groups = head.n_groups
    w.tick = 0
    draws = stream(key, WORLD, 0)
    w.phase = math.floor(profile_length * uniform(draws, 0, 0))
    w.noise = 0.0
    w.burst = 1.0
    w.burst_ticks = 0
    w.load = 1.0  # nothing has been played: as if the mean had come, and been forecast
    w.forecast_now = 1.0
    w.served = 1.0
    w.slow = 0.0
    w.changes = 0.0
    w.cascade = 0
    w.cascade_root = -1
    w.cascade_blast = 0.0
    clear_totals(w)
    for i in range(resources.shape[0]):
        resources[i].status = ABSENT
        resources[i].impossible = ALL_OPS
        resources[i].forbidden = 0
    _place(p, sizes, blueprints, template, key, resources, head.n_resources)
    _connect(blueprints, template, key, groups, edges)
    _weigh(p, key, blueprints, template, w, groups, resources, edges)
    w.base_cost = 0.0
    for i in range(w.n_resources):
        if resources[i].status == RUNNING:
            w.base_cost += list_price(resources[i])
    w.value = log_uniform(uniform(draws, 0, 1), p.value_low, p.value_high) * w.base_cost
    w.breach_factor = log_uniform(uniform(draws, 0, 2), p.breach_factor_low, p.breach_factor_high)
    w.labour_factor = log_uniform(uniform(draws, 0, 3), p.labour_factor_low, p.labour_factor_high)
    w.burst_factor = log_uniform(uniform(draws, 0, 4), p.burst_factor_low, p.burst_factor_high)
    w.log_value = 0.25 * math.log(w.value / w.base_cost)
    w.log_breach = math.log(w.breach_factor)
    w.log_burst = math.log(w.burst_factor)
    w.log_cost = math.log(w.base_cost)


@kernel
def clear_totals(w):  # type: ignore[no-untyped-def]
    """Zero what a world has counted so far."""
    w.tick_infrastructure = 0.0
    w.tick_outage = 0.0
    w.tick_exposure = 0.0
    w.tick_labour = 0.0
    w.reward_cost = 0.0
    w.reward_security = 0.0
    w.reward_reliability = 0.0
    w.reward_action = 0.0
    w.reward_failure = 0.0
    w.reward = 0.0
    w.executed = -1
    w.verdict = 0
    w.tick_crashes = 0
    w.tick_breaches = 0
    w.tick_cascades = 0
    w.infrastructure = 0.0
    w.outage = 0.0
    w.exposure = 0.0
    w.labour = 0.0
    w.breach_realised = 0.0
    w.reward_total = 0.0
    w.served_traffic = 0.0
    w.traffic = 0.0
    w.exposure_hours = 0.0
    w.crashes = 0
    w.breaches = 0
    w.cascades = 0
    w.max_blast = 0.0
    w.operations = 0
    w.disruptions = 0
    w.invalid = 0
    w.vetoed = 0
    w.violations = 0
    w.data_losses = 0


@kernel
def _place(p, sizes, blueprints, template, key, resources, n_resources):  # type: ignore[no-untyped-def]
    """Resources: fixed fields from the blueprint, first state from the scenario's distribution."""
    draws = stream(key, WORLD, 1)
    group_draws = stream(key, WORLD, 3)
    for i in range(n_resources):
        plan = blueprints.resources[template, i]
        r = resources[i]
        r.kind = plan.kind
        r.critical = plan.critical
        r.data_bearing = plan.data_bearing
        r.multi_az = plan.multi_az
        r.idle = plan.idle
        r.group = plan.group
        r.status = STOPPED if plan.stopped else RUNNING
        r.size = plan.size if plan.size != UNSET else draw_size(sizes, uniform(group_draws, r.group, _SIZE_DRAW))
        r.unit_price = plan.price if plan.price >= 0.0 else table_price(p, r)
        if plan.front:
            r.exposure_base = p.exposure_front
        else:
            r.exposure_base = p.exposure_service if r.kind == VM else p.exposure_isolated
        u = uniform(draws, i, 0)
        scale = LEAK_CLASSES[0] if u < 0.5 else (LEAK_CLASSES[1] if u < 0.8 else LEAK_CLASSES[2])
        r.leak = 0.0 if r.kind == QUEUE else p.health_leak * scale
        r.health = p.initial_health_low + (1.0 - p.initial_health_low) * uniform(draws, i, 1)
        r.exposed = 1 if uniform(draws, i, 2) < given(plan.exposed, p.initial_exposed) else 0
        r.encrypted = 1 if uniform(draws, i, 3) < given(plan.encrypted, p.initial_encrypted) else 0
        r.logging = 1 if uniform(draws, i, 4) < given(plan.logging, p.initial_logged) else 0
        u = uniform(draws, i, 5)
        r.credential_days = plan.credential_days if plan.credential_days >= 0.0 else p.initial_credential_days * u
        r.exposure_seen = r.exposed if r.logging else 0
        job = given(plan.job, p.job_probability) if r.idle and r.kind == VM else 0.0
        has_job = uniform(draws, i, 6) < job
        r.job_start = 0
        if has_job:  # somewhere in the episode, not in its first two hours
            span = max(0, p.ticks - p.job_ticks - 24)
            r.job_start = 24 + int(math.floor(span * uniform(draws, i, 7)))
        else:
            r.job_start = -1
        r.lag = int(math.floor((p.lag_ticks_max + 1) * uniform(draws, i, 8)))
        r.busy_op = 0
        r.busy_ticks = 0
        r.repair_ticks = 0
        r.overload_ticks = 0
        r.incident = 0
        r.hold = 0
        r.warmth = 1.0
        r.serving = 1.0 if r.status == RUNNING else 0.0
        r.utilisation = 0.0
        r.latency = 1.0
        r.known_count = 0
        r.known_epss = 0.0
        r.known_cvss = 0.0
        r.ticks_since_analyze = UNANALYZED_TICKS
        r.ticks_since_restart = _NEVER
        r.alarm = 0
        r.memory_risk = 0.0
        _infect(p, key, r, i)


@kernel
def _infect(p, key, r, i):  # type: ignore[no-untyped-def]
    """Vulnerabilities that are there from the start, hidden: a Poisson number; none on a managed queue."""
    r.hidden_count = 0
    if r.kind != QUEUE:
        r.hidden_count = poisson(p.initial_vulnerabilities, uniform(stream(key, WORLD, 1), i, 9))
    r.hidden_epss = 0.0
    r.hidden_cvss = 0.0
    for k in range(r.hidden_count):
        draws = stream(key, WORLD, 4 + k)
        u_severe = uniform(draws, i, 0)
        r.hidden_epss += draw_epss(p, u_severe, uniform(draws, i, 1), uniform(draws, i, 2))
        r.hidden_cvss = max(r.hidden_cvss, draw_cvss(p, u_severe, uniform(draws, i, 3)))


@kernel
def _connect(blueprints, template, key, groups, edges):  # type: ignore[no-untyped-def]
    """Groups and their dependencies."""
    head = blueprints.heads[template]
    draws = stream(key, WORLD, 2)
    for g in range(groups.shape[0]):
        plan = blueprints.groups[template, g]
        group = groups[g]
        group.first = plan.first
        group.count = plan.count if g < head.n_groups else 0
        group.edge_first = plan.edge_first
        group.edge_count = plan.edge_count if g < head.n_groups else 0
        group.idle = plan.idle
        group.entry_share = plan.entry_share
        group.dependents = 0
        group.weight = plan.entry_share
        group.load = plan.entry_share
        group.capability = 1.0
        group.slow_self = 0.0
        group.availability = 1.0
        group.slow = 0.0
    for e in range(head.n_edges):
        plan = blueprints.edges[template, e]
        edge = edges[e]
        edge.target = plan.target
        edge.kind = plan.kind
        edge.calls = plan.calls_low + (plan.calls_high - plan.calls_low) * uniform(draws, e, 0)
        edge.cache = plan.cache
        groups[edge.target].dependents += 1


@kernel
def _weigh(p, key, blueprints, template, w, groups, resources, edges):  # type: ignore[no-untyped-def]
    """Nominal load, traffic weight and demand of each group, front to back; utilisation as drawn or written."""
    draws = stream(key, WORLD, 3)
    for g in range(w.n_groups):
        group = groups[g]
        lead = resources[group.first]
        for e in range(group.edge_first, group.edge_first + group.edge_count):
            edge = edges[e]
            calls = group.load * edge.calls
            if edge.cache >= 0:
                calls *= 1.0 - p.cache_hit
            groups[edge.target].load += calls
            groups[edge.target].weight += group.weight * edge.calls * dependency_weight(p, edge.kind)
        target = blueprints.groups[template, g].utilisation
        if target < 0.0:
            if lead.kind == QUEUE:
                target = _QUEUE_UTILISATION
            else:
                u = uniform(draws, g, 2)
                target = p.utilisation_low + (p.utilisation_high - p.utilisation_low) * u
        group.demand = target * vcpu(lead.size) * group.count / group.load if group.load > 0.0 else 0.0
        for i in range(group.first, group.first + group.count):
            r = resources[i]
            r.utilisation = target if group.load > 0.0 else 0.0
            for k in range(LAG + 1):
                r.past_health[k] = r.health
                r.past_utilisation[k] = r.utilisation
                r.past_latency[k] = r.latency


@kernel
def given(written, default):  # type: ignore[no-untyped-def]
    """What the blueprint says, or the scenario's default."""
    return written if written >= 0.0 else default


@kernel
def draw_size(sizes, u):  # type: ignore[no-untyped-def]
    """1, 2 or 3 (2, 4, 8 vCPU)."""
    if u < sizes[0]:
        return 1
    return 2 if u < sizes[1] else 3


@kernel
def table_price(p, r):  # type: ignore[no-untyped-def]
    """$ per hour and vCPU from the price table (per queue for queues)."""
    price = p.vm_vcpu_hour
    if r.kind == DATABASE:
        price = p.database_vcpu_hour
    elif r.kind == CACHE:
        price = p.cache_vcpu_hour
    elif r.kind == QUEUE:
        price = p.queue_hour
    return price * p.multi_az_factor if r.multi_az else price


@kernel
def poisson(mean, u):  # type: ignore[no-untyped-def]
    """Poisson number from one uniform, by inversion."""
    n, term = 0, math.exp(-mean)
    total = term
    while u > total and n < _VULNERABILITIES_MAX:
        n += 1
        term *= mean / n
        total += term
    return n
