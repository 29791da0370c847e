"""Our own validation of Lambda calls, where emulators take what AWS refuses."""

from __future__ import annotations

import json
import re
from typing import Any

from .backend import REGION
from .description import View
from .errors import ApiError
from .lambda_wiring import read_permissions
from .translate import ACCOUNT

RUNTIMES = (
    "python3.12",
    "python3.13",
    "nodejs20.x",
    "nodejs22.x",
    "java21",
    "ruby3.3",
    "dotnet8",
    "provided.al2023",
)


def check_settings(payload: dict[str, Any], view: View) -> None:
    def number(key: str, low: int, high: int) -> None:
        value = payload.get(key, low)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ApiError("ValidationException", f"{key} must be {low} to {high}")

    number("Timeout", 1, 900)
    number("MemorySize", 128, 10240)
    role = payload.get("Role")
    if role is not None:
        trust = view.value("iam", "role", str(role).rpartition("/")[2], "trust")
        if str(role) != f"arn:aws:iam::{ACCOUNT}:role/{str(role).rpartition('/')[2]}" or not any(
            "lambda.amazonaws.com" in s.get("Principal", {}).get("Service", []) for s in trust or []
        ):
            raise ApiError("InvalidParameterValueException", "The role cannot be assumed by Lambda.")
    runtime = payload.get("Runtime", RUNTIMES[0])
    if runtime not in RUNTIMES:
        raise ApiError(
            "InvalidParameterValueException",
            f"Value {runtime!r} at 'runtime' is not supported; use one of {', '.join(RUNTIMES)}",
        )
    variables = (payload.get("Environment") or {}).get("Variables") or {}
    if len(json.dumps(variables)) > 4096:
        raise ApiError("InvalidParameterValueException", "environment variables are limited to 4 kB")


def check_create(payload: dict[str, Any], view: View) -> None:
    payload.setdefault("Runtime", RUNTIMES[0])
    payload.setdefault("Handler", "index.handler")
    if "Role" not in payload:
        roles = view.names("iam", "role")
        if not roles:
            raise ApiError("InvalidParameterValueException", "Role is missing, and there is no role to take")
        payload["Role"] = f"arn:aws:iam::{ACCOUNT}:role/{roles[0]}"
    check_settings(payload, view)


def check_permission(payload: dict[str, Any], view: View) -> None:
    name = str(payload.get("FunctionName")).rpartition(":")[2]
    if any(s.get("Sid") == payload.get("StatementId") for s in _read_statements(view, name)):
        raise ApiError(
            "ResourceConflictException",
            f"The statement id ({payload.get('StatementId')}) provided already exists.",
        )
    principal = str(payload.get("Principal"))
    if not re.fullmatch(r"\*|[a-z0-9.-]+\.amazonaws\.com|\d{12}|arn:aws:iam::\d{12}:.+", principal):
        raise ApiError("InvalidParameterValueException", "The provided principal was invalid.")
    if not re.fullmatch(r"lambda:\w+", str(payload.get("Action"))):
        raise ApiError("ValidationException", "Action must be of the form lambda:<operation>")


def _read_statements(view: View, name: str) -> list[Any]:
    if name not in view.names("lambda", "function"):
        return []
    found: list[Any] = read_permissions(view.api("lambda"), name)
    return found


def check_trigger(payload: dict[str, Any], view: View) -> None:
    payload.setdefault("BatchSize", 10)
    size = payload["BatchSize"]
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 10000:
        raise ApiError("InvalidParameterValueException", "BatchSize must be 1 to 10000")
    source = payload.get("EventSourceArn")
    queues = view.names("sqs", "queue")
    if source is not None and source not in [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{q}" for q in queues]:
        raise ApiError("InvalidParameterValueException", f"there is no queue {str(source)[:200]!r} to read from")
    name = str(payload.get("FunctionName")).rpartition(":")[2]
    triggers = view.value("lambda", "function", name, "triggers") or []
    if source is not None and any(t["source"] == source for t in triggers):
        raise ApiError("ResourceConflictException", "An event source mapping with this queue and function exists.")


def check_trigger_update(payload: dict[str, Any], view: View) -> None:
    if "BatchSize" in payload:
        check_trigger(payload, view)
