"""DynamoDB: tables."""

from __future__ import annotations

import re
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT


def arn(name: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def _table(api: Api, name: str) -> Any:
    return api("DescribeTable", TableName=name)["Table"]


def _update(name: str, **changes: Any) -> list[Call]:
    return [Call("dynamodb", "UpdateTable", {"TableName": name, **changes})]


# key


def _canon_key(raw: Any) -> Any:
    types = {a["AttributeName"]: a["AttributeType"] for a in raw["AttributeDefinitions"]}
    found = {}
    for part in raw["KeySchema"]:
        found[part["KeyType"].lower()] = f"{part['AttributeName']}:{types[part['AttributeName']]}"
    return dict(sorted(found.items()))


def _parse_key(value: Any) -> Any:
    if isinstance(value, str):
        value = {"hash": value}
    if not isinstance(value, dict) or "hash" not in value or set(value) - {"hash", "range"}:
        raise ValueError('must be {"hash": "name:S", "range"?: "name:N"}')
    return {k: v if ":" in v else f"{v}:S" for k, v in sorted(value.items())}


def _create(name: str, wanted: Any) -> dict[str, Any]:
    key = wanted.get("key") or {"hash": "id:S"}
    parts = [(kind, *text.partition(":")[::2]) for kind, text in key.items()]
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": n, "KeyType": kind.upper()} for kind, n, _ in parts],
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": t} for _, n, t in parts],
    }


# billing


def _canon_billing(raw: Any) -> Any:
    if raw.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
        return "on-demand"
    units = raw.get("ProvisionedThroughput", {})
    return {"read": int(units.get("ReadCapacityUnits", 0)), "write": int(units.get("WriteCapacityUnits", 0))}


def _parse_billing(value: Any) -> Any:
    if value in (None, "on-demand", "PAY_PER_REQUEST"):
        return "on-demand"
    if not isinstance(value, dict) or set(value) != {"read", "write"}:
        raise ValueError('must be "on-demand" or {"read": units, "write": units}')
    return {k: int(value[k]) for k in ("read", "write")}


def _put_billing(name: str, want: Any, raw: Any) -> list[Call]:
    if want == "on-demand":
        return _update(name, BillingMode="PAY_PER_REQUEST")
    units = {"ReadCapacityUnits": want["read"], "WriteCapacityUnits": want["write"]}
    return _update(name, BillingMode="PROVISIONED", ProvisionedThroughput=units)


# recovery, time to live


def _read_recovery(api: Api, name: str) -> Any:
    found = api("DescribeContinuousBackups", TableName=name)["ContinuousBackupsDescription"]
    return found.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")


def _put_recovery(name: str, want: Any, raw: Any) -> list[Call]:
    specification = {"PointInTimeRecoveryEnabled": want}
    payload = {"TableName": name, "PointInTimeRecoverySpecification": specification}
    return [Call("dynamodb", "UpdateContinuousBackups", payload)]


def _canon_ttl(raw: Any) -> Any:
    return raw.get("AttributeName") if str(raw.get("TimeToLiveStatus")).startswith("ENABL") else None


def _put_ttl(name: str, want: Any, raw: Any) -> list[Call]:
    def call(enabled: bool, attribute: str) -> Call:
        specification = {"Enabled": enabled, "AttributeName": attribute}
        return Call("dynamodb", "UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})

    have = _canon_ttl(raw or {})
    return ([call(False, have)] if have else []) + ([call(True, want)] if want else [])


TABLE = ResourceType(
    service="dynamodb",
    kind="table",
    create_op="CreateTable",
    create=_create,
    delete_op="DeleteTable",
    delete=lambda name: {"TableName": name},
    names=lambda api: list(api("ListTables")["TableNames"]),
    arn=arn,
    id_param="TableName",
    clean=lambda api, name: (
        _update(name, DeletionProtectionEnabled=False)
        if _table(api, name).get("DeletionProtectionEnabled")
        else []
    ),
    check_name=lambda name: (
        None if re.fullmatch(r"[\w.-]{3,255}", name) else "table names have 3 to 255 letters, digits and _.-"
    ),
    properties=(
        Property("key", _table, lambda name, want, raw: [], canon=_canon_key, parse=_parse_key, immutable=True),
        Property(
            "billing",
            _table,
            _put_billing,
            ops=("UpdateTable",),
            canon=_canon_billing,
            parse=_parse_billing,
            empty="on-demand",
            faults=(
                Fault(
                    "DYNAMODB_FIXED_CAPACITY",
                    "the table takes one request a second",
                    ("FSBP:DynamoDB.1",),
                    always({"read": 1, "write": 1}),
                    "medium",
                ),
            ),
        ),
        Property(
            "recovery",
            _read_recovery,
            _put_recovery,
            ops=("UpdateContinuousBackups",),
            canon=lambda raw: raw == "ENABLED",
            parse=bool,
            empty=False,
            faults=(
                Fault(
                    "DYNAMODB_NO_RECOVERY",
                    "point-in-time recovery is off",
                    ("FSBP:DynamoDB.2", "Checkov:CKV_AWS_28"),
                    always(False),
                ),
            ),
        ),
        Property(
            "deletion_protection",
            lambda api, name: _table(api, name).get("DeletionProtectionEnabled"),
            lambda name, want, raw: _update(name, DeletionProtectionEnabled=want),
            ops=("UpdateTable",),
            canon=bool,
            parse=bool,
            empty=False,
            faults=(
                Fault("DYNAMODB_UNPROTECTED", "the table can be deleted", ("FSBP:DynamoDB.6",), always(False)),
            ),
        ),
        Property(
            "ttl",
            lambda api, name: api("DescribeTimeToLive", TableName=name)["TimeToLiveDescription"],
            _put_ttl,
            ops=("UpdateTimeToLive",),
            canon=_canon_ttl,
            parse=lambda value: value or None,
            faults=(
                Fault("DYNAMODB_TTL_OFF", "old items are kept for ever", ("WIRING.16",), always(None), "medium"),
                Fault(
                    "DYNAMODB_TTL_WRONG",
                    "items expire by an attribute that they do not have",
                    ("WIRING.16",),
                    lambda value, site: f"{value}_old" if value else None,
                    "hard",
                ),
            ),
        ),
    ),
)


def _check_create(payload: dict[str, Any], view: View) -> None:
    for key, value in _create(str(payload["TableName"]), {}).items():
        if key != "BillingMode" or "ProvisionedThroughput" not in payload:
            payload.setdefault(key, value)


def _check_update(payload: dict[str, Any], view: View) -> None:
    units = payload.get("ProvisionedThroughput")
    if payload.get("BillingMode") == "PROVISIONED" and not units:
        raise ApiError("ValidationException", "ProvisionedThroughput must be given with PROVISIONED")
    for value in (units or {}).values():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 40000:
            raise ApiError("ValidationException", "capacity units must be 1 to 40000")
    if set(payload) == {"TableName"}:
        raise ApiError("ValidationException", "at least one setting must change")


def _check_ttl(payload: dict[str, Any], view: View) -> None:
    name = str(payload.get("TableName"))
    have = view.value("dynamodb", "table", name, "ttl")
    want = payload.get("TimeToLiveSpecification") or {}
    if have and want.get("Enabled") is True:
        raise ApiError("ValidationException", "TimeToLive is already enabled")
    if not have and want.get("Enabled") is False and name in view.names("dynamodb", "table"):
        raise ApiError("ValidationException", "TimeToLive is already disabled")
    if have and want.get("Enabled") is False and want.get("AttributeName") != have:
        raise ApiError("ValidationException", "TimeToLive is active on a different AttributeName")


SERVICE = Service(
    name="dynamodb",
    types=(TABLE,),
    reads=(
        "ListTables",
        "DescribeTable",
        "DescribeContinuousBackups",
        "DescribeTimeToLive",
        "GetItem",
        "Scan",
    ),
    data=("PutItem", "DeleteItem"),
    hooks={"CreateTable": _check_create, "UpdateTable": _check_update, "UpdateTimeToLive": _check_ttl},
    params={
        "CreateTable": frozenset(
            {
                "TableName",
                "KeySchema",
                "AttributeDefinitions",
                "BillingMode",
                "ProvisionedThroughput",
                "DeletionProtectionEnabled",
            }
        ),
        "UpdateTable": frozenset(
            {"TableName", "BillingMode", "ProvisionedThroughput", "DeletionProtectionEnabled"}
        ),
    },
)
