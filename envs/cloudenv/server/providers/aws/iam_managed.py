"""IAM: policies of one's own that roles attach, and the password policy of the account."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import policy
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, View, always
from .errors import ApiError
from .translate import ACCOUNT

_MOST_VERSIONS = 5


def arn(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:policy/{name}"


# policies


def _read_versions(api: Api, name: str) -> Any:
    """{"default": document, "others": [ids]}"""
    listed = api("ListPolicyVersions", PolicyArn=arn(name))["Versions"]
    default = next(v["VersionId"] for v in listed if v["IsDefaultVersion"])
    found = api("GetPolicyVersion", PolicyArn=arn(name), VersionId=default)["PolicyVersion"]["Document"]
    return {"default": found, "others": [v["VersionId"] for v in listed if not v["IsDefaultVersion"]]}


def _put_version(name: str, want: list[Any], raw: Any) -> list[Call]:
    """AWS keeps five versions: the oldest goes when a sixth comes."""
    others = sorted((raw or {}).get("others", []), key=lambda v: int(v[1:]))
    dropped = others[:1] if len(others) >= _MOST_VERSIONS - 1 else []
    calls = [Call("iam", "DeletePolicyVersion", {"PolicyArn": arn(name), "VersionId": v}) for v in dropped]
    new = {"PolicyArn": arn(name), "PolicyDocument": policy.document(want), "SetAsDefault": True}
    return [*calls, Call("iam", "CreatePolicyVersion", new)]


def _empty(api: Api, name: str) -> list[Call]:
    roles = api("ListEntitiesForPolicy", PolicyArn=arn(name)).get("PolicyRoles", [])
    return [
        *(Call("iam", "DetachRolePolicy", {"RoleName": r["RoleName"], "PolicyArn": arn(name)}) for r in roles),
        *(
            Call("iam", "DeletePolicyVersion", {"PolicyArn": arn(name), "VersionId": v})
            for v in _read_versions(api, name)["others"]
        ),
    ]


def _wide(value: list[Any], site: FaultSite) -> Any:
    return [{**s, "Action": sorted({a.partition(":")[0] + ":*" for a in s.get("Action", [])})} for s in value]


POLICY = ResourceType(
    service="iam",
    kind="policy",
    create_op="CreatePolicy",
    create=lambda name, wanted: {
        "PolicyName": name,
        "PolicyDocument": policy.document(wanted.get("statements") or [policy.NOTHING]),
    },
    delete_op="DeletePolicy",
    delete=lambda name: {"PolicyArn": arn(name)},
    names=lambda api: [p["PolicyName"] for p in api("ListPolicies", Scope="Local")["Policies"]],
    arn=arn,
    id_param="PolicyArn",
    name_param="PolicyName",
    clean=_empty,
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w+=,.@-]{1,128}", name)
        else "policy names have 1 to 128 letters, digits and +=,.@-_"
    ),
    properties=(
        Property(
            "statements",
            _read_versions,
            _put_version,
            ops=("CreatePolicyVersion", "SetDefaultPolicyVersion", "DeletePolicyVersion"),
            canon=lambda raw: policy.statements(raw["default"]),
            parse=policy.statements,
            key=policy.meaning,
            empty=[],
            at_create=True,
            weight=2.0,
            faults=(
                Fault(
                    "IAM_ATTACHED_ADMIN",
                    "an attached policy allows everything",
                    ("CIS-AWS-5.0:1.15", "FSBP:IAM.1", "Checkov:CKV_AWS_62", "Checkov:CKV_AWS_63"),
                    always([policy.ADMIN]),
                ),
                Fault(
                    "IAM_ATTACHED_WIDE",
                    "an attached policy allows every action of a service",
                    ("FSBP:IAM.21",),
                    _wide,
                    "medium",
                ),
            ),
        ),
    ),
)


# the password policy

_RULES = {  # name in a task: (parameter of the call, what AWS takes when it is left out)
    "min_length": ("MinimumPasswordLength", 6),
    "symbols": ("RequireSymbols", False),
    "numbers": ("RequireNumbers", False),
    "upper": ("RequireUppercaseCharacters", False),
    "lower": ("RequireLowercaseCharacters", False),
    "reuse_prevention": ("PasswordReusePrevention", None),
    "max_age": ("MaxPasswordAge", None),
}
_RANGES = {"MinimumPasswordLength": (6, 128), "PasswordReusePrevention": (1, 24), "MaxPasswordAge": (1, 1095)}


def _canon_rules(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: raw.get(key) or default for name, (key, default) in _RULES.items()}


def _parse_rules(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) - set(_RULES):
        raise ValueError(f"must be an object of {', '.join(_RULES)}")
    return {name: value.get(name, default) for name, (_, default) in _RULES.items()}


def _parameters(rules: Mapping[str, Any]) -> dict[str, Any]:
    return {_RULES[name][0]: value for name, value in rules.items() if value is not None}


PASSWORDS = ResourceType(
    service="iam",
    kind="password_policy",
    create_op="UpdateAccountPasswordPolicy",
    create=lambda name, wanted: _parameters(wanted.get("rules") or {}),
    delete_op="DeleteAccountPasswordPolicy",
    delete=lambda name: {},
    names=lambda api: ["account"] if api("GetAccountPasswordPolicy", absent=("NoSuchEntity",)) else [],
    arn=lambda name: f"arn:aws:iam::{ACCOUNT}:password-policy",
    id_param="",
    name_in=lambda payload: "account",
    check_name=lambda name: None if name == "account" else 'there is one for the whole account: call it "account"',
    properties=(
        Property(
            "rules",
            lambda api, name: api("GetAccountPasswordPolicy")["PasswordPolicy"],
            lambda name, want, raw: [Call("iam", "UpdateAccountPasswordPolicy", _parameters(want))],
            ops=("UpdateAccountPasswordPolicy",),
            canon=_canon_rules,
            parse=_parse_rules,
            empty=_canon_rules({}),
            at_create=True,
            faults=(
                Fault(
                    "IAM_PASSWORD_SHORT",
                    "short passwords are allowed",
                    ("CIS-AWS-5.0:1.7", "FSBP:IAM.7", "Checkov:CKV_AWS_10"),
                    lambda value, site: {**value, "min_length": 8},
                ),
                Fault(
                    "IAM_PASSWORD_REUSE",
                    "old passwords may be used again",
                    ("CIS-AWS-5.0:1.8", "SecurityHub:IAM.16", "Checkov:CKV_AWS_13"),
                    lambda value, site: {**value, "reuse_prevention": None},
                ),
            ),
        ),
    ),
)


def check_policy(payload: dict[str, Any], view: View) -> None:
    if "PolicyName" in payload:
        payload.setdefault("PolicyDocument", policy.document([policy.NOTHING]))
    check_document(payload, view)


def check_document(payload: dict[str, Any], view: View) -> None:
    """The document of an identity policy: it names resources, and no principal."""

    def known(resource: str) -> bool:
        return resource == "*" or bool(re.match(r"arn:aws[\w-]*:[\w*-]+:", resource))

    policy.check(payload.get("PolicyDocument"), code="MalformedPolicyDocument", principal=False, resource=known)


def check_delete_policy(payload: dict[str, Any], view: View) -> None:
    for role in view.names("iam", "role"):
        if payload.get("PolicyArn") in (view.value("iam", "role", role, "attached") or []):
            raise ApiError("DeleteConflict", "Cannot delete a policy attached to entities.")


def check_attach(payload: dict[str, Any], view: View) -> None:
    if payload.get("PolicyArn") not in [arn(name) for name in view.names("iam", "policy")]:
        raise ApiError(
            "NoSuchEntity",
            f"Policy {str(payload.get('PolicyArn'))[:200]} does not exist; AWS's own are not offered.",
        )


def check_passwords(payload: dict[str, Any], view: View) -> None:
    for name, (low, high) in _RANGES.items():
        value = payload.get(name, low)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ApiError("ValidationError", f"{name} must be {low} to {high}")
