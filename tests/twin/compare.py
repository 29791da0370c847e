"""The objects of a twin as rows of the simulator's records, so that both can be compared with ==."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudrl.memory.signature import N_EVENTS
from cloudrl.types import EDGE, GROUP, PENDING_DTYPE, RESOURCE, WORLD, State
from tests.twin.model import Edge, Group, Note, Resource, World


def bits(ops: Iterable[int]) -> int:
    """A set of operations as a bit set."""
    return sum(1 << op for op in ops)


def _index(thing: Resource | Group | None) -> int:
    return -1 if thing is None else thing.index


SPECIAL: dict[str, dict[str, Callable[[Any], Any]]] = {
    "resource": {
        "group": lambda r: r.group.index,
        "impossible": lambda r: bits(r.impossible),
        "forbidden": lambda r: bits(r.forbidden),
    },
    "world": {
        "key": lambda w: w.luck.key,
        "n_resources": lambda w: len(w.resources),
        "n_groups": lambda w: len(w.groups),
        "cascade_root": lambda w: _index(w.cascade_root),
    },
    "group": {
        "first": lambda g: g.members[0].index,
        "count": lambda g: len(g.members),
        "edge_count": lambda g: len(g.edges),
    },
    "edge": {"target": lambda e: e.target.index, "cache": lambda e: _index(e.cache)},
    "note": {"signature": lambda n: n.signature[0] * N_EVENTS + n.signature[1], "group": lambda n: n.group.index},
}


def _row(what: str, names: tuple[str, ...], thing: Any) -> dict[str, Any]:
    special = SPECIAL[what]
    return {name: special[name](thing) if name in special else getattr(thing, name) for name in names}


def _differences(what: str, names: tuple[str, ...], thing: Any, record: Any) -> list[str]:
    mine = _row(what, names, thing)
    theirs = dict(zip(record.dtype.names, record.tolist(), strict=True))
    out = []
    for name, value in mine.items():
        other = theirs[name]
        if not (value == (other.tolist() if hasattr(other, "tolist") else other)):
            out.append(f"{what} {name}: twin {value!r}, kernel {other!r}")
    return out


_GROUP_NAMES = tuple(n for n in GROUP.names or () if n != "edge_first")  # a position, meaningless without edges


def differences(w: World, state: State, b: int) -> list[str]:
    """Every field in which world `b` of the kernels' state differs from the twin `w`."""
    out = _differences("world", WORLD.names or (), w, state.worlds[b])
    for r in w.resources:
        out += [f"r{r.index} {d}" for d in _differences("resource", RESOURCE.names or (), r, state.resources[b, r.index])]
    for g in w.groups:
        out += [f"g{g.index} {d}" for d in _differences("group", _GROUP_NAMES, g, state.groups[b, g.index])]
        first = int(state.groups["edge_first"][b, g.index])
        for k, edge in enumerate(g.edges):
            out += _edge(edge, state.edges[b, first + k], f"g{g.index}.{k}")
    for k, note in enumerate(w.pending):
        out += _note(note, state.pending[b, k], k)
    return out


def _edge(edge: Edge, record: Any, where: str) -> list[str]:
    return [f"{where} {d}" for d in _differences("edge", EDGE.names or (), edge, record)]


def _note(note: Note | None, record: Any, k: int) -> list[str]:
    if note is None:
        return [] if record["signature"] == -1 else [f"note {k}: the twin has none"]
    return [f"note {k} {d}" for d in _differences("note", PENDING_DTYPE.names or (), note, record)]
