"""SNS, KMS, Secrets Manager, RDS, CloudTrail, CloudWatch, EventBridge, ElastiCache: what AWS refuses is refused,
what the agent sees holds nothing random, and what was deleted can be made anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.generator import VERSIONS
from cloudenv.server.managers.task import load_task
from cloudenv.server.managers.templates import TEMPLATES
from cloudenv.server.providers.aws.moto_backend import MotoBackend
from cloudenv.server.providers.aws.registry import SERVICES

BACKEND = MotoBackend()
TASKS = {
    "sns": "easy-topic-plain",
    "kms": "easy-key-old",
    "rds": "easy-database-public",
    "secretsmanager": "easy-secret-old",
    "cloudtrail": "easy-trail-one-region",
    "cloudwatch": "easy-alarm-mute",
    "events": "easy-alarm-mute",
    "elasticache": "easy-cache-forgets",
}


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An episode of the task of a service, and its resource of that service."""
    started = []

    def of(service: str) -> tuple[Episode, Any]:
        episode = Episode("e", load_task(TASKS[service]), backend=BACKEND)
        started.append(episode)
        return episode, next(n for n in episode.task.ideal_graph if n.type.service == service)

    yield of
    for episode in started:
        episode.close()


def _policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


QUEUE = "arn:aws:sqs:us-east-1:123456789012:somewhere"
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("sns", "SetTopicAttributes", {"AttributeName": "Colour", "AttributeValue": "red"}, "InvalidParameter"),
    ("sns", "SetTopicAttributes", {"AttributeName": "Policy", "AttributeValue": "{}"}, "InvalidParameter"),
    ("sns", "Subscribe", {"Protocol": "email", "Endpoint": "a@b.example"}, "InvalidParameter"),
    ("sns", "Subscribe", {"Protocol": "sqs", "Endpoint": "queue"}, "InvalidParameter"),
    (
        "sns",
        "Subscribe",
        {"Protocol": "sqs", "Endpoint": QUEUE, "Attributes": {"FilterPolicy": '{"kind": "one"}'}},
        "InvalidParameter",
    ),
    ("sns", "Publish", {"Message": "x"}, "NotAllowed"),
    ("kms", "PutKeyPolicy", {"PolicyName": "default", "Policy": "x"}, "MalformedPolicyDocumentException"),
    (  # AWS's lockout check
        "kms",
        "PutKeyPolicy",
        {
            "PolicyName": "default",
            "Policy": _policy(Principal={"Service": "sns.amazonaws.com"}, Action="kms:Decrypt", Resource="*"),
        },
        "MalformedPolicyDocumentException",
    ),
    ("kms", "Decrypt", {}, "NotAllowed"),
    ("rds", "ModifyDBInstance", {"MultiAZ": False}, "InvalidParameterCombination"),
    ("rds", "ModifyDBInstance", {"BackupRetentionPeriod": 36, "ApplyImmediately": True}, "InvalidParameterValue"),
    ("rds", "ModifyDBInstance", {"DBInstanceClass": "huge", "ApplyImmediately": True}, "InvalidParameterValue"),
    ("rds", "DeleteDBInstance", {}, "InvalidParameterCombination"),
    ("rds", "DeleteDBInstance", {"SkipFinalSnapshot": True}, "InvalidParameterCombination"),
    (
        "secretsmanager",
        "RotateSecret",
        {"RotationRules": {"AutomaticallyAfterDays": 30}},
        "InvalidRequestException",
    ),
    (
        "secretsmanager",
        "RotateSecret",
        {
            "RotationLambdaARN": "arn:aws:lambda:us-east-1:123456789012:function:none",
            "RotationRules": {"AutomaticallyAfterDays": 30},
        },
        "ResourceNotFoundException",
    ),
    ("secretsmanager", "UpdateSecret", {"KmsKeyId": "my key"}, "InvalidParameterException"),
    ("secretsmanager", "GetSecretValue", {}, "NotAllowed"),
    ("cloudtrail", "UpdateTrail", {"S3BucketName": "nowhere"}, "S3BucketDoesNotExistException"),
    ("cloudtrail", "UpdateTrail", {"KmsKeyId": "my key"}, "InvalidKmsKeyIdException"),
    ("cloudwatch", "PutMetricAlarm", {"Namespace": "x"}, "ValidationError"),
    ("events", "PutRule", {"ScheduleExpression": "now and then"}, "ValidationException"),
    ("events", "PutRule", {"EventPattern": '{"source": "aws.s3"}'}, "InvalidEventPatternException"),
    ("events", "DeleteRule", {}, "ValidationException"),
    ("events", "PutEvents", {}, "NotAllowed"),
    (
        "elasticache",
        "ModifyReplicationGroup",
        {"SnapshotRetentionLimit": 99, "ApplyImmediately": True},
        "InvalidParameterValue",
    ),
    ("elasticache", "ModifyReplicationGroup", {"SnapshotRetentionLimit": 7}, "InvalidParameterCombination"),
]


@pytest.mark.parametrize("service, operation, payload, code", REFUSED)
def test_what_aws_refuses_is_refused_and_changes_nothing(
    service: str, operation: str, payload: dict[str, Any], code: str, start: Any
) -> None:
    episode, node = start(service)
    before = episode.state()
    named = "Name" if operation in ("PutRule", "DeleteRule") else node.type.id_param
    identifier = node.type.identifier(node.name)
    outcome = episode.act(service, operation, {named: identifier, **payload})
    assert outcome.operation_result["status"] == "ERROR", outcome.operation_result
    assert outcome.operation_result["error"]["code"] == code
    assert episode.state() == before


def test_rotation_needs_a_function_that_may_be_called(start: Any) -> None:
    episode, _ = start("secretsmanager")
    function = next(n for n in episode.task.ideal_graph if n.type.service == "lambda")
    sid = next(s["Sid"] for s in episode._now.raw[function.key]["policies"])
    episode.act("lambda", "RemovePermission", {"FunctionName": function.name, "StatementId": sid})
    rotate = next(a for a in episode.solution() if a["operation"] == "RotateSecret")
    outcome = episode.act(**rotate)
    assert outcome.operation_result["error"]["code"] == "AccessDeniedException"
    for action in episode.solution():
        outcome = episode.act(**action)
    assert outcome.done


def test_a_trail_goes_to_no_bucket_that_does_not_let_it(start: Any) -> None:
    episode, node = start("cloudtrail")
    episode.act("s3", "CreateBucket", {"Bucket": "closed-bucket"})
    payload = {"Name": node.type.arn(node.name), "S3BucketName": "closed-bucket"}
    outcome = episode.act("cloudtrail", "UpdateTrail", payload)
    assert outcome.operation_result["error"]["code"] == "InsufficientS3BucketPolicyException"


def test_a_rule_that_is_put_without_a_state_is_enabled(start: Any) -> None:
    episode, node = start("events")
    episode.act("events", "DisableRule", {"Name": node.name})
    assert episode.state()[node.id][0]["enabled"] is False
    episode.act("events", "PutRule", {"Name": node.name, "ScheduleExpression": "rate(2 hours)"})
    shown = episode.state()[node.id][0]
    assert (shown["enabled"], shown["event"]) == (True, {"schedule": "rate(2 hours)"})


@pytest.mark.parametrize("service", sorted(TASKS))
def test_what_is_deleted_is_missing_and_can_be_made_anew(service: str, start: Any) -> None:
    episode, node = start(service)
    for call in episode._engine.removal(node.type, node.name):
        outcome = episode.act(call.service, call.operation, call.payload)
        assert outcome.operation_result["status"] == "SUCCESS", outcome.operation_result
    assert episode.state()[node.id] == []
    for action in episode.solution():
        outcome = episode.act(**action)
        assert outcome.operation_result["status"] == "SUCCESS", (action, outcome.operation_result)
    assert (outcome.done, outcome.reward) == (True, 0.99)


@pytest.mark.parametrize("service", sorted(TASKS))
def test_an_empty_creation_makes_an_extra_that_can_be_deleted(service: str, start: Any) -> None:
    episode, _ = start(service)
    kind = SERVICES[service].types[0]
    before = {n for s, k, n in episode._now.state if (s, k) == (service, kind.kind)}
    payload = {"S3BucketName": _bucket(episode)} if service == "cloudtrail" else {}
    outcome = episode.act(service, kind.create_op, payload)
    assert outcome.operation_result["status"] == "SUCCESS", outcome.operation_result
    (extra,) = {n for s, k, n in episode._now.state if (s, k) == (service, kind.kind)} - before
    assert [d["kind"] for d in outcome.diff].count("extra") == 1
    for call in episode._engine.removal(kind, extra):
        outcome = episode.act(call.service, call.operation, call.payload)
    assert [d["kind"] for d in outcome.diff].count("extra") == 0


def _bucket(episode: Episode) -> str:
    return next(n.name for n in episode.task.ideal_graph if n.type.service == "s3")


@pytest.mark.parametrize("service", sorted(TASKS))
def test_answers_and_errors_are_the_same_in_every_episode(service: str) -> None:
    """All reads, and errors that name a resource: no random id, no account of the emulator, no time."""

    def seen() -> str:
        episode = Episode("e", load_task(TASKS[service]), backend=BACKEND)
        try:
            node = next(n for n in episode.task.ideal_graph if n.type.service == service)
            names = {node.type.id_param: node.type.identifier(node.name), "AlarmNames": [node.name]}
            names |= {
                "Name": node.name,
                "Rule": node.name,
                "PolicyName": "default",
                "TopicArn": node.type.arn(node.name),
            }
            answers = []
            for operation in sorted(SERVICES[service].reads):
                shape = BACKEND._client(service).meta.service_model.operation_model(operation).input_shape
                payload = {k: v for k, v in names.items() if shape is not None and k in shape.members}
                answers.append(episode.act(service, operation, payload).operation_result)
                wrong = {k: f"{v}x" if isinstance(v, str) else v for k, v in payload.items()}
                answers.append(episode.act(service, operation, wrong).operation_result)
            assert sum(a["status"] == "SUCCESS" for a in answers) >= len(SERVICES[service].reads) - 1
            return json.dumps(answers)
        finally:
            episode.close()

    first = seen()
    assert first == seen()
    assert not re.search(r"(?<!\d)99\d{10}(?!\d)", first)
    assert not re.search(r"20(?!26-01-01T00:00:00)\d\d-\d\d-\d\dT", first)


@pytest.mark.parametrize(
    "version, digest",
    [
        ("gen", "d446ea82b9ad8f20821fe50f7484dadf20a602ddeddeac76c7e5cfaafd5df4d4"),
        ("gen2", "d80dcfda90a932764f0677dd372e26cf8d178d3ce6771d2dbb2645f426e842c3"),
    ],
)
def test_generated_names_mean_for_ever_what_they_meant(version: str, digest: str) -> None:
    """Numbers 0 to 19 of every level, as they were when the version was made. Ids of controls may be corrected."""
    found = hashlib.sha256()
    for level in ("easy", "medium", "hard"):
        for seed in range(20):
            task = load_task(f"{version}:{level}:{seed}").to_json()
            for fault in task["faults"]:
                del fault["controls"]
            found.update(json.dumps(task, sort_keys=True).encode())
    assert found.hexdigest() == digest


def test_every_template_can_be_generated() -> None:
    """A new template is a reason for a new version, never for a change of an old one."""
    assert set(list(VERSIONS.values())[-1]) == set(TEMPLATES)
    used = {load_task(f"gen2:hard:{seed}").title.partition(":")[0] for seed in range(60)}
    assert {"audit", "database", "fanout", "nightly", "sessions"} <= used


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
@pytest.mark.parametrize("seed", range(3))
def test_a_task_of_the_second_generator_is_solvable(level: str, seed: int) -> None:
    task = load_task(f"gen2:{level}:{seed}")
    episode = Episode("e", task, backend=BACKEND)
    found = {(d["resource"], d["property"]) for d in episode.diff()}
    assert found == {(f["resource"], f["property"]) for f in task.faults}
    for action in episode.solution():
        outcome = episode.act(**action)
        assert outcome.operation_result["status"] == "SUCCESS", (action, outcome.operation_result)
    assert (outcome.done, outcome.reward) == (True, 0.99)
    episode.close()
