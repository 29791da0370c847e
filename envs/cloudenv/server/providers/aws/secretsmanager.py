"""Secrets Manager: secrets, who may read them, and the function that rotates them."""

from __future__ import annotations

import re
from typing import Any

from . import policy
from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .lambda_function import arn as function_arn
from .translate import ACCOUNT


def arn(name: str) -> str:
    """Without the six random characters at the end, which AWS lets one leave out."""
    return f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{name}"


def _secret(api: Api, name: str) -> Any:
    return api("DescribeSecret", SecretId=name)


# rotation


def _canon_rotation(raw: Any) -> Any:
    if not raw.get("RotationEnabled"):
        return None
    days = (raw.get("RotationRules") or {}).get("AutomaticallyAfterDays")
    return {"function": raw.get("RotationLambdaARN"), "days": int(days or 0)}


def _parse_rotation(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"function", "days"}:
        raise ValueError('must be null or {"function": ARN, "days": number}')
    return {"function": str(value["function"]), "days": int(value["days"])}


def _put_rotation(name: str, want: Any, raw: Any) -> list[Call]:
    if want is None:
        return [Call("secretsmanager", "CancelRotateSecret", {"SecretId": name})]
    rules = {"AutomaticallyAfterDays": want["days"]}
    payload = {"SecretId": name, "RotationLambdaARN": want["function"], "RotationRules": rules}
    return [Call("secretsmanager", "RotateSecret", payload)]


def _rare(value: Any, site: FaultSite) -> Any:
    return {**value, "days": 365} if value and value["days"] <= 90 else value


# policies


def _put_policies(name: str, want: list[Any], raw: Any) -> list[Call]:
    if not want:
        return [Call("secretsmanager", "DeleteResourcePolicy", {"SecretId": name})]
    payload = {"SecretId": name, "ResourcePolicy": policy.document(want)}
    return [Call("secretsmanager", "PutResourcePolicy", payload)]


def _stranger(value: list[Any], site: FaultSite) -> Any:
    grant = {
        "Effect": "Allow",
        "Principal": {"AWS": policy.OTHER_ACCOUNT},
        "Action": ["secretsmanager:GetSecretValue"],
        "Resource": ["*"],
    }
    return policy.statements([*value, grant])


def _opened(value: list[Any], site: FaultSite) -> Any:
    grant = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["secretsmanager:GetSecretValue"],
        "Resource": ["*"],
    }
    return policy.statements([*value, grant])


SECRET = ResourceType(
    service="secretsmanager",
    kind="secret",
    create_op="CreateSecret",
    create=lambda name, wanted: {"Name": name, "SecretString": "{}"},
    delete_op="DeleteSecret",
    delete=lambda name: {"SecretId": name, "ForceDeleteWithoutRecovery": True},
    names=lambda api: [s["Name"] for s in api("ListSecrets")["SecretList"]],
    arn=arn,
    id_param="SecretId",
    name_param="Name",
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w/+=.@-]{1,512}", name, re.ASCII)
        else "secret names have 1 to 512 letters, digits and /_+=.@-"
    ),
    properties=(
        Property(
            "key",
            _secret,
            lambda name, want, raw: [
                Call(
                    "secretsmanager",
                    "UpdateSecret",
                    {"SecretId": name, "KmsKeyId": want or "alias/aws/secretsmanager"},
                )
            ],
            ops=("UpdateSecret",),
            canon=lambda raw: (
                None if raw.get("KmsKeyId") in (None, "", "alias/aws/secretsmanager") else raw["KmsKeyId"]
            ),
            parse=lambda value: str(value) if value else None,
            faults=(
                Fault(
                    "SECRET_NOT_OUR_KEY",
                    "the secret is not encrypted with a key of the account's own",
                    ("Checkov:CKV_AWS_149",),
                    always(None),
                ),
            ),
        ),
        Property(
            "policies",
            lambda api, name: api("GetResourcePolicy", SecretId=name).get("ResourcePolicy"),
            _put_policies,
            ops=("PutResourcePolicy", "DeleteResourcePolicy"),
            canon=lambda raw: policy.statements(raw or None),
            parse=policy.statements,
            key=policy.meaning,
            empty=[],
            weight=2.0,
            faults=(
                Fault(
                    "SECRET_PUBLIC_POLICY",
                    "everybody may read the secret",
                    ("Prowler:secretsmanager_not_publicly_accessible",),
                    _opened,
                ),
                Fault(
                    "SECRET_STRANGER",
                    "a stranger's account may read the secret",
                    ("Prowler:secretsmanager_has_restrictive_resource_policy",),
                    _stranger,
                    "medium",
                ),
                Fault(
                    "SECRET_READER_LOST",
                    "who needs the secret may not read it",
                    ("WIRING.22",),
                    always([]),
                    "hard",
                ),
            ),
        ),
        Property(
            "rotation",
            _secret,
            _put_rotation,
            ops=("RotateSecret", "CancelRotateSecret"),
            canon=_canon_rotation,
            parse=_parse_rotation,
            needs_ready=True,
            faults=(
                Fault(
                    "SECRET_ROTATION_OFF",
                    "the secret is never rotated",
                    ("FSBP:SecretsManager.1", "Checkov:CKV2_AWS_57"),
                    always(None),
                ),
                Fault(
                    "SECRET_ROTATION_RARE",
                    "the secret is rotated once a year",
                    ("FSBP:SecretsManager.4", "Checkov:CKV_AWS_304"),
                    _rare,
                    "medium",
                ),
            ),
        ),
    ),
)


def _check_rotation(payload: dict[str, Any], view: View) -> None:
    name = SECRET.find(payload, view.names("secretsmanager", "secret"))
    have = view.value("secretsmanager", "secret", name or "", "rotation")
    function = payload.get("RotationLambdaARN") or (have or {}).get("function")
    if not function:
        raise ApiError(
            "InvalidRequestException", "No Lambda rotation function ARN is associated with this secret."
        )
    known = {function_arn(n): n for n in view.names("lambda", "function")}
    if function not in known:
        raise ApiError("ResourceNotFoundException", f"Function not found: {str(function)[:200]}")
    allowed = view.value("lambda", "function", known[function], "policies") or []
    if not any(p["principal"] == "secretsmanager.amazonaws.com" for p in allowed):
        raise ApiError(
            "AccessDeniedException",
            "Secrets Manager cannot invoke the specified Lambda function. Ensure that the function policy grants "
            "access to the principal secretsmanager.amazonaws.com.",
        )
    days = (payload.get("RotationRules") or {}).get("AutomaticallyAfterDays")
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= 1000:
        raise ApiError("InvalidParameterException", "RotationRules: AutomaticallyAfterDays must be 1 to 1000")


def _check_policy(payload: dict[str, Any], view: View) -> None:
    policy.check(
        payload.get("ResourcePolicy"),
        code="MalformedPolicyDocumentException",
        principal=True,
        resource=lambda r: r == "*" or r.startswith("arn:aws:secretsmanager:"),
    )


def _check_update(payload: dict[str, Any], view: View) -> None:
    key = payload.get("KmsKeyId")
    if not isinstance(key, str) or not (key.startswith("arn:aws:kms:") or key == "alias/aws/secretsmanager"):
        raise ApiError(
            "InvalidParameterException", "KmsKeyId must be the ARN of a key or alias/aws/secretsmanager"
        )


SERVICE = Service(
    name="secretsmanager",
    types=(SECRET,),
    reads=("ListSecrets", "DescribeSecret", "GetResourcePolicy"),
    hooks={
        "CreateSecret": lambda payload, view: payload.setdefault("SecretString", "{}"),
        "RotateSecret": _check_rotation,
        "PutResourcePolicy": _check_policy,
        "UpdateSecret": _check_update,
    },
    params={
        "CreateSecret": frozenset({"Name", "SecretString", "Description", "KmsKeyId"}),
        "UpdateSecret": frozenset({"SecretId", "KmsKeyId"}),
        "RotateSecret": frozenset({"SecretId", "RotationLambdaARN", "RotationRules"}),
        "PutResourcePolicy": frozenset({"SecretId", "ResourcePolicy"}),
    },
)
