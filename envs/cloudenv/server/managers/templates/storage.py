"""Buckets and queues."""

from __future__ import annotations

from .template import Graph, Names, Template, allow, node, send, tls, trust


def _bucket(names: Names) -> Graph:
    return {
        "s3:bucket_1": node(
            "s3", names("data"), policies=[tls("s3:bucket_1")], public_access_block=True, versioning=True
        )
    }


def _archive(names: Names) -> Graph:
    delivery = {
        "Effect": "Allow",
        "Principal": {"Service": "logging.s3.amazonaws.com"},
        "Action": "s3:PutObject",
        "Resource": "${s3:bucket_2.arn}/*",
    }
    return {
        "s3:bucket_1": node(
            "s3",
            names("archive"),
            policies=[tls("s3:bucket_1")],
            public_access_block=True,
            versioning=True,
            encryption="aws:kms",
            logging={"bucket": "${s3:bucket_2.name}", "prefix": "archive/"},
        ),
        "s3:bucket_2": node(
            "s3", names("logs"), policies=[tls("s3:bucket_2"), delivery], public_access_block=True
        ),
    }


def _queue(names: Names) -> Graph:
    return {
        "sqs:queue_1": node(
            "sqs",
            names("jobs"),
            encryption="sse",
            redrive={"target": "${sqs:queue_2.arn}", "max_receives": 5},
            visibility_timeout={"$at_least": 60},
            retention=345600,
        ),
        "sqs:queue_2": node("sqs", names("jobs-dead"), encryption="sse", retention=1209600),
    }


def _inbox(names: Names) -> Graph:
    """S3 -> SQS, read by a worker with a role."""
    return {
        "s3:bucket_1": node(
            "s3",
            names("inbox"),
            policies=[tls("s3:bucket_1")],
            public_access_block=True,
            versioning=True,
            notifications=[{"target": "${sqs:queue_1.arn}", "events": ["s3:ObjectCreated:*"]}],
        ),
        "sqs:queue_1": node(
            "sqs",
            names("incoming"),
            policies=[send("s3.amazonaws.com", "sqs:queue_1", "s3:bucket_1")],
            encryption="sse",
            redrive={"target": "${sqs:queue_2.arn}", "max_receives": 3},
            visibility_timeout=120,
        ),
        "sqs:queue_2": node("sqs", names("incoming-dead"), encryption="sse", retention=1209600),
        "iam:role_1": node(
            "iam",
            names("worker"),
            trust=trust("ecs-tasks.amazonaws.com"),
            policies=[
                {
                    "name": "read-inbox",
                    "statements": [
                        allow(["s3:GetObject"], "${s3:bucket_1.arn}/*"),
                        allow(["sqs:ReceiveMessage", "sqs:DeleteMessage"], "${sqs:queue_1.arn}"),
                    ],
                }
            ],
        ),
    }


TEMPLATES = (
    Template("bucket", "a private bucket that keeps every version", _bucket),
    Template("archive", "an encrypted archive whose access is logged to a second bucket", _archive),
    Template("queue", "a queue of jobs, with a second queue for those that fail", _queue),
    Template("inbox", "files put into a bucket are announced on a queue that a worker reads", _inbox),
)
