"""The form in which a service is described. Build, observation, ideal, diff, faults, reward, allow-list and
solution are all derived from it; see docs/adding-a-service.md.

Everything here is in the agent's terms (translate.py): logical names, account 123456789012, stable ids.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from .errors import ApiError
from .translate import stable_id


@dataclass(frozen=True)
class Call:
    """One API call."""

    service: str
    operation: str
    payload: Mapping[str, Any]


class Caller(Protocol):
    """Something that carries out API calls in the agent's terms."""

    def call(self, service: str, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]: ...


class Api:
    """Read calls of one service, remembered for the length of one observation: `api("GetRole", RoleName=name)`."""

    def __init__(self, caller: Caller, service: str, memo: dict[str, Any] | None = None) -> None:
        self._caller = caller
        self._memo = {} if memo is None else memo
        self.service = service

    def __call__(self, operation: str, /, absent: Sequence[str] = (), **payload: Any) -> Any:
        """The response, or None when the call fails with one of the codes in `absent`: not configured."""
        key = f"{self.service} {operation} {json.dumps(payload, sort_keys=True)}"
        if key not in self._memo:
            try:
                self._memo[key] = self._caller.call(self.service, operation, payload)
            except ApiError as e:
                self._memo[key] = e
        found = self._memo[key]
        if isinstance(found, ApiError):
            if found.code in absent:
                return None
            raise found
        return found


@dataclass(frozen=True)
class FaultSite:
    """Where a fault is put: what its function may look at besides the value."""

    name: str
    rng: random.Random
    others: Mapping[str, str] = field(default_factory=dict)
    """ARN by resource id, of every resource of the pipeline."""


@dataclass(frozen=True)
class Fault:
    """One way in which a property goes wrong: `breaks(value, site)` gives the broken value.

    A fault does not apply where it changes nothing; None, where that is not the property's `empty`, says so too.
    """

    id: str
    title: str
    controls: tuple[str, ...]
    breaks: Callable[[Any, FaultSite], Any]
    level: str = "easy"
    """`easy` faults are seen in one property; `hard` ones need a look at a second resource."""


@dataclass(frozen=True)
class Property:
    """One property of a resource type.

    read(api, name) -> raw        the whole of it, never a part; may raise ApiError when the resource is gone
    canon(raw) -> value           canonical json value; `empty` when not configured
    parse(value) -> value         canonical form of what a task file says; raises ValueError
    put(name, want, raw) -> [Call]  calls that turn `raw` into the canonical `want` (`empty` removes)
    key(value) -> comparable      two values with the same key mean the same
    """

    name: str
    read: Callable[[Api, str], Any]
    put: Callable[[str, Any, Any], list[Call]]
    ops: tuple[str, ...] = ()
    """Operations of an agent that may change it."""
    canon: Callable[[Any], Any] = lambda raw: raw
    parse: Callable[[Any], Any] = lambda value: value
    key: Callable[[Any], Any] = lambda value: value
    empty: Any = None
    fresh: Any = None
    """The `raw` of a resource that was just created, for `put`s that look at it"""
    faults: tuple[Fault, ...] = ()
    weight: float = 1.0
    at_create: bool = False
    """Part of the create call: what it refers to must exist first."""
    immutable: bool = False
    """Cannot be changed later: the repair is to delete the resource and to create it anew."""
    needs_ready: bool = False
    """What it refers to must be complete, not only exist, before it can be put."""


@dataclass(frozen=True)
class ResourceType:
    """One type of resource of a service."""

    service: str
    kind: str
    create_op: str
    create: Callable[[str, Mapping[str, Any]], dict[str, Any]]
    """(name, wanted properties) -> payload of the create call"""
    delete_op: str
    delete: Callable[[str], dict[str, Any]]
    names: Callable[[Api], list[str]]
    """All of them in the account, without those that AWS itself puts there"""
    arn: Callable[[str], str]
    properties: tuple[Property, ...]
    id_param: str
    """Parameter of the operations that names the resource; an ARN, a URL or an id in it is understood too"""
    name_param: str = ""
    """Parameter of the create call that holds the name, when it is another one"""
    name_in: Callable[[Mapping[str, Any]], Any] | None = None
    """Finds the name in the payload of the create call, where it is not a parameter of its own"""
    put_name: Callable[[dict[str, Any], str], None] | None = None
    """Puts a default name there"""
    id_list_param: str = ""
    """Parameter of operations that take several of them"""
    id_prefix: str = ""
    """For resources whose id the emulator chooses: `sg`, `i`, `vol`, or `uuid`"""
    id_path: tuple[str, ...] = ()
    """Where the response of the create call says that id"""
    url: Callable[[str], str] | None = None
    clean: Callable[[Api, str], list[Call]] = lambda api, name: []
    """Calls that empty the resource so that it can be deleted"""
    check_name: Callable[[str], str | None] = lambda name: None
    """What is wrong with a name, or None"""

    @cached_property
    def by_name(self) -> dict[str, Property]:
        return {p.name: p for p in self.properties}

    def identifier(self, name: str) -> str:
        """What `id_param` holds for the resource of this name."""
        if self.id_prefix:
            return stable_id(self.id_prefix, name)
        if self.id_param.endswith("Arn"):
            return self.arn(name)
        return self.url(name) if self.url and self.id_param.endswith("Url") else name

    def attribute(self, name: str, attribute: str) -> str:
        """The value of `${id.attribute}`; raises KeyError for an attribute that it does not have."""
        if attribute == "name":
            return name
        if attribute == "arn":
            return self.arn(name)
        if attribute == "url" and self.url:
            return self.url(name)
        if attribute == "id" and self.id_prefix:
            return stable_id(self.id_prefix, name)
        raise KeyError(attribute)

    def create_call(self, name: str, wanted: Mapping[str, Any]) -> Call:
        return Call(self.service, self.create_op, self.create(name, wanted))

    def delete_call(self, name: str) -> Call:
        return Call(self.service, self.delete_op, self.delete(name))

    def created_name(self, payload: Mapping[str, Any]) -> Any:
        return self.name_in(payload) if self.name_in else payload.get(self.name_param or self.id_param)

    def find(self, payload: Mapping[str, Any], names: Iterable[str]) -> str | None:
        """Which of the names the payload of an operation means: by name, ARN, URL or id."""
        value = payload.get(self.id_param, payload.get(self.name_param))
        several = payload.get(self.id_list_param)
        if value is None and isinstance(several, list) and len(several) == 1:
            value = several[0]
        for name in names:
            if value in (name, self.identifier(name), self.arn(name)):
                return name
        return None


class View(Protocol):
    """What a validation hook may look at."""

    def names(self, service: str, kind: str) -> list[str]:
        """Names of the resources of a type that exist now."""

    def value(self, service: str, kind: str, name: str, prop: str) -> Any:
        """Canonical value of a property now; None for an unknown resource."""

    def api(self, service: str) -> Api:
        """Fresh read calls."""


Hook = Callable[[dict[str, Any], View], None]
"""Looks at the payload of an agent's call before it is sent, may change it (defaults), raises ApiError to
refuse.
"""


@dataclass(frozen=True)
class Service:
    """The description of one service: its types, and the operations that an agent may call beyond those of the
    types.
    """

    name: str
    types: tuple[ResourceType, ...]
    reads: tuple[str, ...] = ()
    """Operations that change nothing"""
    data: tuple[str, ...] = ()
    """Operations that change what no property shows, such as PutObject"""
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    """Our own validation per operation, where emulators are more lenient than AWS"""
    complete: Mapping[str, Callable[[dict[str, Any], Api], dict[str, Any]]] = field(default_factory=dict)
    """The last change to a payload before it is sent: what we add ourselves, and ways around emulators' bugs"""
    params: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The parameters an operation may have, where they are fewer than AWS's"""

    @cached_property
    def operations(self) -> frozenset[str]:
        """The allow-list."""
        of_types = {op for t in self.types for op in (t.create_op, t.delete_op)}
        of_properties = {op for t in self.types for p in t.properties for op in p.ops}
        return frozenset(of_types | of_properties | set(self.reads) | set(self.data))


def always(value: Any) -> Callable[[Any, FaultSite], Any]:
    """A fault that puts this value."""
    return lambda ideal, site: value


def scalar(value: Any) -> Any:
    """Parse: a bool, number or string as it is; raises ValueError for anything else."""
    if isinstance(value, (dict, list)):
        raise ValueError("must be a single value")
    return value
