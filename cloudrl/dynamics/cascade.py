"""Cascades: a failure that takes down groups which were fine by themselves.

A cascade runs while some group is available less than half of the time although its own machines are fine. Its
root is found by walking from the heaviest of those groups down the dependency that costs each most availability,
to the first that fails by itself. Its blast radius is the share of the world's traffic weight that is impaired,
the root aside.
"""

from __future__ import annotations

from cloudrl.jit import kernel
from cloudrl.measurements import dependency_weight

IMPAIRED = 0.5  # availability
UNNOTICED = 0.999  # share of traffic served above which nobody would call it a cascade


@kernel
def track(p, w, groups, edges):  # type: ignore[no-untyped-def]
    """Update the cascade fields of the world from this tick's availabilities."""
    w.tick_cascades = 0
    if w.served > UNNOTICED:
        stop(w)
        return
    dragged = -1
    impaired, total = 0.0, 0.0
    for g in range(w.n_groups):
        group = groups[g]
        if group.idle:
            continue
        total += group.weight
        if group.availability < IMPAIRED:
            impaired += group.weight
            if group.capability >= IMPAIRED and (dragged < 0 or group.weight > groups[dragged].weight):
                dragged = g
    if dragged < 0:
        stop(w)
        return
    root = find_root(p, groups, edges, dragged)
    if groups[root].availability < IMPAIRED:
        impaired -= groups[root].weight
    w.cascade_root = root
    w.cascade_blast = impaired / total
    w.max_blast = max(w.max_blast, w.cascade_blast)
    if not w.cascade:
        w.cascade = 1
        w.cascades += 1
        w.tick_cascades = 1


@kernel
def stop(w):  # type: ignore[no-untyped-def]
    """No cascade runs."""
    w.cascade = 0
    w.cascade_root = -1
    w.cascade_blast = 0.0


@kernel
def find_root(p, groups, edges, dragged):  # type: ignore[no-untyped-def]
    """The group that drags down group `dragged`: follow the worst dependency until one fails by itself."""
    g = dragged
    while groups[g].capability >= IMPAIRED:
        worst, loss = -1, 0.0
        for e in range(groups[g].edge_first, groups[g].edge_first + groups[g].edge_count):
            edge = edges[e]
            weight = min(1.0, edge.calls * dependency_weight(p, edge.kind))
            lost = weight * (1.0 - groups[edge.target].availability)
            if lost > loss:
                worst, loss = edge.target, lost
        if worst < 0:
            break
        g = worst
    return g
