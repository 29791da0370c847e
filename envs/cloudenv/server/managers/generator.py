"""Generated tasks: `gen:<level>:<seed>` breaks a template. The same name is the same task, for ever.

A choice among more templates would give every old name another task. So which templates there are is part of the
name: `gen` has those of version 1, `gen2` all of today. Templates added later make a `gen3`.
"""

from __future__ import annotations

import random
import re
from typing import Any

from ..providers.aws.capabilities import UNREPAIRABLE
from ..providers.aws.errors import PipelineError
from .corruption import Pick, corrupt, menu
from .graph import parse_graph
from .task import LEVELS, MAX_STEPS, Task
from .templates import TEMPLATES, Names

NUMBER = {"easy": 1, "medium": 2, "hard": 4}
"""Faults of a task, by level; hard ones may be of any kind, easy ones only of the easy kind."""

_FIRST = (
    "analyst",
    "archive",
    "bucket",
    "events",
    "groups",
    "inbox",
    "ingest",
    "pair",
    "queue",
    "server",
    "worker",
)
VERSIONS = {
    "gen": _FIRST,
    "gen2": (*_FIRST, "audit", "database", "fanout", "nightly", "sessions"),
}
"""Names of templates by the first word of a task's name; their order counts, and none of it ever changes"""

_NEVER = {fault for faults in UNREPAIRABLE.values() for fault in faults}
"""A generated task is the same on every emulator"""

_NAME = re.compile(r"(gen2?):(easy|medium|hard):(\d{1,9})")


def is_generated(name: str) -> bool:
    """Whether a name is meant for a generated task."""
    return name.partition(":")[0] in VERSIONS


def generate_task(name: str) -> Task:
    """The task of this name; raises PipelineError for a name of another form."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise PipelineError(f"{name[:120]!r} is not of the form <gen or gen2>:<{'|'.join(LEVELS)}>:<seed>")
    version, level = match[1], match[2]
    rng = random.Random(name)
    allowed = LEVELS[: LEVELS.index(level) + 1]
    while True:
        template = TEMPLATES[rng.choice(VERSIONS[version])]
        ideal = template.make(Names(rng))
        graph = parse_graph(ideal)
        if graph.missing_in("moto"):  # a generated task is the same on every emulator, and moto is the default one
            continue
        choice = [p for p in menu(graph) if p.fault.level in allowed and p.fault.id not in _NEVER]
        picks = draw(choice, NUMBER[level], rng)
        if len(picks) == NUMBER[level]:
            break
    return Task(
        id=name,
        broken=corrupt(graph, picks, rng),
        ideal=ideal,
        level=level,
        title=f"{template.name}: {', '.join(pick.fault.title for pick in picks)}",
        instruction=instruction(template.purpose, len(picks)),
        faults=tuple(pick.to_json() for pick in picks),
        max_steps=MAX_STEPS,
    )


def draw(choice: list[Pick], number: int, rng: random.Random) -> list[Pick]:
    """So many picks, no two on one property."""
    rng.shuffle(choice)
    picks: dict[Any, Pick] = {}
    for pick in choice:
        if len(picks) < number:
            picks.setdefault((pick.resource, pick.property), pick)
    return list(picks.values())


def instruction(purpose: str, number: int) -> str:
    """What an agent is told: what the pipeline is for, not what is broken."""
    what = "One thing is" if number == 1 else f"{number} things are"
    start = "This pipeline should be" if purpose.startswith(("a ", "an ")) else "In this pipeline,"
    return (
        f"{start} {purpose}. {what} broken: a security control, or the wiring between the resources. Find it in "
        "the state and repair it with AWS API calls. Leave everything else as it is."
    )
