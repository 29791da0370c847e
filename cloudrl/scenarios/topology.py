"""From a written-down system (a mapping as in configs/scenario/topologies.yaml or an estate file) to a blueprint.

A system is a mapping of services, each with its replicas side by side::

    web:   {kind: vm, replicas: 2, entry: 1.0, calls: {api: 1.0}}
    api:   {kind: vm, critical: true, calls: {cache: {rate: 1.0, kind: cache}, db: {rate: 0.8, cache: cache}}}
    db:    {kind: database, data: true, multi_az: true}
    cache: {kind: cache}
    spare: {kind: vm, idle: true}

`calls` gives calls per request: a number, a range [low, high] that is drawn per world, or a mapping with `rate`,
`kind` (hard, soft, cache) and `cache` (the cache that answers first).
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from cloudrl.scenarios.blueprint import (
    BLUEPRINT_EDGE,
    BLUEPRINT_GROUP,
    BLUEPRINT_HEAD,
    BLUEPRINT_RESOURCE,
    UNSET,
    Blueprints,
)
from cloudrl.types import DEPENDENCY_NAMES, KIND_NAMES

Services = Mapping[str, Mapping[str, Any]]


class Call:
    """One `calls` entry, in full."""

    def __init__(self, source: str, target: str, entry: Any) -> None:
        if not isinstance(entry, Mapping):
            entry = {"rate": entry}
        rate = entry.get("rate", 1.0)
        self.source, self.target = source, target
        self.low, self.high = rate if isinstance(rate, (list, tuple)) else (rate, rate)
        self.kind = DEPENDENCY_NAMES.index(entry.get("kind", "hard"))
        self.cache: str | None = entry.get("cache")


def calls_of(services: Services) -> list[Call]:
    """Every call of the system."""
    return [Call(n, t, c) for n, s in services.items() for t, c in (s.get("calls") or {}).items()]


def front_to_back(services: Services) -> list[str]:
    """Service names so that callers come before what they call. Raises ValueError for a loop."""
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(services, ()))
    for call in calls_of(services):
        sorter.add(call.target, call.source)
    try:
        return list(sorter.static_order())
    except CycleError as error:
        loop = " -> ".join(error.args[1])
        raise ValueError(f"the calls go round in a circle: {loop}; remove one of them") from None


def blueprint(services: Services) -> Blueprints:
    """The shape of one system."""
    order = front_to_back(services)
    index = {name: g for g, name in enumerate(order)}
    calls = sorted(calls_of(services), key=lambda c: (index[c.source], -float(c.high), index[c.target]))
    n_resources = sum(int(services[name].get("replicas", 1)) for name in order)
    groups = np.zeros((1, len(order)), BLUEPRINT_GROUP)
    resources = np.zeros((1, n_resources), BLUEPRINT_RESOURCE)
    edges = np.zeros((1, max(1, len(calls))), BLUEPRINT_EDGE)
    first: dict[str, int] = {}
    slot = 0
    for g, name in enumerate(order):
        service = services[name]
        count = int(service.get("replicas", 1))
        first[name] = slot
        group = groups[0, g]
        group["first"], group["count"] = slot, count
        group["idle"] = service.get("idle", False)
        group["entry_share"] = service.get("entry", 0.0)
        group["utilisation"] = service.get("utilisation", UNSET)
        resources[0, slot : slot + count] = _resource(service, g)
        slot += count
    for e, call in enumerate(calls):
        edge = edges[0, e]
        edge["source"], edge["target"], edge["kind"] = index[call.source], index[call.target], call.kind
        edge["calls_low"], edge["calls_high"] = call.low, call.high
        edge["cache"] = first[call.cache] if call.cache is not None else UNSET
    for g in range(len(order)):
        mine = np.flatnonzero(edges["source"][0, : len(calls)] == g)
        groups[0, g]["edge_first"] = mine[0] if len(mine) else 0
        groups[0, g]["edge_count"] = len(mine)
    total = groups["entry_share"].sum()
    if total > 0:
        groups["entry_share"] /= total
    head = np.array([(n_resources, len(order), len(calls))], BLUEPRINT_HEAD)
    return Blueprints(head, groups, resources, edges)


def _resource(service: Mapping[str, Any], group: int) -> np.ndarray:
    r = np.zeros((), BLUEPRINT_RESOURCE)
    r["kind"] = KIND_NAMES.index(service.get("kind", "vm"))
    for field, key in (
        ("critical", "critical"),
        ("data_bearing", "data"),
        ("multi_az", "multi_az"),
        ("idle", "idle"),
    ):
        r[field] = bool(service.get(key, False))
    r["group"] = group
    r["front"] = service.get("entry", 0.0) > 0
    vcpu = service.get("vcpu")
    r["size"] = UNSET if vcpu is None else int(vcpu).bit_length() - 1
    price = service.get("price_per_hour")  # of one replica
    r["price"] = UNSET if price is None else price / (1 if vcpu is None else vcpu)
    for field in ("exposed", "encrypted", "logging"):
        r[field] = float(service[field]) if field in service else UNSET
    r["credential_days"] = service.get("credential_days", UNSET)
    r["job"] = service.get("job", UNSET)
    r["stopped"] = bool(service.get("stopped", False))
    return r
