"""BuildEngine: brings resources into being, and says which calls change one configuration into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..providers.aws.account import Account
from ..providers.aws.description import Api, Call, ResourceType
from ..providers.aws.errors import ApiError, PipelineError
from .graph import Graph, Key, Node
from .observe import Observer


class BuildEngine:
    """Creates the resources of a graph in an account, and derives the calls of a solution."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._where = ""

    def build(self, graph: Graph, ideal: Graph | None = None) -> None:
        """Everything the graph declares; raises PipelineError with the resource at which it failed.

        A broken pipeline may be in a state that AWS lets nobody enter: logs go to a bucket whose policy no
        longer takes them. It is then built right first, by the `ideal`, and broken afterwards, as in life.
        """
        try:
            for node in graph.creation_order():
                self._where = node.id
                self.run(node.type.create_call(node.name, _values(node)))
            try:
                self._put(graph.property_order())
            except ApiError:
                if ideal is None:
                    raise
                there = {node.key for node in graph}
                self._put([(node, name) for node, name in ideal.property_order() if node.key in there])
                self._put(graph.property_order())
        except ApiError as e:
            raise PipelineError(f"{self._where}: {self._account.backend.name} refused to build it: {e}") from None

    def _put(self, order: list[tuple[Node, str]]) -> None:
        for node, name in order:
            self._where = f"{node.id}: {name}"
            for call in _change(node, name, Api(self._account, node.type.service)):
                self.run(call)

    def run(self, call: Call) -> None:
        self._account.call(call.service, call.operation, call.payload)

    def repair(self, ideal: Graph, now: Observer, wanted: Mapping[Key, Mapping[str, Any]]) -> list[Call]:
        """Calls that lead from what is there now to the ideal. `wanted`: value per property that differs.

        A resource that is missing, or whose immutable property is wrong, is created anew with all that is
        declared.
        """
        calls: list[Call] = []
        anew: set[str] = set()
        for node in ideal.creation_order():
            wrong = [p for p in wanted.get(node.key, {}) if node.type.by_name[p].immutable]
            missing = node.key not in now.state
            if not missing and not wrong:
                continue
            anew.add(node.id)
            if not missing:
                calls += self.removal(node.type, node.name)
            calls.append(node.type.create_call(node.name, _values(node)))
        for node, name in ideal.property_order():
            prop = node.type.by_name[name]
            if node.id in anew and not prop.immutable:
                calls += _after_creation(node, name)
        ordered = [(n, p) for n, p in ideal.property_order() if n.id not in anew]
        undeclared = [
            (n, p) for n in ideal if n.id not in anew for p in wanted.get(n.key, {}) if p not in n.wanted
        ]
        for node, name in ordered + undeclared:
            if name in wanted.get(node.key, {}):
                prop = node.type.by_name[name]
                calls += prop.put(node.name, wanted[node.key][name], now.raw[node.key][name])
        keep = ideal.by_key()
        for service, kind, name in now.state:
            if (service, kind, name) not in keep:
                calls += self.removal(now.types[service, kind], name)
        return calls

    def removal(self, kind: ResourceType, name: str) -> list[Call]:
        return [*kind.clean(Api(self._account, kind.service), name), kind.delete_call(name)]

    def clear(self, now: Observer) -> None:
        """Delete every resource of the account, for an emulator that cannot drop an account as a whole.

        References between resources may make a deletion fail until another has gone through: two rounds.
        """
        for _ in range(2):
            for service, kind, name in reversed(list(now.state)):
                try:
                    for call in self.removal(now.types[service, kind], name):
                        self.run(call)
                except ApiError:
                    continue
                now.state.pop((service, kind, name), None)


def _values(node: Node) -> dict[str, Any]:
    return {name: node.value(name) for name in node.wanted}


def _change(node: Node, name: str, api: Api) -> list[Call]:
    prop, want = node.type.by_name[name], node.value(name)
    raw = prop.read(api, node.name)
    return [] if prop.key(prop.canon(raw)) == prop.key(want) else prop.put(node.name, want, raw)


def _after_creation(node: Node, name: str) -> list[Call]:
    prop, want = node.type.by_name[name], node.value(name)
    if prop.at_create or prop.key(want) == prop.key(prop.empty):
        return []
    return prop.put(node.name, want, prop.fresh)
