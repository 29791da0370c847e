"""RDS: database instances."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT

ENGINES = ("postgres", "mysql", "mariadb")
_CLASS = re.compile(r"db\.[a-z0-9]+\.(micro|small|medium|large|\d*xlarge)")
_ID = "DBInstanceIdentifier"
_LATER = ("DBInstanceClass", "MultiAZ", "BackupRetentionPeriod", "EnableIAMDatabaseAuthentication")
"""AWS changes these in the next maintenance window, unless it is told to do so at once."""


def arn(name: str) -> str:
    return f"arn:aws:rds:{REGION}:{ACCOUNT}:db:{name}"


def _instance(api: Api, name: str) -> Any:
    return api("DescribeDBInstances", DBInstanceIdentifier=name)["DBInstances"][0]


def _modify(name: str, **settings: Any) -> list[Call]:
    at_once = {"ApplyImmediately": True} if set(settings) & set(_LATER) else {}
    return [Call("rds", "ModifyDBInstance", {_ID: name, **settings, **at_once})]


def _setting(prop: str, parameter: str, kind: type, empty: Any, *faults: Fault, key: str = "") -> Property:
    """A property that one parameter of ModifyDBInstance puts; `key`: where it is read, if called otherwise."""
    return Property(
        prop,
        lambda api, name: _instance(api, name).get(key or parameter),
        lambda name, want, raw: _modify(name, **{parameter: want}),
        ops=("ModifyDBInstance",),
        canon=lambda raw: empty if raw is None else kind(raw),
        parse=kind,
        empty=empty,
        faults=faults,
    )


def _canon_encryption(raw: Any) -> Any:
    return (raw.get("KmsKeyId") or "aws") if raw.get("StorageEncrypted") else None


def _create(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    payload = {
        _ID: name,
        "Engine": wanted.get("engine") or ENGINES[0],
        "DBInstanceClass": wanted.get("class") or "db.t3.micro",
        "AllocatedStorage": 20,
        "MasterUsername": "keeper",
        "MasterUserPassword": "not-a-real-password",
        "PubliclyAccessible": False,
    }
    if encryption := wanted.get("encryption"):
        payload["StorageEncrypted"] = True
        payload |= {"KmsKeyId": encryption} if encryption != "aws" else {}
    return payload


DATABASE = ResourceType(
    service="rds",
    kind="instance",
    create_op="CreateDBInstance",
    create=_create,
    delete_op="DeleteDBInstance",
    delete=lambda name: {_ID: name, "SkipFinalSnapshot": True},
    names=lambda api: [i[_ID] for i in api("DescribeDBInstances")["DBInstances"]],
    arn=arn,
    id_param=_ID,
    clean=lambda api, name: (
        _modify(name, DeletionProtection=False) if _instance(api, name).get("DeletionProtection") else []
    ),
    check_name=lambda name: (
        None
        if re.fullmatch(r"[a-z](?!.*--)[a-z0-9-]{0,61}[a-z0-9]", name)
        else "database names have 2 to 63 small letters, digits and single hyphens, and start with a letter"
    ),
    properties=(
        Property(
            "engine",
            lambda api, name: _instance(api, name)["Engine"],
            lambda name, want, raw: [],
            parse=str,
            empty=ENGINES[0],
            at_create=True,
            immutable=True,
        ),
        Property(
            "encryption",
            _instance,
            lambda name, want, raw: [],
            canon=_canon_encryption,
            parse=lambda value: str(value) if value else None,
            at_create=True,
            immutable=True,
            weight=2.0,
            faults=(
                Fault(
                    "RDS_NOT_ENCRYPTED",
                    "the storage is not encrypted",
                    ("CIS-AWS-5.0:2.2.1", "FSBP:RDS.3", "Checkov:CKV_AWS_16"),
                    always(None),
                    "medium",
                ),
            ),
        ),
        _setting("class", "DBInstanceClass", str, "db.t3.micro"),
        _setting(
            "public",
            "PubliclyAccessible",
            bool,
            False,
            Fault(
                "RDS_PUBLIC",
                "the database has a public address",
                ("CIS-AWS-5.0:2.2.3", "FSBP:RDS.2", "Checkov:CKV_AWS_17"),
                always(True),
            ),
        ),
        _setting(
            "multi_az",
            "MultiAZ",
            bool,
            False,
            Fault(
                "RDS_SINGLE_AZ",
                "the database has no standby in a second zone",
                ("CIS-AWS-5.0:2.2.4", "FSBP:RDS.5", "Checkov:CKV_AWS_157"),
                always(False),
            ),
        ),
        _setting(
            "backup_days",
            "BackupRetentionPeriod",
            int,
            1,
            Fault("RDS_NO_BACKUPS", "no backups are kept", ("FSBP:RDS.11", "Checkov:CKV_AWS_133"), always(0)),
        ),
        _setting(
            "iam_login",
            "EnableIAMDatabaseAuthentication",
            bool,
            False,
            Fault(
                "RDS_NO_IAM_LOGIN",
                "logins need a password that nobody rotates",
                ("FSBP:RDS.10", "Checkov:CKV_AWS_161"),
                always(False),
                "medium",
            ),
            key="IAMDatabaseAuthenticationEnabled",
        ),
        _setting(
            "deletion_protection",
            "DeletionProtection",
            bool,
            False,
            Fault(
                "RDS_UNPROTECTED",
                "the database can be deleted",
                ("FSBP:RDS.8", "Checkov:CKV_AWS_293"),
                always(False),
            ),
        ),
    ),
)


def _check_settings(payload: dict[str, Any], view: View) -> None:
    found = payload.get("DBInstanceClass", "db.t3.micro")
    if not isinstance(found, str) or not _CLASS.fullmatch(found):
        raise ApiError("InvalidParameterValue", f"Invalid DB Instance class: {str(found)[:60]}")
    days = payload.get("BackupRetentionPeriod", 1)
    if isinstance(days, bool) or not isinstance(days, int) or not 0 <= days <= 35:
        raise ApiError("InvalidParameterValue", "Backup retention period must be 0 to 35 days")


def _check_create(payload: dict[str, Any], view: View) -> None:
    for key, value in _create(str(payload[_ID]), {}).items():
        payload.setdefault(key, value)
    if payload["Engine"] not in ENGINES:
        raise ApiError("InvalidParameterValue", f"Invalid DB engine; CloudEnv has {', '.join(ENGINES)}")
    if payload.get("KmsKeyId") and not payload.get("StorageEncrypted"):
        raise ApiError("InvalidParameterCombination", "KmsKeyId is for encrypted storage: StorageEncrypted=true")
    _check_settings(payload, view)


def _check_modify(payload: dict[str, Any], view: View) -> None:
    later = sorted(set(payload) & set(_LATER))
    if later and payload.get("ApplyImmediately") is not True:
        raise ApiError(
            "InvalidParameterCombination",
            f"{later[0]} would wait for the maintenance window, which CloudEnv does not have: "
            "ApplyImmediately must be true",
        )
    _check_settings(payload, view)


def _check_delete(payload: dict[str, Any], view: View) -> None:
    if payload.get("SkipFinalSnapshot") is not True:
        raise ApiError("InvalidParameterCombination", "snapshots are not offered: SkipFinalSnapshot must be true")


def _at_once(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    """What needs no maintenance window on AWS needs none here: ministack waits with everything."""
    return {**payload, "ApplyImmediately": True}


SERVICE = Service(
    name="rds",
    types=(DATABASE,),
    reads=("DescribeDBInstances",),
    hooks={
        "CreateDBInstance": _check_create,
        "ModifyDBInstance": _check_modify,
        "DeleteDBInstance": _check_delete,
    },
    complete={"ModifyDBInstance": _at_once},
    params={
        "CreateDBInstance": frozenset(
            {
                _ID,
                "Engine",
                "DBInstanceClass",
                "AllocatedStorage",
                "MasterUsername",
                "MasterUserPassword",
                "StorageEncrypted",
                "KmsKeyId",
                "PubliclyAccessible",
                "MultiAZ",
                "BackupRetentionPeriod",
                "EnableIAMDatabaseAuthentication",
                "DeletionProtection",
            }
        ),
        "ModifyDBInstance": frozenset(
            {
                _ID,
                "DBInstanceClass",
                "PubliclyAccessible",
                "MultiAZ",
                "BackupRetentionPeriod",
                "EnableIAMDatabaseAuthentication",
                "DeletionProtection",
                "ApplyImmediately",
            }
        ),
        "DeleteDBInstance": frozenset({_ID, "SkipFinalSnapshot"}),
    },
)
