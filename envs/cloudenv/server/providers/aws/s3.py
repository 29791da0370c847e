"""S3: buckets."""

from __future__ import annotations

import json
import re
from typing import Any

from . import policy, s3_checks
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, always
from .s3_checks import DELIVERY, TARGETS

BLOCKS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


def _call(operation: str, name: str, **payload: Any) -> list[Call]:
    return [Call("s3", operation, {"Bucket": name, **payload})]


# policies


def _read_policy(api: Api, name: str) -> Any:
    found = api("GetBucketPolicy", absent=("NoSuchBucketPolicy",), Bucket=name)
    return found and found["Policy"]


def _put_policy(name: str, want: list[Any], raw: Any) -> list[Call]:
    return (
        _call("PutBucketPolicy", name, Policy=policy.document(want)) if want else _call("DeleteBucketPolicy", name)
    )


def _denies_plain_http(statement: dict[str, Any]) -> bool:
    return statement["Effect"] == "Deny" and "aws:securetransport" in statement.get("Condition", {}).get(
        "Bool", {}
    )


def _without_tls(value: list[Any], site: FaultSite) -> Any:
    kept = [s for s in value if not _denies_plain_http(s)]
    return kept


def _opened(value: list[Any], site: FaultSite) -> Any:
    grant = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{site.name}/*"],
    }
    return policy.statements([*value, grant])


def _shared(value: list[Any], site: FaultSite) -> Any:
    stranger = {
        "Effect": "Allow",
        "Principal": {"AWS": [f"arn:aws:iam::{policy.OTHER_ACCOUNT}:root"]},
        "Action": ["s3:DeleteBucketPolicy", "s3:PutBucketPolicy"],
        "Resource": [f"arn:aws:s3:::{site.name}"],
    }
    return policy.statements([*value, stranger])


def _no_log_delivery(value: list[Any], site: FaultSite) -> Any:
    kept = [s for s in value if DELIVERY not in s.get("Principal", {}).get("Service", [])]
    return kept


# public access block


def _read_block(api: Api, name: str) -> Any:
    found = api("GetPublicAccessBlock", absent=("NoSuchPublicAccessBlockConfiguration",), Bucket=name)
    return found and found["PublicAccessBlockConfiguration"]


def _canon_block(raw: Any) -> Any:
    value = {k: bool((raw or {}).get(k)) for k in BLOCKS}
    return value if any(value.values()) else None


def _parse_block(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return dict.fromkeys(BLOCKS, True) if value else None
    if not isinstance(value, dict) or set(value) - set(BLOCKS):
        raise ValueError(f"must be true, false or an object of {', '.join(BLOCKS)}")
    return _canon_block(value)


def _put_block(name: str, want: Any, raw: Any) -> list[Call]:
    if want is None:
        return _call("DeletePublicAccessBlock", name)
    return _call("PutPublicAccessBlock", name, PublicAccessBlockConfiguration=want)


# encryption, logging


def _canon_encryption(raw: Any) -> Any:
    """AES256 is what S3 does without being told."""
    rule = raw["Rules"][0]["ApplyServerSideEncryptionByDefault"] if raw and raw.get("Rules") else {}
    algorithm = rule.get("SSEAlgorithm", "AES256")
    return {"algorithm": algorithm, "key": rule.get("KMSMasterKeyID")} if algorithm != "AES256" else "AES256"


def _parse_encryption(value: Any) -> Any:
    if value in (None, "AES256"):
        return "AES256"
    if value == "aws:kms":
        return {"algorithm": "aws:kms", "key": None}
    if isinstance(value, dict) and set(value) <= {"algorithm", "key"} and value.get("algorithm") == "aws:kms":
        return {"algorithm": "aws:kms", "key": value.get("key")}
    raise ValueError('must be "AES256", "aws:kms" or {"algorithm": "aws:kms", "key": ...}')


def _read_encryption(api: Api, name: str) -> Any:
    found = api("GetBucketEncryption", absent=("ServerSideEncryptionConfigurationNotFoundError",), Bucket=name)
    return found and found["ServerSideEncryptionConfiguration"]


def _put_encryption(name: str, want: Any, raw: Any) -> list[Call]:
    if want == "AES256":
        return _call("DeleteBucketEncryption", name)
    rule = {"SSEAlgorithm": want["algorithm"]} | ({"KMSMasterKeyID": want["key"]} if want["key"] else {})
    return _call(
        "PutBucketEncryption",
        name,
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": rule}]},
    )


def _canon_logging(raw: Any) -> Any:
    return {"bucket": raw["TargetBucket"], "prefix": raw.get("TargetPrefix") or ""} if raw else None


def _parse_logging(value: Any) -> Any:
    if value is None or (isinstance(value, dict) and set(value) <= {"bucket", "prefix"} and value.get("bucket")):
        return value and {"bucket": value["bucket"], "prefix": value.get("prefix", "")}
    raise ValueError('must be null or {"bucket": ..., "prefix": ...}')


def _put_logging(name: str, want: Any, raw: Any) -> list[Call]:
    enabled = {"LoggingEnabled": {"TargetBucket": want["bucket"], "TargetPrefix": want["prefix"]}} if want else {}
    return _call("PutBucketLogging", name, BucketLoggingStatus=enabled)


# notifications


def _canon_notifications(raw: Any) -> Any:
    found = []
    for configurations, arn in TARGETS.values():
        for item in raw.get(configurations, []):
            rules = item.get("Filter", {}).get("Key", {}).get("FilterRules", [])
            limits = {r["Name"].lower(): r["Value"] for r in rules}
            found.append({"target": item[arn], "events": sorted(item["Events"]), **limits})
    return sorted(found, key=lambda n: json.dumps(n, sort_keys=True))


def _parse_notifications(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    found = []
    for item in value or []:
        if (
            not isinstance(item, dict)
            or set(item) - {"target", "events", "prefix", "suffix"}
            or "target" not in item
        ):
            raise ValueError('must be a list of {"target": ARN, "events": [...], "prefix"?, "suffix"?}')
        found.append({**item, "events": sorted(item.get("events") or ["s3:ObjectCreated:*"])})
    return sorted(found, key=lambda n: json.dumps(n, sort_keys=True))


def _put_notifications(name: str, want: list[Any], raw: Any) -> list[Call]:
    wanted: dict[str, list[Any]] = {}
    for item in want:
        configurations, arn = TARGETS[item["target"].split(":")[2]]
        entry: dict[str, Any] = {arn: item["target"], "Events": item["events"]}
        if rules := [{"Name": k, "Value": item[k]} for k in ("prefix", "suffix") if k in item]:
            entry["Filter"] = {"Key": {"FilterRules": rules}}
        wanted.setdefault(configurations, []).append(entry)
    return _call("PutBucketNotificationConfiguration", name, NotificationConfiguration=wanted)


def _narrowed(value: list[Any], site: FaultSite) -> Any:
    if not value:
        return value
    return _parse_notifications([{**value[0], "suffix": ".tmp"}, *value[1:]])


def _empty(api: Api, name: str) -> list[Call]:
    """Delete every version of every object; first the policy, which may forbid that."""
    found = api("ListObjectVersions", Bucket=name)
    objects = [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
    policies = _call("DeleteBucketPolicy", name) if objects and _read_policy(api, name) else []
    return policies + [
        call for o in objects for call in _call("DeleteObject", name, Key=o["Key"], VersionId=o["VersionId"])
    ]


BUCKET = ResourceType(
    service="s3",
    kind="bucket",
    create_op="CreateBucket",
    create=lambda name, wanted: {"Bucket": name},
    delete_op="DeleteBucket",
    delete=lambda name: {"Bucket": name},
    names=lambda api: [b["Name"] for b in api("ListBuckets")["Buckets"]],
    arn=lambda name: f"arn:aws:s3:::{name}",
    id_param="Bucket",
    clean=_empty,
    check_name=lambda name: (
        None
        if re.fullmatch(r"(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9](?!.*\.\.)[a-z0-9.-]{1,52}[a-z0-9]", name)
        else "bucket names have 3 to 54 lower-case letters, digits, dots and hyphens"
    ),
    properties=(
        # before the public access block, which would refuse a public policy
        Property(
            "policies",
            _read_policy,
            _put_policy,
            ops=("PutBucketPolicy", "DeleteBucketPolicy"),
            canon=policy.statements,
            parse=policy.statements,
            key=policy.meaning,
            empty=[],
            faults=(
                Fault(
                    "S3_NO_TLS_POLICY",
                    "the bucket policy no longer refuses plain http",
                    ("CIS-AWS-5.0:2.1.1", "FSBP:S3.5", "Checkov:CKV_AWS_379"),
                    _without_tls,
                ),
                Fault(
                    "S3_PUBLIC_POLICY",
                    "the bucket policy lets everybody read",
                    ("FSBP:S3.2", "Checkov:CKV_AWS_70"),
                    _opened,
                ),
                Fault(
                    "S3_POLICY_CROSS_ACCOUNT",
                    "the bucket policy lets a stranger's account change the policy",
                    ("FSBP:S3.6",),
                    _shared,
                    "medium",
                ),
                Fault(
                    "S3_LOG_DELIVERY_LOST",
                    "the log bucket no longer takes logs",
                    ("WIRING.8",),
                    _no_log_delivery,
                    "hard",
                ),
            ),
            weight=2.0,
        ),
        Property(
            "public_access_block",
            _read_block,
            _put_block,
            ops=("PutPublicAccessBlock", "DeletePublicAccessBlock"),
            canon=_canon_block,
            parse=_parse_block,
            faults=(
                Fault(
                    "S3_PUBLIC_ACCESS_BLOCK_OFF",
                    "the public access block is off",
                    ("CIS-AWS-5.0:2.1.4", "FSBP:S3.8", "Checkov:CKV_AWS_53", "Checkov:CKV_AWS_54"),
                    always(None),
                ),
                Fault(
                    "S3_PUBLIC_ACCESS_BLOCK_PARTIAL",
                    "half of the public access block is off",
                    ("CIS-AWS-5.0:2.1.4", "FSBP:S3.8", "Checkov:CKV_AWS_55", "Checkov:CKV_AWS_56"),
                    lambda value, site: (
                        value and {**value, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}
                    ),
                    "medium",
                ),
            ),
        ),
        Property(
            "versioning",
            lambda api, name: api("GetBucketVersioning", Bucket=name).get("Status"),
            lambda name, want, raw: _call(
                "PutBucketVersioning", name, VersioningConfiguration={"Status": "Enabled" if want else "Suspended"}
            ),
            ops=("PutBucketVersioning",),
            canon=lambda raw: raw == "Enabled",
            parse=lambda value: value in (True, "Enabled"),
            empty=False,
            faults=(
                Fault(
                    "S3_VERSIONING_OFF", "versioning is off", ("FSBP:S3.14", "Checkov:CKV_AWS_21"), always(False)
                ),
            ),
        ),
        Property(
            "encryption",
            _read_encryption,
            _put_encryption,
            ops=("PutBucketEncryption", "DeleteBucketEncryption"),
            canon=_canon_encryption,
            parse=_parse_encryption,
            empty="AES256",
            faults=(
                Fault(
                    "S3_ENCRYPTION_NOT_KMS",
                    "objects are no longer encrypted with the key",
                    ("FSBP:S3.17", "Checkov:CKV_AWS_145"),
                    always("AES256"),
                ),
            ),
        ),
        Property(
            "logging",
            lambda api, name: api("GetBucketLogging", Bucket=name).get("LoggingEnabled"),
            _put_logging,
            ops=("PutBucketLogging",),
            canon=_canon_logging,
            parse=_parse_logging,
            needs_ready=True,
            faults=(
                Fault(
                    "S3_LOGGING_OFF", "access logging is off", ("FSBP:S3.9", "Checkov:CKV_AWS_18"), always(None)
                ),
            ),
        ),
        Property(
            "notifications",
            lambda api, name: api("GetBucketNotificationConfiguration", Bucket=name),
            _put_notifications,
            ops=("PutBucketNotificationConfiguration",),
            canon=_canon_notifications,
            parse=_parse_notifications,
            empty=[],
            needs_ready=True,
            weight=2.0,
            faults=(
                Fault(
                    "S3_NOTIFICATION_LOST", "new objects start nothing any more", ("WIRING.1",), always([]), "hard"
                ),
                Fault(
                    "S3_NOTIFICATION_FILTER", "only .tmp objects start something", ("WIRING.9",), _narrowed, "hard"
                ),
            ),
        ),
    ),
)


SERVICE = Service(
    name="s3",
    types=(BUCKET,),
    reads=(
        "ListBuckets",
        "HeadBucket",
        "GetBucketLocation",
        "GetBucketPolicy",
        "GetPublicAccessBlock",
        "GetBucketVersioning",
        "GetBucketEncryption",
        "GetBucketLogging",
        "GetBucketNotificationConfiguration",
        "ListObjectsV2",
        "ListObjectVersions",
        "GetObject",
        "HeadObject",
    ),
    data=("PutObject", "DeleteObject"),
    hooks={
        "PutBucketPolicy": s3_checks.check_policy,
        "PutBucketVersioning": s3_checks.check_versioning,
        "PutBucketLogging": s3_checks.check_logging,
        "PutBucketNotificationConfiguration": s3_checks.check_notifications,
    },
    complete={
        "PutBucketPolicy": lambda payload, api: {**payload, "Policy": policy.collapsed(payload.get("Policy"))}
    },
    params={
        "CreateBucket": frozenset({"Bucket"}),
        "PutObject": frozenset({"Bucket", "Key", "Body", "ContentType", "Metadata"}),
    },
)
