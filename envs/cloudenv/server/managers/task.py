"""Tasks: a broken pipeline, the ideal one, and what the agent is told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..providers.aws.errors import PipelineError
from ..providers.aws.registry import closest
from .graph import Graph, parse_graph

FOLDER = Path(__file__).resolve().parents[2] / "tasks"
LEVELS = ("easy", "medium", "hard")
MAX_STEPS = 30
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,119}")
_INSTRUCTION = "The pipeline is broken. Compare its state with what it is for, and repair it with AWS API calls."


@dataclass(frozen=True)
class Task:
    """A repair task. Both pipelines are in the json form of the pipeline API (graph.py).

    The id is the `task_id` of actions and the `pipeline_id` of the pipeline API.
    """

    id: str
    broken: Mapping[str, Any]
    ideal: Mapping[str, Any]
    level: str = "medium"
    title: str = ""
    instruction: str = _INSTRUCTION
    faults: tuple[Mapping[str, Any], ...] = ()
    """What was broken, where it is known: {"fault", "resource", "property", "controls", "title"}"""
    max_steps: int = MAX_STEPS

    @cached_property
    def broken_graph(self) -> Graph:
        return parse_graph(self.broken)

    @cached_property
    def ideal_graph(self) -> Graph:
        return parse_graph(self.ideal)

    def to_json(self) -> dict[str, Any]:
        return {
            "task_id": self.id,
            "level": self.level,
            "title": self.title,
            "instruction": self.instruction,
            "max_steps": self.max_steps,
            "faults": list(self.faults),
            "broken_pipeline": self.broken,
            "ideal_pipeline": self.ideal,
        }

    @staticmethod
    def from_json(data: Any) -> Task:
        """A task from its json form, or from the body of POST /api/pipelines; raises PipelineError."""
        if not isinstance(data, dict):
            raise PipelineError("a task is an object")
        task_id = data.get("task_id", data.get("pipeline_id"))
        if not isinstance(task_id, str) or not _ID.fullmatch(task_id):
            raise PipelineError("task_id must have 1 to 120 letters, digits and ._:-")
        for key in ("broken_pipeline", "ideal_pipeline"):
            if key not in data:
                raise PipelineError(f"{task_id}: {key} is missing")
        steps = data.get("max_steps", MAX_STEPS)
        if not isinstance(steps, int) or isinstance(steps, bool) or not 1 <= steps <= 1000:
            raise PipelineError(f"{task_id}: max_steps must be 1 to 1000")
        level = data.get("level", "medium")
        if level not in LEVELS:
            raise PipelineError(f"{task_id}: level must be one of {', '.join(LEVELS)}")
        task = Task(
            id=task_id,
            broken=data["broken_pipeline"],
            ideal=data["ideal_pipeline"],
            level=level,
            title=str(data.get("title", "")),
            instruction=str(data.get("instruction", _INSTRUCTION)),
            faults=tuple(data.get("faults", ())),
            max_steps=steps,
        )
        for key, side in (("broken_pipeline", "broken_graph"), ("ideal_pipeline", "ideal_graph")):
            try:
                getattr(task, side)
            except PipelineError as e:
                raise PipelineError(f"{key}: {e}") from None
        return task


def list_tasks() -> list[str]:
    """Ids of the tasks that come with the package, sorted."""
    return sorted(_files())


def load_task(name: str) -> Task:
    """A task of the package by its id, or a generated one (`gen:<level>:<seed>`); raises PipelineError."""
    if name.startswith("gen"):
        from .generator import generate_task, is_generated

        if is_generated(name):
            return generate_task(name)
    files = _files()
    if name not in files:
        raise PipelineError(f"unknown task {name[:120]!r}; {closest(name, files)}")
    return Task.from_json(json.loads(files[name].read_text()))


_found: dict[str, Path] = {}


def _files() -> dict[str, Path]:
    """File by task id; read once."""
    if not _found:
        for path in sorted(FOLDER.rglob("*.json")):
            _found[json.loads(path.read_text())["task_id"]] = path
    return _found
