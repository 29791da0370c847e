"""CorruptionEngine: which faults a pipeline can have, and the pipeline with some of them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..providers.aws.description import Fault, FaultSite
from .graph import Graph, parse_graph
from .predicates import Predicate


@dataclass(frozen=True)
class Pick:
    """A fault at its place: one property of one resource."""

    resource: str
    property: str
    fault: Fault

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.fault.id,
            "title": self.fault.title,
            "resource": self.resource,
            "property": self.property,
            "controls": list(self.fault.controls),
        }


def menu(ideal: Graph) -> list[Pick]:
    """Every fault that can hit the pipeline: of each declared property, those that change what it means."""
    return [
        Pick(node.id, prop.name, fault)
        for node in ideal
        for prop in node.type.properties
        if prop.name in node.wanted
        for fault in prop.faults
        if broken_value(ideal, Pick(node.id, prop.name, fault), random.Random(0)) is not _SAME
    ]


_SAME = object()


def broken_value(ideal: Graph, pick: Pick, rng: random.Random) -> Any:
    """What the fault makes of the property, or a mark that it does not apply there."""
    node = ideal.nodes[pick.resource]
    prop = node.type.by_name[pick.property]
    value = node.value(pick.property)
    others = {n.id: n.type.arn(n.name) for n in ideal if n.id != node.id}
    broken = pick.fault.breaks(copy.deepcopy(value), FaultSite(node.name, rng, others))
    if broken is None and prop.empty is not None:
        return _SAME
    wanted = node.wanted[pick.property]
    if isinstance(wanted, Predicate) and wanted.holds(broken, prop):
        return _SAME
    return _SAME if prop.key(broken) == prop.key(value) else broken


def corrupt(ideal: Graph, picks: Iterable[Pick], rng: random.Random) -> dict[str, Any]:
    """The json form of the pipeline with these faults; raises ValueError for one that does not apply."""
    source: dict[str, Any] = copy.deepcopy(dict(ideal.source))
    for pick in picks:
        broken = broken_value(ideal, pick, rng)
        if broken is _SAME:
            raise ValueError(f"{pick.fault.id} does not apply to {pick.property} of {pick.resource}")
        listed = source[pick.resource]
        entry = listed[0] if isinstance(listed, list) else listed
        entry[pick.property] = broken
    parse_graph(source)
    return source
