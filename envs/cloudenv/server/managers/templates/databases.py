"""Databases, their keys and passwords."""

from __future__ import annotations

from .template import Graph, Names, Template, allow, node, trust


def _database(names: Names) -> Graph:
    """A database, the secret with its password, and the function that rotates it."""
    return {
        "kms:key_1": node("kms", names("key"), rotation=True, enabled=True, policies=_owner()),
        "rds:instance_1": node(
            "rds",
            names("db"),
            engine="postgres",
            encryption="${kms:key_1.arn}",
            public=False,
            multi_az=True,
            backup_days={"$at_least": 7},
            iam_login=True,
            deletion_protection=True,
        ),
        "secretsmanager:secret_1": node(
            "secretsmanager",
            names("db-password"),
            key="${kms:key_1.arn}",
            policies=[
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": "${iam:role_1.arn}"},
                    "Action": "secretsmanager:GetSecretValue",
                    "Resource": "*",
                }
            ],
            rotation={"function": "${lambda:function_1.arn}", "days": 30},
        ),
        "iam:role_1": node(
            "iam",
            names("rotation-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[
                {
                    "name": "rotate",
                    "statements": [
                        allow(
                            ["secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"],
                            "${secretsmanager:secret_1.arn}-??????",
                        ),
                        allow(["kms:Decrypt", "kms:GenerateDataKey"], "${kms:key_1.arn}"),
                    ],
                }
            ],
        ),
        "lambda:function_1": node(
            "lambda",
            names("rotation"),
            role="${iam:role_1.arn}",
            runtime="python3.13",
            timeout=30,
            policies=[{"principal": "secretsmanager.amazonaws.com", "source_account": "123456789012"}],
        ),
    }


def _owner() -> list[dict[str, object]]:
    return [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ]


TEMPLATES = (
    Template("database", "a database whose password is a secret that a function rotates every month", _database),
)
