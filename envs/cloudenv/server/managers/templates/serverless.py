"""Functions with what starts them and what they write to."""

from __future__ import annotations

from .template import Graph, Names, Template, allow, node, tls, trust


def _ingest(names: Names) -> Graph:
    """S3 -> Lambda -> DynamoDB."""
    return {
        "s3:bucket_1": node(
            "s3",
            names("uploads"),
            policies=[tls("s3:bucket_1")],
            public_access_block=True,
            versioning=True,
            notifications=[{"target": "${lambda:function_1.arn}", "events": ["s3:ObjectCreated:*"]}],
        ),
        "iam:role_1": node(
            "iam",
            names("ingest-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[
                {
                    "name": "ingest",
                    "statements": [
                        allow(["dynamodb:PutItem", "dynamodb:UpdateItem"], "${dynamodb:table_1.arn}"),
                        allow(["s3:GetObject"], "${s3:bucket_1.arn}/*"),
                    ],
                }
            ],
        ),
        "lambda:function_1": node(
            "lambda",
            names("ingest"),
            role="${iam:role_1.arn}",
            runtime="python3.12",
            timeout={"$at_least": 30},
            environment={"TABLE": "${dynamodb:table_1.name}"},
            policies=[{"principal": "s3.amazonaws.com", "source_arn": "${s3:bucket_1.arn}"}],
        ),
        "dynamodb:table_1": node(
            "dynamodb",
            names("items"),
            key={"hash": "id:S"},
            billing="on-demand",
            recovery=True,
            deletion_protection=True,
            ttl="expires",
        ),
    }


def _worker(names: Names) -> Graph:
    """SQS -> Lambda -> DynamoDB, and a queue for what fails."""
    return {
        "sqs:queue_1": node(
            "sqs",
            names("work"),
            encryption="sse",
            redrive={"target": "${sqs:queue_2.arn}", "max_receives": 3},
            visibility_timeout={"$at_least": 180},
        ),
        "sqs:queue_2": node("sqs", names("work-dead"), encryption="sse", retention=1209600),
        "sqs:queue_3": node("sqs", names("audit"), encryption="sse"),
        "iam:role_1": node(
            "iam",
            names("worker-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[
                {
                    "name": "work",
                    "statements": [
                        allow(
                            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
                            "${sqs:queue_1.arn}",
                        ),
                        allow(["dynamodb:GetItem", "dynamodb:PutItem"], "${dynamodb:table_1.arn}"),
                    ],
                }
            ],
        ),
        "lambda:function_1": node(
            "lambda",
            names("worker"),
            role="${iam:role_1.arn}",
            runtime="nodejs22.x",
            timeout=30,
            memory=256,
            environment={"TABLE": "${dynamodb:table_1.name}", "LOG_LEVEL": "info"},
            triggers=[{"source": "${sqs:queue_1.arn}", "batch_size": 5}],
            concurrency=10,
        ),
        "dynamodb:table_1": node(
            "dynamodb",
            names("results"),
            key={"hash": "id:S", "range": "at:N"},
            billing="on-demand",
            recovery=True,
            deletion_protection=True,
        ),
    }


def _pair(names: Names) -> Graph:
    """Two functions on one queue: one fills it, one empties it, each with a role of its own."""
    return {
        "sqs:queue_1": node("sqs", names("buffer"), encryption="sse", visibility_timeout=90, retention=86400),
        "iam:role_1": node(
            "iam",
            names("producer-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[{"name": "send", "statements": [allow(["sqs:SendMessage"], "${sqs:queue_1.arn}")]}],
        ),
        "iam:role_2": node(
            "iam",
            names("consumer-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[
                {
                    "name": "receive",
                    "statements": [
                        allow(
                            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
                            "${sqs:queue_1.arn}",
                        )
                    ],
                }
            ],
        ),
        "lambda:function_1": node(
            "lambda",
            names("producer"),
            role="${iam:role_1.arn}",
            runtime="python3.13",
            timeout=15,
            environment={"QUEUE": "${sqs:queue_1.url}"},
            policies=[{"principal": "events.amazonaws.com", "source_account": "123456789012"}],
        ),
        "lambda:function_2": node(
            "lambda",
            names("consumer"),
            role="${iam:role_2.arn}",
            runtime="python3.13",
            timeout=15,
            triggers=[{"source": "${sqs:queue_1.arn}"}],
        ),
    }


def _events(names: Names) -> Graph:
    """A function that is invoked asynchronously and keeps what fails."""
    return {
        "sqs:queue_1": node("sqs", names("failed"), encryption="sse", retention=1209600),
        "iam:role_1": node(
            "iam",
            names("handler-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[{"name": "keep", "statements": [allow("sqs:SendMessage", "${sqs:queue_1.arn}")]}],
        ),
        "lambda:function_1": node(
            "lambda",
            names("handler"),
            role="${iam:role_1.arn}",
            runtime="python3.12",
            timeout=20,
            dead_letters="${sqs:queue_1.arn}",
        ),
    }


TEMPLATES = (
    Template("ingest", "files put into a bucket are worked on by a function that fills a table", _ingest),
    Template("worker", "a function takes work from a queue and writes results to a table", _worker),
    Template("pair", "one function fills a queue, another empties it; each has its own role", _pair),
    Template("events", "a function handles events and keeps those that fail on a queue", _events),
)
