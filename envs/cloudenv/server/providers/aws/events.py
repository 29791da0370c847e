"""EventBridge: rules of the default bus, with their targets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT

_SCHEDULE = re.compile(r"rate\(\d+ (minute|hour|day)s?\)|cron\([^()]{1,100}\)")
_EVERY_DAY = {"schedule": "rate(1 day)"}


def arn(name: str) -> str:
    return f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}"


def _rule(api: Api, name: str) -> Any:
    return api("DescribeRule", Name=name)


# what the rule waits for


def _canon_event(raw: Mapping[str, Any]) -> Any:
    found = {"pattern": json.loads(raw["EventPattern"])} if raw.get("EventPattern") else {}
    return found | ({"schedule": raw["ScheduleExpression"]} if raw.get("ScheduleExpression") else {})


def _parse_event(value: Any) -> Any:
    if not isinstance(value, dict) or not value or set(value) - {"pattern", "schedule"}:
        raise ValueError('must be {"pattern": {...}} or {"schedule": "rate(5 minutes)"}, or both')
    if not isinstance(value.get("pattern", {}), dict) or not isinstance(value.get("schedule", ""), str):
        raise ValueError("a pattern is an object, a schedule a string")
    return dict(value)


def _event_key(value: Any) -> Any:
    """The values of a pattern are alternatives: their order makes no difference."""

    def plain(found: Any) -> Any:
        if isinstance(found, dict):
            return {k: plain(v) for k, v in sorted(found.items())}
        return sorted(map(plain, found), key=json.dumps) if isinstance(found, list) else found

    return plain(value)


def _payload(name: str, event: Any, state: str) -> dict[str, Any]:
    payload: dict[str, Any] = {"Name": name, "State": state}
    if "pattern" in event:
        payload["EventPattern"] = json.dumps(event["pattern"], sort_keys=True)
    if "schedule" in event:
        payload["ScheduleExpression"] = event["schedule"]
    return payload


def _put_event(name: str, want: Any, raw: Any) -> list[Call]:
    """PutRule replaces all: whether the rule is enabled stays as it is."""
    state = (raw or {}).get("State", "ENABLED")
    return [Call("events", "PutRule", _payload(name, want or _EVERY_DAY, state))]


def _elsewhere(value: Any, site: FaultSite) -> Any:
    """It waits for the events of a source that sends none."""
    sources = value.get("pattern", {}).get("source")
    return (
        {**value, "pattern": {**value["pattern"], "source": [f"{s}.old" for s in sources]}} if sources else value
    )


def _narrow(value: Any, site: FaultSite) -> Any:
    """It waits for one kind of event less."""
    pattern = value.get("pattern", {})
    for key, values in sorted(pattern.items()):
        if isinstance(values, list) and len(values) > 1:
            return {**value, "pattern": {**pattern, key: values[1:]}}
    return value


def _rarely(value: Any, site: FaultSite) -> Any:
    return {**value, "schedule": "rate(365 days)"} if "schedule" in value else value


# targets


def _canon_targets(raw: Any) -> Any:
    return _in_order(
        [
            {
                "target": t["Arn"],
                "input": t.get("Input") or None,
                "dead_letters": (t.get("DeadLetterConfig") or {}).get("Arn"),
            }
            for t in raw or []
        ]
    )


def _parse_targets(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    for item in value or []:
        if not isinstance(item, dict) or set(item) - {"target", "input", "dead_letters"} or "target" not in item:
            raise ValueError('must be a list of {"target": ARN, "input"?: json text, "dead_letters"?: ARN}')
    return _in_order([{"input": None, "dead_letters": None, **item} for item in value or []])


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _put_targets(name: str, want: list[Any], raw: Any) -> list[Call]:
    have = {t["Id"]: _canon_targets([t])[0] for t in raw or []}
    gone = sorted(i for i, t in have.items() if t not in want)
    new = [t for t in want if t not in have.values()]
    calls = [Call("events", "RemoveTargets", {"Rule": name, "Ids": gone})] if gone else []
    return calls + (
        [Call("events", "PutTargets", {"Rule": name, "Targets": list(map(_target, new))})] if new else []
    )


def _target(item: Mapping[str, Any]) -> dict[str, Any]:
    id_ = "target-" + hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:8]
    out = {"Id": id_, "Arn": item["target"]}
    out |= {"Input": item["input"]} if item["input"] else {}
    return out | ({"DeadLetterConfig": {"Arn": item["dead_letters"]}} if item["dead_letters"] else {})


def _wrong_target(value: list[Any], site: FaultSite) -> Any:
    taken = {t["target"] for t in value} | {t["dead_letters"] for t in value}
    others = sorted(a for a in site.others.values() if re.search(":(sqs|lambda):", a) and a not in taken)
    return _in_order([{**value[0], "target": site.rng.choice(others)}, *value[1:]]) if value and others else value


def _dropping(value: list[Any], site: FaultSite) -> Any:
    return _in_order([{**t, "dead_letters": None} for t in value])


RULE = ResourceType(
    service="events",
    kind="rule",
    create_op="PutRule",
    create=lambda name, wanted: _payload(name, wanted.get("event") or _EVERY_DAY, "ENABLED"),
    delete_op="DeleteRule",
    delete=lambda name: {"Name": name},
    names=lambda api: [r["Name"] for r in api("ListRules")["Rules"]],
    arn=arn,
    id_param="Rule",
    name_param="Name",
    clean=lambda api, name: _put_targets(name, [], api("ListTargetsByRule", Rule=name)["Targets"]),
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w.-]{1,64}", name, re.ASCII)
        else "rule names have 1 to 64 letters, digits and ._-"
    ),
    properties=(
        Property(
            "event",
            _rule,
            _put_event,
            ops=("PutRule",),
            canon=_canon_event,
            parse=_parse_event,
            key=_event_key,
            empty=_EVERY_DAY,
            at_create=True,
            weight=2.0,
            faults=(
                Fault(
                    "RULE_WRONG_SOURCE",
                    "the rule waits for events that nobody sends",
                    ("WIRING.26",),
                    _elsewhere,
                    "hard",
                ),
                Fault("RULE_NARROW", "the rule misses a kind of event", ("WIRING.26",), _narrow, "hard"),
                Fault("RULE_RARELY", "the rule fires once a year", ("WIRING.26",), _rarely, "medium"),
            ),
        ),
        Property(
            "enabled",
            lambda api, name: _rule(api, name).get("State"),
            lambda name, want, raw: [Call("events", "EnableRule" if want else "DisableRule", {"Name": name})],
            ops=("EnableRule", "DisableRule", "PutRule"),
            canon=lambda raw: raw == "ENABLED",
            parse=bool,
            empty=True,
            faults=(Fault("RULE_DISABLED", "the rule is disabled", ("WIRING.27",), always(False)),),
        ),
        Property(
            "targets",
            lambda api, name: api("ListTargetsByRule", Rule=name)["Targets"],
            _put_targets,
            ops=("PutTargets", "RemoveTargets"),
            canon=_canon_targets,
            parse=_parse_targets,
            empty=[],
            fresh=[],
            weight=2.0,
            faults=(
                Fault("RULE_TARGET_LOST", "events lead to nothing", ("WIRING.28",), always([]), "hard"),
                Fault("RULE_WRONG_TARGET", "events go to the wrong target", ("WIRING.28",), _wrong_target, "hard"),
                Fault(
                    "RULE_NO_DEAD_LETTERS",
                    "events that cannot be delivered are dropped",
                    ("WIRING.6",),
                    _dropping,
                    "medium",
                ),
            ),
        ),
    ),
)


def _check_rule(payload: dict[str, Any], view: View) -> None:
    if not payload.get("EventPattern") and not payload.get("ScheduleExpression"):
        if set(payload) != {"Name"}:
            raise ApiError(
                "ValidationException", "Parameter(s) EventPattern or ScheduleExpression must be specified."
            )
        payload["ScheduleExpression"] = _EVERY_DAY["schedule"]
    if "EventPattern" in payload:
        try:
            pattern = json.loads(payload["EventPattern"])
        except (TypeError, ValueError):
            pattern = None
        if not isinstance(pattern, dict) or not pattern or not all(map(_is_filter, pattern.values())):
            raise ApiError(
                "InvalidEventPatternException", "Event pattern is not valid: every key maps to a list or an object"
            )
    schedule = payload.get("ScheduleExpression")
    if schedule is not None and not _SCHEDULE.fullmatch(str(schedule)):
        raise ApiError("ValidationException", "Parameter ScheduleExpression is not valid.")
    if payload.get("State", "ENABLED") not in ("ENABLED", "DISABLED"):
        raise ApiError("ValidationException", "State must be ENABLED or DISABLED")


def _is_filter(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_is_filter, value.values()))
    return isinstance(value, list) and bool(value)


def _check_targets(payload: dict[str, Any], view: View) -> None:
    for target in payload.get("Targets") or []:
        unknown = set(target) - {"Id", "Arn", "Input", "DeadLetterConfig"}
        if unknown or not re.fullmatch(r"[\w.-]{1,64}", str(target.get("Id")), re.ASCII):
            raise ApiError("ValidationException", "a target has an Id, an Arn, an Input and a DeadLetterConfig")
        if not re.match(r"arn:aws:(sqs|lambda|sns):", str(target.get("Arn"))):
            raise ApiError("ValidationException", "the Arn of a target is that of a queue, a function or a topic")
        if "Input" in target:
            try:
                json.loads(target["Input"])
            except (TypeError, ValueError):
                raise ApiError("ValidationException", "JSON syntax error in input for target") from None


def _check_delete(payload: dict[str, Any], view: View) -> None:
    if view.value("events", "rule", str(payload.get("Name")), "targets"):
        raise ApiError("ValidationException", "Rule can't be deleted since it has targets.")


def _check_known(payload: dict[str, Any], view: View) -> None:
    name = payload.get("Name", payload.get("Rule"))
    if name not in view.names("events", "rule"):
        raise ApiError("ResourceNotFoundException", f"Rule {str(name)[:80]} does not exist on EventBus default.")
    _check_targets(payload, view)


def _enabled_by_default(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    """A rule that is put without a state is enabled, as on AWS; ministack keeps the one it had."""
    return {"State": "ENABLED", **payload}


SERVICE = Service(
    name="events",
    types=(RULE,),
    reads=("ListRules", "DescribeRule", "ListTargetsByRule"),
    hooks={
        "PutRule": _check_rule,
        "DeleteRule": _check_delete,
        "EnableRule": _check_known,
        "DisableRule": _check_known,
        "PutTargets": _check_known,
        "RemoveTargets": _check_known,
    },
    complete={"PutRule": _enabled_by_default},
    params={
        "PutRule": frozenset({"Name", "EventPattern", "ScheduleExpression", "State", "Description"}),
        "DeleteRule": frozenset({"Name"}),
        "EnableRule": frozenset({"Name"}),
        "DisableRule": frozenset({"Name"}),
        "PutTargets": frozenset({"Rule", "Targets"}),
        "RemoveTargets": frozenset({"Rule", "Ids"}),
    },
)
