"""`python -m cloudenv.inference` against a real CloudEnv server and a scripted OpenAI-compatible one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import serve
from fastapi import FastAPI, Request
from play import BROKEN, FIX, IDEAL

from cloudenv.agents import NoAction, parse_action
from cloudenv.inference import LoopGuard, find_tasks, main, solution
from cloudenv.models import CloudEnvAction, CloudEnvObservation
from cloudenv.server.managers.task import Task, load_task

TASK = Task("scripted", BROKEN, IDEAL, title="Versioning")
FIXED = json.dumps({"service": "s3", "operation": "PutBucketVersioning", "payload": FIX})
READ = json.dumps({"service": "s3", "operation": "GetBucketVersioning", "payload": {"Bucket": "data"}})


@contextmanager
def scripted(reply: Callable[[int], str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A chat API that says reply(0), reply(1), ...; (its base URL, the requests it got)."""
    app, asked = FastAPI(), []

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> dict[str, Any]:
        asked.append({**await request.json(), "authorization": request.headers.get("authorization")})
        message = {"role": "assistant", "content": reply(len(asked) - 1)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}

    with serve(app) as url:
        yield f"{url}/v1", asked


@pytest.fixture
def command(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """command(*flags, **variables) -> (exit code, stdout, stderr); transcripts lie in tmp_path."""
    task_file = tmp_path / "task.json"
    task_file.write_text(json.dumps(TASK.to_json()))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MODEL_NAME", "MAX_STEPS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SERVER_URL", url)
    monkeypatch.setenv("TASK_NAME", str(task_file))
    monkeypatch.chdir(tmp_path)

    def run(*flags: str, **variables: str) -> tuple[int, str, str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        try:
            main(list(flags))
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    yield run
    httpx.delete(f"{url}/api/pipelines/scripted")


def transcript(folder: Path, agent: str = "llm", task: str = "scripted") -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (folder / "transcripts" / f"{task}.{agent}.jsonl").read_text().splitlines()
    ]


def test_a_model_repairs_a_task(command: Any, tmp_path: Path) -> None:
    replies = ["Let me look first.\n```json\n" + READ + "\n```", FIXED]
    with scripted(lambda k: replies[k]) as (api, asked):
        code, out, err = command(OPENAI_BASE_URL=api, MODEL_NAME="tiny", OPENAI_API_KEY="sk-secret-key")
    assert code == 0, err
    (row,) = [line.split() for line in out.splitlines() if line.startswith("scripted")]
    assert row[1:5] == ["2", "0", "0.990", "yes"] and "repaired" in out
    assert [request["model"] for request in asked] == ["tiny", "tiny"]
    assert asked[0]["authorization"] == "Bearer sk-secret-key"
    last = asked[1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    assert "GetBucketVersioning" in last[-1]["content"] and '"versioning": false' in last[-1]["content"]
    lines = transcript(tmp_path)
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert lines[-1]["observation"]["done"] is True and lines[1]["reply"].startswith("Let me look")
    said = out + err + "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert "sk-secret-key" not in said


@pytest.mark.parametrize(
    ("reply", "reason", "steps"),
    [
        (lambda k: READ, "the same action 3 times", 3),
        (lambda k: READ.replace("data", f"other-{k}"), "no change", 9),
        (lambda k: "I cannot do that.", "no action in the reply", 0),
        (lambda k: '{"operation": 3}', "no action in the reply", 0),
    ],
)
def test_a_model_that_runs_in_circles_is_stopped(reply: Any, reason: str, steps: int, command: Any) -> None:
    with scripted(reply) as (api, _):
        code, out, _err = command(OPENAI_BASE_URL=api, MODEL_NAME="tiny")
    assert code == 0 and reason in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("scripted")]
    assert row[1] == str(steps) and row[4] == "no"


def test_a_model_is_told_what_is_wrong_with_its_reply(command: Any) -> None:
    replies = ["hm", FIXED]
    with scripted(lambda k: replies[k]) as (api, asked):
        code, out, _ = command(OPENAI_BASE_URL=api, MODEL_NAME="tiny")
    assert code == 0 and "repaired" in out
    assert "no JSON object" in asked[1]["messages"][-1]["content"]


def test_max_steps(command: Any) -> None:
    with scripted(lambda k: READ) as (api, _):
        _, out, _ = command(OPENAI_BASE_URL=api, MODEL_NAME="tiny", MAX_STEPS="2")
    assert "no steps left" in out


def test_solution_random_and_noop_need_no_model(command: Any, tmp_path: Path) -> None:
    code, out, _ = command("--agent", "solution", "--tasks", "gen:easy:1,gen:medium:2")
    assert code == 0 and "2/2" in out
    assert transcript(tmp_path, "solution", "gen_easy_1")[-1]["observation"]["reward"] == 0.99
    code, out, _ = command("--agent", "noop", MAX_STEPS="3")
    assert code == 0 and "0/1" in out and "no steps left" in out
    first = command("--agent", "random", "--seed", "4", MAX_STEPS="5")[0], transcript(tmp_path, "random")
    again = command("--agent", "random", "--seed", "4", MAX_STEPS="5")[0], transcript(tmp_path, "random")
    assert [line.get("action", {}).get("operation") for line in first[1]] == [
        line.get("action", {}).get("operation") for line in again[1]
    ]


def test_the_pipeline_is_registered_once_and_another_one_of_its_name_is_refused(command: Any, url: str) -> None:
    assert command("--agent", "solution")[0] == 0
    assert httpx.get(f"{url}/api/pipelines/scripted").json()["title"] == "Versioning"
    assert command("--agent", "solution")[0] == 0  # it is there, and the same
    httpx.delete(f"{url}/api/pipelines/scripted")
    other = {**TASK.to_json(), "pipeline_id": "scripted", "broken_pipeline": IDEAL}
    httpx.post(f"{url}/api/pipelines", json=other)
    code, _, err = command("--agent", "solution")
    assert code == 1 and "another pipeline 'scripted'" in err


WRONG: dict[str, tuple[list[str], dict[str, str], str]] = {
    "no model named": ([], {}, "MODEL_NAME"),
    "no key and no server": ([], {"MODEL_NAME": "m"}, "OPENAI_API_KEY"),
    "a model that does not answer": (
        [],
        {"MODEL_NAME": "m", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        "127.0.0.1:9",
    ),
    "a server that does not answer": (["--agent", "noop", "--server", "http://127.0.0.1:9"], {}, "SERVER_URL"),
    "a task that does not exist": (["--agent", "noop", "--tasks", "no-such-task"], {}, "no-such-task"),
    "a file that is no task": (["--agent", "noop", "--tasks", "bad.json"], {}, "bad.json"),
    "steps that are no number": (["--agent", "noop"], {"MAX_STEPS": "many"}, "MAX_STEPS"),
    "no task": (["--agent", "noop", "--tasks", ","], {}, "no task"),
    "transcripts where none can be": (["--agent", "noop", "--transcripts", "bad.json/x"], {}, "bad.json"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_exit_code_1(case: str, command: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"task_id": "x"}')
    flags, variables, word = WRONG[case]
    code, out, err = command(*flags, **variables)
    assert (code, out) == (1, "") and word in err
    assert len(err.splitlines()) == 1 and err.startswith("cloudenv: ")
    assert not list((tmp_path / "transcripts").glob("*")) if (tmp_path / "transcripts").exists() else True


def test_the_solution_repairs_every_level() -> None:
    for level in ("easy", "medium", "hard"):
        assert solution(load_task(f"gen:{level}:3"))


def test_a_task_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TASK.to_json()))
    assert find_tasks(f"{path},gen:easy:1") == [TASK, load_task("gen:easy:1")]


@pytest.mark.parametrize(
    "reply",
    [
        FIXED,
        f"Sure! {FIXED} Done.",
        f"```json\n{FIXED}\n```",
        '{"thought": "x"} then ' + FIXED,
        "{" + FIXED,
        "{x} " + FIXED,
    ],
)
def test_an_action_is_found_in_what_a_model_says(reply: str) -> None:
    assert parse_action(reply) == CloudEnvAction(service="s3", operation="PutBucketVersioning", payload=FIX)


@pytest.mark.parametrize("reply", ["", "{", "{}", "[1]", '{"operation": ""}', '{"operation": "X"}', "{" * 5000])
def test_what_is_no_action(reply: str) -> None:
    with pytest.raises(NoAction):
        parse_action(reply)


def test_the_loop_guard_lets_progress_pass() -> None:
    guard = LoopGuard()
    for k in range(20):
        action = CloudEnvAction(service="s3", operation="X", payload={"k": k})
        assert guard.problem(action, CloudEnvObservation(current_pipeline_state={"k": k // 4})) == ""
