"""Our own validation of S3 calls, where emulators take what AWS refuses."""

from __future__ import annotations

from typing import Any

from . import policy
from .description import View
from .errors import ApiError

DELIVERY = "logging.s3.amazonaws.com"
TARGETS = {  # service in the target's ARN: key of the configuration, key of the ARN
    "lambda": ("LambdaFunctionConfigurations", "LambdaFunctionArn"),
    "sqs": ("QueueConfigurations", "QueueArn"),
    "sns": ("TopicConfigurations", "TopicArn"),
}


def check_policy(payload: dict[str, Any], view: View) -> None:
    bucket = payload.get("Bucket")
    arn = f"arn:aws:s3:::{bucket}"
    policy.check(
        payload.get("Policy"),
        principal=True,
        resource=lambda r: r == arn or r.startswith(arn + "/") or r == arn + "*",
    )
    block = view.value("s3", "bucket", str(bucket), "public_access_block") or {}
    if block.get("BlockPublicPolicy") and any(map(policy.is_public, policy.statements(payload["Policy"]))):
        raise ApiError(
            "AccessDenied",
            "public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access",
        )


def check_versioning(payload: dict[str, Any], view: View) -> None:
    if payload.get("VersioningConfiguration", {}).get("Status") not in ("Enabled", "Suspended"):
        raise ApiError("MalformedXML", "VersioningConfiguration needs a Status: Enabled or Suspended")


def check_logging(payload: dict[str, Any], view: View) -> None:
    enabled = (payload.get("BucketLoggingStatus") or {}).get("LoggingEnabled")
    if not enabled:
        return
    target = enabled.get("TargetBucket")
    granted = view.value("s3", "bucket", str(target), "policies")
    if granted is None:
        raise ApiError("InvalidTargetBucketForLogging", f"The target bucket {target!r} for logging does not exist")
    if not any(DELIVERY in s.get("Principal", {}).get("Service", []) for s in granted if s["Effect"] == "Allow"):
        raise ApiError(
            "InvalidTargetBucketForLogging",
            f"You must give {DELIVERY} permission to write to the target bucket {target!r}",
        )


def check_notifications(payload: dict[str, Any], view: View) -> None:
    configuration = payload.get("NotificationConfiguration") or {}
    source = f"arn:aws:s3:::{payload.get('Bucket')}"
    for service, (key, arn_key) in TARGETS.items():
        for item in configuration.get(key, []):
            arn = str(item.get(arn_key, "")) if isinstance(item, dict) else ""
            name = arn.rpartition(":")[2]
            granted: Any = None
            if service == "lambda":
                permissions = view.value("lambda", "function", name, "policies")
                granted = permissions is not None and any(
                    p["principal"] in ("s3.amazonaws.com", "*") and p.get("source_arn") in (None, source)
                    for p in permissions
                )
            else:
                kind = {"sqs": "queue", "sns": "topic"}[service]
                statements = view.value(service, kind, name, "policies")
                granted = statements is not None and any(s["Effect"] == "Allow" for s in statements)
            if not granted:
                raise ApiError(
                    "InvalidArgument", f"Unable to validate the destination {arn!r}: it does not let S3 send to it"
                )
