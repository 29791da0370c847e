"""Episodes: what an agent can do, what it cannot, and what the reward says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cloudenv.server.managers.episode import Episode, check_task
from cloudenv.server.managers.task import Task
from cloudenv.server.providers.aws.backend import Backend
from cloudenv.server.providers.aws.errors import ApiError
from cloudenv.server.providers.aws.moto_backend import MotoBackend

TLS = {
    "Sid": "tls",
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": ["${s3:up.arn}", "${s3:up.arn}/*"],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
IDEAL: dict[str, Any] = {
    "s3:up": [{"service": "s3", "instance": "uploads", "policies": [TLS], "versioning": "Enabled"}],
    "sqs:jobs": [{"service": "sqs:jobs", "redrive": {"target": "${sqs:dead}", "max_receives": 3}}],
    "sqs:dead": [{"service": "sqs:jobs-dead"}],
}
BROKEN: dict[str, Any] = {
    **IDEAL,
    "s3:up": [{"service": "s3", "instance": "uploads", "policies": []}],
    "sqs:jobs": [{"service": "sqs:jobs", "redrive": None}],
}
TASK = Task.from_json({"task_id": "t", "broken_pipeline": BROKEN, "ideal_pipeline": IDEAL})


@pytest.fixture(scope="module")
def backend() -> Backend:
    return MotoBackend()


@pytest.fixture
def episode(backend: Backend) -> Iterator[Episode]:
    episode = Episode("e", TASK, backend=backend)
    yield episode
    episode.close()


def test_the_solution_ends_at_the_ideal(episode: Episode) -> None:
    solution = episode.solution()
    assert len(solution) == len(episode.diff()) == 3
    outcomes = [episode.act(**action) for action in solution]
    rewards = [o.reward for o in outcomes]
    assert rewards == sorted(rewards) and all(r <= 0.95 for r in rewards[:-1])
    assert (outcomes[-1].reward, outcomes[-1].done, outcomes[-1].diff) == (0.99, True, [])
    assert not any(o.done for o in outcomes[:-1])
    assert outcomes[-1].step_count == 3


def test_a_pipeline_that_is_not_broken_is_done_at_its_first_step(backend: Backend) -> None:
    graph = {"s3:bucket_1": [{"service": "s3:bucket1", "policies": []}]}
    episode = Episode("e", Task("easy", broken=graph, ideal=graph), backend=backend)
    assert not episode.observe().done
    outcome = episode.act("s3", "ListBuckets", {})
    assert (outcome.done, outcome.reward) == (True, 0.99)
    assert outcome.state == {"s3:bucket_1": [{"service": "s3", "instance": "bucket1", "policies": []}]}
    episode.close()


def test_an_undeclared_resource_is_an_extra_until_it_is_gone(episode: Episode) -> None:
    outcome = episode.act("s3", "CreateBucket", {"Bucket": "test-bucket"})
    assert outcome.operation_result["status"] == "SUCCESS"
    assert [d["resource"] for d in outcome.diff if d["kind"] == "extra"] == ["s3:test-bucket"]
    assert "s3:test-bucket" in outcome.state
    for action in episode.solution():
        outcome = episode.act(**action)
    assert outcome.done


def test_resources_of_another_episode_are_out_of_reach(episode: Episode, backend: Backend) -> None:
    other = Episode("other", TASK, backend=backend)
    assert other.act("s3", "CreateBucket", {"Bucket": "mine"}).operation_result["status"] == "SUCCESS"
    assert (
        episode.act("s3", "GetBucketPolicy", {"Bucket": "mine"}).operation_result["error"]["code"]
        == "NoSuchBucket"
    )
    account, suffix = other._account.number, other._account._names.suffix
    for payload in (
        {"QueueUrl": f"https://sqs.us-east-1.amazonaws.com/{account}/jobs"},
        {"QueueUrl": f"x{account}"},
    ):
        result = episode.act("sqs", "DeleteQueue", payload).operation_result
        assert result["error"]["code"] == "AccessDenied", result
    stolen = episode.act("s3", "PutBucketVersioning", {"Bucket": "mine" + suffix})
    assert stolen.operation_result["status"] == "ERROR"
    assert other.state().keys() == {"s3:up", "sqs:jobs", "sqs:dead", "s3:mine"}
    other.close()


def test_deleting_what_is_broken_does_not_pay(episode: Episode) -> None:
    outcome = episode.act("s3", "DeleteBucket", {"Bucket": "uploads"})
    assert outcome.state["s3:up"] == []
    assert outcome.reward == 0
    for action in episode.solution():  # creates the bucket anew
        outcome = episode.act(**action)
    assert outcome.done


def test_a_policy_against_plain_http_does_not_stop_calls_about_objects(episode: Episode) -> None:
    """The calls are over TLS, as far as the agent can tell; moto would refuse them."""
    for action in episode.solution()[:1]:
        assert action["operation"] == "PutBucketPolicy"
        episode.act(**action)
    put = episode.act("s3", "PutObject", {"Bucket": "uploads", "Key": "a/b", "Body": b"data"})
    assert put.operation_result["status"] == "SUCCESS", put.operation_result
    got = episode.act("s3", "GetObject", {"Bucket": "uploads", "Key": "a/b"})
    assert got.operation_result["output"]["Body"] == {"$base64": "ZGF0YQ=="}
    assert got.state["s3:up"][0]["policies"]
    gone = episode.act("s3", "GetObject", {"Bucket": "uploads", "Key": "c"})
    assert gone.operation_result["error"]["code"] == "NoSuchKey"


def test_an_episode_survives_an_emulator_that_is_down_for_a_while(backend: Backend) -> None:
    """Also when it goes down between a change and the look at what changed."""

    class Flaky:
        down = False
        last = ""

        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def call(self, account: str, service: str, operation: str, payload: Any) -> Any:
            if self.down:
                raise ApiError("EmulatorUnavailable", "it does not answer")
            self.down = operation == self.last
            return backend.call(account, service, operation, payload)

    flaky = Flaky()
    episode = Episode("e", TASK, backend=flaky)  # type: ignore[arg-type]
    for action in episode.solution():
        flaky.last = action["operation"]  # it goes through, the look at it does not
        for _ in range(2):
            outcome = episode.act(**action)
            assert outcome.operation_result["error"]["code"] == "EmulatorUnavailable" and not outcome.done
        flaky.down, flaky.last = False, ""
    outcome = episode.act("s3", "ListBuckets", {})
    assert (outcome.done, outcome.reward) == (True, 0.99)
    episode.close()


def test_the_ideal_of_a_task_can_be_checked(backend: Backend) -> None:
    check_task(TASK, backend)
