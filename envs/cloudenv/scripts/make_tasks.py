"""Write the task bank (tasks/*.json), the scenarios (docs/api/Pipeline Tests/*.md) and the list of faults
(docs/faults.md).

    python scripts/make_tasks.py

The scenarios are recorded from real episodes. A test compares all with what stands in the repository.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from bank import BANK, Entry  # type: ignore[import-not-found]

from cloudenv.server.managers.corruption import Pick, corrupt, menu
from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.graph import parse_graph
from cloudenv.server.managers.task import Task
from cloudenv.server.managers.templates import TEMPLATES, Names
from cloudenv.server.providers.aws.controls import CONTROLS
from cloudenv.server.providers.aws.registry import SERVICES

ROOT = Path(__file__).resolve().parents[1]
TASKS, SCENARIOS = ROOT / "tasks", ROOT / "docs" / "api" / "Pipeline Tests"
FAULTS = ROOT / "docs" / "faults.md"

LEAVE = (
    "Find what is broken in the state of the pipeline, and repair it with AWS API calls. Leave the rest as it is."
)


class _SeedNames(Names):
    """The names of the tasks easy-task-1, medium-task-1 and hard-task-1: plain ones."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))

    def __call__(self, part: str) -> str:
        return part


def ideal_of(entry: Entry) -> dict[str, Any]:
    """The ideal pipeline of an entry, in its json form."""
    template = entry.template.removesuffix("-seed")
    if template == "seed":
        return _bucket_1()
    names = _SeedNames() if entry.template.endswith("-seed") else Names(random.Random(entry.names))
    return TEMPLATES[template].make(names)


def _bucket_1() -> dict[str, Any]:
    """The bucket of the README's examples."""
    text = json.dumps(TEMPLATES["bucket"].make(_SeedNames())["s3:bucket_1"][0]["policies"])
    return {"s3:bucket_1": [{"service": "s3", "instance": "bucket1", "policies": json.loads(text)}]}


def task_of(entry: Entry) -> Task:
    ideal = ideal_of(entry)
    graph = parse_graph(ideal)
    found = {(p.resource, p.fault.id): p for p in menu(graph)}
    picks: list[Pick] = [found[pair] for pair in entry.faults]
    template = entry.template.removesuffix("-seed")
    purpose = TEMPLATES.get(template, TEMPLATES["bucket"]).purpose
    return Task(
        id=entry.id,
        broken=corrupt(graph, picks, random.Random(entry.id)),
        ideal=ideal,
        level=entry.level,
        title=entry.title,
        instruction=f"The pipeline: {purpose}. {entry.told} {LEAVE}",
        faults=tuple(p.to_json() for p in picks),
    )


def scenario_of(task: Task) -> str:
    """Request bodies in order, with the reward that each ends in."""
    episode = Episode("scenario", task)
    try:
        solution = episode.solution()
        lines = [
            f"# {task.id}: {task.title}",
            "",
            task.instruction,
            "",
            "Every body is sent as it stands, in this order. The last answer has `done=true` and `reward=0.99`.",
            "",
        ]
        create = {
            "pipeline_id": task.id,
            "broken_pipeline": task.broken,
            "ideal_pipeline": task.ideal,
        }
        text = "The pipeline. It comes with CloudEnv, so this step may be left out."
        lines += _block("POST /api/pipelines", create, text)
        names = {"task_id": task.id, "episode_id": f"{task.id}-episode"}
        start = {"service": "internal", "operation": "InitializeEnvironment", "payload": {}, **names}
        lines += _block("POST /step", {"action": start}, "Starts the episode.")
        for call in solution:
            broken = "; ".join(d["text"] for d in episode.diff())
            outcome = episode.act(**call)
            told = f"Before: {broken}. After: `reward={outcome.reward}`, `done={str(outcome.done).lower()}`."
            lines += _block("POST /step", {"action": {**call, **names}}, told)
        return "\n".join(lines)
    finally:
        episode.close()


def _block(title: str, body: dict[str, Any], text: str) -> list[str]:
    return [f"## {title}", "", text, "", "```json", json.dumps(body, indent=2), "```", ""]


def fault_list() -> str:
    """Every fault by service, and the titles of the controls that they go against."""
    faults = [(t, p, f) for s in SERVICES.values() for t in s.types for p in t.properties for f in p.faults]
    lines = [
        "# Faults",
        "",
        f"{len(faults)} faults, from the descriptions of the services (written by `scripts/make_tasks.py`).",
        "The ids of controls are public ones, except WIRING.n: these are CloudEnv's own, for what no catalogue",
        "lists, a pipeline that is safe and does not work. Sources: `server/providers/aws/controls.py`.",
        "The level is the least of a generated task that has the fault.",
    ]
    for service in SERVICES.values():
        lines += [
            "",
            f"## {service.name}",
            "",
            "| fault | what is wrong | where | level | controls |",
            "|---|---|---|---|---|",
        ]
        for kind, prop, fault in faults:
            if kind.service == service.name:
                where = f"{kind.kind}.{prop.name}"
                controls = ", ".join(fault.controls)
                lines.append(f"| {fault.id} | {fault.title} | {where} | {fault.level} | {controls} |")
    lines += ["", "## Controls", "", "| id | title |", "|---|---|"]
    lines += [f"| {control} | {title} |" for control, title in CONTROLS.items()]
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Text by path of everything that this script writes."""
    out = {FAULTS: fault_list()}
    for entry in BANK:
        task = task_of(entry)
        name = {"easy-task-1": "easy-task", "medium-task-1": "medium-task", "hard-task-1": "hard-task"}
        out[TASKS / f"{name.get(entry.id, entry.id)}.json"] = json.dumps(task.to_json(), indent=2) + "\n"
        out[SCENARIOS / f"{entry.id}.md"] = scenario_of(task)
    return out


def main() -> None:
    written = files()
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(text)
        temporary.rename(path)
    for folder, pattern in ((TASKS, "*.json"), (SCENARIOS, "*.md")):
        for path in folder.glob(pattern):
            if path not in written:
                print(f"not from the bank: {path.relative_to(ROOT)}")
    print(f"{len(BANK)} tasks")


if __name__ == "__main__":
    main()
