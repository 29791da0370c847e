"""Cascades: a failure that takes down groups which were fine by themselves.

A cascade runs while some group is available less than half of the time although its own machines are fine.
Its root is the group farthest back that fails by itself; its blast radius is the share of the world's traffic
weight that is impaired, the root aside.
"""

from __future__ import annotations

from cloudrl.jit import kernel

IMPAIRED = 0.5  # availability
UNNOTICED = 0.999  # share of traffic served above which nobody would call it a cascade


@kernel
def track(w, groups):  # type: ignore[no-untyped-def]
    """Update the cascade fields of the world from this tick's availabilities."""
    w.tick_cascades = 0
    if w.served > UNNOTICED:
        w.cascade = 0
        w.cascade_blast = 0.0
        return
    dragged, root = 0, -1
    impaired, total = 0.0, 0.0
    for g in range(w.n_groups):
        group = groups[g]
        if group.idle:
            continue
        total += group.weight
        if group.availability < IMPAIRED:
            impaired += group.weight
            if group.capability >= IMPAIRED:
                dragged += 1
            else:
                root = g
    if dragged == 0 or root < 0:
        w.cascade = 0
        w.cascade_blast = 0.0
        return
    w.cascade_blast = (impaired - groups[root].weight) / total
    if not w.cascade:
        w.cascade = 1
        w.cascade_root = root
        w.cascades += 1
        w.tick_cascades = 1
    w.max_blast = max(w.max_blast, w.cascade_blast)
