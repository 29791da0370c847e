"""Wanted values that are a condition instead of one value: {"$at_least": 30}."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..providers.aws.description import Property

NAMES = ("$at_least", "$at_most", "$between", "$one_of")


@dataclass(frozen=True)
class Predicate:
    """A condition on a property's value. `witness` is a value that fulfils it: what a solution puts."""

    name: str
    bounds: tuple[Any, ...]

    @property
    def witness(self) -> Any:
        return self.bounds[0]

    def holds(self, value: Any, prop: Property) -> bool:
        if self.name == "$one_of":
            return any(prop.key(value) == prop.key(bound) for bound in self.bounds)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        low, high = self.bounds[0], self.bounds[-1]
        return {"$at_least": value >= low, "$at_most": value <= high, "$between": low <= value <= high}[self.name]

    def to_json(self) -> dict[str, Any]:
        many = self.name in ("$between", "$one_of")
        return {self.name: list(self.bounds) if many else self.bounds[0]}


def is_predicate(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in NAMES


def parse(value: dict[str, Any], prop: Property) -> Predicate:
    """The predicate that {"$name": bounds} says; raises ValueError."""
    name, bounds = next(iter(value.items()))
    listed = tuple(prop.parse(b) for b in (bounds if isinstance(bounds, list) else [bounds]))
    if (
        not listed
        or (name in ("$at_least", "$at_most") and len(listed) > 1)
        or (name == "$between" and len(listed) != 2)
    ):
        raise ValueError(f"{name} has the wrong number of bounds")
    if name != "$one_of" and not all(isinstance(b, int | float) and not isinstance(b, bool) for b in listed):
        raise ValueError(f"{name} is for numbers")
    if name == "$between" and listed[0] > listed[1]:
        raise ValueError("$between is [low, high]")
    return Predicate(name, listed)
