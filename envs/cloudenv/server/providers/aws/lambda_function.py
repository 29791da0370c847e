"""Lambda: functions, with their triggers and permissions. Their code is ours and does nothing."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
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
DEPRECATED = (
    "python3.7",
    "python3.8",
    "nodejs12.x",
    "nodejs14.x",
    "nodejs16.x",
    "go1.x",
    "ruby2.7",
    "dotnet6",
    "java8",
)
"""AWS runs functions with these no more, or lets nobody update them."""

_GONE = ("ResourceNotFoundException",)


def _code() -> bytes:
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("index.py", (2020, 1, 1, 0, 0, 0)), "def handler(event, context):\n    return {}\n"
        )
    return text.getvalue()


CODE = _code()


def arn(name: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"


def _setting(key: str, change: Callable[[Any], Any] = lambda found: found) -> Callable[[Api, str], Any]:
    return lambda api, name: change(api("GetFunctionConfiguration", FunctionName=name).get(key))


def _update(name: str, **settings: Any) -> list[Call]:
    return [Call("lambda", "UpdateFunctionConfiguration", {"FunctionName": name, **settings})]


_UPDATE = ("UpdateFunctionConfiguration",)


# permissions


def _read_permissions(api: Api, name: str) -> Any:
    found = api("GetPolicy", absent=_GONE, FunctionName=name)
    return json.loads(found["Policy"])["Statement"] if found else []


def _permission(statement: dict[str, Any]) -> dict[str, Any]:
    principal = statement["Principal"]
    if isinstance(principal, dict):
        principal = principal.get("Service", principal.get("AWS"))
    found: dict[str, Any] = {"principal": _one(principal), "action": _one(statement.get("Action"))}
    for keys in statement.get("Condition", {}).values():
        for key, value in keys.items():
            if key.lower() == "aws:sourcearn":
                found["source_arn"] = _one(value)
            if key.lower() == "aws:sourceaccount":
                found["source_account"] = _one(value)
    return found


def _canon_permissions(raw: Any) -> Any:
    return _sorted([_permission(s) for s in raw])


def _parse_permissions(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    for item in value or []:
        known = {"principal", "action", "source_arn", "source_account"}
        if not isinstance(item, dict) or set(item) - known or "principal" not in item:
            raise ValueError('must be a list of {"principal", "action"?, "source_arn"?, "source_account"?}')
    return _sorted([{"action": "lambda:InvokeFunction", **item} for item in value or []])


def _put_permissions(name: str, want: list[Any], raw: Any) -> list[Call]:
    calls = [
        Call("lambda", "RemovePermission", {"FunctionName": name, "StatementId": s["Sid"]})
        for s in raw or []
        if _permission(s) not in want
    ]
    have = [_permission(s) for s in raw or []]
    for item in want:
        if item not in have:
            sid = "allow-" + hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:8]
            payload = {
                "FunctionName": name,
                "StatementId": sid,
                "Action": item["action"],
                "Principal": item["principal"],
            }
            payload |= {"SourceArn": item["source_arn"]} if "source_arn" in item else {}
            payload |= {"SourceAccount": item["source_account"]} if "source_account" in item else {}
            calls.append(Call("lambda", "AddPermission", payload))
    return calls


def _without_source(value: list[Any], site: FaultSite) -> Any:
    return _sorted([{k: v for k, v in p.items() if not k.startswith("source")} for p in value])


# triggers: event source mappings


def _canon_triggers(raw: Any) -> Any:
    return _sorted(
        [
            {
                "source": m["EventSourceArn"],
                "enabled": not str(m.get("State", "Enabled")).startswith("Disabl"),
                "batch_size": int(m.get("BatchSize") or 10),
            }
            for m in raw
        ]
    )


def _parse_triggers(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    for item in value or []:
        if not isinstance(item, dict) or set(item) - {"source", "enabled", "batch_size"} or "source" not in item:
            raise ValueError('must be a list of {"source": ARN, "enabled"?, "batch_size"?}')
    return _sorted([{"enabled": True, "batch_size": 10, **item} for item in value or []])


def _put_triggers(name: str, want: list[Any], raw: Any) -> list[Call]:
    have = {m["EventSourceArn"]: m for m in raw or []}
    wanted = {t["source"]: t for t in want}
    calls = [
        Call("lambda", "DeleteEventSourceMapping", {"UUID": m["UUID"]}) for s, m in have.items() if s not in wanted
    ]
    for source, trigger in wanted.items():
        settings = {"Enabled": trigger["enabled"], "BatchSize": trigger["batch_size"]}
        if source not in have:
            new = {"FunctionName": name, "EventSourceArn": source, **settings}
            calls.append(Call("lambda", "CreateEventSourceMapping", new))
        elif _canon_triggers([have[source]]) != [trigger]:
            calls.append(Call("lambda", "UpdateEventSourceMapping", {"UUID": have[source]["UUID"], **settings}))
    return calls


def _disabled(value: list[Any], site: FaultSite) -> Any:
    return _sorted([{**value[0], "enabled": False}, *value[1:]]) if value else value


# environment, role


def _parse_environment(value: Any) -> Any:
    if not isinstance(value or {}, dict):
        raise ValueError("must be an object of strings")
    return {str(k): str(v) for k, v in sorted((value or {}).items())}


def _wrong_target(value: dict[str, str], site: FaultSite) -> Any:
    names = [
        k for k, v in value.items() if v.startswith(("arn:", "https:")) or k.endswith(("TABLE", "BUCKET", "QUEUE"))
    ]
    if not names:
        return value
    name = site.rng.choice(names)
    return {**value, name: value[name] + "-old"}


def _other_role(value: str, site: FaultSite) -> Any:
    others = sorted(a for a in site.others.values() if ":role/" in a and a != value)
    return site.rng.choice(others) if others else value


def _old_runtime(value: str, site: FaultSite) -> Any:
    family = re.match(r"[a-z]+", value)
    old = [r for r in DEPRECATED if family and r.startswith(family[0])]
    return site.rng.choice(old) if old and value not in DEPRECATED else value


def _create(name: str, wanted: Any) -> dict[str, Any]:
    return {
        "FunctionName": name,
        "Runtime": wanted.get("runtime") or RUNTIMES[0],
        "Handler": "index.handler",
        "Role": wanted.get("role") or f"arn:aws:iam::{ACCOUNT}:role/{name}",
    }


def _concurrency(name: str, want: Any, raw: Any) -> list[Call]:
    if want is None:
        return [Call("lambda", "DeleteFunctionConcurrency", {"FunctionName": name})]
    payload = {"FunctionName": name, "ReservedConcurrentExecutions": want}
    return [Call("lambda", "PutFunctionConcurrency", payload)]


FUNCTION = ResourceType(
    service="lambda",
    kind="function",
    create_op="CreateFunction",
    create=_create,
    delete_op="DeleteFunction",
    delete=lambda name: {"FunctionName": name},
    names=lambda api: [f["FunctionName"] for f in api("ListFunctions")["Functions"]],
    arn=arn,
    id_param="FunctionName",
    clean=lambda api, name: [
        Call("lambda", "DeleteEventSourceMapping", {"UUID": m["UUID"]})
        for m in api("ListEventSourceMappings", FunctionName=name)["EventSourceMappings"]
    ],
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w-]{1,64}", name)
        else "function names have 1 to 64 letters, digits, hyphens, underscores"
    ),
    properties=(
        Property(
            "role",
            _setting("Role"),
            lambda name, want, raw: _update(name, Role=want),
            ops=_UPDATE,
            parse=str,
            at_create=True,
            faults=(
                Fault(
                    "LAMBDA_WRONG_ROLE", "the function has another one's role", ("WIRING.15",), _other_role, "hard"
                ),
            ),
        ),
        Property(
            "runtime",
            _setting("Runtime"),
            lambda name, want, raw: _update(name, Runtime=want),
            ops=_UPDATE,
            parse=str,
            at_create=True,
            faults=(
                Fault(
                    "LAMBDA_OLD_RUNTIME",
                    "the runtime is deprecated",
                    ("FSBP:Lambda.2", "Checkov:CKV_AWS_363"),
                    _old_runtime,
                ),
            ),
        ),
        Property(
            "timeout",
            _setting("Timeout"),
            lambda name, want, raw: _update(name, Timeout=want),
            ops=_UPDATE,
            canon=lambda raw: int(raw or 3),
            parse=int,
            empty=3,
            faults=(
                Fault(
                    "LAMBDA_TIMEOUT_LOW",
                    "the function is stopped after a second",
                    ("WIRING.5",),
                    always(1),
                    "medium",
                ),
            ),
        ),
        Property(
            "memory",
            _setting("MemorySize"),
            lambda name, want, raw: _update(name, MemorySize=want),
            ops=_UPDATE,
            canon=lambda raw: int(raw or 128),
            parse=int,
            empty=128,
        ),
        Property(
            "environment",
            _setting("Environment", lambda found: (found or {}).get("Variables") or {}),
            lambda name, want, raw: _update(name, Environment={"Variables": want}),
            ops=_UPDATE,
            canon=_parse_environment,
            parse=_parse_environment,
            empty={},
            faults=(
                Fault(
                    "LAMBDA_SECRET_IN_ENV",
                    "a password stands in the environment",
                    ("Checkov:CKV_AWS_45",),
                    lambda value, site: {**value, "DB_PASSWORD": "hunter2-hunter2"},
                ),
                Fault(
                    "LAMBDA_ENV_WRONG_TARGET",
                    "the environment names a resource that is not there",
                    ("WIRING.3",),
                    _wrong_target,
                    "hard",
                ),
            ),
        ),
        Property(
            "policies",
            _read_permissions,
            _put_permissions,
            ops=("AddPermission", "RemovePermission"),
            canon=_canon_permissions,
            parse=_parse_permissions,
            empty=[],
            fresh=[],
            weight=2.0,
            faults=(
                Fault(
                    "LAMBDA_PUBLIC",
                    "everybody may invoke the function",
                    ("FSBP:Lambda.1", "Checkov:CKV_AWS_301"),
                    lambda value, site: _sorted([*value, {"principal": "*", "action": "lambda:InvokeFunction"}]),
                ),
                Fault(
                    "LAMBDA_ANY_SOURCE",
                    "any bucket or rule of the service may invoke the function",
                    ("Checkov:CKV_AWS_364",),
                    _without_source,
                    "medium",
                ),
                Fault(
                    "LAMBDA_PERMISSION_LOST",
                    "the service that should invoke the function may not",
                    ("WIRING.4",),
                    always([]),
                    "hard",
                ),
            ),
        ),
        Property(
            "triggers",
            lambda api, name: api("ListEventSourceMappings", FunctionName=name)["EventSourceMappings"],
            _put_triggers,
            ops=("CreateEventSourceMapping", "UpdateEventSourceMapping", "DeleteEventSourceMapping"),
            canon=_canon_triggers,
            parse=_parse_triggers,
            empty=[],
            fresh=[],
            needs_ready=True,
            weight=2.0,
            faults=(
                Fault("LAMBDA_TRIGGER_DISABLED", "the trigger is disabled", ("WIRING.13",), _disabled, "medium"),
                Fault(
                    "LAMBDA_TRIGGER_LOST",
                    "nothing starts the function any more",
                    ("WIRING.13",),
                    always([]),
                    "hard",
                ),
            ),
        ),
        Property(
            "concurrency",
            lambda api, name: api("GetFunctionConcurrency", FunctionName=name).get("ReservedConcurrentExecutions"),
            _concurrency,
            ops=("PutFunctionConcurrency", "DeleteFunctionConcurrency"),
            parse=lambda value: None if value is None else int(value),
            faults=(
                Fault(
                    "LAMBDA_THROTTLED",
                    "no execution is allowed",
                    ("WIRING.14",),
                    always(0),
                    "medium",
                ),
            ),
        ),
        Property(
            "dead_letters",
            _setting("DeadLetterConfig", lambda found: (found or {}).get("TargetArn")),
            lambda name, want, raw: _update(name, DeadLetterConfig={"TargetArn": want or ""}),
            ops=_UPDATE,
            canon=lambda raw: raw or None,
            faults=(
                Fault(
                    "LAMBDA_NO_DLQ", "failed events are dropped", ("Checkov:CKV_AWS_116",), always(None), "medium"
                ),
            ),
        ),
    ),
)


def _check_settings(payload: dict[str, Any], view: View) -> None:
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


def _check_create(payload: dict[str, Any], view: View) -> None:
    payload.setdefault("Runtime", RUNTIMES[0])
    payload.setdefault("Handler", "index.handler")
    if "Role" not in payload:
        roles = view.names("iam", "role")
        if not roles:
            raise ApiError("InvalidParameterValueException", "Role is missing, and there is no role to take")
        payload["Role"] = f"arn:aws:iam::{ACCOUNT}:role/{roles[0]}"
    _check_settings(payload, view)


def _check_permission(payload: dict[str, Any], view: View) -> None:
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
    found: list[Any] = _read_permissions(view.api("lambda"), name)
    return found


def _check_trigger(payload: dict[str, Any], view: View) -> None:
    payload.setdefault("BatchSize", 10)
    size = payload["BatchSize"]
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 10000:
        raise ApiError("InvalidParameterValueException", "BatchSize must be 1 to 10000")
    source = payload.get("EventSourceArn")
    queues = view.names("sqs", "queue")
    if source is not None and source not in [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{q}" for q in queues]:
        raise ApiError("InvalidParameterValueException", f"there is no queue {str(source)[:200]!r} to read from")
    name = FUNCTION.find(payload, view.names("lambda", "function"))
    triggers = view.value("lambda", "function", name, "triggers") if name else []
    if source is not None and any(t["source"] == source for t in triggers):
        raise ApiError("ResourceConflictException", "An event source mapping with this queue and function exists.")


def _check_trigger_update(payload: dict[str, Any], view: View) -> None:
    if "BatchSize" in payload:
        _check_trigger(payload, view)


def _add_code(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    return {**payload, "Code": {"ZipFile": CODE}}


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _sorted(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


_SETTINGS = {
    "FunctionName",
    "Role",
    "Runtime",
    "Timeout",
    "MemorySize",
    "Environment",
    "DeadLetterConfig",
    "Handler",
}

SERVICE = Service(
    name="lambda",
    types=(FUNCTION,),
    reads=(
        "ListFunctions",
        "GetFunctionConfiguration",
        "GetPolicy",
        "ListEventSourceMappings",
        "GetEventSourceMapping",
        "GetFunctionConcurrency",
    ),
    hooks={
        "CreateFunction": _check_create,
        "UpdateFunctionConfiguration": _check_settings,
        "AddPermission": _check_permission,
        "CreateEventSourceMapping": _check_trigger,
        "UpdateEventSourceMapping": _check_trigger_update,
    },
    complete={"CreateFunction": _add_code},
    params={
        "CreateFunction": frozenset(_SETTINGS | {"Description"}),
        "UpdateFunctionConfiguration": frozenset(_SETTINGS),
        "AddPermission": frozenset(
            {"FunctionName", "StatementId", "Action", "Principal", "SourceArn", "SourceAccount"}
        ),
        "CreateEventSourceMapping": frozenset({"FunctionName", "EventSourceArn", "Enabled", "BatchSize"}),
        "UpdateEventSourceMapping": frozenset({"UUID", "Enabled", "BatchSize"}),
    },
)
