"""A blueprint is the shape of a system: what is fixed before the dice are thrown.

Suites and estates share it. `UNSET` (-1) in a field leaves it to the scenario's distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

UNSET = -1

_f, _i, _b = np.float64, np.int32, np.int8

BLUEPRINT_HEAD = np.dtype([("n_resources", _i), ("n_groups", _i), ("n_edges", _i)], align=True)

BLUEPRINT_GROUP = np.dtype(
    [
        ("first", _i),
        ("count", _i),
        ("edge_first", _i),
        ("edge_count", _i),
        ("idle", _b),
        ("entry_share", _f),
        ("utilisation", _f),  # mean, at nominal load; UNSET = drawn
    ],
    align=True,
)

BLUEPRINT_RESOURCE = np.dtype(
    [
        ("kind", _b),
        ("critical", _b),
        ("data_bearing", _b),
        ("multi_az", _b),
        ("idle", _b),
        ("group", _i),
        ("size", _b),  # UNSET = drawn
        ("price", _f),  # $ / hour per vCPU; UNSET = price table
        ("front", _b),  # 1 = entry tier: its exposure factor is that of the front
        ("exposed", _f),  # probabilities of the first state; UNSET = scenario
        ("encrypted", _f),
        ("logging", _f),
        ("credential_days", _f),
        ("job", _f),  # probability of a scheduled job
        ("stopped", _b),
    ],
    align=True,
)

BLUEPRINT_EDGE = np.dtype(
    [("source", _i), ("target", _i), ("kind", _b), ("calls_low", _f), ("calls_high", _f), ("cache", _i)],
    align=True,
)


class Blueprints(NamedTuple):
    """T shapes, padded to the same number of slots and edges."""

    heads: np.ndarray  # (T,) BLUEPRINT_HEAD
    groups: np.ndarray  # (T, N) BLUEPRINT_GROUP, front to back
    resources: np.ndarray  # (T, N) BLUEPRINT_RESOURCE
    edges: np.ndarray  # (T, E) BLUEPRINT_EDGE, sorted by source

    @classmethod
    def stack(cls, shapes: list[Blueprints], n_slots: int) -> Blueprints:
        """Join single shapes (T = 1 each). Raises ValueError if one has more resources than slots."""
        most = max(int(s.heads["n_resources"][0]) for s in shapes)
        if most > n_slots:
            raise ValueError(f"a shape has {most} resources, scenario.slots is {n_slots}: raise scenario.slots")
        n_edges = max(1, max(int(s.heads["n_edges"][0]) for s in shapes))
        out = cls(
            np.concatenate([s.heads for s in shapes]),
            np.zeros((len(shapes), n_slots), BLUEPRINT_GROUP),
            np.zeros((len(shapes), n_slots), BLUEPRINT_RESOURCE),
            np.zeros((len(shapes), n_edges), BLUEPRINT_EDGE),
        )
        for t, shape in enumerate(shapes):
            for mine, theirs in zip(out[1:], shape[1:], strict=True):
                mine[t, : theirs.shape[1]] = theirs[0]
        return out
