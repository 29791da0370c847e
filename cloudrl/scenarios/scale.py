"""Shapes of any size for benchmarks: how does the cost of a step grow with the number of resources?

A binary tree of services (2, 3, 4, 2, ... replicas) whose leaves read a database through a cache, so that every
service has about two dependencies at any size.
"""

from __future__ import annotations

from typing import Any

from cloudrl.errors import UserError
from cloudrl.scenarios.schema import Scenario

MIN_RESOURCES, MAX_RESOURCES = 6, 5_000


def scaled_scenario(n: int, **changes: Any) -> Scenario:
    """Medium's constants (with `changes`, as in load_scenario) on a synthetic shape of exactly `n` resources."""
    from cloudrl.scenarios.library import load_scenario  # which looks shapes up here

    name = f"scaled-{n}"
    scaled_services(n)
    scenario = load_scenario("medium", **changes)
    scenario.name, scenario.slots = name, n
    t = scenario.topology
    t.train, t.validation, t.test = [name], [name], [name]
    return scenario


def scaled_services(n: int) -> dict[str, dict[str, Any]]:
    """The shape `scaled-<n>` in the notation of configs/scenario/topologies.yaml."""
    if not MIN_RESOURCES <= n <= MAX_RESOURCES:
        raise UserError(f"scaled-{n}: a scaled shape has {MIN_RESOURCES} to {MAX_RESOURCES} resources")
    n_databases, n_caches, n_queues = max(1, n // 12), max(1, n // 20), n // 25
    replicas = _split(n - n_databases - n_caches - n_queues)
    services: dict[str, dict[str, Any]] = {
        f"service{k}": {"kind": "vm", "replicas": count, "critical": k % 4 == 1, "calls": {}}
        for k, count in enumerate(replicas)
    }
    services["service0"]["entry"] = 1.0
    leaf = 0
    for k in range(len(replicas)):
        calls = services[f"service{k}"]["calls"]
        children = [c for c in (2 * k + 1, 2 * k + 2) if c < len(replicas)]
        for child in children:
            calls[f"service{child}"] = [0.4, 0.9]
        if not children:
            cache, database = f"cache{leaf % n_caches}", f"database{leaf % n_databases}"
            calls[cache] = {"kind": "cache"}
            calls[database] = {"rate": 1.0, "cache": cache}
            if leaf < n_queues:
                calls[f"queue{leaf}"] = {"rate": 0.3, "kind": "soft"}
            leaf += 1
    for k in range(n_queues):
        services[f"queue{k}"] = {"kind": "queue", "data": True}
    for k in range(n_caches):
        services[f"cache{k}"] = {"kind": "cache"}
    for k in range(n_databases):
        services[f"database{k}"] = {
            "kind": "database",
            "data": True,
            "critical": k % 3 == 0,
            "multi_az": k % 3 == 0,
        }
    return services


def _split(n: int) -> list[int]:
    """`n` machines in services of 2, 3, 4, 2, 3, ... replicas, never one alone."""
    out: list[int] = []
    while n > 4:
        count = (2, 3, 4)[len(out) % 3]
        if n - count == 1:
            count = 3 if count == 2 else count - 1
        out.append(count)
        n -= count
    return [*out, n] if n else out
