"""What watches over an account: trails, alarms, schedules, and a cache that is watched."""

from __future__ import annotations

from .template import Graph, Names, Template, allow, node, send, tls, trust

_OWNER = {
    "Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
    "Action": "kms:*",
    "Resource": "*",
}


def _deliver(bucket: str) -> list[dict[str, object]]:
    """The statements that let CloudTrail write to the bucket of this id."""
    service = {"Service": "cloudtrail.amazonaws.com"}
    return [
        {"Effect": "Allow", "Principal": service, "Action": "s3:GetBucketAcl", "Resource": f"${{{bucket}.arn}}"},
        {
            "Effect": "Allow",
            "Principal": service,
            "Action": "s3:PutObject",
            "Resource": f"${{{bucket}.arn}}/AWSLogs/123456789012/*",
            "Condition": {"StringEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}},
        },
    ]


def _audit(names: Names) -> Graph:
    encrypt = {
        "Effect": "Allow",
        "Principal": {"Service": "cloudtrail.amazonaws.com"},
        "Action": ["kms:GenerateDataKey*", "kms:DescribeKey"],
        "Resource": "*",
    }
    return {
        "kms:key_1": node("kms", names("trail-key"), rotation=True, enabled=True, policies=[_OWNER, encrypt]),
        "s3:bucket_1": node(
            "s3",
            names("trail"),
            policies=[tls("s3:bucket_1"), *_deliver("s3:bucket_1")],
            public_access_block=True,
            versioning=True,
        ),
        "s3:bucket_2": node(
            "s3",
            names("old-trail"),
            policies=[tls("s3:bucket_2"), *_deliver("s3:bucket_2")],
            public_access_block=True,
        ),
        "cloudtrail:trail_1": node(
            "cloudtrail",
            names("trail"),
            bucket="${s3:bucket_1.name}",
            multi_region=True,
            validation=True,
            key="${kms:key_1.arn}",
            logging=True,
        ),
    }


def _nightly(names: Names) -> Graph:
    """A schedule -> a function; its errors -> an alarm -> a topic -> a queue that people read."""
    return {
        "events:rule_1": node(
            "events",
            names("nightly"),
            event={"schedule": "cron(0 2 * * ? *)"},
            targets=[{"target": "${lambda:function_1.arn}", "dead_letters": "${sqs:queue_2.arn}"}],
            enabled=True,
        ),
        "iam:role_1": node(
            "iam",
            names("report-role"),
            trust=trust("lambda.amazonaws.com"),
            policies=[{"name": "announce", "statements": [allow("sns:Publish", "${sns:topic_2.arn}")]}],
        ),
        "lambda:function_1": node(
            "lambda",
            names("report"),
            role="${iam:role_1.arn}",
            runtime="python3.13",
            timeout=60,
            environment={"TOPIC": "${sns:topic_2.arn}"},
            policies=[{"principal": "events.amazonaws.com", "source_arn": "${events:rule_1.arn}"}],
        ),
        "cloudwatch:alarm_1": node(
            "cloudwatch",
            names("report-errors"),
            rule={
                "namespace": "AWS/Lambda",
                "metric": "Errors",
                "dimensions": {"FunctionName": "${lambda:function_1.name}"},
                "statistic": "Sum",
                "period": 300,
                "periods": 1,
                "comparison": ">=",
                "threshold": 1,
                "missing": "notBreaching",
                "actions": ["${sns:topic_1.arn}"],
            },
            enabled=True,
        ),
        "sns:topic_1": node(
            "sns",
            names("on-call"),
            encryption="alias/aws/sns",
            subscriptions=[{"protocol": "sqs", "endpoint": "${sqs:queue_1.arn}"}],
        ),
        "sns:topic_2": node("sns", names("reports"), encryption="alias/aws/sns"),
        "sqs:queue_1": node(
            "sqs",
            names("pager"),
            encryption="sse",
            policies=[send("sns.amazonaws.com", "sqs:queue_1", "sns:topic_1")],
        ),
        "sqs:queue_2": node(
            "sqs",
            names("missed"),
            encryption="sse",
            policies=[send("events.amazonaws.com", "sqs:queue_2", "events:rule_1")],
        ),
        "sqs:queue_3": node("sqs", names("archive"), encryption="sse"),
    }


def _sessions(names: Names) -> Graph:
    """A cache of sessions, an alarm on its memory, and a rule that tells of what happens to it."""
    return {
        "elasticache:group_1": node(
            "elasticache",
            f"{names.subject}-cache",
            transit_encryption=True,
            rest_encryption=True,
            node="cache.t3.small",
            failover=True,
            snapshot_days={"$at_least": 7},
        ),
        "cloudwatch:alarm_1": node(
            "cloudwatch",
            names("cache-memory"),
            rule={
                "namespace": "AWS/ElastiCache",
                "metric": "DatabaseMemoryUsagePercentage",
                "dimensions": {"ReplicationGroupId": "${elasticache:group_1.name}"},
                "statistic": "Average",
                "period": 60,
                "periods": 5,
                "comparison": ">",
                "threshold": 80,
                "actions": ["${sns:topic_1.arn}"],
            },
            enabled=True,
        ),
        "events:rule_1": node(
            "events",
            names("cache-events"),
            event={
                "pattern": {
                    "source": ["aws.elasticache"],
                    "detail-type": ["ElastiCache Cluster Failover", "ElastiCache Snapshot Failed"],
                }
            },
            targets=[{"target": "${sns:topic_1.arn}"}],
            enabled=True,
        ),
        "sns:topic_1": node(
            "sns",
            names("cache-news"),
            encryption="alias/aws/sns",
            policies=[
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "events.amazonaws.com"},
                    "Action": "sns:Publish",
                    "Resource": "${sns:topic_1.arn}",
                    "Condition": {"ArnEquals": {"aws:SourceArn": "${events:rule_1.arn}"}},
                }
            ],
            subscriptions=[{"protocol": "sqs", "endpoint": "${sqs:queue_1.arn}"}],
        ),
        "sqs:queue_1": node(
            "sqs",
            names("news"),
            encryption="sse",
            policies=[send("sns.amazonaws.com", "sqs:queue_1", "sns:topic_1")],
        ),
    }


TEMPLATES = (
    Template("audit", "every call in the account is recorded in a bucket, encrypted and tamper-evident", _audit),
    Template(
        "nightly", "a function makes a report every night, and an alarm tells people when it fails", _nightly
    ),
    Template("sessions", "a cache of sessions is encrypted, backed up and watched", _sessions),
)
