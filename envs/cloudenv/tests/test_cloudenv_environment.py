"""The README as it is written, and every scenario under docs/api/Pipeline Tests, over a real server."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from play import post

import cloudenv
from cloudenv.server.managers.task import list_tasks

PACKAGE = Path(__file__).resolve().parents[1]
README = (PACKAGE / "README.md").read_text()
SCENARIOS = sorted((PACKAGE / "docs" / "api" / "Pipeline Tests").glob("*.md"))


def blocks(language: str, heading: str) -> list[str]:
    """The code blocks of a language under a heading of the README."""
    section = re.split(r"^## ", README, flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(heading)]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_quick_start(url: str) -> None:
    (code,) = blocks("python", "Quick Start")
    here = code.replace('MyEnv.from_docker_image("cloudenv-env:latest")', f'MyEnv(base_url="{url}")')
    assert here != code
    scope: dict[str, Any] = {"__name__": "quick_start"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(here, scope)
    result = scope["result"]
    assert result.observation.operation_result["status"] == "SUCCESS"
    assert "s3:test-bucket" in result.observation.current_pipeline_state  # made in the episode: an extra
    assert not result.done
    assert "easy-task-1" in printed.getvalue()


def test_the_actions_of_core_concepts() -> None:
    (code,) = blocks("python", "Core Concepts")
    exec(code, {"CloudEnvAction": cloudenv.CloudEnvAction, "AWSService": cloudenv.AWSService})


def test_the_build_plan(url: str) -> None:
    """Empty payloads get defaults."""
    (code,) = blocks("python", "Example Build Plan")
    scope: dict[str, Any] = {"CloudEnvAction": cloudenv.CloudEnvAction, "AWSService": cloudenv.AWSService}
    exec(code, scope)
    with cloudenv.MyEnv(base_url=url) as env:
        env.reset()
        results = [env.step(action).observation.operation_result for action in scope["steps"]]
    assert [result["status"] for result in results] == ["SUCCESS"] * 4, results


def test_the_example_observation_has_our_fields() -> None:
    (text,) = blocks("json", "Core Concepts")
    cloudenv.CloudEnvObservation(**json.loads(text))


def curl(code: str, url: str) -> Any:
    """What a curl command of the README prints, as json, sent to our server."""
    assert "localhost:8000" in code
    done = subprocess.run(
        ["bash", "-c", code.replace("http://localhost:8000", url)], capture_output=True, text=True, timeout=60
    )
    return json.loads(done.stdout)


def test_the_create_request(url: str) -> None:
    (code,) = blocks("bash", "Pipeline API")
    try:
        assert curl(code, url)["pipeline_id"] == "easy-task-1"
        assert curl(code, url)["error"]["code"] == "PipelineExists"
    finally:
        httpx.delete(f"{url}/api/pipelines/easy-task-1")


def test_the_initialize_request(url: str) -> None:
    begun = curl(blocks("bash", "Testing Pipelines")[0], url)
    assert (begun["reward"], begun["done"]) == (0.0, False)
    assert begun["observation"]["task_id"] == "hard-task-1" and begun["observation"]["current_pipeline_state"]


def test_the_front_matter_is_a_space_s() -> None:
    _, head, _ = README.split("---\n", 2)
    found = yaml.safe_load(head)
    assert (found["sdk"], found["app_port"], found["base_path"], found["tags"]) == (
        "docker",
        8000,
        "/web",
        ["openenv"],
    )


def test_every_task_has_its_scenario() -> None:
    assert {path.stem for path in SCENARIOS} == set(list_tasks())


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_replays_from_its_document(path: Path, url: str) -> None:
    """Headings `## METHOD /path`, each with the body that is sent; the last answer is done, with 0.99."""
    requests = re.findall(
        r"^## (?:\d+\. )?POST (/\S+)\n.*?```json\n(.*?)```", path.read_text(), re.MULTILINE | re.DOTALL
    )
    assert [where for where, _ in requests[:2]] == ["/api/pipelines", "/step"] and len(requests) > 2
    answers = []
    try:
        for where, body in requests:
            answer = post(f"{url}{where}", body)
            assert answer.status_code in (200, 201), answer.text
            answers.append(answer.json())
    finally:
        httpx.delete(f"{url}/api/pipelines/{json.loads(requests[0][1])['pipeline_id']}")
    assert all(answer["observation"]["operation_result"]["status"] == "SUCCESS" for answer in answers[1:])
    assert not any(answer["done"] for answer in answers[1:-1])
    assert (answers[-1]["done"], answers[-1]["reward"]) == (True, 0.99)
