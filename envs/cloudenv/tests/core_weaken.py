"""Repairs that are weaker than the right one: a part is missing, or there is too much in them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

IRRELEVANT = {
    "PutTargets": {"Id"},
    "AddPermission": {"StatementId"},
    "CreateReplicationGroup": {"ReplicationGroupDescription"},
    "CreateDBInstance": {"AllocatedStorage", "MasterUsername", "MasterUserPassword"},
}
"""By operation: parameters that make no difference. Ids and statement ids name an entry, and any name does; the
others are asked for by the operation and shown by no property."""

DOCUMENTS = {"Policy", "PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy", "ResourcePolicy"}


def weaker(action: dict[str, Any], leftover: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what was changed, payload) of each way to weaken an action. `leftover`: statements of the broken policy."""
    payload = action["payload"]
    for path, value in _leaves(payload, ()):
        key = next((k for k in reversed(path) if isinstance(k, str)), "")
        if key in IRRELEVANT.get(action["operation"], ()):
            continue
        if isinstance(value, str) and value and (key in DOCUMENTS or value.startswith('{"')):
            for label, text in _weaker_text(value, leftover):
                yield f"{_name(path)}: {label}", _with(payload, path, text)
        else:
            yield f"{_name(path)}: another value", _with(payload, path, _other(value))
    for path, items in _lists(payload, ()):
        if len(items) > 1:
            yield f"{_name(path)}: one entry less", _with(payload, path, items[1:])


def _weaker_text(text: str, leftover: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    document = json.loads(text)
    if "Statement" not in document:
        for path, value in _leaves(document, ()):
            yield f"{_name(path)} another value", json.dumps(_with(document, path, _other(value)))
        return
    listed = document["Statement"]
    for i, statement in enumerate(listed):
        if len(listed) > 1:
            yield f"statement {i} dropped", _document(document, listed[:i] + listed[i + 1 :])
        for changed in _weaker_statement(statement):
            yield f"statement {i} weakened", _document(document, [*listed[:i], changed, *listed[i + 1 :]])
    if leftover:
        yield "the old statements left in", _document(document, listed + leftover)
    extra = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    if any("Principal" in s for s in listed):
        extra = {"Effect": "Allow", "Principal": "*", "Action": listed[0]["Action"]}
        extra |= {"Resource": listed[0]["Resource"]} if "Resource" in listed[0] else {}
    yield "a statement too many", _document(document, [*listed, extra])


def _weaker_statement(statement: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("Action", "Resource"):
        values = statement.get(key)
        if values is None:
            continue
        values = values if isinstance(values, list) else [values]
        if len(values) > 1:
            yield {**statement, key: values[1:]}
        if "*" not in values:
            yield {**statement, key: [*values, "*"]}
            yield {**statement, key: "*"}
    if "Condition" in statement:
        yield {k: v for k, v in statement.items() if k != "Condition"}
    if statement.get("Principal", "*") not in ("*", {"AWS": "*"}):
        yield {**statement, "Principal": "*"}
    yield {**statement, "Effect": "Deny" if statement["Effect"] == "Allow" else "Allow"}


def _document(document: dict[str, Any], listed: list[Any]) -> str:
    return json.dumps({**document, "Statement": listed})


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for k, v in value.items():
            yield from _leaves(v, (*path, k))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from _leaves(v, (*path, i))
    else:
        yield path, value


def _lists(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    if isinstance(value, dict):
        for k, v in value.items():
            yield from _lists(v, (*path, k))
    elif isinstance(value, list):
        yield path, value


def _with(payload: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    out = copy.deepcopy(payload)
    target: Any = out
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return out


def _other(value: Any) -> Any:
    if isinstance(value, bool) or value in ("true", "false"):
        return (not value) if isinstance(value, bool) else {"true": "false", "false": "true"}[value]
    if isinstance(value, int | float):
        return value - 1
    if isinstance(value, str) and value.isdigit():
        return str(int(value) - 1)
    return f"{value}-x"


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
