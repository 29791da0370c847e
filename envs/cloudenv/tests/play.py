"""What several tests need: a small pipeline, and ways to play it."""

from __future__ import annotations

import json
from typing import Any

import httpx

BROKEN = {"s3:data": [{"service": "s3", "instance": "data", "versioning": False}]}
IDEAL = {"s3:data": [{"service": "s3", "instance": "data", "versioning": True}]}
FIX = {"Bucket": "data", "VersioningConfiguration": {"Status": "Enabled"}}


def pipeline(name: str, broken: Any = BROKEN, ideal: Any = IDEAL, **more: Any) -> dict[str, Any]:
    """The body of POST /api/pipelines."""
    return {"pipeline_id": name, "broken_pipeline": broken, "ideal_pipeline": ideal, **more}


def post(url: str, body: Any) -> httpx.Response:
    """POST json; a str or bytes goes as it is."""
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    return httpx.post(url, content=content, headers={"content-type": "application/json"}, timeout=30)


def step(url: str, episode: str, service: str, operation: str, task: str | None = None, **payload: Any) -> Any:
    """The answer of POST /step."""
    action = {"service": service, "operation": operation, "episode_id": episode, "payload": payload}
    answer = post(f"{url}/step", {"action": {**action, **({"task_id": task} if task else {})}})
    assert answer.status_code == 200, answer.text
    return answer.json()


def start(url: str, episode: str, task: str) -> Any:
    """Initialize an episode over HTTP."""
    return step(url, episode, "internal", "InitializeEnvironment", task)


def problem(answer: Any) -> str:
    """The code of the error in an answer; empty when there is none."""
    return str(answer["observation"]["operation_result"].get("error", {}).get("code", ""))
