"""The difference between an account and the ideal: empty means repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .graph import Graph, Key
from .observe import Observer
from .predicates import Predicate

MISSING, EXTRA, CHANGED = "missing", "extra", "changed"

_ANY = object()


@dataclass(frozen=True)
class Difference:
    """A resource that is missing, one too many, or a property with another value than the ideal one."""

    kind: str
    resource: str
    key: Key
    property: str | None = None
    expected: Any = None
    actual: Any = None

    def to_json(self) -> dict[str, Any]:
        """{"kind", "resource", "property", "expected", "actual", "text"}; text is one readable line."""
        expected = self.expected.to_json() if isinstance(self.expected, Predicate) else self.expected
        text = {
            MISSING: f"{self.resource} is missing",
            EXTRA: f"{self.resource} is not part of the pipeline",
            CHANGED: f"{self.resource}: {self.property} differs from the ideal",
        }[self.kind]
        return {
            "kind": self.kind,
            "resource": self.resource,
            "property": self.property,
            "expected": expected,
            "actual": self.actual,
            "text": text,
        }


class Ideal:
    """What everything should be.

    A property that the ideal graph declares should have that value. One that only the broken graph declares
    should be as if never configured. Any other should stay as it was at the start: repairs must not change what
    was not broken.
    """

    def __init__(self, ideal: Graph, broken: Graph, start: Observer) -> None:
        self.graph = ideal
        self._declared_broken = {n.key: set(n.wanted) for n in broken}
        self._start = {key: dict(values) for key, values in start.state.items()}

    def expected(self, key: Key, prop: str) -> Any:
        """The wanted value of a property, a Predicate, or `_ANY` when nothing says what it should be."""
        node = self._by_key[key]
        if prop in node.wanted:
            return node.wanted[prop]
        if prop in self._declared_broken.get(key, ()):
            return node.type.by_name[prop].empty
        return self._start.get(key, {}).get(prop, _ANY)

    @property
    def _by_key(self) -> dict[Key, Any]:
        return {n.key: n for n in self.graph}

    def diff(self, now: Observer) -> list[Difference]:
        """Every difference, in the order of the graph, extras last."""
        found = []
        for node in self.graph:
            state = now.state.get(node.key)
            if state is None:
                found.append(Difference(MISSING, node.id, node.key))
                continue
            for prop in node.type.properties:
                want, have = self.expected(node.key, prop.name), state[prop.name]
                if want is _ANY:
                    continue
                right = want.holds(have, prop) if isinstance(want, Predicate) else prop.key(want) == prop.key(have)
                if not right:
                    found.append(Difference(CHANGED, node.id, node.key, prop.name, want, have))
        declared = {n.key for n in self.graph}
        found += [Difference(EXTRA, name_of(key), key) for key in now.state if key not in declared]
        return found

    def wanted(self, differences: list[Difference]) -> Mapping[Key, Mapping[str, Any]]:
        """Value to put per property that differs."""
        out: dict[Key, dict[str, Any]] = {}
        for d in differences:
            if d.property is not None:
                out.setdefault(d.key, {})[d.property] = (
                    d.expected.witness if isinstance(d.expected, Predicate) else d.expected
                )
        return out


def name_of(key: Key) -> str:
    """What a resource is called that the task does not declare."""
    return f"{key[0]}:{key[2]}"
