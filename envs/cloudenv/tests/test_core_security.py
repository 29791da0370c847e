"""What an agent must not be able to do, and where calls must not go."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.task import load_task
from cloudenv.server.providers.aws.backend import (
    ALLOWED_HOST_VARIABLE,
    ENDPOINT_VARIABLE,
    HttpBackend,
    make_backend,
)
from cloudenv.server.providers.aws.errors import BackendError, PipelineError
from cloudenv.server.providers.aws.moto_backend import MotoBackend
from cloudenv.server.providers.aws.registry import SERVICES

ROOT = Path(__file__).resolve().parents[1]
BACKEND = MotoBackend()
FULL = os.environ.get("CLOUDRL_FULL") == "1"


@pytest.fixture(scope="module")
def episode() -> Iterator[Episode]:
    task = load_task("hard-task-1")
    object.__setattr__(task, "max_steps", 10**6)
    episode = Episode("e", task, backend=BACKEND)
    yield episode
    episode.close()


REFUSED = [
    ("lambda", "Invoke", {"FunctionName": "ingest"}, "NotAllowed"),
    ("lambda", "UpdateFunctionCode", {"FunctionName": "ingest", "ZipFile": b"PK"}, "NotAllowed"),
    ("lambda", "CreateFunction", {"FunctionName": "f", "Code": {"ZipFile": b"PK"}}, "NotAllowed"),
    (
        "lambda",
        "CreateFunction",
        {"FunctionName": "f", "Code": {"S3Bucket": "uploads", "S3Key": "k"}},
        "NotAllowed",
    ),
    ("lambda", "UpdateFunctionConfiguration", {"FunctionName": "ingest", "Layers": ["arn:x"]}, "NotAllowed"),
    ("s3", "DeleteBuckets", {}, "NotAllowed"),
    ("s3", "PutBucketAcl", {"Bucket": "uploads", "ACL": "public-read"}, "NotAllowed"),
    ("s3", "__class__", {}, "NotAllowed"),
    ("sts", "GetCallerIdentity", {}, "UnknownService"),
    ("cloudformation", "CreateStack", {"TemplateURL": "http://169.254.169.254/"}, "UnknownService"),
    ("internal", "Shutdown", {}, "NotAllowed"),
    ("sqs", "GetQueueAttributes", {"QueueUrl": "http://169.254.169.254/latest/meta-data"}, "AccessDenied"),
    ("sqs", "SendMessage", {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/999999999999/q"}, "AccessDenied"),
    ("s3", "PutObject", {"Bucket": "uploads", "Key": "http://169.254.169.254/x", "Body": b""}, "NotAllowed"),
    ("s3", "PutObject", {"Bucket": "uploads", "Key": "k", "Body": b"x" * 70_000}, "RequestEntityTooLarge"),
    ("s3", "PutObject", {"Bucket": "uploads", "Key": "k" * 70_000}, "RequestEntityTooLarge"),
    (
        "lambda",
        "GetFunctionConfiguration",
        {"FunctionName": "arn:aws:lambda:us-east-1:990000000001:function:f"},
        "AccessDenied",
    ),
    (
        "lambda",
        "GetFunctionConfiguration",
        {"FunctionName": "arn:aws:lambda:us-east-1:444455556666:function:f"},
        "AccessDenied",
    ),
    ("iam", "GetRole", {"RoleName": "990000000001"}, "AccessDenied"),
    (
        "dynamodb",
        "DescribeTable",
        {"TableName": "arn:aws:dynamodb:us-east-1:444455556666:table/items"},
        "AccessDenied",
    ),
    ("s3", "ListBuckets", {"EndpointUrl": "nowhere"}, "ParamValidationError"),
    ("s3", "GetBucketPolicy", {"Bucket": 7}, "ParamValidationError"),
    ("sns", "GetTopicAttributes", {"TopicArn": "news"}, "InvalidParameter"),
    ("s3", "ListBuckets", [1], "ValidationException"),
    ("s3", "ListBuckets", {"a": object()}, "ValidationException"),
    ("s3", "ListBuckets", {"a": float("nan")}, "ValidationException"),
    ("s3", "ListBuckets", {"a": "\ud800"}, "ValidationException"),
    ("ec2", "RunInstances", {"UserData": "rm -rf /"}, "NotAllowed"),
    ("ec2", "RunInstances", {"MinCount": 1000, "MaxCount": 1000}, "InvalidParameterValue"),
]


@pytest.mark.parametrize("service, operation, payload, code", REFUSED)
def test_it_is_refused(episode: Episode, service: str, operation: str, payload: Any, code: str) -> None:
    before = episode.state()
    outcome = episode.act(service, operation, payload)
    assert outcome.operation_result["status"] == "ERROR"
    assert outcome.operation_result["error"]["code"] == code, outcome.operation_result
    assert outcome.state == before


STRICT = [  # what AWS refuses and at least one emulator takes
    ("s3", "PutBucketPolicy", {"Bucket": "uploads", "Policy": "{"}, "MalformedPolicy"),
    ("s3", "PutBucketPolicy", {"Bucket": "uploads", "Policy": '{"a": 1}'}, "MalformedPolicy"),
    (
        "s3",
        "PutBucketPolicy",
        {
            "Bucket": "uploads",
            "Policy": '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "*"}}',
        },
        "MalformedPolicy",
    ),
    (
        "s3",
        "PutBucketPolicy",
        {
            "Bucket": "uploads",
            "Policy": '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", '
            '"Resource": "arn:aws:s3:::uploads/*"}}',
        },
        "AccessDenied",
    ),
    ("s3", "CreateBucket", {"Bucket": "Not_A_Name"}, "ValidationException"),
    (
        "s3",
        "PutBucketNotificationConfiguration",
        {
            "Bucket": "uploads",
            "NotificationConfiguration": {
                "LambdaFunctionConfigurations": [
                    {
                        "LambdaFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:ingest",
                        "Events": ["s3:ObjectCreated:*"],
                    }
                ]
            },
        },
        "InvalidArgument",
    ),
    ("iam", "CreateRole", {"RoleName": "r", "AssumeRolePolicyDocument": "no json"}, "MalformedPolicyDocument"),
    (
        "iam",
        "PutRolePolicy",
        {"RoleName": "ingest-role", "PolicyName": "p", "PolicyDocument": "{}"},
        "MalformedPolicyDocument",
    ),
    ("lambda", "UpdateFunctionConfiguration", {"FunctionName": "ingest", "Timeout": 9999}, "ValidationException"),
    (
        "lambda",
        "UpdateFunctionConfiguration",
        {"FunctionName": "ingest", "Runtime": "python2.7"},
        "InvalidParameterValueException",
    ),
    (
        "lambda",
        "CreateFunction",
        {"FunctionName": "f", "Role": "arn:aws:iam::123456789012:role/nobody"},
        "InvalidParameterValueException",
    ),
    ("dynamodb", "CreateTable", {"TableName": "t"}, "ValidationException"),
    ("sqs", "CreateQueue", {"QueueName": "q", "Attributes": {"Colour": "red"}}, "InvalidAttributeName"),
    (
        "sqs",
        "CreateQueue",
        {"QueueName": "q", "Attributes": {"VisibilityTimeout": "43201"}},
        "InvalidAttributeValue",
    ),
]


@pytest.mark.parametrize("service, operation, payload, code", STRICT)
def test_our_own_validation_is_as_strict_as_aws(
    episode: Episode, service: str, operation: str, payload: Any, code: str
) -> None:
    outcome = episode.act(service, operation, payload)
    assert outcome.operation_result.get("error", {}).get("code") == code, outcome.operation_result


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_OPERATIONS = sorted((s.name, o) for s in SERVICES.values() for o in s.operations)
_PARAMETERS = sorted(
    {
        "Bucket",
        "Policy",
        "RoleName",
        "PolicyName",
        "PolicyDocument",
        "FunctionName",
        "QueueUrl",
        "QueueName",
        "Attributes",
    }
    | {
        "TableName",
        "GroupId",
        "GroupName",
        "IpPermissions",
        "InstanceIds",
        "NotificationConfiguration",
        "Environment",
    }
    | {"TagSpecifications", "BucketLoggingStatus", "VersioningConfiguration", "UUID", "EventSourceArn", "Timeout"}
)
_NAMES = st.sampled_from(["uploads", "ingest", "ingest-role", "items", "sg-0", "x"])


@settings(max_examples=2000 if FULL else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    operation=st.sampled_from(_OPERATIONS) | st.tuples(st.text(max_size=8), st.text(max_size=8)),
    payload=st.dictionaries(st.sampled_from(_PARAMETERS), _NAMES | _JSON, max_size=5) | _JSON,
)
def test_nothing_that_an_agent_sends_raises(episode: Episode, operation: tuple[str, str], payload: Any) -> None:
    outcome = episode.act(*operation, payload)
    error = outcome.operation_result.get("error")
    assert error is None or error["code"] not in ("EmulatorUnavailable",)
    json.dumps(vars(outcome))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com:4566",
        "https://s3.amazonaws.com",
        "http://10.0.0.5:4566",
        "ftp://127.0.0.1",
        "127.0.0.1:4566",
    ]
    + ["http://127.0.0.1.example.com", "http://user@example.com:80/127.0.0.1"],
)
def test_an_endpoint_outside_loopback_is_refused(url: str) -> None:
    with pytest.raises(BackendError, match=ENDPOINT_VARIABLE):
        make_backend({ENDPOINT_VARIABLE: url})


def test_a_neighbouring_container_must_be_named() -> None:
    variables = {ENDPOINT_VARIABLE: "http://emulator:4566", ALLOWED_HOST_VARIABLE: "emulator"}
    assert isinstance(make_backend(variables), HttpBackend)
    with pytest.raises(BackendError, match="real AWS"):
        make_backend({ENDPOINT_VARIABLE: "https://s3.amazonaws.com", ALLOWED_HOST_VARIABLE: "s3.amazonaws.com"})
    assert isinstance(make_backend({}), MotoBackend)


def test_an_emulator_that_is_down_is_an_error_of_the_task() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(PipelineError, match="does not answer"):
        Episode("e", load_task("easy-task-1"), backend=HttpBackend(f"http://127.0.0.1:{port}"))


def test_an_emulator_that_is_slow_is_an_error_of_the_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and does not answer them: the episode goes on where it was."""
    monkeypatch.setattr("cloudenv.server.providers.aws.backend.ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = HttpBackend(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(PipelineError, match="does not answer"):
            Episode("e", load_task("easy-task-1"), backend=slow)
        episode = Episode("e", load_task("easy-task-1"), backend=BACKEND)
        action = episode.solution()[0]
        before, quick = episode.state(), episode._account.backend
        episode._account.backend = slow
        outcome = episode.act(**action)
        assert outcome.operation_result["error"]["code"] == "EmulatorUnavailable"
        assert outcome.state == before and not outcome.done
        episode._account.backend = quick
        assert episode.act(**action).done
        episode.close()


_WATCHED = """
import os, socket, sys
hosts = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        hosts.append((event, args[1] if event == "socket.connect" else args[0]))
sys.addaudithook(watch)
from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.task import load_task
from cloudenv.server.providers.aws.backend import make_backend
episode = Episode("e", load_task(sys.argv[1]), backend=make_backend({"CLOUDENV_ENDPOINT_URL": sys.argv[2]}))
for action in episode.solution():
    outcome = episode.act(**action)
assert outcome.done, outcome
for service, operation in (("s3", "ListBuckets"), ("ec2", "DescribeSecurityGroups"), ("iam", "ListRoles")):
    episode.act(service, operation, {})
episode.close()
print(sorted({str(h) for _, h in hosts}))
"""


@pytest.mark.parametrize("where", ["in process", "endpoint"])
def test_no_call_leaves_loopback_whatever_the_environment_says(where: str, tmp_path: Path) -> None:
    """Real-looking keys, a profile, an endpoint, a proxy and a region are set; sockets are watched."""
    (tmp_path / "config").write_text("[profile prod]\nregion = eu-west-1\nendpoint_url = http://203.0.113.9\n")
    (tmp_path / "credentials").write_text(
        "[prod]\naws_access_key_id = AKIAREALREALREALREAL\naws_secret_access_key = s\n"
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT.parent),
        "AWS_ACCESS_KEY_ID": "AKIAREALREALREALREAL",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_PROFILE": "prod",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_ENDPOINT_URL": "http://203.0.113.9",
        "AWS_ENDPOINT_URL_S3": "http://203.0.113.9",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "HTTP_PROXY": "http://203.0.113.9:3128",
        "HTTPS_PROXY": "http://203.0.113.9:3128",
        "http_proxy": "http://203.0.113.9:3128",
        "https_proxy": "http://203.0.113.9:3128",
    }
    server = None
    url = ""
    if where == "endpoint":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            import time

            time.sleep(0.1)
    try:
        run = subprocess.run(
            [sys.executable, "-c", _WATCHED, "hard-task-1", url],
            capture_output=True,
            text=True,
            env=env,
            timeout=200,
        )
    finally:
        if server is not None:
            server.kill()
            server.wait()
    assert run.returncode == 0, run.stderr
    allowed = set() if where == "in process" else {"127.0.0.1", str(("127.0.0.1", port))}
    assert set(eval(run.stdout)) <= allowed
    if where == "endpoint":
        assert eval(run.stdout)
