"""Traffic through the dependency graph: queueing front to back, availability back to front.

Utilisation rho = load demand / capacity. Response over service time follows R/S = 1 / (1 - rho^c) with c
servers (exact for c = 1, 2; B. Schwartz, "The Square Root Staffing Law and other queueing rules", xaprb.com).
Above rho = 1 the excess is dropped, above 0.9 a small part of it.
Availability of group i: a_i = own_i prod_j (1 - w_ij (1 - a_j)), w = calls x {hard 1, soft 0.3, cache 0.2}.
"""

from __future__ import annotations

from cloudrl.jit import kernel
from cloudrl.measurements import capacity, dependency_weight, downtime
from cloudrl.types import CACHED, RUNNING

UTILISATION_CAP = 0.98  # in the queueing formula only
DROP_FROM, DROP_MAX = 0.9, 0.02
IDLE_UTILISATION = 0.03


@kernel
def serving_share(p, r):  # type: ignore[no-untyped-def]
    """Share of this tick in which the resource serves, 0..1."""
    share = 1.0 if r.status == RUNNING else 0.0
    if r.busy_ticks > 0 and share > 0.0:
        share *= 1.0 - downtime(p, r, r.busy_op, r.busy_ticks)
    if r.hold:
        share *= 0.5
        r.hold = 0
    return share


@kernel
def response_ratio(utilisation, size):  # type: ignore[no-untyped-def]
    """R/S of a machine with 2**size servers."""
    power = min(utilisation, UTILISATION_CAP)
    for _ in range(size):
        power *= power
    return 1.0 / (1.0 - power)


@kernel
def dropped_share(utilisation):  # type: ignore[no-untyped-def]
    """Share of the load that a machine drops."""
    drop = DROP_MAX * max(0.0, min(1.0, (utilisation - DROP_FROM) / (1.0 - DROP_FROM)))
    if utilisation > 1.0:
        drop += 1.0 - 1.0 / utilisation
    return min(1.0, drop)


@kernel
def route(p, w, groups, resources, edges):  # type: ignore[no-untyped-def]
    """Send this tick's traffic from the entries to the back; fill load, utilisation, latency, capability."""
    for i in range(w.n_resources):  # first who is up: a cache that is down sends its calls on in the same tick
        r = resources[i]
        r.serving = serving_share(p, r)
        r.utilisation = 0.0
        r.latency = 1.0
    lost = 1.0 - w.served
    retries = min(p.retry_cap, 1.0 + lost + lost * lost + lost * lost * lost)
    for g in range(w.n_groups):
        groups[g].load = groups[g].entry_share * w.load * retries
    for g in range(w.n_groups):
        group = groups[g]
        up = 0.0
        for i in range(group.first, group.first + group.count):
            up += resources[i].serving
        if group.idle:
            group.capability = min(1.0, up)
            group.slow_self = 0.0
            for i in range(group.first, group.first + group.count):
                if resources[i].serving > 0.0:
                    resources[i].utilisation = IDLE_UTILISATION
            continue
        served, late = 0.0, 0.0
        if up > 0.0:
            for i in range(group.first, group.first + group.count):
                r = resources[i]
                if r.serving <= 0.0:
                    continue
                r.utilisation = group.load * group.demand / up / capacity(p, r)
                r.latency = response_ratio(r.utilisation, r.size)
                served += (1.0 - dropped_share(r.utilisation)) * r.serving
                if r.latency > p.slow_response_ratio:
                    late += r.serving
            late /= up
            served = min(1.0, up) * served / up
        group.capability = served
        group.slow_self = late
        for e in range(group.edge_first, group.edge_first + group.edge_count):
            edge = edges[e]
            calls = group.load * served * edge.calls
            if edge.cache >= 0:
                cache = resources[edge.cache]
                calls *= 1.0 - p.cache_hit * cache.warmth * cache.serving
            groups[edge.target].load += calls


@kernel
def propagate(p, w, groups, edges):  # type: ignore[no-untyped-def]
    """Availability and lateness from the back to the entries; fill w.served and w.slow."""
    w.served = 0.0
    w.slow = 0.0
    for g in range(w.n_groups - 1, -1, -1):
        group = groups[g]
        available = group.capability
        in_time = 1.0 - group.slow_self
        for e in range(group.edge_first, group.edge_first + group.edge_count):
            edge = edges[e]
            weight = min(1.0, edge.calls * dependency_weight(p, edge.kind))
            available *= 1.0 - weight * (1.0 - groups[edge.target].availability)
            if edge.kind != CACHED:
                in_time *= 1.0 - weight * groups[edge.target].slow
        group.availability = available
        group.slow = 1.0 - in_time
        w.served += group.entry_share * available
        w.slow += group.entry_share * group.slow
