"""The pipeline API: from POST to DELETE, and every refusal with a clear body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from play import BROKEN, FIX, IDEAL, pipeline, post, start, step


@pytest.fixture
def api(url: str) -> Iterator[str]:
    """The base of the API, with no posted pipeline before and after."""
    base = f"{url}/api/pipelines"
    clear(base)
    yield base
    clear(base)


def clear(base: str) -> None:
    for one in httpx.get(base).json()["pipelines"]:
        if not one["built_in"]:
            httpx.delete(f"{base}/{one['pipeline_id']}")


def refused(answer: httpx.Response, status: int, code: str) -> str:
    """Check a refusal and return its message."""
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    return str(answer.json()["error"]["message"])


def test_create_fetch_list_rename_remove(api: str) -> None:
    made = post(api, pipeline("mine", title="A bucket"))
    assert made.status_code == 201
    assert made.json()["broken_pipeline"] == BROKEN and made.json()["ideal_pipeline"] == IDEAL
    assert httpx.get(f"{api}/mine").json() == made.json()
    assert httpx.get(api).json()["pipelines"][0] == made.json()
    renamed = httpx.put(f"{api}/mine", json={"pipeline_id": "yours"})
    assert renamed.status_code == 200 and renamed.json() == {**made.json(), "pipeline_id": "yours"}
    assert httpx.get(f"{api}/mine").status_code == 404
    assert httpx.delete(f"{api}/yours").status_code == 204
    refused(httpx.delete(f"{api}/yours"), 404, "PipelineNotFound")


def test_the_seed_s_create_request_works_and_is_done_at_its_first_step(api: str, url: str) -> None:
    same = {"s3:bucket_1": [{"service": "s3:bucket1", "policies": []}]}
    assert post(api, pipeline("easy-task-1", same, same)).status_code == 201
    assert start(url, "first", "easy-task-1")["done"] is False
    seen = step(url, "first", "s3", "ListBuckets")
    assert (seen["done"], seen["reward"]) == (True, 0.99)


def test_validate_the_pipeline_and_an_episode(api: str, url: str) -> None:
    post(api, pipeline("mine"))
    before = httpx.get(f"{api}/mine/validate").json()
    assert (before["valid"], before["reward"], before["episode_id"]) == (False, 0.0, None)
    (entry,) = before["diff"]
    assert (entry["resource"], entry["property"], entry["expected"]) == ("s3:data", "versioning", True)
    start(url, "valid", "mine")
    step(url, "valid", "s3", "PutBucketVersioning", **FIX)
    after = httpx.get(f"{api}/mine/validate", params={"episode_id": "valid"}).json()
    assert (after["valid"], after["diff"], after["reward"]) == (True, [], 0.99)
    assert not httpx.get(f"{api}/mine/validate").json()["valid"]  # the pipeline itself is as it was


def test_validate_of_another_task_s_episode(api: str, url: str) -> None:
    post(api, pipeline("one"))
    post(api, pipeline("two"))
    start(url, "of-one", "one")
    refused(httpx.get(f"{api}/two/validate", params={"episode_id": "of-one"}), 404, "EpisodeNotFound")


def test_a_name_is_taken_once(api: str) -> None:
    post(api, pipeline("mine"))
    assert "mine" in refused(post(api, pipeline("mine")), 409, "PipelineExists")
    post(api, pipeline("other"))
    refused(httpx.put(f"{api}/other", json={"pipeline_id": "mine"}), 409, "PipelineExists")
    assert httpx.put(f"{api}/other", json={"pipeline_id": "other"}).status_code == 200


def test_names_that_do_not_exist(api: str) -> None:
    assert "nothing" in refused(httpx.get(f"{api}/nothing"), 404, "TaskNotFound")
    refused(httpx.get(f"{api}/nothing/validate"), 404, "TaskNotFound")
    refused(httpx.put(f"{api}/nothing", json={"pipeline_id": "x"}), 404, "PipelineNotFound")


def test_a_generated_task_is_a_pipeline_too(api: str) -> None:
    found = httpx.get(f"{api}/gen:easy:7").json()
    assert found["built_in"] and found["broken_pipeline"] != found["ideal_pipeline"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown service": (pipeline("x", {"q:1": [{"service": "quantum", "instance": "a"}]}), "quantum"),
    "an unknown property": (pipeline("x", {"s3:1": [{"service": "s3:bucket1", "colour": 1}]}), "colour"),
    "a bad bucket name": (pipeline("x", {"s3:1": [{"service": "s3", "instance": "A_B"}]}), "A_B"),
    "no instance": (pipeline("x", {"s3": [{"service": "s3"}]}), "instance"),
    "an entry that is none": (pipeline("x", {"s3:1": ["text"]}), "s3:1"),
    "a reference to nothing": (
        pipeline("x", {"s3:1": [{"service": "s3:bucket1", "policies": ["${lambda:no.arn}"]}]}),
        "s3:1",
    ),
    "a bad id": (pipeline("a/b"), "task_id"),
    "a bad level": (pipeline("x", level="impossible"), "level"),
    "bad steps": (pipeline("x", max_steps="many"), "max_steps"),
    "too many resources": (
        pipeline("x", {f"s3:{k}": [{"service": "s3", "instance": f"bucket-{k}"}] for k in range(51)}),
        "51",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_pipeline_that_cannot_be_built_is_refused(case: str, api: str) -> None:
    body, word = BAD[case]
    assert word in refused(post(api, body), 422, "PipelineError")
    assert not [one for one in httpx.get(api).json()["pipelines"] if not one["built_in"]]


@pytest.mark.parametrize("body", [{}, {"pipeline_id": "x"}, {"pipeline_id": 3, "broken_pipeline": 1}])
def test_a_body_with_missing_or_wrong_fields_says_which(body: Any, api: str) -> None:
    answer = post(api, body)
    refused(answer, 422, "InvalidRequest")
    assert any("broken_pipeline" in item["field"] for item in answer.json()["error"]["fields"])


def test_a_rename_to_no_name(api: str) -> None:
    post(api, pipeline("mine"))
    refused(httpx.put(f"{api}/mine", json={"pipeline_id": "a b"}), 422, "PipelineError")
    assert httpx.get(f"{api}/mine").status_code == 200
