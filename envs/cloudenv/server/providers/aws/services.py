"""The names of services that an action may carry."""

from __future__ import annotations

from enum import Enum


class AWSService(str, Enum):  # noqa: UP042 - the mixin keeps str(action.service) and json the same on every Python
    """A service of an action. `INTERNAL` is the environment itself (InitializeEnvironment and the like)."""

    INTERNAL = "internal"
    S3 = "s3"
    IAM = "iam"
    LAMBDA = "lambda"
    SQS = "sqs"
    DYNAMODB = "dynamodb"
    EC2 = "ec2"
    SNS = "sns"
    RDS = "rds"
    KMS = "kms"
    SECRETSMANAGER = "secretsmanager"
    CLOUDTRAIL = "cloudtrail"
    CLOUDWATCH = "cloudwatch"
    EVENTS = "events"
    ELASTICACHE = "elasticache"
