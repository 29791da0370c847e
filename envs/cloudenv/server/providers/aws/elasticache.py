"""ElastiCache: replication groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, Property, ResourceType, Service, View, always
from .errors import ApiError
from .translate import ACCOUNT

_ID = "ReplicationGroupId"
_NODE = re.compile(r"cache\.[a-z0-9]+\.(micro|small|medium|large|\d*xlarge)")


def arn(name: str) -> str:
    return f"arn:aws:elasticache:{REGION}:{ACCOUNT}:replicationgroup:{name}"


def _group(api: Api, name: str) -> Any:
    return api("DescribeReplicationGroups", ReplicationGroupId=name)["ReplicationGroups"][0]


def _modify(name: str, **settings: Any) -> list[Call]:
    return [Call("elasticache", "ModifyReplicationGroup", {_ID: name, **settings, "ApplyImmediately": True})]


def _create(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _ID: name,
        "ReplicationGroupDescription": name,
        "Engine": "redis",
        "CacheNodeType": wanted.get("node") or "cache.t3.micro",
        "NumCacheClusters": 2,
        "AutomaticFailoverEnabled": bool(wanted.get("failover", False)),
        "TransitEncryptionEnabled": bool(wanted.get("transit_encryption", False)),
        "AtRestEncryptionEnabled": bool(wanted.get("rest_encryption", False)),
    }


def _encryption(prop: str, key: str, fault: Fault) -> Property:
    """Set for good when the group is made: the repair is a new group of the same name."""
    return Property(
        prop,
        lambda api, name: _group(api, name).get(key),
        lambda name, want, raw: [],
        canon=bool,
        parse=bool,
        empty=False,
        at_create=True,
        immutable=True,
        weight=2.0,
        faults=(fault,),
    )


GROUP = ResourceType(
    service="elasticache",
    kind="replication_group",
    create_op="CreateReplicationGroup",
    create=_create,
    delete_op="DeleteReplicationGroup",
    delete=lambda name: {_ID: name},
    names=lambda api: [
        g[_ID] for g in api("DescribeReplicationGroups")["ReplicationGroups"] if g["Status"] != "deleting"
    ],
    arn=arn,
    id_param=_ID,
    check_name=lambda name: (
        None
        if re.fullmatch(r"[a-z](?!.*--)[a-z0-9-]{0,38}[a-z0-9]", name)
        else "replication groups have 2 to 40 small letters, digits and single hyphens, and start with a letter"
    ),
    properties=(
        _encryption(
            "transit_encryption",
            "TransitEncryptionEnabled",
            Fault(
                "CACHE_PLAIN_TRAFFIC",
                "traffic with the cache is not encrypted",
                ("FSBP:ElastiCache.5", "Checkov:CKV_AWS_30"),
                always(False),
            ),
        ),
        _encryption(
            "rest_encryption",
            "AtRestEncryptionEnabled",
            Fault(
                "CACHE_PLAIN_DISKS",
                "what the cache keeps on disk is not encrypted",
                ("FSBP:ElastiCache.4", "Checkov:CKV_AWS_29"),
                always(False),
            ),
        ),
        Property(
            "node",
            lambda api, name: _group(api, name).get("CacheNodeType"),
            lambda name, want, raw: _modify(name, CacheNodeType=want),
            ops=("ModifyReplicationGroup",),
            parse=str,
            empty="cache.t3.micro",
            at_create=True,
        ),
        Property(
            "failover",
            lambda api, name: _group(api, name).get("AutomaticFailover"),
            lambda name, want, raw: _modify(name, AutomaticFailoverEnabled=want),
            ops=("ModifyReplicationGroup",),
            canon=lambda raw: raw in ("enabled", "enabling"),
            parse=bool,
            empty=False,
            at_create=True,
            faults=(Fault("CACHE_NO_FAILOVER", "no replica takes over", ("FSBP:ElastiCache.3",), always(False)),),
        ),
        Property(
            "snapshot_days",
            lambda api, name: _group(api, name).get("SnapshotRetentionLimit"),
            lambda name, want, raw: _modify(name, SnapshotRetentionLimit=want),
            ops=("ModifyReplicationGroup",),
            canon=lambda raw: int(raw or 0),
            parse=int,
            empty=0,
            faults=(
                Fault(
                    "CACHE_NO_BACKUPS",
                    "no snapshots are kept",
                    ("FSBP:ElastiCache.1", "Checkov:CKV_AWS_134"),
                    always(0),
                ),
            ),
        ),
    ),
)


def _check_settings(payload: dict[str, Any], view: View) -> None:
    node = payload.get("CacheNodeType", "cache.t3.micro")
    if not isinstance(node, str) or not _NODE.fullmatch(node):
        raise ApiError("InvalidParameterValue", f"Invalid cache node type: {str(node)[:60]}")
    days = payload.get("SnapshotRetentionLimit", 0)
    if isinstance(days, bool) or not isinstance(days, int) or not 0 <= days <= 35:
        raise ApiError("InvalidParameterValue", "SnapshotRetentionLimit must be 0 to 35")


def _check_create(payload: dict[str, Any], view: View) -> None:
    for key, value in _create(str(payload[_ID]), {}).items():
        payload.setdefault(key, value)
    if payload["Engine"] not in ("redis", "valkey"):
        raise ApiError("InvalidParameterValue", "Engine must be redis or valkey")
    clusters = payload["NumCacheClusters"]
    if isinstance(clusters, bool) or not isinstance(clusters, int) or not 1 <= clusters <= 6:
        raise ApiError("InvalidParameterValue", "NumCacheClusters must be 1 to 6")
    if payload["AutomaticFailoverEnabled"] and clusters < 2:
        raise ApiError(
            "InvalidParameterCombination", "NumCacheClusters must be at least 2 if automatic failover is enabled"
        )
    _check_settings(payload, view)


def _check_modify(payload: dict[str, Any], view: View) -> None:
    if set(payload) - {_ID, "ApplyImmediately"} == set():
        raise ApiError("InvalidParameterCombination", "at least one setting must change")
    if payload.get("ApplyImmediately") is not True:
        raise ApiError(
            "InvalidParameterCombination",
            "the maintenance window is not part of CloudEnv: ApplyImmediately must be true",
        )
    _check_settings(payload, view)


SERVICE = Service(
    name="elasticache",
    types=(GROUP,),
    reads=("DescribeReplicationGroups",),
    hooks={"CreateReplicationGroup": _check_create, "ModifyReplicationGroup": _check_modify},
    params={
        "CreateReplicationGroup": frozenset(_create("", {})) | {"SnapshotRetentionLimit"},
        "ModifyReplicationGroup": frozenset(
            {_ID, "CacheNodeType", "AutomaticFailoverEnabled", "SnapshotRetentionLimit", "ApplyImmediately"}
        ),
        "DeleteReplicationGroup": frozenset({_ID}),
    },
)
