"""KMS: keys. A key has no name: its tag `Name` is what a task calls it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import policy
from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT, stable_id

OWNER = policy.statements(
    [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ]
)
"""The policy of a key that was made without one: the account decides by its own policies."""


def key_id(name: str) -> str:
    return stable_id("uuid", name)


def arn(name: str) -> str:
    return f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{key_id(name)}"


def _names(api: Api) -> list[str]:
    """Keys with a name. Those that are about to be deleted are gone, and AWS's own have none."""
    found: dict[str, None] = {}
    for key in dict.fromkeys(k["KeyId"] for k in api("ListKeys")["Keys"]):
        name = _tag(api("ListResourceTags", KeyId=key).get("Tags"))
        if name is not None and api("DescribeKey", KeyId=key)["KeyMetadata"]["KeyState"] != "PendingDeletion":
            found[name] = None
    return list(found)


def _tag(tags: Any) -> Any:
    listed = tags if isinstance(tags, list) else []
    return next((t.get("TagValue") for t in listed if isinstance(t, dict) and t.get("TagKey") == "Name"), None)


def _put_name(payload: dict[str, Any], name: str) -> None:
    tags = payload.get("Tags")
    payload["Tags"] = [*(tags if isinstance(tags, list) else []), {"TagKey": "Name", "TagValue": name}]


def _create(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    _put_name(payload, name)
    return payload


def _of_key(operation: str, name: str, **more: Any) -> list[Call]:
    return [Call("kms", operation, {"KeyId": key_id(name), **more})]


def _opened(value: list[Any], site: FaultSite) -> Any:
    grant = {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["kms:*"], "Resource": ["*"]}
    return policy.statements([*value, grant])


def _without_users(value: list[Any], site: FaultSite) -> Any:
    """Only the account itself is left in the policy."""
    return [s for s in value if s in OWNER]


KEY = ResourceType(
    service="kms",
    kind="key",
    create_op="CreateKey",
    create=_create,
    delete_op="ScheduleKeyDeletion",
    delete=lambda name: {"KeyId": key_id(name), "PendingWindowInDays": 7},
    names=_names,
    arn=arn,
    id_param="KeyId",
    name_in=lambda payload: _tag(payload.get("Tags")),
    put_name=_put_name,
    id_prefix="uuid",
    id_path=("KeyMetadata", "KeyId"),
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w.+=:/@-]{1,128}", name, re.ASCII)
        else "key names have 1 to 128 letters and digits"
    ),
    properties=(
        Property(
            "enabled",
            lambda api, name: api("DescribeKey", KeyId=key_id(name))["KeyMetadata"]["KeyState"],
            lambda name, want, raw: _of_key("EnableKey" if want else "DisableKey", name),
            ops=("EnableKey", "DisableKey"),
            canon=lambda raw: raw == "Enabled",
            parse=bool,
            empty=True,
            faults=(
                Fault(
                    "KMS_KEY_DISABLED",
                    "the key is disabled: nothing can be decrypted",
                    ("Checkov:CKV_AWS_227",),
                    always(False),
                    "medium",
                ),
            ),
        ),
        Property(
            "policies",
            lambda api, name: api("GetKeyPolicy", KeyId=key_id(name), PolicyName="default")["Policy"],
            lambda name, want, raw: _of_key(
                "PutKeyPolicy", name, PolicyName="default", Policy=policy.document(want)
            ),
            ops=("PutKeyPolicy",),
            canon=policy.statements,
            parse=policy.statements,
            key=policy.meaning,
            empty=OWNER,
            weight=2.0,
            faults=(
                Fault(
                    "KMS_PUBLIC_POLICY",
                    "everybody may use the key",
                    ("FSBP:KMS.5", "Checkov:CKV_AWS_33"),
                    _opened,
                ),
                Fault(
                    "KMS_USERS_LOST",
                    "who needs the key may not use it",
                    ("WIRING.22",),
                    _without_users,
                    "hard",
                ),
            ),
        ),
        Property(
            "rotation",
            lambda api, name: api("GetKeyRotationStatus", KeyId=key_id(name))["KeyRotationEnabled"],
            lambda name, want, raw: _of_key("EnableKeyRotation" if want else "DisableKeyRotation", name),
            ops=("EnableKeyRotation", "DisableKeyRotation"),
            canon=bool,
            parse=bool,
            empty=False,
            faults=(
                Fault(
                    "KMS_ROTATION_OFF",
                    "the key is never rotated",
                    ("CIS-AWS-5.0:3.6", "FSBP:KMS.4", "Checkov:CKV_AWS_7"),
                    always(False),
                ),
            ),
        ),
    ),
)


def _check_create(payload: dict[str, Any], view: View) -> None:
    if _tag(payload.get("Tags")) in view.names("kms", "key"):
        raise ApiError("AlreadyExistsException", "a key with this Name exists; CloudEnv tells keys by it")
    if "Policy" in payload:
        _check_policy(payload, view)


def _check_policy(payload: dict[str, Any], view: View) -> None:
    if payload.get("PolicyName", "default") != "default":
        raise ApiError("NotFoundException", "No such policy exists: its name is default")
    policy.check(
        payload.get("Policy"), code="MalformedPolicyDocumentException", principal=True, resource=lambda r: True
    )
    # AWS's lockout check: whoever puts a policy must be able to put the next one
    listed = policy.statements(payload["Policy"])
    if not any(_manages(s) for s in listed):
        raise ApiError(
            "MalformedPolicyDocumentException",
            "The new key policy will not allow you to update the key policy in the future.",
        )


def _manages(statement: dict[str, Any]) -> bool:
    actions = {a.lower() for a in statement.get("Action", [])}
    ours = {"*", f"arn:aws:iam::{ACCOUNT}:root"} & set(statement.get("Principal", {}).get("AWS", []))
    return statement["Effect"] == "Allow" and bool(ours) and bool(actions & {"*", "kms:*", "kms:putkeypolicy"})


def _check_enabled(payload: dict[str, Any], view: View) -> None:
    name = KEY.find(payload, view.names("kms", "key"))
    if name is not None and not view.value("kms", "key", name, "enabled"):
        raise ApiError("DisabledException", f"{arn(name)} is disabled.")


SERVICE = Service(
    name="kms",
    types=(KEY,),
    reads=("ListKeys", "DescribeKey", "ListResourceTags", "GetKeyPolicy", "GetKeyRotationStatus"),
    hooks={
        "CreateKey": _check_create,
        "PutKeyPolicy": _check_policy,
        "EnableKeyRotation": _check_enabled,
        "DisableKeyRotation": _check_enabled,
    },
    params={
        "CreateKey": frozenset({"Tags", "Description", "Policy"}),
        "PutKeyPolicy": frozenset({"KeyId", "PolicyName", "Policy"}),
        "EnableKeyRotation": frozenset({"KeyId"}),
    },
)
