"""CloudWatch: alarms on one metric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT

_COMPARISONS = {
    ">=": "GreaterThanOrEqualToThreshold",
    ">": "GreaterThanThreshold",
    "<": "LessThanThreshold",
    "<=": "LessThanOrEqualToThreshold",
}
_STATISTICS = ("Sum", "Average", "Minimum", "Maximum", "SampleCount")
_DEFAULTS: dict[str, Any] = {
    "namespace": "AWS/Lambda",
    "metric": "Errors",
    "dimensions": {},
    "statistic": "Sum",
    "period": 300,
    "periods": 1,
    "comparison": ">=",
    "threshold": 1.0,
    "missing": "missing",
    "actions": [],
}
"""An alarm in a task's words, and what is taken for what a task leaves out"""


def arn(name: str) -> str:
    return f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"


def _alarm(api: Api, name: str) -> Any:
    found = api("DescribeAlarms", AlarmNames=[name])["MetricAlarms"]
    if not found:
        raise ApiError("ResourceNotFound", f"Unknown alarm {name}")
    return found[0]


def _canon(raw: Mapping[str, Any]) -> dict[str, Any]:
    signs = {word: sign for sign, word in _COMPARISONS.items()}
    return {
        "namespace": raw.get("Namespace"),
        "metric": raw.get("MetricName"),
        "dimensions": dict(sorted((d["Name"], d["Value"]) for d in raw.get("Dimensions") or [])),
        "statistic": raw.get("Statistic"),
        "period": int(raw.get("Period") or 0),
        "periods": int(raw.get("EvaluationPeriods") or 0),
        "comparison": signs.get(raw.get("ComparisonOperator", ""), raw.get("ComparisonOperator")),
        "threshold": float(raw.get("Threshold") or 0),
        "missing": raw.get("TreatMissingData") or "missing",
        "actions": sorted(raw.get("AlarmActions") or []),
    }


def _parse(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) - set(_DEFAULTS):
        raise ValueError(f"must be an object of {', '.join(_DEFAULTS)}")
    rule = {**_DEFAULTS, **value}
    if rule["comparison"] not in _COMPARISONS or rule["statistic"] not in _STATISTICS:
        raise ValueError(
            f"comparison is one of {' '.join(_COMPARISONS)}, statistic one of {', '.join(_STATISTICS)}"
        )
    return {
        **rule,
        "dimensions": {str(k): str(v) for k, v in sorted(rule["dimensions"].items())},
        "period": int(rule["period"]),
        "periods": int(rule["periods"]),
        "threshold": float(rule["threshold"]),
        "actions": sorted(map(str, rule["actions"])),
    }


def _payload(name: str, rule: Mapping[str, Any], enabled: bool) -> dict[str, Any]:
    return {
        "AlarmName": name,
        "Namespace": rule["namespace"],
        "MetricName": rule["metric"],
        "Dimensions": [{"Name": k, "Value": v} for k, v in rule["dimensions"].items()],
        "Statistic": rule["statistic"],
        "Period": rule["period"],
        "EvaluationPeriods": rule["periods"],
        "ComparisonOperator": _COMPARISONS[rule["comparison"]],
        "Threshold": rule["threshold"],
        "TreatMissingData": rule["missing"],
        "AlarmActions": rule["actions"],
        "ActionsEnabled": enabled,
    }


def _put(name: str, want: Any, raw: Any) -> list[Call]:
    """PutMetricAlarm replaces all: whether actions are enabled stays as it is."""
    enabled = bool((raw or {}).get("ActionsEnabled", True))
    return [Call("cloudwatch", "PutMetricAlarm", _payload(name, want or _DEFAULTS, enabled))]


def _turned(value: dict[str, Any], site: FaultSite) -> Any:
    """The alarm rings when all is well."""
    other = {">=": "<", ">": "<=", "<": ">=", "<=": ">"}[value["comparison"]]
    return {**value, "comparison": other}


def _wrong_topic(value: dict[str, Any], site: FaultSite) -> Any:
    others = sorted(a for a in site.others.values() if ":sns:" in a and a not in value["actions"])
    return {**value, "actions": [site.rng.choice(others)]} if value["actions"] and others else value


def _wrong_target(value: dict[str, Any], site: FaultSite) -> Any:
    """It watches something that is not there."""
    old = {k: f"{v}-old" for k, v in value["dimensions"].items()}
    return {**value, "dimensions": old}


ALARM = ResourceType(
    service="cloudwatch",
    kind="alarm",
    create_op="PutMetricAlarm",
    create=lambda name, wanted: _payload(name, wanted.get("rule") or _DEFAULTS, True),
    delete_op="DeleteAlarms",
    delete=lambda name: {"AlarmNames": [name]},
    names=lambda api: [a["AlarmName"] for a in api("DescribeAlarms")["MetricAlarms"]],
    arn=arn,
    id_param="AlarmName",
    id_list_param="AlarmNames",
    check_name=lambda name: (
        None
        if re.fullmatch(r"[\w./ -]{1,255}", name, re.ASCII)
        else "alarm names have 1 to 255 letters, digits, blanks and ./_-"
    ),
    properties=(
        Property(
            "rule",
            _alarm,
            _put,
            ops=("PutMetricAlarm",),
            canon=_canon,
            parse=_parse,
            empty=_DEFAULTS,
            at_create=True,
            weight=2.0,
            faults=(
                Fault(
                    "ALARM_THRESHOLD",
                    "the alarm rings a thousand times too late",
                    ("WIRING.24",),
                    lambda value, site: {**value, "threshold": value["threshold"] * 1000},
                    "medium",
                ),
                Fault("ALARM_TURNED", "the alarm rings when all is well", ("WIRING.24",), _turned, "hard"),
                Fault(
                    "ALARM_NO_ACTION",
                    "the alarm tells nobody",
                    ("SecurityHub:CloudWatch.15",),
                    lambda value, site: {**value, "actions": []},
                ),
                Fault(
                    "ALARM_WRONG_TOPIC", "the alarm tells the wrong people", ("WIRING.25",), _wrong_topic, "hard"
                ),
                Fault(
                    "ALARM_WRONG_TARGET",
                    "the alarm watches something that is not there",
                    ("WIRING.25",),
                    _wrong_target,
                    "hard",
                ),
            ),
        ),
        Property(
            "enabled",
            lambda api, name: _alarm(api, name).get("ActionsEnabled"),
            lambda name, want, raw: [
                Call("cloudwatch", "EnableAlarmActions" if want else "DisableAlarmActions", {"AlarmNames": [name]})
            ],
            ops=("EnableAlarmActions", "DisableAlarmActions", "PutMetricAlarm"),
            canon=bool,
            parse=bool,
            empty=True,
            faults=(
                Fault(
                    "ALARM_DISABLED",
                    "the actions of the alarm are disabled",
                    ("SecurityHub:CloudWatch.17", "Checkov:CKV_AWS_319"),
                    always(False),
                ),
            ),
        ),
    ),
)


def _check_alarm(payload: dict[str, Any], view: View) -> None:
    bare = set(payload) == {"AlarmName"}
    for key, value in _payload(str(payload["AlarmName"]), _DEFAULTS, True).items():
        if bare or key in ("ActionsEnabled", "AlarmActions", "Dimensions", "TreatMissingData"):
            payload.setdefault(key, value)

    def refuse(message: str) -> None:
        raise ApiError("ValidationError", message)

    for key in ("Namespace", "MetricName", "Statistic", "Period", "EvaluationPeriods", "Threshold"):
        if key not in payload:
            refuse(f"The parameter {key} is required")
    if payload.get("ComparisonOperator") not in _COMPARISONS.values():
        refuse(f"ComparisonOperator must be one of {', '.join(_COMPARISONS.values())}")
    if payload["Statistic"] not in _STATISTICS:
        refuse(f"Statistic must be one of {', '.join(_STATISTICS)}")
    if payload["TreatMissingData"] not in ("breaching", "notBreaching", "ignore", "missing"):
        refuse("TreatMissingData must be breaching, notBreaching, ignore or missing")
    period, periods = payload["Period"], payload["EvaluationPeriods"]
    if isinstance(period, bool) or not (period in (10, 30) or (period > 0 and period % 60 == 0)):
        refuse("Period must be 10, 30 or a multiple of 60 seconds")
    if isinstance(periods, bool) or periods < 1 or period * periods > 86400 * 7:
        refuse("EvaluationPeriods must be at least 1, and all of them together at most a week")
    if not all(str(a).startswith("arn:aws:") for a in payload["AlarmActions"]):
        refuse("Invalid arn syntax in AlarmActions")


def _check_names(payload: dict[str, Any], view: View) -> None:
    known = view.names("cloudwatch", "alarm")
    for name in payload.get("AlarmNames") or []:
        if name not in known:
            raise ApiError("ResourceNotFound", f"Unknown alarm {str(name)[:80]}")


SERVICE = Service(
    name="cloudwatch",
    types=(ALARM,),
    reads=("DescribeAlarms",),
    hooks={
        "PutMetricAlarm": _check_alarm,
        "DeleteAlarms": _check_names,
        "EnableAlarmActions": _check_names,
        "DisableAlarmActions": _check_names,
    },
    params={"PutMetricAlarm": frozenset(_payload("", _DEFAULTS, True)) | {"AlarmDescription"}},
)
