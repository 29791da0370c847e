"""CloudTrail: trails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT


def arn(name: str) -> str:
    return f"arn:aws:cloudtrail:{REGION}:{ACCOUNT}:trail/{name}"


def _trail(api: Api, name: str) -> Any:
    return api("GetTrail", Name=name)["Trail"]


def _update(name: str, **settings: Any) -> list[Call]:
    return [Call("cloudtrail", "UpdateTrail", {"Name": name, **settings})]


def _create(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {"Name": name, "S3BucketName": wanted.get("bucket") or name}


def _other_bucket(value: str, site: FaultSite) -> Any:
    start = "arn:aws:s3:::"
    others = sorted(a.removeprefix(start) for a in site.others.values() if a.startswith(start))
    return next((name for name in others if name != value), value)


TRAIL = ResourceType(
    service="cloudtrail",
    kind="trail",
    create_op="CreateTrail",
    create=_create,
    delete_op="DeleteTrail",
    delete=lambda name: {"Name": name},
    names=lambda api: [t["Name"] for t in api("DescribeTrails")["trailList"]],
    arn=arn,
    id_param="Name",
    check_name=lambda name: (
        None
        if re.fullmatch(r"[A-Za-z0-9](?!.*[._-]{2})[\w.-]{1,126}[A-Za-z0-9]", name, re.ASCII)
        else "trail names have 3 to 128 letters, digits and single ._-"
    ),
    properties=(
        Property(
            "bucket",
            _trail,
            lambda name, want, raw: _update(name, S3BucketName=want),
            ops=("UpdateTrail",),
            canon=lambda raw: raw.get("S3BucketName"),
            parse=str,
            at_create=True,
            needs_ready=True,
            weight=2.0,
            faults=(
                Fault(
                    "TRAIL_WRONG_BUCKET", "the log goes to the wrong bucket", ("WIRING.23",), _other_bucket, "hard"
                ),
            ),
        ),
        Property(
            "multi_region",
            _trail,
            lambda name, want, raw: _update(name, IsMultiRegionTrail=want),
            ops=("UpdateTrail",),
            canon=lambda raw: bool(raw.get("IsMultiRegionTrail")),
            parse=bool,
            empty=False,
            faults=(
                Fault(
                    "TRAIL_SINGLE_REGION",
                    "calls in other regions are not recorded",
                    ("CIS-AWS-5.0:3.1", "FSBP:CloudTrail.1", "Checkov:CKV_AWS_67"),
                    always(False),
                ),
            ),
        ),
        Property(
            "validation",
            _trail,
            lambda name, want, raw: _update(name, EnableLogFileValidation=want),
            ops=("UpdateTrail",),
            canon=lambda raw: bool(raw.get("LogFileValidationEnabled")),
            parse=bool,
            empty=False,
            faults=(
                Fault(
                    "TRAIL_NO_VALIDATION",
                    "a changed log file would not be noticed",
                    ("CIS-AWS-5.0:3.2", "FSBP:CloudTrail.4", "Checkov:CKV_AWS_36"),
                    always(False),
                ),
            ),
        ),
        Property(
            "key",
            _trail,
            lambda name, want, raw: _update(name, KmsKeyId=want or ""),
            ops=("UpdateTrail",),
            canon=lambda raw: raw.get("KmsKeyId") or None,
            parse=lambda value: str(value) if value else None,
            faults=(
                Fault(
                    "TRAIL_NO_KEY",
                    "the log is not encrypted with a key of the account's own",
                    ("CIS-AWS-5.0:3.5", "FSBP:CloudTrail.2", "Checkov:CKV_AWS_35"),
                    always(None),
                ),
            ),
        ),
        Property(
            "logging",
            lambda api, name: api("GetTrailStatus", Name=name)["IsLogging"],
            lambda name, want, raw: [
                Call("cloudtrail", "StartLogging" if want else "StopLogging", {"Name": name})
            ],
            ops=("StartLogging", "StopLogging"),
            canon=bool,
            parse=bool,
            empty=False,
            weight=2.0,
            faults=(
                Fault("TRAIL_STOPPED", "nothing is recorded", ("Checkov:CKV_AWS_251",), always(False), "medium"),
            ),
        ),
    ),
)


def _check_bucket(name: Any, view: View) -> None:
    if name not in view.names("s3", "bucket"):
        raise ApiError("S3BucketDoesNotExistException", f"S3 bucket {str(name)[:80]} does not exist!")


def _check_delivery(name: Any, view: View) -> None:
    """The bucket's policy must let CloudTrail look at it and write to it."""
    granted = {
        action.lower()
        for s in view.value("s3", "bucket", str(name), "policies") or []
        if s["Effect"] == "Allow" and "cloudtrail.amazonaws.com" in s.get("Principal", {}).get("Service", [])
        for action in s.get("Action", [])
    }
    if not {"s3:getbucketacl", "s3:putobject"} <= granted and not granted & {"s3:*", "*"}:
        raise ApiError(
            "InsufficientS3BucketPolicyException", f"Incorrect S3 bucket policy is detected for bucket: {name}"
        )


def _check_create(payload: dict[str, Any], view: View) -> None:
    if payload.get("Name") in view.names("cloudtrail", "trail"):
        raise ApiError("TrailAlreadyExistsException", f"Trail {payload['Name']} already exists")
    # AWS looks at the bucket's policy here already; a solution creates before it sets policies
    _check_bucket(payload.get("S3BucketName"), view)
    _check_key(payload)


def _check_update(payload: dict[str, Any], view: View) -> None:
    if "S3BucketName" in payload:
        _check_bucket(payload["S3BucketName"], view)
        _check_delivery(payload["S3BucketName"], view)
    _check_key(payload)


def _check_key(payload: dict[str, Any]) -> None:
    key = payload.get("KmsKeyId")
    if key and not str(key).startswith("arn:aws:kms:"):
        raise ApiError("InvalidKmsKeyIdException", "KmsKeyId must be the ARN of a key")


def _by_name(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    """moto understands the name of a trail only; AWS its ARN too."""
    name = payload.get("Name")
    return {**payload, "Name": name.rpartition("/")[2]} if isinstance(name, str) else payload


_BY_NAME = ("UpdateTrail", "DeleteTrail", "StartLogging", "StopLogging", "GetTrail", "GetTrailStatus")
_SETTINGS = frozenset({"Name", "S3BucketName", "KmsKeyId", "EnableLogFileValidation", "IsMultiRegionTrail"})

SERVICE = Service(
    name="cloudtrail",
    types=(TRAIL,),
    reads=("DescribeTrails", "ListTrails", "GetTrail", "GetTrailStatus"),
    hooks={"CreateTrail": _check_create, "UpdateTrail": _check_update},
    complete=dict.fromkeys(
        ("UpdateTrail", "DeleteTrail", "StartLogging", "StopLogging", "GetTrail", "GetTrailStatus"), _by_name
    ),
    params={"CreateTrail": _SETTINGS, "UpdateTrail": _SETTINGS},
)
