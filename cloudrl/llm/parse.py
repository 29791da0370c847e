"""The strict parser: a reply becomes an action, or a code that says what is wrong with it.

It never raises and never guesses: no repair, no search for an object inside other text, no other spelling of a
name. What it accepts, the JSON schema accepts (cloudrl/llm/schema.py).
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, NoReturn

from cloudrl.actions import N_OPS, Op, noop_index
from cloudrl.llm.schema import MAX_CHARACTERS, MAX_REASON, MAX_RESOURCES, operations, resource_id
from cloudrl.safety.config import ActionSet

NO_ACTION = -1
"""Flat action of a rejected reply. A simulator that is given it counts an invalid action and plays NOOP."""

_SPACE = " \t\n\r"  # what JSON allows around a value
_OPEN, _CLOSE = "<think>", "</think>"
_KEYS = {"action", "resource", "reason"}
_SLOTS = {resource_id(slot): slot for slot in range(MAX_RESOURCES)}


class Code(StrEnum):
    """What became of a reply. The first that applies, in this order; inside an object, `too_long` comes later."""

    ok = "ok"
    too_long = "too_long"  # more than MAX_CHARACTERS, or a reason of more than MAX_REASON
    not_json = "not_json"  # no JSON value at the beginning
    trailing_text = "trailing_text"  # something after it
    not_an_object = "not_an_object"
    duplicate_key = "duplicate_key"
    unknown_key = "unknown_key"  # another key than action, resource, reason; or a resource for NOOP
    missing_key = "missing_key"  # no action, or an operation without resource
    wrong_type = "wrong_type"  # a value that is no string
    unknown_action = "unknown_action"
    unknown_resource = "unknown_resource"


class Parsed(NamedTuple):
    """A reply, understood or rejected. What is not known is None; `action` is NO_ACTION unless the code is ok."""

    code: Code
    op: Op | None = None
    resource: str | None = None
    action: int = NO_ACTION  # flat index
    reason: str | None = None


def parse(
    text: object,
    resources: int,
    n_slots: int | None = None,
    *,
    actions: ActionSet = ActionSet.full,
    thinks: bool = False,
) -> Parsed:
    """Parse one reply.

    Args:
        text: the whole reply, without special tokens of the model; what is no str is no JSON.
        resources: resources of the world: it may name r0 .. r(resources-1).
        n_slots: slots of the flat action space (default: `resources`).
        actions: the action set in use; an operation outside it is unknown.
        thinks: the model thinks: one <think> block at the beginning is left out.
    """
    if not isinstance(text, str):
        return _REJECTED[Code.not_json]
    if thinks:
        text = _after_thinking(text)
    # the quick test first, so that a megabyte is not copied
    if len(text) > MAX_CHARACTERS and len(text := text.strip(_SPACE)) > MAX_CHARACTERS:
        return _REJECTED[Code.too_long]
    value = _read(text.strip(_SPACE))
    if isinstance(value, Code):
        return _REJECTED[value]
    if not isinstance(value, _Object):
        return _REJECTED[Code.not_an_object]
    return _understand(value, resources, resources if n_slots is None else n_slots, operations_by_name(actions))


@cache
def operations_by_name(actions: ActionSet) -> dict[str, Op]:
    """Name -> operation of an action set, NOOP included."""
    return {name: Op[name] for name in (*operations(actions), Op.NOOP.name)}


def _understand(pairs: _Object, resources: int, n_slots: int, ops: dict[str, Op]) -> Parsed:
    """What the pairs of the object say."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        return _REJECTED[Code.duplicate_key]
    if not fields.keys() <= _KEYS:
        return _REJECTED[Code.unknown_key]
    if "action" not in fields:
        return _REJECTED[Code.missing_key]
    for value in fields.values():
        if not isinstance(value, str):
            return _REJECTED[Code.wrong_type]
    reason = fields.get("reason")
    if reason is not None and (fault := _fault_of_reason(reason)) is not None:
        return _REJECTED[fault]
    op = ops.get(fields["action"])
    if op is None:
        return _REJECTED[Code.unknown_action]
    if op is Op.NOOP:
        if "resource" in fields:
            return Parsed(Code.unknown_key, op)
        return Parsed(Code.ok, op, None, noop_index(n_slots), reason)
    if "resource" not in fields:
        return Parsed(Code.missing_key, op)
    slot = _SLOTS.get(fields["resource"], resources)
    if slot >= resources:
        return Parsed(Code.unknown_resource, op)
    return Parsed(Code.ok, op, fields["resource"], slot * N_OPS + int(op), reason)


def _fault_of_reason(reason: str) -> Code | None:
    if len(reason) > MAX_REASON:
        return Code.too_long
    try:
        reason.encode()
    except UnicodeEncodeError:  # half a surrogate pair is no character: no file could hold it
        return Code.not_json
    return None


def _after_thinking(text: str) -> str:
    """The text without its <think> block. A block that is never closed stays, and is no JSON."""
    start = text.lstrip(_SPACE)
    if not start.startswith(_OPEN):
        return text
    _, closed, rest = start.partition(_CLOSE)
    return rest if closed else start[: len(_OPEN)]


# ---------------------------------------------------------------- JSON, strictly
class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object in their order, duplicates included."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _number(digits: str) -> float:
    """No number is ever wanted, so none is computed: some have thousands of digits."""
    return 0.0


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_constant=_refuse, parse_int=_number, parse_float=_number
)  # fmt: skip


def _read(text: str) -> Any:
    """The JSON value that `text` is, or the Code of what is wrong."""
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return Code.not_json
    if end != len(text):
        return Code.trailing_text
    return value


_REJECTED = {code: Parsed(code) for code in Code}
