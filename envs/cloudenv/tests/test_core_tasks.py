"""The task bank, the generator, and the scenarios of docs/api/Pipeline Tests, replayed from the documents."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.generator import NUMBER
from cloudenv.server.managers.task import FOLDER, Task, list_tasks, load_task
from cloudenv.server.providers.aws.errors import PipelineError
from cloudenv.server.providers.aws.moto_backend import MotoBackend

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = sorted((ROOT / "docs" / "api" / "Pipeline Tests").glob("*.md"))
BACKEND = MotoBackend()


def _script(name: str) -> ModuleType:
    folder = str(ROOT / "scripts")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(folder)


def test_the_files_are_what_the_script_writes() -> None:
    written = _script("make_tasks").files()
    here = {p: p.read_text() for p in [*FOLDER.glob("*.json"), *SCENARIOS, ROOT / "docs" / "faults.md"]}
    assert {p.name for p in written} == {p.name for p in here}
    for path, text in written.items():
        assert here[path] == text, f"{path.name} is out of date: run scripts/make_tasks.py"


def test_the_bank_has_every_level_and_the_tasks_of_the_readme() -> None:
    tasks = [load_task(name) for name in list_tasks()]
    assert len(tasks) >= 30
    assert {"easy-task-1", "medium-task-1", "hard-task-1"} <= {t.id for t in tasks}
    for name in ("easy-task", "medium-task", "hard-task"):
        assert json.loads((FOLDER / f"{name}.json").read_text())["task_id"] == f"{name}-1"
    for level in ("easy", "medium", "hard"):
        assert sum(t.level == level for t in tasks) >= 9
    assert len({json.dumps(t.broken, sort_keys=True) for t in tasks}) == len(tasks)
    for task in tasks:
        assert Task.from_json(task.to_json()) == task


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_a_scenario_replays_from_its_document(path: Path) -> None:
    requests = re.findall(r"^## (POST \S+)\n.*?^```json\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    bodies = [(route, json.loads(text)) for route, text in requests]
    assert [route for route, _ in bodies] == ["POST /api/pipelines"] + ["POST /step"] * (len(bodies) - 1)
    task = Task.from_json(bodies[0][1])
    assert len(bodies) >= 3
    episode = Episode("scenario", task, backend=BACKEND)
    outcome = episode.observe()
    for _, body in bodies[1:]:
        assert not outcome.done
        action = body["action"]
        assert action["task_id"] == task.id
        outcome = episode.act(action["service"], action["operation"], action["payload"])
        assert outcome.operation_result["status"] == "SUCCESS", outcome.operation_result
    assert (outcome.done, outcome.reward) == (True, 0.99)
    episode.close()


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
@pytest.mark.parametrize("seed", range(40 if os.environ.get("CLOUDRL_FULL") == "1" else 4))
def test_a_generated_task_is_broken_as_said_and_solvable(level: str, seed: int) -> None:
    task = load_task(f"gen:{level}:{seed}")
    assert load_task(f"gen:{level}:{seed}") == task
    assert len(task.faults) == NUMBER[level]
    episode = Episode("e", task, backend=BACKEND)
    found = {(d["resource"], d["property"]) for d in episode.diff()}
    assert found == {(f["resource"], f["property"]) for f in task.faults}
    for action in episode.solution():
        outcome = episode.act(**action)
        assert outcome.operation_result["status"] == "SUCCESS", (action, outcome.operation_result)
    assert (outcome.done, outcome.reward) == (True, 0.99)
    episode.close()


def test_generated_tasks_differ() -> None:
    tasks = [load_task(f"gen:hard:{seed}") for seed in range(20)]
    assert len({json.dumps(t.broken, sort_keys=True) for t in tasks}) == 20


@pytest.mark.parametrize(
    "name, told",
    [
        ("gen:easy", "not of the form"),
        ("gen:brutal:1", "not of the form"),
        ("gen:easy:-1", "not of the form"),
        ("easy-task-2", "did you mean 'easy-task-1'"),
        ("xyz", "there are \\d\\d, such as easy-.*hard-.*medium-"),
        ("../../etc/passwd", "unknown task"),
        ("", "unknown task"),
    ],
)
def test_an_unknown_task_is_an_error_that_helps(name: str, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        load_task(name)


GOOD: dict[str, Any] = {"s3:a": [{"service": "s3", "instance": "aaa"}]}


@pytest.mark.parametrize(
    "graph, told",
    [
        ([], "object"),
        ({"s3:a": [1]}, "s3:a"),
        ({"s4:a": [{"service": "s4"}]}, "unknown service 's4'"),
        ({"s3:a": [{"service": "s3", "instance": "aaa", "polices": []}]}, "did you mean 'policies'"),
        ({"s3:a": [{"service": "s3", "instance": "A_b"}]}, "bad instance"),
        ({"s3:a": [{"service": "s3", "instance": "aaa", "policies": "{"}]}, "s3:a: property 'policies'"),
        ({"s3:a": [{"service": "s3", "instance": "aaa", "policies": [{"Principal": 3}]}]}, "Principal"),
        ({"s3:a": [{"service": "s3", "instance": "aaa", "logging": {"bucket": "${s3:b.name}"}}]}, "does not have"),
        (
            {"s3:a": [{"service": "s3", "instance": "aaa", "encryption": "${s3:a.colour}"}]},
            "no attribute 'colour'",
        ),
        ({"ec2:a": [{"service": "ec2", "instance": "aaa", "kind": "vpc"}]}, "unknown kind 'vpc'"),
        ({**GOOD, "s3:b": [{"service": "s3", "instance": "aaa"}]}, "same service, kind and instance"),
        ({"sqs:a": [{"service": "sqs:a", "visibility_timeout": {"$at_least": "x"}}]}, "visibility_timeout"),
        ({f"sqs:q{i}": [{"service": "sqs"}] for i in range(51)}, "50 is the limit"),
        ({"sqs:a": [{"service": "sqs:a", "policies": ["x" * 300_000]}]}, "larger than 256 kB"),
    ],
)
def test_a_wrong_pipeline_is_an_error_that_says_where(graph: Any, told: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(told)):
        Task.from_json({"task_id": "t", "broken_pipeline": graph, "ideal_pipeline": GOOD})


_PLAY = """
import json, sys
from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.task import load_task
for name in ("hard-worker", "hard-network"):
    episode = Episode("e", load_task(name))
    reads = [("s3", "ListBuckets", {}), ("s3", "CreateBucket", {}), ("ec2", "DescribeSecurityGroups", {}),
             ("sqs", "CreateQueue", {}), ("iam", "CreateRole", {}), ("iam", "ListRoles", {}),
             ("lambda", "ListFunctions", {}), ("lambda", "CreateFunction", {}), ("dynamodb", "CreateTable", {}),
             ("ec2", "CreateSecurityGroup", {}), ("ec2", "RunInstances", {}), ("ec2", "DescribeInstances", {})]
    for action in reads + [tuple(a.values()) for a in episode.solution()]:
        print(json.dumps(vars(episode.act(*action)), sort_keys=True))
    episode.close()
"""


def test_the_same_task_reads_the_same_in_every_process() -> None:
    """Byte for byte, outputs of calls included: no time, no random id, no account, no order of a set."""
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(_PLAY, {})
    run = subprocess.run(
        [sys.executable, "-c", _PLAY],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT.parent)},
    )
    assert run.stdout.count('"SUCCESS"') > 20
    assert run.stdout.splitlines() == here.getvalue().splitlines()
