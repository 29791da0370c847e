"""Security groups of EC2."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .backend import REGION
from .description import Api, Call, Fault, FaultSite, Property, ResourceType, View
from .errors import ApiError
from .translate import ACCOUNT, stable_id

WORLD = ("0.0.0.0/0", "::/0")


def _group_id(name: str) -> str:
    return stable_id("sg", name)


# rules of security groups: one entry per protocol, port range and source


def _groups(api: Api) -> dict[str, Any]:
    found = api("DescribeSecurityGroups")["SecurityGroups"]
    return {g["GroupName"]: g for g in found if g["GroupName"] != "default"}


def _rules(permissions: Any) -> list[dict[str, Any]]:
    found = []
    for p in permissions or []:
        sources = [r["CidrIp"] for r in p.get("IpRanges") or []]
        sources += [r["CidrIpv6"] for r in p.get("Ipv6Ranges") or []]
        sources += [r.get("GroupId") or r.get("GroupName") for r in p.get("UserIdGroupPairs") or []]
        protocol = str(p.get("IpProtocol"))
        ports = {} if protocol == "-1" else {"from": p.get("FromPort"), "to": p.get("ToPort")}
        found += [{"protocol": protocol, **ports, "source": s} for s in sources]
    return _sorted(found)


def _parse_rules(value: Any) -> Any:
    if not isinstance(value or [], list):
        raise ValueError("must be a list")
    found = []
    for item in value or []:
        if (
            not isinstance(item, dict)
            or "source" not in item
            or set(item) - {"protocol", "from", "to", "port", "source"}
        ):
            raise ValueError('must be a list of {"protocol", "from", "to" (or "port"), "source"}')
        protocol = str(item.get("protocol", "tcp"))
        rule: dict[str, Any] = {"protocol": protocol}
        if protocol != "-1":
            ports: tuple[Any, Any] = item.get("from", item.get("port")), item.get("to", item.get("port"))
            if None in ports:
                raise ValueError('a rule needs a "port", or "from" and "to"')
            rule |= {"from": int(ports[0]), "to": int(ports[1])}
        found.append({**rule, "source": str(item["source"])})
    return _sorted(found)


def _permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    source = rule["source"]
    if source.startswith("sg-"):
        where: dict[str, Any] = {"UserIdGroupPairs": [{"GroupId": source}]}
    elif ":" in source:
        where = {"Ipv6Ranges": [{"CidrIpv6": source}]}
    else:
        where = {"IpRanges": [{"CidrIp": source}]}
    ports = {"FromPort": rule["from"], "ToPort": rule["to"]} if "from" in rule else {}
    return {"IpProtocol": rule["protocol"], **ports, **where}


def _rule_property(prop: str, part: str, direction: str, empty: Any, faults: tuple[Fault, ...]) -> Property:
    def put(name: str, want: list[Any], raw: Any) -> list[Call]:
        have = _rules(raw)
        dropped = [r for r in have if r not in want]
        added = [r for r in want if r not in have]
        return [
            Call(
                "ec2",
                f"{verb}SecurityGroup{direction}",
                {"GroupId": _group_id(name), "IpPermissions": list(map(_permission, rules))},
            )
            for verb, rules in (("Revoke", dropped), ("Authorize", added))
            if rules
        ]

    return Property(
        prop,
        lambda api, name: _groups(api)[name].get(part),
        put,
        ops=(f"AuthorizeSecurityGroup{direction}", f"RevokeSecurityGroup{direction}"),
        canon=_rules,
        parse=_parse_rules,
        empty=empty,
        fresh=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": WORLD[0]}]}] if direction == "Egress" else [],
        faults=faults,
        weight=2.0,
    )


def _open(port: int, source: str = WORLD[0]) -> Any:
    rule = {"protocol": "tcp", "from": port, "to": port, "source": source}
    return lambda value, site: _sorted([*value, rule])


def _everything(value: list[Any], site: FaultSite) -> Any:
    rule = {"protocol": "-1", "source": WORLD[0]}
    return _sorted([*value, rule])


def _to_world(value: list[Any], site: FaultSite) -> Any:
    """A rule that names a group or a private range holds for the world instead."""
    for i, rule in enumerate(value):
        if rule["source"] not in WORLD and rule["protocol"] != "-1":
            return _sorted([{**rule, "source": WORLD[0]}, *value[:i], *value[i + 1 :]])
    return value


def _rule_lost(value: list[Any], site: FaultSite) -> Any:
    if not value:
        return value
    i = site.rng.randrange(len(value))
    return value[:i] + value[i + 1 :]


def _wrong_port(value: list[Any], site: FaultSite) -> Any:
    if not value or value[0]["protocol"] == "-1":
        return value
    first = {**value[0], "from": value[0]["from"] + 1, "to": value[0]["to"] + 1}
    return _sorted([first, *value[1:]])


SECURITY_GROUP = ResourceType(
    service="ec2",
    kind="security_group",
    create_op="CreateSecurityGroup",
    create=lambda name, wanted: {"GroupName": name, "Description": name},
    delete_op="DeleteSecurityGroup",
    delete=lambda name: {"GroupId": _group_id(name)},
    names=lambda api: list(_groups(api)),
    arn=lambda name: f"arn:aws:ec2:{REGION}:{ACCOUNT}:security-group/{_group_id(name)}",
    id_param="GroupId",
    name_param="GroupName",
    id_prefix="sg",
    id_path=("GroupId",),
    check_name=lambda name: (
        None
        if re.fullmatch(r"(?!default$|sg-)[\w.-]{1,100}", name)
        else "group names have 1 to 100 letters, digits and _.-, and do not start with sg-"
    ),
    properties=(
        _rule_property(
            "ingress",
            "IpPermissions",
            "Ingress",
            [],
            (
                Fault(
                    "EC2_SSH_OPEN",
                    "ssh is open to the world",
                    ("CIS-AWS-5.0:5.3", "FSBP:EC2.13", "Checkov:CKV_AWS_24"),
                    _open(22),
                ),
                Fault(
                    "EC2_SSH_OPEN_IPV6",
                    "ssh is open to the world over IPv6",
                    ("CIS-AWS-5.0:5.4", "FSBP:EC2.13", "Checkov:CKV_AWS_24"),
                    _open(22, WORLD[1]),
                    "medium",
                ),
                Fault(
                    "EC2_RDP_OPEN",
                    "remote desktop is open to the world",
                    ("CIS-AWS-5.0:5.3", "FSBP:EC2.14", "Checkov:CKV_AWS_25"),
                    _open(3389),
                ),
                Fault("EC2_ALL_OPEN", "every port is open to the world", ("Checkov:CKV_AWS_277",), _everything),
                Fault(
                    "EC2_INTERNAL_OPEN",
                    "an internal port is open to the world",
                    ("FSBP:EC2.18",),
                    _to_world,
                    "medium",
                ),
                Fault("EC2_RULE_LOST", "a rule is missing", ("WIRING.17",), _rule_lost, "hard"),
                Fault("EC2_RULE_WRONG_PORT", "a rule is for the wrong port", ("WIRING.17",), _wrong_port, "hard"),
            ),
        ),
        _rule_property(
            "egress",
            "IpPermissionsEgress",
            "Egress",
            [{"protocol": "-1", "source": WORLD[0]}],
            (
                Fault(
                    "EC2_EGRESS_OPEN",
                    "traffic may leave to everywhere",
                    ("Checkov:CKV_AWS_382",),
                    _everything,
                    "medium",
                ),
            ),
        ),
    ),
)


def check_rules(authorize: bool, prop: str) -> Any:
    def check(payload: dict[str, Any], view: View) -> None:
        """Rules in the one form of IpPermissions; ministack takes duplicates and rules that are not there."""
        names = view.names("ec2", "security_group")
        name = SECURITY_GROUP.find(payload, names)
        if name is None:
            raise ApiError("InvalidGroup.NotFound", "The security group does not exist")
        permissions = payload.get("IpPermissions")
        if permissions is None and "IpProtocol" in payload:
            flat = {k: payload.pop(k) for k in ("IpProtocol", "FromPort", "ToPort") if k in payload}
            cidr = payload.pop("CidrIp", None)
            permissions = payload["IpPermissions"] = [{**flat, "IpRanges": [{"CidrIp": cidr}] if cidr else []}]
        if not isinstance(permissions, list) or not permissions:
            raise ApiError("MissingParameter", "IpPermissions must be a list of rules")
        rules = _rules(permissions)
        if not rules:
            raise ApiError("InvalidParameterValue", "a rule needs IpRanges, Ipv6Ranges or UserIdGroupPairs")
        have = view.value("ec2", "security_group", name, prop)
        for rule in rules:
            _check_rule(rule, names)
            if authorize and rule in have:
                raise ApiError("InvalidPermission.Duplicate", "the specified rule already exists")
            if not authorize and rule not in have:
                raise ApiError(
                    "InvalidPermission.NotFound", "The specified rule does not exist in this security group."
                )
        payload.pop("GroupName", None)
        payload["GroupId"] = _group_id(name)

    return check


def _check_rule(rule: dict[str, Any], names: list[str]) -> None:
    source = str(rule["source"])
    if rule["protocol"] not in ("tcp", "udp", "icmp", "icmpv6", "-1"):
        raise ApiError("InvalidParameterValue", "IpProtocol must be tcp, udp, icmp, icmpv6 or -1")
    if rule["protocol"] in ("tcp", "udp"):
        low, high = rule["from"], rule["to"]
        if (
            not all(isinstance(p, int) and not isinstance(p, bool) and 0 <= p <= 65535 for p in (low, high))
            or low > high
        ):
            raise ApiError("InvalidParameterValue", "FromPort and ToPort must be 0 to 65535, in order")
    if source.startswith("sg-"):
        if source not in map(_group_id, names):
            raise ApiError("InvalidGroup.NotFound", f"The security group '{source}' does not exist")
    elif not re.fullmatch(r"(\d{1,3}\.){3}\d{1,3}/\d{1,2}|[0-9a-fA-F:]+/\d{1,3}", source):
        raise ApiError("InvalidParameterValue", f"CIDR block {source!r} is malformed")


def check_group(payload: dict[str, Any], view: View) -> None:
    payload.setdefault("Description", payload["GroupName"])


def _sorted(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    unique = {json.dumps(item, sort_keys=True): item for item in items}
    return [unique[key] for key in sorted(unique)]
