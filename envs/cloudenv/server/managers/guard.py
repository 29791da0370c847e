"""What an agent may call: the allow-list of the descriptions, limits on payloads, our own validation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ..providers.aws.account import Account
from ..providers.aws.description import ResourceType, Service
from ..providers.aws.errors import ApiError
from ..providers.aws.registry import SERVICES, closest
from ..providers.aws.translate import ACCOUNT, QUEUE_URL
from .graph import Graph
from .observe import Observer

MAX_PAYLOAD = 64 * 1024
"""Characters of json, or bytes, in one payload."""
MAX_DEPTH = 20
MAX_EXTRAS = 50
"""Resources an episode may hold beside those of its task."""


class Guard:
    """Checks and completes the calls of one episode."""

    def __init__(self, account: Account, ideal: Graph) -> None:
        self._account = account
        self._ideal = ideal

    def check(self, service: str, operation: str, payload: Any, now: Observer) -> dict[str, Any]:
        """The payload to send, defaults filled in; raises ApiError with the reason for a refusal."""
        if service not in SERVICES:
            raise ApiError(
                "UnknownService", f"unknown service {str(service)[:40]!r}; {closest(service, SERVICES)}"
            )
        described = SERVICES[service]
        if not isinstance(operation, str) or operation not in described.operations:
            raise ApiError(
                "NotAllowed",
                f"operation {str(operation)[:60]!r} of {service} is not allowed; "
                f"{closest(operation, described.operations)}",
            )
        if payload is None:
            payload = {}
        if not isinstance(payload, Mapping):
            raise ApiError("ValidationException", "payload must be an object of parameters")
        checked = _plain(payload, 0)
        if _size(checked) > MAX_PAYLOAD:
            raise ApiError("RequestEntityTooLarge", f"the payload is larger than {MAX_PAYLOAD // 1024} kB")
        self._parameters(described, operation, checked)
        for kind in described.types:
            if operation == kind.create_op:
                self._create(kind, checked, now)
            else:
                self._identify(kind, checked)
        hook = described.hooks.get(operation)
        if hook is not None:
            try:
                hook(checked, now)
            except (TypeError, ValueError, AttributeError, KeyError, IndexError):
                raise ApiError("ValidationException", f"a parameter of {operation} has the wrong form") from None
        return checked

    def _parameters(self, described: Service, operation: str, payload: dict[str, Any]) -> None:
        allowed = described.params.get(operation)
        unknown = sorted(set(payload) - allowed) if allowed is not None else []
        if allowed is not None and unknown:
            raise ApiError(
                "NotAllowed",
                f"parameter {unknown[0]!r} of {operation} is not part of CloudEnv; {closest(unknown[0], allowed)}",
            )
        for kind in described.types:
            value = payload.get(kind.id_param)
            if isinstance(value, str) and value.startswith("arn:"):
                account = value.split(":")[4:5]
                if account not in ([ACCOUNT], [""]):
                    raise ApiError("AccessDenied", f"{kind.id_param} names a resource of another account")

    def _create(self, kind: ResourceType, payload: dict[str, Any], now: Observer) -> None:
        """A name for a new resource that has none: a declared one that is missing, or the next free number."""
        taken = now.names(kind.service, kind.kind)
        parameter = kind.name_param or kind.id_param
        if kind.created_name(payload) is None:
            missing = [n.name for n in self._ideal if n.type is kind and n.name not in taken]
            free = (f"{kind.kind.replace('_', '-')}-{i}" for i in range(1, MAX_EXTRAS + 2))
            name = missing[0] if missing else next(name for name in free if name not in taken)
            if kind.put_name is not None:
                kind.put_name(payload, name)
            else:
                payload[parameter] = name
        name = kind.created_name(payload)
        if not isinstance(name, str):
            raise ApiError("ValidationException", f"{parameter} must be a string")
        if wrong := kind.check_name(name):
            raise ApiError("ValidationException", f"bad {parameter} {name[:80]!r}: {wrong}")
        if len(now.state) >= len(self._ideal.nodes) + MAX_EXTRAS:
            raise ApiError("LimitExceeded", f"an episode may hold {MAX_EXTRAS} resources beside those of its task")

    def _identify(self, kind: ResourceType, payload: dict[str, Any]) -> None:
        """Queue URLs have one form; a bare name is understood too. Where AWS wants an ARN, nothing else is one."""
        value = payload.get(kind.id_param)
        if kind.id_param.endswith("Arn") and isinstance(value, str) and not value.startswith("arn:"):
            raise ApiError("InvalidParameter", f"Invalid parameter: {kind.id_param} must be {kind.arn('<name>')}")
        if kind.url is None or not kind.id_param.endswith("Url") or kind.id_param not in payload:
            return
        value = payload[kind.id_param]
        if isinstance(value, str) and "/" not in value:
            payload[kind.id_param] = kind.url(value)
        elif not isinstance(value, str) or not value.startswith(QUEUE_URL):
            raise ApiError("AccessDenied", f"{kind.id_param} must be a queue of yours: {QUEUE_URL}<name>")


def _plain(value: Any, depth: int) -> Any:
    """A copy made of json values and bytes; raises ApiError for anything else."""
    if depth > MAX_DEPTH:
        raise ApiError("ValidationException", f"the payload is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return {_plain(str(k), depth): _plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ApiError("ValidationException", "the payload holds a number that is not finite")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise ApiError("ValidationException", "the payload holds a lone surrogate, which is no text")
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return value
    raise ApiError(
        "ValidationException", f"the payload holds a {type(value).__name__}; json values and bytes only"
    )


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(k) + _size(v) for k, v in value.items()) + 2
    if isinstance(value, list):
        return sum(map(_size, value)) + 2
    return len(value) if isinstance(value, (str, bytes)) else len(json.dumps(value))
