"""The objects of a twin beside the simulator's records, compared field by field with ==."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cloudrl.memory.signature import N_EVENTS
from cloudrl.types import EDGE, GROUP, PENDING_DTYPE, RESOURCE, WORLD, State
from tests.twin.model import Group, Resource, World


def bits(ops: Iterable[int]) -> int:
    """A set of operations as a bit set."""
    return sum(1 << op for op in ops)


def _index(thing: Resource | Group | None) -> int:
    return -1 if thing is None else thing.index


class Table:
    """How a class of objects maps to a record type."""

    def __init__(self, dtype: np.dtype, leave_out: Sequence[str] = (), **special: Callable[[Any], Any]) -> None:
        names = [name for name in dtype.names or () if name not in leave_out]
        self.lists = [name for name in names if dtype[name].subdtype is not None]
        self.scalars = [name for name in names if name not in self.lists]
        self.special = special
        self.plain = [(name, special.get(name)) for name in self.scalars]

    def differences(self, label: str, things: Sequence[Any], records: np.ndarray) -> list[str]:
        """`records` holds one record per thing, in the same order."""
        out = []
        for thing, theirs in zip(things, records[self.scalars].tolist(), strict=True):
            mine = tuple(getattr(thing, name) if get is None else get(thing) for name, get in self.plain)
            if mine != theirs:
                out += [
                    f"{label}{getattr(thing, 'index', '')}.{name}: twin {a!r}, kernel {b!r}"
                    for name, a, b in zip(self.scalars, mine, theirs, strict=True)
                    if a != b
                ]
        for name in self.lists:
            for thing, values in zip(things, records[name].tolist(), strict=True):
                mine = getattr(thing, name)
                if mine != values:
                    out.append(f"{label}{getattr(thing, 'index', '')}.{name}: twin {mine}, kernel {values}")
        return out


RESOURCES = Table(
    RESOURCE,
    group=lambda r: r.group.index,
    impossible=lambda r: bits(r.impossible),
    forbidden=lambda r: bits(r.forbidden),
)
GROUPS = Table(
    GROUP,
    leave_out=["edge_first"],  # a position; the edges themselves are compared
    first=lambda g: g.members[0].index,
    count=lambda g: len(g.members),
    edge_count=lambda g: len(g.edges),
)
EDGES = Table(EDGE, target=lambda e: e.target.index, cache=lambda e: _index(e.cache))
WORLDS = Table(
    WORLD,
    key=lambda w: w.luck.key,
    n_resources=lambda w: len(w.resources),
    n_groups=lambda w: len(w.groups),
    cascade_root=lambda w: _index(w.cascade_root),
)
NOTES = Table(
    PENDING_DTYPE,
    signature=lambda n: n.signature[0] * N_EVENTS + n.signature[1],
    group=lambda n: n.group.index,
)


def differences(w: World, state: State, b: int) -> list[str]:
    """Every field in which world `b` of the kernels' state differs from the twin `w`."""
    out = WORLDS.differences("world", [w], state.worlds[b : b + 1])
    out += RESOURCES.differences("r", w.resources, state.resources[b, : len(w.resources)])
    out += GROUPS.differences("g", w.groups, state.groups[b, : len(w.groups)])
    edges = [edge for group in w.groups for edge in group.edges]
    first = [int(state.groups["edge_first"][b, g.index]) + k for g in w.groups for k in range(len(g.edges))]
    out += EDGES.differences("edge", edges, state.edges[b, first])
    theirs = state.pending[b]
    if [note is not None for note in w.pending] != (theirs["signature"] >= 0).tolist():
        out.append("the waiting lists of the memory differ")
    else:
        out += NOTES.differences("note", [n for n in w.pending if n is not None], theirs[theirs["signature"] >= 0])
    return out
