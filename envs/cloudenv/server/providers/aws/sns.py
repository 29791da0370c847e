"""SNS: topics with their subscriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from . import policy
from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT

_TOPIC_ATTRIBUTES = ("Policy", "KmsMasterKeyId", "DisplayName")
_SUBSCRIPTION_ATTRIBUTES = ("RawMessageDelivery", "FilterPolicy", "RedrivePolicy")
_PROTOCOLS = ("sqs", "lambda")
"""Only what lies in the account itself: no e-mail, no text message, no URL."""


def arn(name: str) -> str:
    return f"arn:aws:sns:{REGION}:{ACCOUNT}:{name}"


def _attribute(name: str) -> Callable[[Api, str], Any]:
    return lambda api, topic: api("GetTopicAttributes", TopicArn=arn(topic))["Attributes"].get(name)


def _set(topic: str, attribute: str, value: str) -> list[Call]:
    payload = {"TopicArn": arn(topic), "AttributeName": attribute, "AttributeValue": value}
    return [Call("sns", "SetTopicAttributes", payload)]


# policies


def _default_policy(topic: str) -> str:
    """What a topic without a policy of its own has: its owner may use it."""
    return policy.document(
        [
            {
                "Effect": "Allow",
                "Principal": {"AWS": ["*"]},
                "Action": ["SNS:Publish", "SNS:Subscribe"],
                "Resource": [arn(topic)],
                "Condition": {"StringEquals": {"AWS:SourceOwner": [ACCOUNT]}},
            }
        ]
    )


def _canon_policies(raw: Any) -> Any:
    """Without the owner's own statement, of which every emulator has another form."""
    owner = {"StringEquals": {"aws:sourceowner": [ACCOUNT]}}
    return [s for s in policy.statements(raw or None) if s["Effect"] != "Allow" or s.get("Condition") != owner]


def _opened(value: list[Any], site: FaultSite) -> Any:
    grant = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["sns:Publish", "sns:Subscribe"],
        "Resource": [arn(site.name)],
    }
    return policy.statements([*value, grant])


def _without_publishers(value: list[Any], site: FaultSite) -> Any:
    return [s for s in value if not s.get("Principal", {}).get("Service")]


def _without_source(value: list[Any], site: FaultSite) -> Any:
    """The service may publish for anybody: the condition on its source is gone."""
    return policy.statements([{k: v for k, v in s.items() if k != "Condition"} for s in value])


# subscriptions


def _read_subscriptions(api: Api, name: str) -> Any:
    listed = api("ListSubscriptionsByTopic", TopicArn=arn(name))["Subscriptions"]
    return [
        api("GetSubscriptionAttributes", SubscriptionArn=s["SubscriptionArn"])["Attributes"]
        for s in listed
        if s["SubscriptionArn"].startswith("arn:")
    ]


def _dead_letters(text: Any) -> Any:
    return json.loads(text).get("deadLetterTargetArn") if text else None


def _subscription(raw: Any) -> dict[str, Any]:
    return {
        "protocol": raw["Protocol"],
        "endpoint": raw["Endpoint"],
        "raw": str(raw.get("RawMessageDelivery")).lower() == "true",
        "filter": json.loads(raw.get("FilterPolicy") or "{}") or None,
        "dead_letters": _dead_letters(raw.get("RedrivePolicy")),
    }


def _canon_subscriptions(raw: Any) -> Any:
    return _in_order([_subscription(s) for s in raw or []])


def _parse_subscriptions(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    known = {"protocol", "endpoint", "raw", "filter", "dead_letters"}
    for item in value or []:
        if not isinstance(item, dict) or set(item) - known or not {"protocol", "endpoint"} <= set(item):
            raise ValueError('must be a list of {"protocol", "endpoint", "raw"?, "filter"?, "dead_letters"?}')
        if item["protocol"] not in _PROTOCOLS:
            raise ValueError(f"protocol must be one of {', '.join(_PROTOCOLS)}")
    return _in_order([{"raw": False, "filter": None, "dead_letters": None, **item} for item in value or []])


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _texts(subscription: dict[str, Any]) -> dict[str, str]:
    """The attributes as the API takes them."""
    dead = subscription["dead_letters"]
    return {
        "RawMessageDelivery": "true" if subscription["raw"] else "false",
        "FilterPolicy": json.dumps(subscription["filter"] or {}),
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead}) if dead else "",
    }


def _put_subscriptions(name: str, want: list[Any], raw: Any) -> list[Call]:
    def place(s: dict[str, Any]) -> tuple[str, str]:
        return (s["protocol"], s["endpoint"])

    have = {place(_subscription(s)): s for s in raw or []}
    wanted = {place(s): s for s in want}
    calls = [
        Call("sns", "Unsubscribe", {"SubscriptionArn": s["SubscriptionArn"]})
        for at, s in have.items()
        if at not in wanted
    ]
    for at, subscription in wanted.items():
        texts = _texts(subscription)
        if at not in have:
            plain = _texts({"raw": False, "filter": None, "dead_letters": None})
            payload = {"TopicArn": arn(name), "Protocol": at[0], "Endpoint": at[1]}
            attributes = {k: v for k, v in texts.items() if v != plain[k]}
            calls.append(Call("sns", "Subscribe", payload | ({"Attributes": attributes} if attributes else {})))
            continue
        before = _texts(_subscription(have[at]))
        for key in (k for k in texts if texts[k] != before[k]):
            change = {"AttributeName": key, "AttributeValue": texts[key]}
            payload = {"SubscriptionArn": have[at]["SubscriptionArn"], **change}
            calls.append(Call("sns", "SetSubscriptionAttributes", payload))
    return calls


def _wrong_endpoint(value: list[Any], site: FaultSite) -> Any:
    taken = {s["endpoint"] for s in value} | {s["dead_letters"] for s in value}
    others = sorted(a for a in site.others.values() if ":sqs:" in a and a not in taken)
    queues = [s for s in value if s["protocol"] == "sqs"]
    if not others or not queues:
        return value
    moved = {**queues[0], "endpoint": site.rng.choice(others)}
    return _in_order([moved if s is queues[0] else s for s in value])


def _filtered(value: list[Any], site: FaultSite) -> Any:
    """Only messages of a kind that nobody sends pass."""
    return _in_order([{**value[0], "filter": {"kind": ["test"]}}, *value[1:]]) if value else value


def _dropping(value: list[Any], site: FaultSite) -> Any:
    return _in_order([{**s, "dead_letters": None} for s in value])


TOPIC = ResourceType(
    service="sns",
    kind="topic",
    create_op="CreateTopic",
    create=lambda name, wanted: {"Name": name},
    delete_op="DeleteTopic",
    delete=lambda name: {"TopicArn": arn(name)},
    names=lambda api: [t["TopicArn"].rpartition(":")[2] for t in api("ListTopics")["Topics"]],
    arn=arn,
    id_param="TopicArn",
    name_param="Name",
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w-]{1,256}", name, re.ASCII)
        else "topic names have 1 to 256 letters, digits, hyphens and underscores; fifo topics are not offered"
    ),
    properties=(
        Property(
            "policies",
            _attribute("Policy"),
            lambda name, want, raw: _set(name, "Policy", policy.document(want) if want else _default_policy(name)),
            ops=("SetTopicAttributes",),
            canon=_canon_policies,
            parse=_canon_policies,
            key=policy.meaning,
            empty=[],
            weight=2.0,
            faults=(
                Fault(
                    "SNS_PUBLIC_POLICY",
                    "everybody may publish to the topic and subscribe to it",
                    ("FSBP:SNS.4", "Checkov:CKV_AWS_169"),
                    _opened,
                ),
                Fault(
                    "SNS_PUBLISHER_LOST",
                    "the service that feeds the topic may not",
                    ("WIRING.7",),
                    _without_publishers,
                    "hard",
                ),
                Fault(
                    "SNS_CONFUSED_DEPUTY",
                    "the condition on who may publish is gone",
                    ("WIRING.10",),
                    _without_source,
                    "medium",
                ),
            ),
        ),
        Property(
            "encryption",
            _attribute("KmsMasterKeyId"),
            lambda name, want, raw: _set(name, "KmsMasterKeyId", want or ""),
            ops=("SetTopicAttributes",),
            canon=lambda raw: raw or None,
            parse=lambda value: str(value) if value else None,
            faults=(
                Fault(
                    "SNS_NOT_ENCRYPTED",
                    "messages are not encrypted",
                    ("FSBP:SNS.1", "Checkov:CKV_AWS_26"),
                    always(None),
                ),
            ),
        ),
        Property(
            "subscriptions",
            _read_subscriptions,
            _put_subscriptions,
            ops=("Subscribe", "Unsubscribe", "SetSubscriptionAttributes"),
            canon=_canon_subscriptions,
            parse=_parse_subscriptions,
            empty=[],
            fresh=[],
            weight=2.0,
            faults=(
                Fault("SNS_SUBSCRIPTION_LOST", "nobody hears of messages", ("WIRING.20",), always([]), "hard"),
                Fault(
                    "SNS_SUBSCRIPTION_WRONG",
                    "messages go to the wrong queue",
                    ("WIRING.20",),
                    _wrong_endpoint,
                    "hard",
                ),
                Fault(
                    "SNS_FILTER",
                    "a filter keeps messages from a subscriber",
                    ("WIRING.21",),
                    _filtered,
                    "medium",
                ),
                Fault(
                    "SNS_NO_DEAD_LETTERS",
                    "messages that cannot be delivered are dropped",
                    ("WIRING.6",),
                    _dropping,
                    "medium",
                ),
            ),
        ),
    ),
)


# our own validation


def _refuse(message: str) -> None:
    raise ApiError("InvalidParameter", f"Invalid parameter: {message}")


def _check_topic_attribute(name: Any, value: Any) -> None:
    if name not in _TOPIC_ATTRIBUTES:
        _refuse(f"AttributeName {str(name)[:60]!r}; CloudEnv has {', '.join(_TOPIC_ATTRIBUTES)}")
    if name == "Policy":
        policy.check(
            value,
            code="InvalidParameter",
            principal=True,
            resource=lambda r: r == "*" or r.startswith("arn:aws:sns:"),
        )


def _check_create(payload: dict[str, Any], view: View) -> None:
    attributes = payload.get("Attributes") or {}
    if attributes and payload.get("Name") in view.names("sns", "topic"):
        _refuse("Topic already exists with different attributes")
    for name, value in attributes.items():
        _check_topic_attribute(name, value)


def _check_set(payload: dict[str, Any], view: View) -> None:
    _check_topic_attribute(payload.get("AttributeName"), payload.get("AttributeValue"))


def _check_subscription_attribute(name: Any, value: Any) -> None:
    if name not in _SUBSCRIPTION_ATTRIBUTES:
        _refuse(f"AttributeName {str(name)[:60]!r}; CloudEnv has {', '.join(_SUBSCRIPTION_ATTRIBUTES)}")
    if name == "RawMessageDelivery" and str(value).lower() not in ("true", "false"):
        _refuse("RawMessageDelivery must be true or false")
    if name == "FilterPolicy" and value:
        found = _json_object(value, name)
        if not all(isinstance(v, list) and v for v in found.values()):
            _refuse("FilterPolicy: every key maps to a list of values")
    if name == "RedrivePolicy" and value:
        target = _json_object(value, name).get("deadLetterTargetArn")
        if not str(target).startswith("arn:aws:sqs:"):
            _refuse("RedrivePolicy: deadLetterTargetArn must be the ARN of a queue")


def _json_object(text: Any, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        _refuse(f"{name} is a json object")
    return found or {}


def _check_subscribe(payload: dict[str, Any], view: View) -> None:
    protocol, endpoint = payload.get("Protocol"), str(payload.get("Endpoint"))
    if protocol not in _PROTOCOLS:
        _refuse(f"Protocol; CloudEnv has {' and '.join(_PROTOCOLS)}")
    if not endpoint.startswith(f"arn:aws:{protocol}:"):
        _refuse(f"Endpoint must be the ARN of a {'queue' if protocol == 'sqs' else 'function'}")
    attributes = payload.get("Attributes") or {}
    for name, value in attributes.items():
        _check_subscription_attribute(name, value)
    new = _subscription({"Protocol": protocol, "Endpoint": endpoint, **attributes})
    name = TOPIC.find(payload, view.names("sns", "topic"))
    for s in view.value("sns", "topic", name or "", "subscriptions") or []:
        if (s["protocol"], s["endpoint"]) == (protocol, endpoint) and s != new:
            _refuse("Attributes Reason: Subscription already exists with different attributes")


def _check_subscription(payload: dict[str, Any], view: View) -> None:
    _check_subscription_attribute(payload.get("AttributeName"), payload.get("AttributeValue"))


SERVICE = Service(
    name="sns",
    types=(TOPIC,),
    reads=(
        "ListTopics",
        "GetTopicAttributes",
        "ListSubscriptions",
        "ListSubscriptionsByTopic",
        "GetSubscriptionAttributes",
    ),
    hooks={
        "CreateTopic": _check_create,
        "SetTopicAttributes": _check_set,
        "Subscribe": _check_subscribe,
        "SetSubscriptionAttributes": _check_subscription,
    },
    params={
        "CreateTopic": frozenset({"Name", "Attributes"}),
        "Subscribe": frozenset({"TopicArn", "Protocol", "Endpoint", "Attributes", "ReturnSubscriptionArn"}),
    },
)
