"""Let an agent repair tasks on a CloudEnv server.

    TASK_NAME=easy-task MODEL_NAME=... OPENAI_BASE_URL=http://localhost:8080/v1 python -m cloudenv.inference
    python -m cloudenv.inference --agent solution --tasks easy-task-1,hard-task-1
    python -m cloudenv.inference --agent random --tasks all

A task is a name (`easy-task-1`, `gen:easy:7`), the name of a file in cloudenv/tasks (`easy-task`), or a path to
such a file; several are separated by commas, and `all` means every task that comes with the package. A transcript,
one JSON object a line, is written for each.

Environment: TASK_NAME (default easy-task), SERVER_URL (http://localhost:8000), MODEL_NAME, MAX_STEPS (the task's
own), and for the model's API those of the openai package: OPENAI_BASE_URL, OPENAI_API_KEY. Flags come first.
Exit code: 0 when every task was played, solved or not; 1 for wrong input, or when server or model does not answer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from .agents import Agent, AgentError, ModelAgent, NoAction, NoopAgent, RandomAgent, SolutionAgent
from .client import MyEnv
from .models import CloudEnvAction, CloudEnvObservation
from .server.managers.task import FOLDER, Task, list_tasks, load_task
from .server.providers.aws.services import AWSService

MOST_REPEATS = 3
"""The same action so often in a row ends the episode."""
MOST_STALLS = 8
"""So many actions in a row that change nothing end the episode."""
MOST_GARBLED = 3
"""So many replies in a row without an action in them end the episode."""
AGENTS = ("llm", "solution", "random", "noop")


class InferenceError(Exception):
    """What a person can mend, in one line."""


@dataclass
class Played:
    """How one task went."""

    task: str
    steps: int = 0
    errors: int = 0
    reward: float = 0.0
    done: bool = False
    why: str = ""
    """Why it stopped"""
    seconds: float = 0.0


# ---------------------------------------------------------------------------------------------------- tasks
def find_tasks(names: str) -> list[Task]:
    """The tasks that a list of names means. Raises InferenceError."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if wanted == ["all"]:
        wanted = list_tasks()
    if not wanted:
        raise InferenceError("no task: say --tasks or TASK_NAME")
    return [find_task(name) for name in wanted]


def find_task(name: str) -> Task:
    """One task by its id, its file's name or its file's path. Raises InferenceError."""
    path = next((p for p in (FOLDER / f"{name}.json", Path(name)) if p.suffix == ".json" and p.is_file()), None)
    try:
        return load_task(name) if path is None else Task.from_json(json.loads(path.read_text()))
    except ValueError as error:  # PipelineError and JSONDecodeError are ones
        raise InferenceError(f"task {name}: {error}") from None


def register_pipeline(server: str, task: Task) -> None:
    """Create and materialize the task on the server, unless it has this very one. Raises InferenceError."""
    url = f"{server}/api/pipelines"
    try:
        there = httpx.get(f"{url}/{task.id}", timeout=60.0)
        if there.status_code == 200:
            same = (there.json()["broken_pipeline"], there.json()["ideal_pipeline"]) == (task.broken, task.ideal)
            if same:
                return
            if not there.json()["built_in"]:
                raise InferenceError(f"{server} has another pipeline {task.id!r}; remove it, or rename yours")
        made = httpx.post(url, json={"pipeline_id": task.id, **task.to_json()}, timeout=120.0)
    except httpx.HTTPError as error:
        raise InferenceError(
            f"SERVER_URL={server} does not answer ({error}); python -m cloudenv.server.app"
        ) from None
    if made.status_code != 201:
        raise InferenceError(f"{server} refused the pipeline {task.id!r}: {_problem(made)}")


def _problem(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"


# ---------------------------------------------------------------------------------------------------- playing
class LoopGuard:
    """Notices an agent that runs in circles: the same action again, or a pipeline that does not change."""

    def __init__(self) -> None:
        self._last: tuple[str, str] = ("", "")
        self._repeats = self._stalls = 0

    def problem(self, action: CloudEnvAction, seen: CloudEnvObservation) -> str:
        """Why to stop after this action and what it led to; empty: go on."""
        act = action.model_dump_json(include={"service", "operation", "payload"})
        state = json.dumps(seen.current_pipeline_state, sort_keys=True, default=str)
        self._repeats = self._repeats + 1 if act == self._last[0] else 1
        self._stalls = self._stalls + 1 if state == self._last[1] else 0
        self._last = (act, state)
        if self._repeats >= MOST_REPEATS:
            return f"the same action {self._repeats} times"
        return f"no change in {self._stalls} steps" if self._stalls >= MOST_STALLS else ""


def play(env: MyEnv, task: Task, agent: Agent, max_steps: int, note: Callable[[dict[str, Any]], None]) -> Played:
    """One episode. `note` takes the lines of the transcript."""
    played, begun = Played(task.id), time.perf_counter()
    env.reset()
    first = CloudEnvAction(
        episode_id=f"{task.id}-{uuid4().hex[:8]}",
        task_id=task.id,
        service=AWSService.INTERNAL,
        operation="InitializeEnvironment",
    )
    seen = env.step(first).observation
    note({"step": 0, "task": task.id, "observation": seen.model_dump(mode="json")})
    if failed := seen.operation_result.get("error"):
        raise InferenceError(f"task {task.id} did not start: {failed['code']}: {failed['message']}")
    guard, garbled = LoopGuard(), 0
    while not played.why:
        if played.steps + garbled >= max_steps:
            played.why = "no steps left"
            break
        try:
            action = agent.act(seen)
        except NoAction as error:
            garbled += 1
            note({"step": played.steps, "reply": agent.reply, "problem": str(error)})
            seen = seen.model_copy(update={"operation_result": {"status": "ERROR", "error": str(error)}})
            played.why = "no action in the reply" if garbled >= MOST_GARBLED else ""
            continue
        if action is None:
            played.why = "the agent stopped"
            break
        garbled = 0
        action.episode_id, action.task_id = first.episode_id, task.id
        seen = env.step(action).observation
        played.steps += 1
        played.errors += seen.operation_result.get("status") == "ERROR"
        note(
            {
                "step": played.steps,
                "reply": agent.reply,
                "action": action.model_dump(mode="json", exclude={"metadata"}),
                "observation": seen.model_dump(mode="json"),
            }
        )
        if seen.done:
            played.why = "repaired"
        elif seen.truncated:
            played.why = "no steps left"
        elif agent.guarded:
            played.why = guard.problem(action, seen)
    played.reward, played.done = float(seen.reward or 0.0), seen.done
    played.seconds = time.perf_counter() - begun
    return played


# ---------------------------------------------------------------------------------------------------- agents
def make_agent(kind: str, task: Task, model: str | None, seed: int) -> Agent:
    """A fresh agent for one task. Raises InferenceError."""
    if kind == "solution":
        return SolutionAgent(solution(task))
    if kind == "random":
        return RandomAgent(seed)
    if kind == "noop":
        return NoopAgent()
    if not model:
        raise InferenceError(
            "MODEL_NAME is not set; it names the model to ask (or use --agent solution|random|noop)"
        )
    from openai import OpenAI, OpenAIError

    try:
        # A local server wants no key, the package insists on one.
        return ModelAgent(OpenAI(api_key=os.environ.get("OPENAI_API_KEY") or _no_key(), max_retries=1), model)
    except OpenAIError as error:
        raise InferenceError(f"model API: {error}") from None


def _no_key() -> str | None:
    return "none" if os.environ.get("OPENAI_BASE_URL") else None


def solution(task: Task) -> list[dict[str, Any]]:
    """The calls that repair a task, worked out on an emulator in this process."""
    from .server.managers.episode import Episode

    episode = Episode("solution", task)
    try:
        return episode.solution()
    finally:
        episode.close()


# ---------------------------------------------------------------------------------------------------- command
def table(rows: Sequence[Played]) -> str:
    """Per task and in all."""
    header = ["task", "steps", "errors", "reward", "done", "seconds", "stopped because"]
    cells = [
        [
            p.task,
            str(p.steps),
            str(p.errors),
            f"{p.reward:.3f}",
            "yes" if p.done else "no",
            f"{p.seconds:.1f}",
            p.why,
        ]
        for p in rows
    ]
    mean = sum(p.reward for p in rows) / len(rows)
    total = [
        f"{len(rows)} tasks",
        str(sum(p.steps for p in rows)),
        str(sum(p.errors for p in rows)),
        f"{mean:.3f}",
    ]
    cells.append([*total, f"{sum(p.done for p in rows)}/{len(rows)}", f"{sum(p.seconds for p in rows):.1f}", ""])
    widths = [max(len(row[k]) for row in [header, *cells]) for k in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *cells]]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def run(args: argparse.Namespace) -> list[Played]:
    """Play every task. Raises InferenceError."""
    server, rows = args.server.rstrip("/"), []
    tasks = find_tasks(args.tasks)
    agents = [make_agent(args.agent, task, args.model, args.seed) for task in tasks]
    folder = Path(args.transcripts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InferenceError(f"--transcripts {folder}: {error.strerror}") from None
    for task, agent in zip(tasks, agents):
        register_pipeline(server, task)
        name = task.id.replace(":", "_")
        path, part = folder / f"{name}.{args.agent}.jsonl", folder / f".{name}.{args.agent}.part"
        with part.open("w", buffering=1) as lines, MyEnv(base_url=server) as env:

            def note(line: dict[str, Any]) -> None:
                lines.write(json.dumps(line, default=str) + "\n")

            try:
                rows.append(play(env, task, agent, args.max_steps or task.max_steps, note))
            except (AgentError, ConnectionError, TimeoutError, RuntimeError) as error:
                raise InferenceError(f"task {task.id}: {error}") from None
            finally:
                if not rows or rows[-1].task != task.id:
                    part.unlink()
        part.replace(path)
        print(f"{task.id}: reward {rows[-1].reward:.3f}, {rows[-1].why}; transcript {path}", file=sys.stderr)
    return rows


def parse_args(argv: Sequence[str] | None, environ: Mapping[str, str]) -> argparse.Namespace:
    """Flags, with the variables of the environment as their defaults. Raises InferenceError for a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m cloudenv.inference",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    get = environ.get
    parser.add_argument("--agent", choices=AGENTS, default="llm")
    parser.add_argument("--tasks", default=get("TASK_NAME") or "easy-task")
    parser.add_argument("--server", default=get("SERVER_URL") or "http://localhost:8000")
    parser.add_argument("--model", default=get("MODEL_NAME"))
    parser.add_argument("--max-steps", type=int, default=_steps(get("MAX_STEPS")), help="default: the task's own")
    parser.add_argument("--transcripts", default="transcripts", metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=0, help="of the random agent")
    return parser.parse_args(argv)


def _steps(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise InferenceError(f"MAX_STEPS={text!r:.40} is not a whole number") from None


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    try:
        print(table(run(parse_args(argv, os.environ))))
    except InferenceError as error:
        print(f"cloudenv: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
