"""What is in an account now: every resource and every property of it, in canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..providers.aws.account import Account
from ..providers.aws.description import Api, Property, ResourceType
from ..providers.aws.errors import ApiError
from ..providers.aws.registry import SERVICES
from .graph import Key


class Observer:
    """The state of an account, kept current by re-reading no more than an operation can have changed.

    `state[key][property]` is canonical, `raw[key][property]` what the description read. Only services that the
    episode has touched are looked at: an account starts empty, so there is nothing elsewhere.
    """

    def __init__(self, account: Account, services: Iterable[str]) -> None:
        self._account = account
        self.services = dict.fromkeys(services)
        self.state: dict[Key, dict[str, Any]] = {}
        self.raw: dict[Key, dict[str, Any]] = {}

    @property
    def types(self) -> dict[tuple[str, str], ResourceType]:
        return {(s, t.kind): t for s in self.services for t in SERVICES[s].types}

    def read_all(self) -> None:
        """Read everything; raises ApiError when the emulator does not answer."""
        state: dict[Key, dict[str, Any]] = {}
        raw: dict[Key, dict[str, Any]] = {}
        for (service, kind), described in self.types.items():
            api = Api(self._account, service)
            for name in sorted(described.names(api)):
                key = (service, kind, name)
                raw[key] = {p.name: p.read(api, name) for p in described.properties}
                state[key] = {p.name: p.canon(raw[key][p.name]) for p in described.properties}
        self.state, self.raw = state, raw

    def refresh(self, service: str, operation: str, payload: Mapping[str, Any]) -> None:
        """Re-read what the operation may have changed. Equal to `read_all`, at a fraction of the calls.

        A creation or deletion can touch other resources: everything is read. Any other operation changes the
        properties that name it, of the resource that its payload names.
        """
        described = SERVICES[service]
        if any(operation in (t.create_op, t.delete_op) for t in described.types):
            self.services.setdefault(service)
            self.read_all()
            return
        api = Api(self._account, service)
        try:
            for kind in described.types:
                touched = [p for p in kind.properties if operation in p.ops]
                if touched:
                    self._read(kind, touched, payload, api)
        except ApiError as e:
            if e.code == "EmulatorUnavailable":
                raise
            self.read_all()

    def _read(self, kind: ResourceType, touched: list[Property], payload: Mapping[str, Any], api: Api) -> None:
        names = [n for s, k, n in self.state if (s, k) == (kind.service, kind.kind)]
        found = kind.find(payload, names)
        for name in names if found is None else [found]:
            key = (kind.service, kind.kind, name)
            for prop in touched:
                self.raw[key][prop.name] = prop.read(api, name)
                self.state[key][prop.name] = prop.canon(self.raw[key][prop.name])

    # what validation hooks may look at (description.View)

    def names(self, service: str, kind: str) -> list[str]:
        return [n for s, k, n in self.state if (s, k) == (service, kind)]

    def value(self, service: str, kind: str, name: str, prop: str) -> Any:
        return self.state.get((service, kind, name), {}).get(prop)

    def api(self, service: str) -> Api:
        return Api(self._account, service)
