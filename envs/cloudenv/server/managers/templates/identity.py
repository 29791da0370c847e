"""Roles with attached policies, and the account's passwords."""

from __future__ import annotations

from .template import Graph, Names, Template, allow, node, tls, trust


def _analyst(names: Names) -> Graph:
    return {
        "s3:bucket_1": node(
            "s3", names("reports"), policies=[tls("s3:bucket_1")], public_access_block=True, versioning=True
        ),
        "iam:policy_1": node(
            "iam",
            names("read"),
            kind="policy",
            statements=[
                allow(["s3:GetObject", "s3:GetObjectVersion"], "${s3:bucket_1.arn}/*"),
                allow("s3:ListBucket", "${s3:bucket_1.arn}"),
            ],
        ),
        "iam:role_1": node(
            "iam",
            names("analyst"),
            trust=trust("ec2.amazonaws.com"),
            policies=[],
            attached=["${iam:policy_1.arn}"],
        ),
        "iam:passwords": node(
            "iam",
            "account",
            kind="password_policy",
            rules={
                "min_length": 14,
                "symbols": True,
                "numbers": True,
                "upper": True,
                "lower": True,
                "reuse_prevention": 24,
            },
        ),
    }


TEMPLATES = (
    Template("analyst", "analysts read reports in a role of their own, and nobody has a weak password", _analyst),
)
