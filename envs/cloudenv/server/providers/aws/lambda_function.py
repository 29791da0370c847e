"""Lambda: functions, with their triggers and permissions. Their code is ours and does nothing."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

from . import lambda_checks, lambda_wiring
from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, always
from .lambda_checks import RUNTIMES
from .translate import ACCOUNT

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
            lambda_wiring.read_permissions,
            lambda_wiring.put_permissions,
            ops=("AddPermission", "RemovePermission"),
            canon=lambda_wiring.canon_permissions,
            parse=lambda_wiring.parse_permissions,
            empty=[],
            fresh=[],
            weight=2.0,
            faults=(
                Fault(
                    "LAMBDA_PUBLIC",
                    "everybody may invoke the function",
                    ("FSBP:Lambda.1", "Checkov:CKV_AWS_301"),
                    lambda value, site: lambda_wiring.in_order(
                        [*value, {"principal": "*", "action": "lambda:InvokeFunction"}]
                    ),
                ),
                Fault(
                    "LAMBDA_ANY_SOURCE",
                    "any bucket or rule of the service may invoke the function",
                    ("Checkov:CKV_AWS_364",),
                    lambda_wiring.without_source,
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
            lambda_wiring.put_triggers,
            ops=("CreateEventSourceMapping", "UpdateEventSourceMapping", "DeleteEventSourceMapping"),
            canon=lambda_wiring.canon_triggers,
            parse=lambda_wiring.parse_triggers,
            empty=[],
            fresh=[],
            needs_ready=True,
            weight=2.0,
            faults=(
                Fault(
                    "LAMBDA_TRIGGER_DISABLED",
                    "the trigger is disabled",
                    ("WIRING.13",),
                    lambda_wiring.disabled,
                    "medium",
                ),
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


def _add_code(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    return {**payload, "Code": {"ZipFile": CODE}}


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
        "CreateFunction": lambda_checks.check_create,
        "UpdateFunctionConfiguration": lambda_checks.check_settings,
        "AddPermission": lambda_checks.check_permission,
        "CreateEventSourceMapping": lambda_checks.check_trigger,
        "UpdateEventSourceMapping": lambda_checks.check_trigger_update,
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
