"""Whatever is sent, the server never answers 500, and a WebSocket session never ends by itself."""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from play import pipeline
from schemathesis.checks import not_a_server_error
from starlette.testclient import TestClient

from cloudenv.server.app import create_app
from cloudenv.server.managers.task import load_task
from cloudenv.server.providers.aws.registry import SERVICES
from cloudenv.server.settings import Settings

EXAMPLES = 100 if os.environ.get("CLOUDRL_FULL") == "1" else 8
CALM = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES < 100)
APP: FastAPI = create_app(Settings(max_body_bytes=65_536, max_pipelines=20, max_episodes=20))

schema = schemathesis.openapi.from_asgi("/openapi.json", APP)


@schema.parametrize()
@settings(CALM, max_examples=EXAMPLES)
def test_the_http_api(case: schemathesis.Case) -> None:
    """Requests made from the OpenAPI document, valid ones and others."""
    case.call_and_validate(checks=[not_a_server_error])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
GRAPHS = (load_task("easy-task-1").broken, load_task("hard-task-1").broken)


def mutate(value: Any, data: Any) -> Any:
    """The value with something in it replaced by any json."""
    if data.draw(st.integers(0, 5)) == 0:
        return data.draw(JSON)
    if isinstance(value, dict):
        return {key: mutate(item, data) for key, item in value.items()}
    if isinstance(value, list):
        return [mutate(item, data) for item in value]
    return value


@given(st.data())
@settings(CALM, max_examples=5 * EXAMPLES)
def test_pipelines_that_are_nearly_right(data: Any) -> None:
    graph = data.draw(st.sampled_from(GRAPHS))
    body = pipeline("fuzz", mutate(graph, data), graph)
    with TestClient(APP, raise_server_exceptions=False) as client:
        answer = client.post("/api/pipelines", json=body)
        assert answer.status_code in (201, 422), answer.text
        client.delete("/api/pipelines/fuzz")


PARAMETERS = ("Bucket", "RoleName", "FunctionName", "QueueUrl", "TableName", "Policy", "Attributes", "Key")
VALUES = JSON | st.sampled_from(
    ["bucket1", "ingest", "*", "arn:aws:s3:::bucket1", "http://169.254.169.254/", "{}"]
)
ACTIONS = st.sampled_from(sorted(SERVICES)).flatmap(
    lambda service: st.fixed_dictionaries(
        {
            "service": st.just(service),
            "operation": st.sampled_from(sorted(SERVICES[service].operations)),
            "payload": st.dictionaries(st.sampled_from(PARAMETERS), VALUES, max_size=4),
        }
    )
)


@given(st.lists(ACTIONS, min_size=1, max_size=12))
@settings(CALM, max_examples=EXAMPLES)
def test_actions_that_are_nearly_right(actions: list[dict[str, Any]]) -> None:
    with TestClient(APP) as client, client.websocket_connect("/ws") as socket:
        socket.send_json({"type": "reset", "data": {"task_id": "hard-task-1"}})
        socket.receive_json()
        for action in actions:
            socket.send_json({"type": "step", "data": action})
            answer = socket.receive_json()
            assert answer["type"] == "observation", answer
            result = answer["data"]["observation"]["operation_result"]
            assert result["status"] in ("SUCCESS", "ERROR")
            assert result.get("error", {}).get("code") != "EmulatorUnavailable"


@given(st.binary(max_size=200) | st.text(max_size=200) | JSON.map(json.dumps))
@settings(CALM, max_examples=10 * EXAMPLES)
def test_messages_that_are_anything(message: bytes | str) -> None:
    with TestClient(APP) as client, client.websocket_connect("/ws") as socket:
        if isinstance(message, bytes):
            socket.send_bytes(message)
        else:
            socket.send_text(message)
        assert "type" in socket.receive_json()
        socket.send_json({"type": "state"})
        assert socket.receive_json()["type"] == "state"
