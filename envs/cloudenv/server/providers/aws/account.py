"""One account of the emulator, called in the agent's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .backend import Backend
from .description import Api
from .errors import ApiError
from .registry import SERVICES
from .translate import Translator


class Account:
    """A fresh, empty account. Whoever holds it frees it: `free()` drops all it holds."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.number = backend.new_account()
        self._names = Translator(self.number, backend.queue_origin)

    def call(self, service: str, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a call and return its response, both in the agent's terms; raises ApiError."""
        described = SERVICES.get(service)
        if described is not None and operation in described.complete:
            payload = described.complete[operation](dict(payload), Api(self, service))
        try:
            response = self.backend.call(self.number, service, operation, self._names.to_physical(dict(payload)))
        except ApiError as e:
            raise ApiError(e.code, self._names.to_logical(e.message)) from None
        self._learn_id(service, operation, payload, response)
        found: dict[str, Any] = self._names.to_logical(response)
        return found

    def free(self) -> bool:
        """Drop everything at once; False when the emulator has no such thing."""
        return self.backend.free(self.number)

    def _learn_id(self, service: str, operation: str, payload: Mapping[str, Any], response: Any) -> None:
        """The emulator chose an id for a new resource: the agent's id for it depends on its name alone."""
        for kind in SERVICES[service].types if service in SERVICES else ():
            if operation == kind.create_op and kind.id_prefix:
                for key in kind.id_path:
                    response = response[int(key) if key.isdigit() else key]
                name = kind.created_name(payload)
                if isinstance(name, str):
                    self._names.bind(kind.identifier(name), response)
