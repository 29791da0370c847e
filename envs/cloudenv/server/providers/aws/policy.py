"""Policy documents: canonical form, equality of meaning, validation as AWS does it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any

from .errors import ApiError
from .translate import ACCOUNT

_LISTS = ("Action", "NotAction", "Resource", "NotResource")
_PRINCIPALS = ("Principal", "NotPrincipal")
_ELEMENTS = {"Sid", "Effect", "Condition", *_LISTS, *_PRINCIPALS}
_VERSIONS = ("2012-10-17", "2008-10-17")


def statements(document: Any) -> list[dict[str, Any]]:
    """Canonical list of statements of a document (dict, json text, or list of statements); None gives [].

    Sids are dropped, scalars become sorted lists, principals a dict, statements are sorted. Raises ValueError.
    """
    if document is None:
        return []
    if isinstance(document, str):
        document = json.loads(document)
    listed = document.get("Statement", []) if isinstance(document, dict) else document
    listed = [listed] if isinstance(listed, dict) else listed
    if not isinstance(listed, list) or not all(isinstance(s, dict) for s in listed):
        raise ValueError("a policy is a list of statements, or a document with a Statement")
    return sorted((_statement(s) for s in listed), key=_text)


def document(listed: list[dict[str, Any]]) -> str:
    """The json text of a policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": _collapsed(listed)})


def meaning(listed: list[dict[str, Any]]) -> list[str]:
    """What the statements say, however they are split: one text per (effect, principal, action, resource,
    condition).

    Two policies that differ in Sid, order, letter case of actions or in how statements are grouped mean the same.
    """
    atoms = set()
    for s in listed:
        rest = {k: v for k, v in s.items() if k not in ("Action", "Resource", "Principal")}
        principals = [{k: p} for k, ps in s["Principal"].items() for p in ps] if "Principal" in s else [None]
        for principal, action, resource in product(
            principals, s.get("Action") or [None], s.get("Resource") or [None]
        ):
            atoms.add(_text([rest, principal, action.lower() if action else None, resource]))
    return sorted(atoms)


def is_public(statement: dict[str, Any]) -> bool:
    """An Allow for everybody that no condition limits."""
    everybody = "*" in statement.get("Principal", {}).get("AWS", [])
    return statement.get("Effect") == "Allow" and everybody and "Condition" not in statement


def check(
    text: Any, *, code: str = "MalformedPolicy", principal: bool, resource: Callable[[str], bool] | None
) -> None:
    """Refuse what AWS refuses in a policy document.

    `principal`: the document belongs to a resource, so every statement names one; otherwise none may.
    `resource`: which resources it may name; None for trust policies, which name none. Raises ApiError(code).
    """

    def fail(message: str) -> None:
        raise ApiError(code, message)

    try:
        parsed = json.loads(text)
    except (TypeError, ValueError):
        fail("This policy contains invalid Json")
    if not isinstance(parsed, dict):
        fail("a policy document is a json object")
    if parsed.get("Version", _VERSIONS[1]) not in _VERSIONS:
        fail("the policy must contain a valid version string")
    if unknown := set(parsed) - {"Version", "Id", "Statement"}:
        fail(f"unknown element {sorted(unknown)[0]!r} in the policy")
    listed = parsed.get("Statement")
    listed = [listed] if isinstance(listed, dict) else listed
    if not isinstance(listed, list) or not listed or not all(isinstance(s, dict) for s in listed):
        fail("Missing required field Statement")
    for s in listed:
        if unknown := set(s) - _ELEMENTS:
            fail(f"unknown element {sorted(unknown)[0]!r} in a statement")
        if s.get("Effect") not in ("Allow", "Deny"):
            fail("Effect must be Allow or Deny")
        for name in _LISTS:
            values = s.get(name, [])
            if not isinstance(values, str) and not (
                isinstance(values, list) and all(isinstance(v, str) for v in values)
            ):
                fail(f"{name} must be a string or a list of strings")
        if not s.get("Action") and not s.get("NotAction"):
            fail("Missing required field Action")
        for action in [*_listed(s.get("Action", [])), *_listed(s.get("NotAction", []))]:
            if action != "*" and not re.fullmatch(r"[A-Za-z0-9-]+:[A-Za-z0-9*?]+", action):
                fail(f"Policy has invalid action {action!r}")
        if not isinstance(s.get("Condition", {}), dict) or not all(
            isinstance(v, dict) for v in s.get("Condition", {}).values()
        ):
            fail("Condition must map operators to objects")
        has_principal = "Principal" in s or "NotPrincipal" in s
        if principal and not has_principal:
            fail("Missing required field Principal")
        if not principal and has_principal:
            fail("Policy document should not specify a principal")
        for name in _PRINCIPALS:
            value = s.get(name, "*")
            if value != "*" and not (
                isinstance(value, dict) and value and set(value) <= {"AWS", "Service", "Federated"}
            ):
                fail("Invalid principal in policy")
        named = [*_listed(s.get("Resource", [])), *_listed(s.get("NotResource", []))]
        if resource is None and named:
            fail("Has prohibited field Resource")
        if resource is not None and not named:
            fail("Missing required field Resource")
        for name in named:
            if resource is not None and not resource(name):
                fail(f"Policy has invalid resource {name!r}")


def _statement(s: dict[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in s.items() if k != "Sid"}
    for name in _LISTS:
        if name in out:
            out[name] = sorted(set(map(str, _listed(out[name]))))
    for name in _PRINCIPALS:
        if name in out:
            value = out[name]
            value = {"AWS": ["*"]} if value == "*" else value
            if not isinstance(value, dict):
                raise ValueError(f'{name} must be "*" or a dict')
            out[name] = {k: sorted({_principal(v) for v in _listed(ps)}) for k, ps in sorted(value.items())}
    if "Condition" in out:
        if not isinstance(out["Condition"], dict):
            raise ValueError("Condition must map operators to objects")
        out["Condition"] = {
            operator: {k: sorted({_condition(v) for v in _listed(vs)}) for k, vs in sorted(keys.items())}
            for operator, keys in sorted(out["Condition"].items())
        }
        # names of condition keys are case-insensitive
        out["Condition"] = {o: {k.lower(): v for k, v in ks.items()} for o, ks in out["Condition"].items()}
        if not out["Condition"]:
            del out["Condition"]
    return out


def _principal(value: Any) -> str:
    """An account number and the ARN of its root mean the same."""
    return f"arn:aws:iam::{value}:root" if re.fullmatch(r"\d{12}", str(value)) else str(value)


def _condition(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _collapsed(value: Any, key: str = "Statement") -> Any:
    """Lists of one become the one, as people write it; moto looks for log delivery in this form only."""
    if isinstance(value, dict):
        return {k: _collapsed(v, k) for k, v in value.items()}
    if isinstance(value, list):
        items = [_collapsed(v, "") for v in value]
        return items[0] if len(items) == 1 and key != "Statement" else items
    return value


def collapsed(text: Any) -> Any:
    """A document's text with lists of one written as the one; anything else is returned as it is."""
    try:
        return json.dumps(_collapsed(json.loads(text), ""))
    except (TypeError, ValueError):
        return text


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


NOTHING = {"Effect": "Deny", "Action": ["*"], "Resource": ["*"]}
"""The default of a policy that is made without a document: it grants nothing."""

ADMIN = {"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
OTHER_ACCOUNT = "444455556666"
"""A stranger's account, for faults that grant too much."""
assert OTHER_ACCOUNT != ACCOUNT
