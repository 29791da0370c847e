"""What starts a function: permissions to invoke it, and triggers (event source mappings)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .description import Api, Call, FaultSite

_GONE = ("ResourceNotFoundException",)


# permissions


def read_permissions(api: Api, name: str) -> Any:
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


def canon_permissions(raw: Any) -> Any:
    return in_order([_permission(s) for s in raw])


def parse_permissions(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    for item in value or []:
        known = {"principal", "action", "source_arn", "source_account"}
        if not isinstance(item, dict) or set(item) - known or "principal" not in item:
            raise ValueError('must be a list of {"principal", "action"?, "source_arn"?, "source_account"?}')
    return in_order([{"action": "lambda:InvokeFunction", **item} for item in value or []])


def put_permissions(name: str, want: list[Any], raw: Any) -> list[Call]:
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


def without_source(value: list[Any], site: FaultSite) -> Any:
    return in_order([{k: v for k, v in p.items() if not k.startswith("source")} for p in value])


# triggers: event source mappings


def canon_triggers(raw: Any) -> Any:
    return in_order(
        [
            {
                "source": m["EventSourceArn"],
                "enabled": not str(m.get("State", "Enabled")).startswith("Disabl"),
                "batch_size": int(m.get("BatchSize") or 10),
            }
            for m in raw
        ]
    )


def parse_triggers(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    for item in value or []:
        if not isinstance(item, dict) or set(item) - {"source", "enabled", "batch_size"} or "source" not in item:
            raise ValueError('must be a list of {"source": ARN, "enabled"?, "batch_size"?}')
    return in_order([{"enabled": True, "batch_size": 10, **item} for item in value or []])


def put_triggers(name: str, want: list[Any], raw: Any) -> list[Call]:
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
        elif canon_triggers([have[source]]) != [trigger]:
            calls.append(Call("lambda", "UpdateEventSourceMapping", {"UUID": have[source]["UUID"], **settings}))
    return calls


def disabled(value: list[Any], site: FaultSite) -> Any:
    return in_order([{**value[0], "enabled": False}, *value[1:]]) if value else value


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
