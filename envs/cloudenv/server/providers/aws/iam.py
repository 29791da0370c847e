"""IAM: roles, policies of one's own, the password policy."""

from __future__ import annotations

import re
from typing import Any

from . import iam_managed, policy
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT


def trust(service: str) -> list[dict[str, Any]]:
    """Canonical trust policy that lets an AWS service take the role."""
    return [{"Action": ["sts:AssumeRole"], "Effect": "Allow", "Principal": {"Service": [service]}}]


def _named(value: Any) -> list[dict[str, Any]]:
    """Canonical inline policies: [{"name", "statements"}], sorted; `{name: document}` is understood too."""
    items = [{"name": k, "statements": v} for k, v in value.items()] if isinstance(value, dict) else value or []
    out = []
    for item in items:
        if not isinstance(item, dict) or "name" not in item or set(item) - {"name", "statements"}:
            raise ValueError('must be a list of {"name": ..., "statements": [...]}')
        out.append({"name": item["name"], "statements": policy.statements(item.get("statements"))})
    return sorted(out, key=lambda p: str(p["name"]))


def _read_inline(api: Api, name: str) -> Any:
    return {
        k: api("GetRolePolicy", RoleName=name, PolicyName=k)["PolicyDocument"]
        for k in api("ListRolePolicies", RoleName=name)["PolicyNames"]
    }


def _put_inline(name: str, want: list[Any], raw: Any) -> list[Call]:
    have = {p["name"]: policy.meaning(p["statements"]) for p in _named(raw)}
    wanted = {p["name"]: p["statements"] for p in want}
    dropped = [
        Call("iam", "DeleteRolePolicy", {"RoleName": name, "PolicyName": k})
        for k in sorted(have)
        if k not in wanted
    ]
    return dropped + [
        Call("iam", "PutRolePolicy", {"RoleName": name, "PolicyName": k, "PolicyDocument": policy.document(v)})
        for k, v in wanted.items()
        if have.get(k) != policy.meaning(v)
    ]


def _meaning(value: list[Any]) -> Any:
    return [[p["name"], policy.meaning(p["statements"])] for p in value]


def _admin(value: list[Any], site: FaultSite) -> Any:
    return _named([{**value[0], "statements": [policy.ADMIN]}, *value[1:]]) if value else value


def _second(value: list[Any], site: FaultSite) -> Any:
    return _named([*value, {"name": "temporary-debug", "statements": [policy.ADMIN]}])


def _wide(value: list[Any], site: FaultSite) -> Any:
    """Every action of the service instead of those that are needed."""

    def widened(s: dict[str, Any]) -> dict[str, Any]:
        return {**s, "Action": sorted({a.partition(":")[0] + ":*" for a in s.get("Action", [])})}

    return _changed(value, widened)


def _any_resource(value: list[Any], site: FaultSite) -> Any:
    return _changed(value, lambda s: {**s, "Resource": ["*"]})


def _fewer(value: list[Any], site: FaultSite) -> Any:
    """One action of the first policy is missing."""
    for i, p in enumerate(value):
        for j, s in enumerate(p["statements"]):
            if len(s.get("Action", [])) > 1:
                action = site.rng.choice(s["Action"])
                less = {**s, "Action": [a for a in s["Action"] if a != action]}
                changed = [*p["statements"][:j], less, *p["statements"][j + 1 :]]
                return _named([*value[:i], {**p, "statements": changed}, *value[i + 1 :]])
    return value


def _elsewhere(value: list[Any], site: FaultSite) -> Any:
    """The policy allows a resource that does not exist: a name was mistyped."""

    def moved(s: dict[str, Any]) -> dict[str, Any]:
        return {**s, "Resource": [r if r == "*" else _old(r) for r in s.get("Resource", [])]}

    def _old(arn: str) -> str:
        head, slash, tail = arn.partition("/*")
        return f"{head}-old{slash}{tail}"

    return _changed(value, moved)


def _changed(value: list[Any], change: Any) -> Any:
    if not value or not value[0]["statements"]:
        return value
    first = value[0]["statements"]
    return _named([{**value[0], "statements": [change(first[0]), *first[1:]]}, *value[1:]])


def _anybody(value: list[Any], site: FaultSite) -> Any:
    return policy.statements([{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}, *value])


def _stranger(value: list[Any], site: FaultSite) -> Any:
    grant = {"Effect": "Allow", "Principal": {"AWS": policy.OTHER_ACCOUNT}, "Action": "sts:AssumeRole"}
    return policy.statements([*value, grant])


def _wrong_service(value: list[Any], site: FaultSite) -> Any:
    return trust("ec2.amazonaws.com")


def _empty(api: Api, name: str) -> list[Call]:
    inline = api("ListRolePolicies", RoleName=name)["PolicyNames"]
    return [
        *(Call("iam", "DeleteRolePolicy", {"RoleName": name, "PolicyName": k}) for k in inline),
        *_put_attached(name, [], _read_attached(api, name)),
    ]


def _read_attached(api: Api, name: str) -> Any:
    listed = api("ListAttachedRolePolicies", RoleName=name)["AttachedPolicies"]
    return sorted(p["PolicyArn"] for p in listed)


def _put_attached(name: str, want: list[str], raw: Any) -> list[Call]:
    have = raw or []
    return [
        Call("iam", operation, {"RoleName": name, "PolicyArn": arn})
        for operation, arns in (
            ("DetachRolePolicy", [a for a in have if a not in want]),
            ("AttachRolePolicy", [a for a in want if a not in have]),
        )
        for arn in arns
    ]


def _parse_attached(value: Any) -> list[str]:
    if not isinstance(value or [], list):
        raise ValueError("must be a list of ARNs")
    return sorted(map(str, value or []))


ROLE = ResourceType(
    service="iam",
    kind="role",
    create_op="CreateRole",
    create=lambda name, wanted: {
        "RoleName": name,
        "AssumeRolePolicyDocument": policy.document(wanted.get("trust") or trust("lambda.amazonaws.com")),
    },
    delete_op="DeleteRole",
    delete=lambda name: {"RoleName": name},
    names=lambda api: [r["RoleName"] for r in api("ListRoles")["Roles"] if "/aws-service-role/" not in r["Arn"]],
    arn=lambda name: f"arn:aws:iam::{ACCOUNT}:role/{name}",
    id_param="RoleName",
    clean=_empty,
    check_name=lambda name: (
        None if re.fullmatch(r"[\w+=,.@-]{1,64}", name) else "role names have 1 to 64 letters, digits and +=,.@-_"
    ),
    properties=(
        Property(
            "trust",
            lambda api, name: api("GetRole", RoleName=name)["Role"]["AssumeRolePolicyDocument"],
            lambda name, want, raw: [
                Call("iam", "UpdateAssumeRolePolicy", {"RoleName": name, "PolicyDocument": policy.document(want)})
            ],
            ops=("UpdateAssumeRolePolicy",),
            canon=policy.statements,
            parse=policy.statements,
            key=policy.meaning,
            empty=[],
            faults=(
                Fault("IAM_TRUST_ANYBODY", "anybody may take the role", ("Checkov:CKV_AWS_60",), _anybody),
                Fault(
                    "IAM_TRUST_STRANGER",
                    "a stranger's account may take the role",
                    ("Checkov:CKV_AWS_61",),
                    _stranger,
                    "medium",
                ),
                Fault(
                    "IAM_TRUST_WRONG_SERVICE",
                    "the wrong service may take the role",
                    ("WIRING.12",),
                    _wrong_service,
                    "hard",
                ),
            ),
        ),
        Property(
            "policies",
            _read_inline,
            _put_inline,
            ops=("PutRolePolicy", "DeleteRolePolicy"),
            canon=_named,
            parse=_named,
            key=_meaning,
            empty=[],
            weight=2.0,
            faults=(
                Fault(
                    "IAM_INLINE_ADMIN",
                    "the role may do everything",
                    (
                        "Prowler:iam_inline_policy_no_administrative_privileges",
                        "Checkov:CKV_AWS_62",
                        "Checkov:CKV_AWS_63",
                    ),
                    _admin,
                ),
                Fault(
                    "IAM_SECOND_POLICY",
                    "a second policy lets the role do everything",
                    (
                        "Prowler:iam_inline_policy_no_administrative_privileges",
                        "Checkov:CKV_AWS_62",
                        "Checkov:CKV_AWS_63",
                    ),
                    _second,
                    "medium",
                ),
                Fault(
                    "IAM_WIDE_ACTIONS",
                    "the role may do every action of a service",
                    ("FSBP:IAM.21",),
                    _wide,
                    "medium",
                ),
                Fault(
                    "IAM_ANY_RESOURCE",
                    "the policy holds for every resource",
                    ("Checkov:CKV_AWS_355",),
                    _any_resource,
                    "medium",
                ),
                Fault(
                    "IAM_PERMISSION_LOST",
                    "the role's policy is gone",
                    ("WIRING.2",),
                    lambda value, site: [],
                    "hard",
                ),
                Fault("IAM_ACTION_LOST", "one action is missing from the policy", ("WIRING.2",), _fewer, "hard"),
                Fault(
                    "IAM_WRONG_RESOURCE",
                    "the policy names a resource that is not there",
                    ("WIRING.2",),
                    _elsewhere,
                    "hard",
                ),
            ),
        ),
        Property(
            "attached",
            _read_attached,
            _put_attached,
            ops=("AttachRolePolicy", "DetachRolePolicy"),
            parse=_parse_attached,
            empty=[],
            weight=2.0,
            faults=(
                Fault("IAM_ATTACHMENT_LOST", "the role's policy is detached", ("WIRING.2",), always([]), "hard"),
            ),
        ),
    ),
)


def _check_trust(payload: dict[str, Any], view: View) -> None:
    key = "AssumeRolePolicyDocument" if "AssumeRolePolicyDocument" in payload else "PolicyDocument"
    policy.check(payload.get(key), code="MalformedPolicyDocument", principal=True, resource=None)


def _check_create(payload: dict[str, Any], view: View) -> None:
    payload.setdefault("AssumeRolePolicyDocument", policy.document(trust("lambda.amazonaws.com")))
    _check_trust(payload, view)


def _check_delete(payload: dict[str, Any], view: View) -> None:
    for prop, what in (("policies", "delete"), ("attached", "detach")):
        if view.value("iam", "role", str(payload.get("RoleName")), prop):
            raise ApiError("DeleteConflict", f"Cannot delete entity, must {what} policies first.")


SERVICE = Service(
    name="iam",
    types=(ROLE, iam_managed.POLICY, iam_managed.PASSWORDS),
    reads=(
        "ListRoles",
        "GetRole",
        "ListRolePolicies",
        "GetRolePolicy",
        "ListAttachedRolePolicies",
        "ListPolicies",
        "GetPolicy",
        "GetPolicyVersion",
        "ListPolicyVersions",
        "ListEntitiesForPolicy",
        "GetAccountPasswordPolicy",
    ),
    hooks={
        "CreateRole": _check_create,
        "UpdateAssumeRolePolicy": _check_trust,
        "PutRolePolicy": iam_managed.check_document,
        "DeleteRole": _check_delete,
        "CreatePolicy": iam_managed.check_policy,
        "CreatePolicyVersion": iam_managed.check_document,
        "DeletePolicy": iam_managed.check_delete_policy,
        "AttachRolePolicy": iam_managed.check_attach,
        "UpdateAccountPasswordPolicy": iam_managed.check_passwords,
    },
    params={
        "CreatePolicy": frozenset({"PolicyName", "PolicyDocument", "Description"}),
        "CreateRole": frozenset({"RoleName", "AssumeRolePolicyDocument", "Description"}),
    },
)
