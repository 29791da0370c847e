"""Instances and security groups."""

from __future__ import annotations

from .template import Graph, Names, Template, node


def _groups(names: Names) -> Graph:
    """Load balancer -> application -> database."""
    return {
        "ec2:group_1": node(
            "ec2",
            names("lb"),
            kind="security_group",
            ingress=[{"protocol": "tcp", "port": 443, "source": "0.0.0.0/0"}],
        ),
        "ec2:group_2": node(
            "ec2",
            names("app"),
            kind="security_group",
            ingress=[
                {"protocol": "tcp", "port": 8080, "source": "${ec2:group_1.id}"},
                {"protocol": "tcp", "port": 22, "source": "10.0.0.0/16"},
            ],
        ),
        "ec2:group_3": node(
            "ec2",
            names("db"),
            kind="security_group",
            ingress=[{"protocol": "tcp", "port": 5432, "source": "${ec2:group_2.id}"}],
            egress=[],
        ),
    }


def _server(names: Names) -> Graph:
    return {
        "ec2:group_1": node(
            "ec2",
            names("web"),
            kind="security_group",
            ingress=[{"protocol": "tcp", "port": 443, "source": "0.0.0.0/0"}],
        ),
        "ec2:instance_1": node(
            "ec2",
            names("web"),
            kind="instance",
            type="t3.micro",
            security_groups=["${ec2:group_1.id}"],
            metadata_tokens="required",
            termination_protection=True,
            state="running",
        ),
    }


TEMPLATES = (
    Template("groups", "a load balancer reaches the application, the application reaches the database", _groups),
    Template("server", "a web server that answers https only", _server),
)
