"""Topics, keys and secrets."""

from __future__ import annotations

from .template import Graph, Names, Template, node, send


def _fanout(names: Names) -> Graph:
    """S3 events -> topic -> two queues; what cannot be delivered is kept."""
    publish = {
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": "${sns:topic_1.arn}",
        "Condition": {"StringEquals": {"aws:SourceAccount": "123456789012"}},
    }
    dead = "${sqs:queue_3.arn}"
    return {
        "kms:key_1": node(
            "kms",
            names("key"),
            rotation=True,
            policies=[
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
                    "Action": "kms:*",
                    "Resource": "*",
                },
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "sns.amazonaws.com"},
                    "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
                    "Resource": "*",
                },
            ],
            enabled=True,
        ),
        "sns:topic_1": node(
            "sns",
            names("events"),
            policies=[publish],
            encryption="${kms:key_1.id}",
            subscriptions=[
                {"protocol": "sqs", "endpoint": "${sqs:queue_1.arn}", "raw": True, "dead_letters": dead},
                {
                    "protocol": "sqs",
                    "endpoint": "${sqs:queue_2.arn}",
                    "filter": {"kind": ["created", "changed"]},
                    "dead_letters": dead,
                },
            ],
        ),
        "sqs:queue_1": node(
            "sqs",
            names("index"),
            encryption="sse",
            policies=[send("sns.amazonaws.com", "sqs:queue_1", "sns:topic_1")],
        ),
        "sqs:queue_2": node(
            "sqs",
            names("mail"),
            encryption="sse",
            policies=[send("sns.amazonaws.com", "sqs:queue_2", "sns:topic_1")],
        ),
        "sqs:queue_3": node(
            "sqs",
            names("undelivered"),
            encryption="sse",
            policies=[send("sns.amazonaws.com", "sqs:queue_3", "sns:topic_1")],
            retention=1209600,
        ),
        "sqs:queue_4": node("sqs", names("audit"), encryption="sse"),
    }


TEMPLATES = (
    Template("fanout", "a topic announces events on two queues and keeps what cannot be delivered", _fanout),
)
