"""EC2: security groups and instances."""

from __future__ import annotations

from . import ec2_groups, ec2_instances
from .description import Service

_RULE_PARAMS = frozenset({"GroupId", "GroupName", "IpPermissions", "IpProtocol", "FromPort", "ToPort", "CidrIp"})

SERVICE = Service(
    name="ec2",
    types=(ec2_groups.SECURITY_GROUP, ec2_instances.INSTANCE),
    reads=("DescribeSecurityGroups", "DescribeInstances", "DescribeInstanceAttribute"),
    hooks={
        "CreateSecurityGroup": ec2_groups.check_group,
        "AuthorizeSecurityGroupIngress": ec2_groups.check_rules(True, "ingress"),
        "AuthorizeSecurityGroupEgress": ec2_groups.check_rules(True, "egress"),
        "RevokeSecurityGroupIngress": ec2_groups.check_rules(False, "ingress"),
        "RevokeSecurityGroupEgress": ec2_groups.check_rules(False, "egress"),
        "RunInstances": ec2_instances.check_run,
        "TerminateInstances": ec2_instances.check_terminate,
        "ModifyInstanceAttribute": ec2_instances.check_modify,
        "ModifyInstanceMetadataOptions": ec2_instances.check_metadata,
    },
    params={
        "CreateSecurityGroup": frozenset({"GroupName", "Description"}),
        "AuthorizeSecurityGroupIngress": _RULE_PARAMS,
        "AuthorizeSecurityGroupEgress": _RULE_PARAMS,
        "RevokeSecurityGroupIngress": _RULE_PARAMS,
        "RevokeSecurityGroupEgress": _RULE_PARAMS,
        "RunInstances": frozenset(
            {"ImageId", "InstanceType", "MinCount", "MaxCount", "SecurityGroupIds", "TagSpecifications"}
        ),
        "ModifyInstanceAttribute": frozenset({"InstanceId", "Groups", "DisableApiTermination"}),
        "ModifyInstanceMetadataOptions": frozenset({"InstanceId", "HttpTokens"}),
    },
)
