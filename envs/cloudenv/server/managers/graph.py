"""Pipelines: which resources there are, and how each is configured.

The json form is the one of the pipeline API:

    {"s3:bucket_1": [{"service": "s3", "instance": "bucket1", "policies": []}]}

A key is a resource id of the author's choice; it maps to a list with one entry. `service` may carry the instance
("s3:bucket1") and a `kind` where a service has several. Every other key is a property of the service's
description. A string may refer to another resource: "${lambda:ingest.arn}" (attributes: arn, name, url, id).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ..providers.aws.capabilities import unsupported
from ..providers.aws.description import ResourceType
from ..providers.aws.errors import PipelineError
from ..providers.aws.registry import SERVICES, closest, resource_type
from .predicates import Predicate, is_predicate
from .predicates import parse as parse_predicate

MAX_RESOURCES = 50
MAX_BYTES = 256 * 1024
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_WORDS = {"service", "instance", "kind"}

Key = tuple[str, str, str]
"""(service, kind, name): what a resource is in its account."""


@dataclass(frozen=True)
class Node:
    """One resource of a pipeline. `wanted` holds canonical values, or predicates."""

    id: str
    type: ResourceType
    name: str
    wanted: Mapping[str, Any] = field(default_factory=dict)
    refers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Ids of the resources that a property refers to"""

    @property
    def key(self) -> Key:
        return (self.type.service, self.type.kind, self.name)

    def value(self, prop: str) -> Any:
        """What to put for a declared property."""
        wanted = self.wanted[prop]
        return wanted.witness if isinstance(wanted, Predicate) else wanted


@dataclass(frozen=True)
class Graph:
    """A parsed pipeline. `source` is its json form, references and all."""

    nodes: Mapping[str, Node]
    source: Mapping[str, Any]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def by_key(self) -> dict[Key, Node]:
        return {node.key: node for node in self}

    def missing_in(self, emulator: str) -> list[str]:
        """What the graph declares that an emulator does not have: empty when it can be built there."""
        return [
            f"{node.id}: {prop}: {why}"
            for node in self
            for prop in node.wanted
            if (why := unsupported(emulator, node.type.service, node.type.kind, prop))
        ]

    def creation_order(self) -> list[Node]:
        """Every resource after those that its creation needs; raises PipelineError for a circle."""
        needs = {
            node.id: {r for p, rs in node.refers.items() if node.type.by_name[p].at_create for r in rs} - {node.id}
            for node in self
        }
        return [self.nodes[i] for i in _sorted(needs)]

    def property_order(self) -> list[tuple[Node, str]]:
        """Every declared property in an order in which it can be put: after what must be complete before it."""
        steps = [(node.id, p.name) for node in self for p in node.type.properties if p.name in node.wanted]
        needs: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for i, p in steps:
            node = self.nodes[i]
            ready = node.refers.get(p, frozenset()) if node.type.by_name[p].needs_ready else frozenset()
            needs[i, p] = {(other, q) for other, q in steps if other in ready and other != i}
        return [(self.nodes[i], p) for i, p in _sorted(needs)]


def parse_graph(source: Any) -> Graph:
    """A graph from its json form; raises PipelineError that says which resource and which property is wrong."""
    if not isinstance(source, dict):
        raise PipelineError("a pipeline is an object: resource id -> list with its configuration")
    if len(json.dumps(source, default=str)) > MAX_BYTES:
        raise PipelineError(f"the pipeline is larger than {MAX_BYTES // 1024} kB")
    items: dict[str, dict[str, Any]] = {}
    for key, listed in source.items():
        for position, item in enumerate(listed if isinstance(listed, list) else [listed]):
            if not isinstance(item, dict):
                raise PipelineError(f"{key}: an entry is an object with a service, an instance and properties")
            node_id = key if position == 0 else ":".join(_service_and_name(key, item))
            if node_id in items:
                raise PipelineError(f"{node_id}: declared twice")
            items[node_id] = item
    if len(items) > MAX_RESOURCES:
        raise PipelineError(f"the pipeline has {len(items)} resources; {MAX_RESOURCES} is the limit")

    bare = {i: _bare_node(i, item) for i, item in items.items()}
    if len({node.key for node in bare.values()}) < len(bare):
        raise PipelineError("two resources of the pipeline have the same service, kind and instance")
    graph = Graph({i: _full_node(node, items[i], bare) for i, node in bare.items()}, source)
    graph.creation_order()
    graph.property_order()
    return graph


def _service_and_name(key: str, item: Mapping[str, Any]) -> tuple[str, str]:
    service, _, name = str(item.get("service") or key.partition(":")[0]).partition(":")
    name = str(item.get("instance") or name or key.partition(":")[2].replace("_", "-"))
    return service, name


def _bare_node(node_id: str, item: Mapping[str, Any]) -> Node:
    service, name = _service_and_name(node_id, item)
    try:
        kind = resource_type(service, item.get("kind"))
    except PipelineError as e:
        raise PipelineError(f"{node_id}: {e}") from None
    if not name:
        raise PipelineError(f"{node_id}: no instance: say which {kind.kind} of {service} it is")
    if wrong := kind.check_name(name):
        raise PipelineError(f"{node_id}: bad instance {name!r}: {wrong}")
    return Node(node_id, kind, name)


def _full_node(node: Node, item: Mapping[str, Any], all_nodes: Mapping[str, Node]) -> Node:
    wanted: dict[str, Any] = {}
    refers: dict[str, frozenset[str]] = {}
    for name, value in item.items():
        if name in _WORDS:
            continue
        prop = node.type.by_name.get(name)
        if prop is None:
            raise PipelineError(
                f"{node.id}: unknown property {name!r} of a {node.type.service} {node.type.kind}; "
                f"{closest(name, node.type.by_name)}"
            )
        seen: set[str] = set()
        try:
            resolved = _resolve(value, all_nodes, seen)
            wanted[name] = parse_predicate(resolved, prop) if is_predicate(resolved) else prop.parse(resolved)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise PipelineError(f"{node.id}: property {name!r}: {e}") from None
        refers[name] = frozenset(seen)
    return Node(node.id, node.type, node.name, wanted, refers)


def _resolve(value: Any, nodes: Mapping[str, Node], seen: set[str]) -> Any:
    """The value with every ${id.attribute} replaced; adds the ids to `seen`."""
    if isinstance(value, dict):
        return {k: _resolve(v, nodes, seen) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve(v, nodes, seen) for v in value]
    if not isinstance(value, str):
        return value

    def attribute(match: re.Match[str]) -> str:
        node_id, dot, name = match[1].rpartition(".")
        node_id, name = (node_id, name) if dot and node_id in nodes else (match[1], "arn")
        if node_id.partition(":")[0] not in SERVICES:
            return match[0]  # a variable of the policy language, such as ${aws:username}
        if node_id not in nodes:
            raise ValueError(f"{match[0]} refers to a resource that the pipeline does not have")
        seen.add(node_id)
        try:
            return nodes[node_id].type.attribute(nodes[node_id].name, name)
        except KeyError:
            raise ValueError(f"{match[0]}: a {nodes[node_id].type.kind} has no attribute {name!r}") from None

    return _REFERENCE.sub(attribute, value)


def _sorted(needs: Mapping[Any, set[Any]]) -> list[Any]:
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as e:
        circle = " -> ".join(str(x) for x in e.args[1])
        raise PipelineError(f"the resources need each other in a circle: {circle}") from None
