"""Episodes over plain HTTP: they remember, they do not mix, and bad input leaves them as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import serve
from play import FIX, pipeline, post, problem, start, step

from cloudenv.server.app import create_app
from cloudenv.server.host import EpisodeHost
from cloudenv.server.providers.aws.backend import HttpBackend
from cloudenv.server.settings import Settings


@pytest.fixture(scope="module", autouse=True)
def task(url: str) -> Iterator[None]:
    post(f"{url}/api/pipelines", pipeline("versions"))
    yield
    httpx.delete(f"{url}/api/pipelines/versions")


def test_an_episode_from_start_to_done(url: str) -> None:
    begun = start(url, "whole", "versions")
    assert (begun["reward"], begun["done"], begun["observation"]["step_count"]) == (0.0, False, 0)
    assert begun["observation"]["current_pipeline_state"]["s3:data"][0]["versioning"] is False
    read = step(url, "whole", "s3", "GetBucketVersioning", Bucket="data")
    assert read["observation"]["operation_result"]["status"] == "SUCCESS"
    fixed = step(url, "whole", "s3", "PutBucketVersioning", "versions", **FIX)
    assert (fixed["reward"], fixed["done"], fixed["observation"]["step_count"]) == (0.99, True, 2)
    assert httpx.get(f"{url}/state", params={"episode_id": "whole"}).json() == {
        "episode_id": "whole", "step_count": 2, "task_id": "versions", "done": True, "reward": 0.99,
    }  # fmt: skip
    assert problem(step(url, "whole", "s3", "ListBuckets")) == "EpisodeOver"


def test_the_observation_does_not_tell_the_solution(url: str) -> None:
    assert "diff" not in start(url, "secret", "versions")["observation"]


def test_two_episodes_do_not_mix(url: str) -> None:
    for name in ("a", "b"):
        start(url, name, "versions")
    step(url, "a", "s3", "CreateBucket", Bucket="only-in-a")
    state = {name: httpx.get(f"{url}/api/episodes/{name}").json()["observation"] for name in ("a", "b")}
    assert "s3:only-in-a" in state["a"]["current_pipeline_state"]
    assert "s3:only-in-a" not in state["b"]["current_pipeline_state"]
    assert (state["a"]["step_count"], state["b"]["step_count"]) == (1, 0)


def test_the_end_of_one_episode_leaves_the_objects_of_another(url: str) -> None:
    for name in ("stays", "ends"):
        start(url, name, "versions")
    step(url, "stays", "s3", "PutObject", Bucket="data", Key="k", Body="text")
    httpx.delete(f"{url}/api/episodes/ends")
    read = step(url, "stays", "s3", "GetObject", Bucket="data", Key="k")["observation"]["operation_result"]
    assert read["status"] == "SUCCESS" and read["output"]["Body"] == {"$base64": "dGV4dA=="}


def test_an_extra_resource_counts(url: str) -> None:
    start(url, "extra", "versions")
    assert (
        step(url, "extra", "s3", "CreateBucket", Bucket="more")["observation"]["operation_result"]["status"]
        == "SUCCESS"
    )
    assert step(url, "extra", "s3", "PutBucketVersioning", **FIX)["done"] is False
    assert step(url, "extra", "s3", "DeleteBucket", Bucket="more")["done"] is True


def test_starting_again_is_a_fresh_episode(url: str) -> None:
    start(url, "again", "versions")
    step(url, "again", "s3", "PutBucketVersioning", **FIX)
    assert start(url, "again", "versions")["observation"]["step_count"] == 0
    assert step(url, "again", "s3", "ListBuckets")["done"] is False


def test_reset_starts_an_episode_or_says_how(url: str) -> None:
    bare = post(f"{url}/reset", {}).json()
    assert "InitializeEnvironment" in bare["observation"]["instruction"]
    assert httpx.post(f"{url}/reset").status_code == 200
    named = post(f"{url}/reset", {"task_id": "versions", "episode_id": "by-reset", "seed": 3}).json()
    assert named["observation"]["episode_id"] == "by-reset" and named["observation"]["instruction"]
    assert step(url, "by-reset", "s3", "PutBucketVersioning", **FIX)["done"]


def test_bytes_travel_as_tagged_base64(url: str) -> None:
    start(url, "bytes", "versions")
    put = step(url, "bytes", "s3", "PutObject", Bucket="data", Key="k", Body={"$base64": "ZGF0YQ=="})
    assert put["observation"]["operation_result"]["status"] == "SUCCESS"


def test_an_ended_episode_is_gone(url: str) -> None:
    start(url, "gone", "versions")
    assert httpx.delete(f"{url}/api/episodes/gone").status_code == 204
    assert httpx.delete(f"{url}/api/episodes/gone").status_code == 404
    assert httpx.get(f"{url}/state", params={"episode_id": "gone"}).json()["error"]["code"] == "EpisodeNotFound"
    assert problem(step(url, "gone", "s3", "ListBuckets")) == "EpisodeNotInitialized"


# ------------------------------------------------------------------------------------------ what agents do wrong
def test_a_step_without_initialize_says_what_to_do(url: str) -> None:
    answer = step(url, "never", "s3", "ListBuckets")
    assert problem(answer) == "EpisodeNotInitialized" and not answer["done"]
    assert "InitializeEnvironment" in answer["observation"]["operation_result"]["error"]["message"]


WRONG: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "an unknown service": ("quantum", "Teleport", {}, "UnknownService"),
    "an unknown operation": ("s3", "PutBucketColour", {}, "NotAllowed"),
    "an unknown internal operation": ("internal", "Solve", {}, "NotAllowed"),
    "a missing bucket": ("s3", "GetBucketVersioning", {"Bucket": "nowhere"}, "NoSuchBucket"),
    "a missing parameter": ("s3", "GetBucketVersioning", {}, "ParamValidationError"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_action_is_an_error_and_the_episode_goes_on(case: str, url: str) -> None:
    service, operation, payload, code = WRONG[case]
    start(url, "wrong", "versions")
    assert problem(step(url, "wrong", service, operation, **payload)) == code
    assert step(url, "wrong", "s3", "PutBucketVersioning", **FIX)["done"]


def test_an_unknown_task_is_an_error_with_the_name(url: str) -> None:
    answer = start(url, "lost", "versionz")
    assert problem(answer) == "TaskNotFound" and "versionz" in json.dumps(answer)
    assert problem(step(url, "lost", "internal", "InitializeEnvironment")) == "TaskMissing"


def test_the_task_of_an_action_is_the_task_of_its_episode(url: str) -> None:
    start(url, "mismatch", "versions")
    assert problem(step(url, "mismatch", "s3", "PutBucketVersioning", "gen:easy:1", **FIX)) == "TaskMismatch"
    assert step(url, "mismatch", "s3", "PutBucketVersioning", "versions", **FIX)["done"]


DEEP = json.loads('{"a":' * 40 + "1" + "}" * 40)

NO_ACTION: dict[str, tuple[Any, int]] = {
    "no JSON": ('{"action": {"service": "s3"', 400),
    "no JSON at all": (b"\xff\xfe\x00", 400),
    "a list": ("[1]", 400),
    "not a number": ('{"action": {"service": "s3", "operation": "X", "payload": {"a": NaN}}}', 400),
    "a lone surrogate": ('{"action": {"service": "s3", "operation": "\\ud800"}}', 400),
    "nested a million times": ('{"a":' * 10_000 + "1" + "}" * 10_000, 400),
    "too large": ('{"a": "' + "x" * 70_000 + '"}', 413),
    "no action": ({}, 422),
    "an operation of a wrong type": ({"action": {"service": "s3", "operation": 3}}, 422),
    "an unknown field": ({"action": {"service": "s3", "operation": "X", "colour": 1}}, 422),
    "nested too deep": ({"action": {"service": "s3", "operation": "X", "payload": DEEP}}, 422),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_ACTION)
def test_what_is_no_action_is_refused_and_the_episode_goes_on(case: str, url: str) -> None:
    start(url, "survivor", "versions")
    body, status = NO_ACTION[case]
    answer = post(f"{url}/step", body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"] and len(answer.text) < 2000
    assert step(url, "survivor", "s3", "PutBucketVersioning", **FIX)["done"]


# ------------------------------------------------------------------------------------------ limits, emulator
def test_limits_on_episodes_and_pipelines() -> None:
    with serve(create_app(Settings(max_episodes=2, max_pipelines=1))) as url:
        assert post(f"{url}/api/pipelines", pipeline("one")).status_code == 201
        full = post(f"{url}/api/pipelines", pipeline("two"))
        assert (full.status_code, full.json()["error"]["code"]) == (429, "TooManyPipelines")
        assert [problem(start(url, name, "one")) for name in ("a", "b", "a", "c")] == [
            "",
            "",
            "",
            "TooManyEpisodes",
        ]
        assert httpx.get(f"{url}/health").json()["episodes"] == 2
        httpx.delete(f"{url}/api/episodes/a")
        assert problem(start(url, "c", "one")) == ""


def test_an_idle_episode_is_closed_and_its_account_freed() -> None:
    now = 0.0
    host = EpisodeHost(Settings(idle_seconds=60), clock=lambda: now)
    with serve(create_app(host.settings, host)) as url:
        post(f"{url}/api/pipelines", pipeline("one"))
        for name in ("idle", "busy"):
            start(url, name, "one")
        held = host.find("http", "idle")
        now = 50.0
        step(url, "busy", "s3", "ListBuckets")
        now = 70.0
        assert host.episodes.reap() == 1
        assert held is not None and held.closed
        assert problem(step(url, "idle", "s3", "ListBuckets")) == "EpisodeNotInitialized"
        assert problem(step(url, "busy", "s3", "ListBuckets")) == ""


def test_an_emulator_that_is_down() -> None:
    host = EpisodeHost(Settings(), HttpBackend("http://127.0.0.1:9"))
    with serve(create_app(host.settings, host)) as url:
        answer = start(url, "down", "gen:easy:1")
        assert problem(answer) == "EmulatorUnavailable" and "does not answer" in json.dumps(answer)
        created = post(f"{url}/api/pipelines", pipeline("one"))
        assert created.status_code == 503 and "does not answer" in created.text
        assert httpx.get(f"{url}/health").status_code == 200
