"""The clients: MyEnv blocks, AsyncMyEnv is awaited, AutoEnv finds them; sessions do not mix."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import serve
from play import FIX, pipeline, post
from websockets.sync.client import connect

from cloudenv import AsyncMyEnv, AWSService, CloudEnvAction, MyEnv
from cloudenv.server.app import create_app
from cloudenv.server.settings import Settings

PACKAGE = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", autouse=True)
def task(url: str) -> Iterator[None]:
    post(f"{url}/api/pipelines", pipeline("sessions"))
    yield
    httpx.delete(f"{url}/api/pipelines/sessions")


def initialize(task: str = "sessions", episode: str = "ep-1") -> CloudEnvAction:
    return CloudEnvAction(
        episode_id=episode,
        task_id=task,
        service=AWSService.INTERNAL,
        operation="InitializeEnvironment",
        payload={},
    )


def act(operation: str, **payload: Any) -> CloudEnvAction:
    return CloudEnvAction(service=AWSService.S3, operation=operation, payload=payload)


FIXED = act("PutBucketVersioning", **FIX)


def test_the_blocking_client(url: str) -> None:
    with MyEnv(base_url=url) as env:
        assert env.reset().done is False
        begun = env.step(initialize())
        assert (begun.reward, begun.observation.step_count) == (0.0, 0)
        done = env.step(FIXED)
        assert (done.reward, done.done, done.observation.done, done.observation.reward) == (0.99, True, True, 0.99)
        state = env.state()
        assert (state.episode_id, state.step_count, state.task_id, state.done) == ("ep-1", 1, "sessions", True)


def test_no_with_is_needed(url: str) -> None:
    env = MyEnv(base_url=url)
    env.reset()
    env.step(initialize())
    assert env.step(FIXED).done
    env.close()


def test_the_awaited_client(url: str) -> None:
    async def play() -> bool:
        async with AsyncMyEnv(base_url=url) as env:
            await env.reset()
            await env.step(initialize())
            return bool((await env.step(FIXED)).done)

    assert asyncio.run(play())
    assert isinstance(AsyncMyEnv(base_url=url).sync(), MyEnv)


def test_reset_may_name_everything(url: str) -> None:
    with MyEnv(base_url=url) as env:
        begun = env.reset(task_id="sessions", episode_id="mine", seed=5)
        assert begun.observation.episode_id == "mine" and begun.observation.instruction
        assert env.state().episode_id == "mine"
        assert env.step(FIXED).done


def test_bytes_arrive_as_bytes(url: str) -> None:
    with MyEnv(base_url=url) as env:
        env.reset(task_id="sessions")
        put = env.step(act("PutObject", Bucket="data", Key="k", Body=b"\x00\xff")).observation.operation_result
        assert put["status"] == "SUCCESS"


def test_two_sessions_may_play_the_same_episode_id(url: str) -> None:
    with MyEnv(base_url=url) as one, MyEnv(base_url=url) as two:
        for env in (one, two):
            env.reset()
            env.step(initialize(episode="ep-1"))
        assert one.step(FIXED).done
        untouched = two.step(act("ListBuckets"))
        assert not untouched.done and untouched.observation.step_count == 1


def test_the_episode_of_a_session_ends_with_it(url: str) -> None:
    before = httpx.get(f"{url}/health").json()["episodes"]
    with MyEnv(base_url=url) as env:
        for _ in range(3):  # one at a time
            env.reset()
            env.step(initialize())
        assert httpx.get(f"{url}/health").json()["episodes"] == before + 1
    for _ in range(100):
        if httpx.get(f"{url}/health").json()["episodes"] == before:
            return
    pytest.fail("the episode is still open")


def test_errors_do_not_end_a_session(url: str) -> None:
    with MyEnv(base_url=url) as env:
        env.reset()
        for action, code in (
            (act("ListBuckets"), "EpisodeNotInitialized"),
            (initialize("no-such-task"), "TaskNotFound"),
            (initialize(), ""),
            (CloudEnvAction(service="quantum", operation="X"), "UnknownService"),
            (CloudEnvAction(service="s3", operation="ListBuckets", episode_id="another"), "EpisodeNotInitialized"),
        ):
            assert env.step(action).observation.operation_result.get("error", {}).get("code", "") == code
        assert env.step(FIXED).done


DEEP = json.loads('{"a":' * 40 + "1" + "}" * 40)

BROKEN_MESSAGES: dict[str, Any] = {
    "no JSON": "{",
    "a list": "[1]",
    "a string": '"reset"',
    "binary": b"\x00\x01",
    "a lone surrogate": '{"type": "\\ud800"}',
    "nested too deep": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "too large": '{"a": "' + "x" * 70_000 + '"}',
    "an unknown type": '{"type": "jump"}',
    "a step without data": '{"type": "step"}',
    "a step of wrong types": '{"type": "step", "data": {"service": 3}}',
    "a step with a payload that nests too deep": json.dumps(
        {"type": "step", "data": {"service": "s3", "operation": "X", "payload": DEEP}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_MESSAGES)
def test_a_broken_message_is_answered_and_the_episode_goes_on(case: str, url: str) -> None:
    with connect(url.replace("http", "ws") + "/ws") as socket:

        def ask(message: Any) -> dict[str, Any]:
            socket.send(message)
            return dict(json.loads(socket.recv(timeout=20)))

        ask(json.dumps({"type": "reset", "data": {"task_id": "sessions"}}))
        error = ask(BROKEN_MESSAGES[case])
        assert error["type"] == "error" and error["data"]["message"]
        fixed = ask(json.dumps({"type": "step", "data": FIXED.model_dump(mode="json")}))
        assert fixed["data"]["done"] is True


def test_no_more_sessions_than_allowed() -> None:
    with serve(create_app(Settings(max_sessions=1))) as url, MyEnv(base_url=url) as one:
        one.reset()
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            MyEnv(base_url=url).reset()
        assert one.state() is not None


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9"):
        MyEnv(base_url="http://127.0.0.1:9").reset()


def test_without_docker_the_image_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RuntimeError, match="Docker"):
        MyEnv.from_docker_image("cloudenv-env:latest")


def test_auto_env_finds_the_client(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `openenv-cloudenv` were installed: AutoEnv goes by the name of the distribution."""
    from openenv.auto import AutoEnv
    from openenv.auto._discovery import reset_discovery

    info = tmp_path / "openenv_cloudenv-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openenv-cloudenv\nVersion: 0.1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    reset_discovery()
    try:
        env = AutoEnv.from_env("cloudenv", base_url=url)
        assert isinstance(env, AsyncMyEnv)
        with env.sync() as blocking:
            assert blocking.reset(task_id="sessions").observation.task_id == "sessions"
        assert AutoEnv.get_env_info("cloudenv")["default_image"] == "cloudenv-env:latest"
    finally:
        reset_discovery()
