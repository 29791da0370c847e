"""The session in process, its forks, and the tools for TRL."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudenv.server.providers.aws.backend import HttpBackend
from cloudenv.server.providers.aws.errors import PipelineError
from cloudenv.session import CloudEnvSession, RemoteSession
from cloudenv.trl import CloudEnvTools

BAD = {"service": "s3", "operation": "DropEverything", "payload": {}}
DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def remote() -> Iterator[RemoteSession]:
    with CloudEnvSession.spawn() as session:
        yield session


def test_reset_and_step_like_gymnasium() -> None:
    with CloudEnvSession() as session:
        with pytest.raises(RuntimeError, match="reset first"):
            session.step(BAD)
        observation, info = session.reset("medium-task-1")
        assert observation["task_id"] == "medium-task-1" and observation["step_count"] == 0
        assert len(info["diff"]) == 2
        observation, reward, terminated, truncated, info = session.step(BAD)
        assert observation["operation_result"]["error"]["code"] == "NotAllowed"
        assert (reward, terminated, truncated) == (0, False, False)
        for action in session.solution():
            observation, reward, terminated, truncated, info = session.step(action)
        assert (reward, terminated, truncated, info["diff"]) == (0.99, True, False, [])
        observation, *_ = session.step(BAD)
        assert observation["operation_result"]["error"]["code"] == "EpisodeOver"


def test_an_episode_is_cut_at_its_limit_of_steps() -> None:
    with CloudEnvSession() as session:
        session.reset("easy-task-1")
        seen = [session.step(BAD)[2:4] for _ in range(31)]
        assert seen[:29] == [(False, False)] * 29 and seen[29:] == [(False, True)] * 2


def test_a_seed_completes_a_generated_task() -> None:
    with CloudEnvSession() as session:
        first, _ = session.reset("gen:medium", seed=3)
        second, _ = session.reset("gen:medium:3")
        other, _ = session.reset("gen:medium", seed=4)
    assert first == second and first["current_pipeline_state"] != other["current_pipeline_state"]
    with pytest.raises(PipelineError, match="unknown task"):
        session.reset("nothing")


def test_forks_go_their_own_ways(remote: RemoteSession) -> None:
    remote.reset("hard-task-1")
    solution = remote.solution()
    start = remote.step(solution[0])
    twins = [remote.fork() for _ in range(3)]
    assert len({remote.pid, *(twin.pid for twin in twins)} - {None}) == 4
    for number, twin in enumerate(twins):
        observation, *_ = twin.step(
            {"service": "s3", "operation": "CreateBucket", "payload": {"Bucket": f"bucket-{number}"}}
        )
        names = set(observation["current_pipeline_state"])
        assert names - set(start[0]["current_pipeline_state"]) == {f"s3:bucket-{number}"}
    grandchild = twins[0].fork()
    twins[0].close()
    observation, *_ = grandchild.step(
        {"service": "s3", "operation": "DeleteBucket", "payload": {"Bucket": "bucket-0"}}
    )
    assert observation["current_pipeline_state"] == start[0]["current_pipeline_state"]
    for action in solution[1:]:
        *_, reward, terminated, _, _ = grandchild.step(action)
    assert (reward, terminated) == (0.99, True)
    assert remote.step(BAD)[0]["current_pipeline_state"] == start[0]["current_pipeline_state"]
    for session in (*twins, grandchild):
        session.close()
    with pytest.raises(RuntimeError, match="closed"):
        grandchild.step(BAD)


def test_a_remote_session_answers_like_one_in_process(remote: RemoteSession) -> None:
    with CloudEnvSession() as here:
        assert list(here.reset("hard-worker")) == list(remote.reset("hard-worker"))
        actions = [BAD, {"service": "s3", "operation": "PutObject", "payload": {"Bucket": "b", "Body": b"x"}}]
        for action in actions + here.solution():
            assert list(here.step(action)) == list(remote.step(action))
    with pytest.raises(PipelineError, match="unknown task"):
        remote.reset("nothing")


def test_a_process_with_threads_or_an_endpoint_is_not_forked() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    with CloudEnvSession() as session:
        session.reset("easy-task-1")
        with pytest.raises(RuntimeError, match="spawn"):
            session.fork()
    stop.set()
    thread.join()
    with pytest.raises(RuntimeError, match="not the emulator at"):
        CloudEnvSession(HttpBackend("http://127.0.0.1:1")).fork()


def test_nothing_is_left_of_closed_forks() -> None:
    code = (
        "import os\n"
        "from cloudenv.session import CloudEnvSession\n"
        "session = CloudEnvSession(); session.reset('easy-task-1')\n"
        "twins = [session.fork() for _ in range(4)]\n"
        "fds = len(os.listdir('/proc/self/fd'))\n"
        "action = {'service': 's3', 'operation': 'ListBuckets'}\n"
        "for twin in twins: assert twin.step(action)[0]['step_count'] == 1\n"
        "for twin in reversed(twins): twin.close()\n"
        "assert len(os.listdir('/proc/self/fd')) == fds - 4\n"
        "try: os.waitpid(-1, 0)\n"
        "except ChildProcessError: print('none left')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(DOCS.parents[1])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert run.stdout == "none left\n", run.stderr


def test_the_tools_for_trl_solve_a_task() -> None:
    """As TRL uses them: reset with the columns of a row, then public methods as tools, then the reward."""
    tools = CloudEnvTools()
    told = tools.reset(task="easy-task-1", prompt=[{"role": "user", "content": "?"}])
    assert "plain http" in told and '"s3:bucket_1"' in told
    assert "NotAllowed" in tools.aws("s3", "DropEverything", {})
    assert "PutBucketPolicy" in tools.operations("s3")
    assert tools.get_reward() < 0.5
    for action in tools._session.solution():
        answer = tools.aws(action["service"], action["operation"], action["payload"])
    assert '"done": true' in answer and tools.get_reward() == 0.99
    with pytest.raises(ValueError, match="over"):
        tools.aws("s3", "ListBuckets", {})
    assert tools.reset(task="gen:easy", seed=2) != told and tools.get_reward() == 0


def test_the_tools_are_typed_and_described_as_trl_wants_them() -> None:
    public = {n: f for n, f in inspect.getmembers(CloudEnvTools, inspect.isfunction) if not n.startswith("_")}
    assert set(public) == {"reset", "get_reward", "aws", "operations", "state"}
    for name in ("aws", "operations", "state"):
        signature = inspect.signature(public[name])
        text = inspect.getdoc(public[name]) or ""
        for parameter in list(signature.parameters)[1:]:
            assert signature.parameters[parameter].annotation is not inspect.Parameter.empty
            assert f"{parameter}:" in text.partition("Args:")[2]
    schema = pytest.importorskip("transformers.utils").get_json_schema(CloudEnvTools().aws)["function"]
    assert schema["parameters"]["required"] == ["service", "operation", "payload"]
    assert schema["parameters"]["properties"]["payload"]["type"] == "object"


@pytest.mark.parametrize("page", ["session.md", "trl.md"])
def test_the_examples_of_the_docs_run(page: str) -> None:
    text = (DOCS / page).read_text()
    code: list[Any] = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    assert code
    env = {**os.environ, "PYTHONPATH": str(DOCS.parents[1])}
    for part in code:
        if "import trl" in part or "from trl" in part:
            pytest.importorskip("trl")
        run = subprocess.run([sys.executable, "-c", part], capture_output=True, text=True, env=env, timeout=300)
        assert run.returncode == 0, run.stderr
