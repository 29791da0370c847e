"""SQS: queues."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from . import policy
from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT, QUEUE_URL

_RANGES = {  # AWS's limits of the numeric attributes
    "VisibilityTimeout": (0, 43200),
    "MessageRetentionPeriod": (60, 1209600),
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1024, 1048576),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "KmsDataKeyReusePeriodSeconds": (60, 86400),
}
_OTHERS = {"Policy", "RedrivePolicy", "KmsMasterKeyId", "SqsManagedSseEnabled"}


def url(name: str) -> str:
    return QUEUE_URL + name


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def _attribute(name: str) -> Callable[[Api, str], Any]:
    return lambda api, queue: (
        api("GetQueueAttributes", QueueUrl=url(queue), AttributeNames=["All"]).get("Attributes", {}).get(name)
    )


def _set(queue: str, **attributes: str) -> list[Call]:
    return [Call("sqs", "SetQueueAttributes", {"QueueUrl": url(queue), "Attributes": attributes})]


def _number(prop: str, attribute: str, default: int, **options: Any) -> Property:
    return Property(
        prop,
        _attribute(attribute),
        lambda name, want, raw: _set(name, **{attribute: str(want)}),
        ops=("SetQueueAttributes",),
        canon=lambda raw: int(raw or default),
        parse=int,
        empty=default,
        **options,
    )


# redrive


def _canon_redrive(raw: Any) -> Any:
    found = json.loads(raw) if isinstance(raw, str) and raw else raw
    if not found:
        return None
    return {"target": found["deadLetterTargetArn"], "max_receives": int(found["maxReceiveCount"])}


def _parse_redrive(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"target", "max_receives"}:
        raise ValueError('must be null or {"target": ARN, "max_receives": number}')
    return {"target": value["target"], "max_receives": int(value["max_receives"])}


def _put_redrive(name: str, want: Any, raw: Any) -> list[Call]:
    text = (
        json.dumps({"deadLetterTargetArn": want["target"], "maxReceiveCount": want["max_receives"]})
        if want
        else ""
    )
    return _set(name, RedrivePolicy=text)


def _wrong_dead_letters(value: Any, site: FaultSite) -> Any:
    others = [
        a for a in site.others.values() if ":sqs:" in a and value and a not in (value["target"], arn(site.name))
    ]
    return {**value, "target": site.rng.choice(sorted(others))} if value and others else value


# encryption


def _read_encryption(api: Api, name: str) -> Any:
    found = api("GetQueueAttributes", QueueUrl=url(name), AttributeNames=["All"]).get("Attributes", {})
    return {k: found.get(k) for k in ("KmsMasterKeyId", "SqsManagedSseEnabled")}


def _canon_encryption(raw: Any) -> Any:
    if raw.get("KmsMasterKeyId"):
        return {"key": raw["KmsMasterKeyId"]}
    return "sse" if str(raw.get("SqsManagedSseEnabled")).lower() == "true" else "none"


def _parse_encryption(value: Any) -> Any:
    if value in (None, False, "none"):
        return "none"
    if value in (True, "sse") or (isinstance(value, dict) and set(value) == {"key"}):
        return value if isinstance(value, dict) else "sse"
    raise ValueError('must be "none", "sse" or {"key": ...}')


def _put_encryption(name: str, want: Any, raw: Any) -> list[Call]:
    if isinstance(want, dict):
        return _set(name, KmsMasterKeyId=want["key"], SqsManagedSseEnabled="false")
    return _set(name, KmsMasterKeyId="", SqsManagedSseEnabled="true" if want == "sse" else "false")


# policies


def _opened(value: list[Any], site: FaultSite) -> Any:
    grant = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["sqs:SendMessage"],
        "Resource": [arn(site.name)],
    }
    return policy.statements([*value, grant])


def _without_senders(value: list[Any], site: FaultSite) -> Any:
    return [s for s in value if not s.get("Principal", {}).get("Service")]


def _without_source(value: list[Any], site: FaultSite) -> Any:
    """The service may send for anybody: the condition on its source is gone."""
    return policy.statements([{k: v for k, v in s.items() if k != "Condition"} for s in value])


QUEUE = ResourceType(
    service="sqs",
    kind="queue",
    create_op="CreateQueue",
    create=lambda name, wanted: {"QueueName": name},
    delete_op="DeleteQueue",
    delete=lambda name: {"QueueUrl": url(name)},
    names=lambda api: [u.rpartition("/")[2] for u in api("ListQueues").get("QueueUrls", [])],
    arn=arn,
    url=url,
    id_param="QueueUrl",
    name_param="QueueName",
    check_name=lambda name: (
        None
        if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name)
        else "queue names have 1 to 80 letters, digits, hyphens and underscores; fifo queues are not offered"
    ),
    properties=(
        Property(
            "policies",
            _attribute("Policy"),
            lambda name, want, raw: _set(name, Policy=policy.document(want) if want else ""),
            ops=("SetQueueAttributes",),
            canon=lambda raw: policy.statements(raw or None),
            parse=policy.statements,
            key=policy.meaning,
            empty=[],
            weight=2.0,
            faults=(
                Fault(
                    "SQS_PUBLIC_POLICY",
                    "everybody may send to the queue",
                    ("CIS-AWS-7.0:2.21", "Checkov:CKV_AWS_168", "Checkov:CKV_AWS_387"),
                    _opened,
                ),
                Fault(
                    "SQS_SENDER_LOST",
                    "the service that feeds the queue may not",
                    ("WIRING.7",),
                    _without_senders,
                    "hard",
                ),
                Fault(
                    "SQS_CONFUSED_DEPUTY",
                    "the condition on who may send is gone",
                    ("WIRING.10",),
                    _without_source,
                    "medium",
                ),
            ),
        ),
        Property(
            "encryption",
            _read_encryption,
            _put_encryption,
            ops=("SetQueueAttributes",),
            canon=_canon_encryption,
            parse=_parse_encryption,
            empty="none",
            faults=(
                Fault(
                    "SQS_NOT_ENCRYPTED",
                    "messages are not encrypted",
                    ("FSBP:SQS.1", "Checkov:CKV_AWS_27"),
                    always("none"),
                ),
            ),
        ),
        Property(
            "redrive",
            _attribute("RedrivePolicy"),
            _put_redrive,
            ops=("SetQueueAttributes",),
            canon=_canon_redrive,
            parse=_parse_redrive,
            weight=2.0,
            faults=(
                Fault(
                    "SQS_REDRIVE_LOST", "failed messages are tried for ever", ("WIRING.6",), always(None), "medium"
                ),
                Fault(
                    "SQS_REDRIVE_WRONG",
                    "failed messages go to the wrong queue",
                    ("WIRING.6",),
                    _wrong_dead_letters,
                    "hard",
                ),
            ),
        ),
        _number(
            "visibility_timeout",
            "VisibilityTimeout",
            30,
            faults=(
                Fault(
                    "SQS_VISIBILITY_TOO_SHORT",
                    "messages come back while they are still worked on",
                    ("WIRING.5",),
                    lambda value, site: min(value, 5),
                    "medium",
                ),
            ),
        ),
        _number(
            "retention",
            "MessageRetentionPeriod",
            345600,
            faults=(
                Fault(
                    "SQS_RETENTION_SHORT",
                    "messages are dropped after a minute",
                    ("WIRING.11",),
                    lambda value, site: min(value, 60),
                ),
            ),
        ),
    ),
)


def _check_attributes(payload: dict[str, Any], view: View) -> None:
    attributes = payload.get("Attributes", {})
    if not isinstance(attributes, dict):
        raise ApiError("InvalidAttributeValue", "Attributes must be an object of strings")
    for name, value in attributes.items():
        if name in _RANGES:
            low, high = _RANGES[name]
            if not re.fullmatch(r"\d{1,8}", str(value)) or not low <= int(value) <= high:
                raise ApiError("InvalidAttributeValue", f"{name} must be {low} to {high}")
        elif name not in _OTHERS:
            raise ApiError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if attributes.get("Policy"):
        policy.check(
            attributes["Policy"],
            code="InvalidAttributeValue",
            principal=True,
            resource=lambda r: r == "*" or r.startswith("arn:aws:sqs:"),
        )
    if attributes.get("SqsManagedSseEnabled", "true") not in ("true", "false"):
        raise ApiError("InvalidAttributeValue", "SqsManagedSseEnabled must be true or false")
    if attributes.get("RedrivePolicy"):
        try:
            redrive = _canon_redrive(attributes["RedrivePolicy"])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ApiError(
                "InvalidParameterValue", "RedrivePolicy is json with deadLetterTargetArn and maxReceiveCount"
            ) from None
        if not 1 <= redrive["max_receives"] <= 1000:
            raise ApiError("InvalidParameterValue", "maxReceiveCount must be 1 to 1000")
        if redrive["target"] not in map(arn, view.names("sqs", "queue")):
            raise ApiError("AWS.SimpleQueueService.NonExistentQueue", "Dead letter target does not exist.")


def _keep_policy(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    """moto drops a queue's policy whenever other attributes are set without it."""
    attributes = payload.get("Attributes")
    if isinstance(attributes, dict) and "Policy" not in attributes:
        found = api("GetQueueAttributes", QueueUrl=payload.get("QueueUrl"), AttributeNames=["Policy"])
        attributes = {**attributes, "Policy": found.get("Attributes", {}).get("Policy", "")}
    return {**payload, "Attributes": attributes}


SERVICE = Service(
    name="sqs",
    types=(QUEUE,),
    reads=("ListQueues", "GetQueueUrl", "GetQueueAttributes", "ListDeadLetterSourceQueues"),
    data=("SendMessage", "PurgeQueue"),
    hooks={"CreateQueue": _check_attributes, "SetQueueAttributes": _check_attributes},
    complete={"SetQueueAttributes": _keep_policy},
    params={"CreateQueue": frozenset({"QueueName", "Attributes"})},
)
