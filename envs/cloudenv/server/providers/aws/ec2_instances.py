"""Instances of EC2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, Property, ResourceType, View, always
from .errors import ApiError
from .translate import ACCOUNT, stable_id

_ALIVE = ["pending", "running", "stopping", "stopped"]
_IMAGE = "ami-12c6146b"
"""An image that moto knows; ministack takes any."""


def _instance_id(name: str) -> str:
    return stable_id("i", name)


def _instances(api: Api) -> dict[str, Any]:
    found = api("DescribeInstances", Filters=[{"Name": "instance-state-name", "Values": _ALIVE}])
    listed = [i for r in found["Reservations"] for i in r["Instances"]]
    return {_tag(i.get("Tags")) or i["InstanceId"]: i for i in listed if i["State"]["Name"] in _ALIVE}


def _tag(tags: Any) -> Any:
    return next((t["Value"] for t in tags or [] if t.get("Key") == "Name"), None)


def _name_in(payload: Mapping[str, Any]) -> Any:
    for specification in payload.get("TagSpecifications") or []:
        if isinstance(specification, dict) and specification.get("ResourceType") == "instance":
            return _tag(specification.get("Tags"))
    return None


def _put_name(payload: dict[str, Any], name: str) -> None:
    payload["TagSpecifications"] = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": name}]}]


def _create_instance(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "ImageId": _IMAGE,
        "InstanceType": wanted.get("type") or "t3.micro",
        "MinCount": 1,
        "MaxCount": 1,
    }
    if wanted.get("security_groups"):
        payload["SecurityGroupIds"] = wanted["security_groups"]
    _put_name(payload, name)
    return payload


def _modify(name: str, **attribute: Any) -> list[Call]:
    return [Call("ec2", "ModifyInstanceAttribute", {"InstanceId": _instance_id(name), **attribute})]


def _put_metadata(name: str, want: Any, raw: Any) -> list[Call]:
    options = {"InstanceId": _instance_id(name), "HttpTokens": want}
    return [Call("ec2", "ModifyInstanceMetadataOptions", options)]


def _read_protection(api: Api, name: str) -> Any:
    instance = _instances(api)[name]["InstanceId"]
    found = api(
        "DescribeInstanceAttribute",
        absent=("InvalidAction", "EmulatorError"),
        InstanceId=instance,
        Attribute="disableApiTermination",
    )
    return bool(((found or {}).get("DisableApiTermination") or {}).get("Value"))


def _put_state(name: str, want: Any, raw: Any) -> list[Call]:
    operation = "StartInstances" if want == "running" else "StopInstances"
    return [Call("ec2", operation, {"InstanceIds": [_instance_id(name)]})]


def _parse_state(value: Any) -> Any:
    if value not in ("running", "stopped"):
        raise ValueError("must be running or stopped")
    return value


def _parse_tokens(value: Any) -> Any:
    if value not in ("required", "optional"):
        raise ValueError("must be required (IMDSv2) or optional")
    return value


INSTANCE = ResourceType(
    service="ec2",
    kind="instance",
    create_op="RunInstances",
    create=_create_instance,
    delete_op="TerminateInstances",
    delete=lambda name: {"InstanceIds": [_instance_id(name)]},
    names=lambda api: list(_instances(api)),
    arn=lambda name: f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{_instance_id(name)}",
    id_param="InstanceId",
    id_list_param="InstanceIds",
    name_in=_name_in,
    put_name=_put_name,
    id_prefix="i",
    id_path=("Instances", "0", "InstanceId"),
    clean=lambda api, name: (
        _modify(name, DisableApiTermination={"Value": False}) if _read_protection(api, name) else []
    ),
    check_name=lambda name: (
        None if re.fullmatch(r"[\w.-]{1,100}", name) else "names have 1 to 100 letters, digits and _.-"
    ),
    properties=(
        Property(
            "type",
            lambda api, name: _instances(api)[name]["InstanceType"],
            lambda name, want, raw: [],
            parse=str,
            immutable=True,
        ),
        Property(
            "security_groups",
            lambda api, name: _instances(api)[name].get("SecurityGroups"),
            lambda name, want, raw: _modify(name, Groups=want),
            ops=("ModifyInstanceAttribute",),
            canon=lambda raw: sorted(g["GroupId"] for g in raw or [] if g.get("GroupName") != "default"),
            parse=lambda value: sorted(map(str, value or [])),
            empty=[],
            at_create=True,
            weight=2.0,
        ),
        Property(
            "metadata_tokens",
            lambda api, name: (_instances(api)[name].get("MetadataOptions") or {}).get("HttpTokens"),
            _put_metadata,
            ops=("ModifyInstanceMetadataOptions",),
            canon=lambda raw: raw or "optional",
            parse=_parse_tokens,
            empty="optional",
            faults=(
                Fault(
                    "EC2_IMDS_V1",
                    "the instance still answers IMDSv1",
                    ("CIS-AWS-5.0:5.7", "FSBP:EC2.8", "Checkov:CKV_AWS_79"),
                    always("optional"),
                ),
            ),
        ),
        Property(
            "termination_protection",
            _read_protection,
            lambda name, want, raw: _modify(name, DisableApiTermination={"Value": want}),
            ops=("ModifyInstanceAttribute",),
            parse=bool,
            empty=False,
            faults=(Fault("EC2_UNPROTECTED", "the instance can be terminated", ("WIRING.19",), always(False)),),
        ),
        Property(
            "state",
            lambda api, name: _instances(api)[name]["State"]["Name"],
            _put_state,
            ops=("StartInstances", "StopInstances"),
            canon=lambda raw: "running" if raw in ("pending", "running") else "stopped",
            parse=_parse_state,
            empty="running",
            faults=(Fault("EC2_STOPPED", "the instance is stopped", ("WIRING.18",), always("stopped"), "medium"),),
        ),
    ),
)


def check_run(payload: dict[str, Any], view: View) -> None:
    for key, value in {"ImageId": _IMAGE, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1}.items():
        payload.setdefault(key, value)
    if payload["MinCount"] != 1 or payload["MaxCount"] != 1:
        raise ApiError("InvalidParameterValue", "MinCount and MaxCount must be 1")
    if payload["ImageId"] != _IMAGE:
        raise ApiError(
            "InvalidAMIID.NotFound", f"The image id {payload['ImageId']!r} does not exist; use {_IMAGE}"
        )


def check_terminate(payload: dict[str, Any], view: View) -> None:
    for instance in payload.get("InstanceIds") or []:
        for name in view.names("ec2", "instance"):
            if _instance_id(name) == instance and view.value("ec2", "instance", name, "termination_protection"):
                raise ApiError(
                    "OperationNotPermitted", f"The instance '{instance}' may not be terminated: it is protected"
                )


def check_modify(payload: dict[str, Any], view: View) -> None:
    if len(payload) != 2:
        raise ApiError("InvalidParameterCombination", "one attribute at a time")


def check_metadata(payload: dict[str, Any], view: View) -> None:
    if payload.get("HttpTokens") not in ("required", "optional"):
        raise ApiError("InvalidParameterValue", "HttpTokens must be required or optional")
