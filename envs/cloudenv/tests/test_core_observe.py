"""What is re-read after a call is all that the call changed: the state equals a full read, whatever is called."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import pytest
from core_weaken import weaker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.observe import Observer
from cloudenv.server.managers.task import Task, load_task
from cloudenv.server.providers.aws.moto_backend import MotoBackend
from cloudenv.server.providers.aws.registry import SERVICES

FULL = os.environ.get("CLOUDRL_FULL") == "1"
BACKEND = MotoBackend()
TASKS = [
    "hard-task-1",
    "hard-dead-letters-audit",
    "hard-inbox-dead",
    "hard-network",
    "medium-server",
    "hard-log-delivery",
    "hard-lost-events",
    "hard-rotation-stuck",
    "medium-silent-trail",
    "hard-failover-unheard",
]


def _full(episode: Episode) -> dict[Any, Any]:
    """The state by a full read of every service there is."""
    everything = Observer(episode._account, SERVICES)
    everything.read_all()
    return everything.state


@cache
def _actions(name: str) -> list[dict[str, Any]]:
    """Calls that matter to a task: its solution, weaker forms of it, what leads back, deletions, extras."""
    task = load_task(name)
    episode = Episode("e", task, backend=BACKEND)
    back = Episode("e", Task("t", broken=task.ideal, ideal=task.broken), backend=BACKEND)
    calls = episode.solution() + back.solution()
    weak = [{**c, "payload": p} for c in calls for _, p in list(weaker(c, []))[:4]]
    deletes = [
        {"service": n.type.service, "operation": n.type.delete_op, "payload": n.type.delete(n.name)}
        for n in task.ideal_graph
    ]
    creates = [
        {"service": n.type.service, "operation": n.type.create_op, "payload": n.type.create(n.name, {})}
        for n in task.ideal_graph
    ]
    empty = [{"service": c["service"], "operation": c["operation"], "payload": {}} for c in creates + deletes]
    episode.close()
    back.close()
    return [*calls, *weak, *deletes, *creates, *empty]


@settings(
    max_examples=60 if FULL else 8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=not FULL
)
@given(data=st.data())
@pytest.mark.parametrize("name", TASKS)
def test_the_state_equals_a_full_read(name: str, data: st.DataObject) -> None:
    episode = Episode("e", load_task(name), backend=BACKEND)
    try:
        for action in data.draw(st.lists(st.sampled_from(_actions(name)), min_size=3, max_size=10)):
            outcome = episode.act(**action)
            assert episode._now.state == _full(episode), action
            assert 0 <= outcome.reward <= 0.95 or outcome.done
    finally:
        episode.close()


def test_side_effects_on_other_resources_are_seen() -> None:
    """A function goes: its triggers and its name on a queue go with it; a group goes from a rule."""
    episode = Episode("e", load_task("hard-dead-letters-audit"), backend=BACKEND)
    function = next(n for n in episode.task.ideal_graph if n.type.service == "lambda")
    outcome = episode.act("lambda", "DeleteFunction", {"FunctionName": function.name})
    assert outcome.state["lambda:function_1"] == []
    assert {d["kind"] for d in outcome.diff if d["resource"] == "lambda:function_1"} == {"missing"}
    for action in episode.solution():
        outcome = episode.act(**action)
    assert outcome.done
    episode.close()


def test_reads_cost_no_second_look() -> None:
    """A call that changes nothing is followed by no other; a change is, by those of its properties only."""
    episode = Episode("e", load_task("hard-task-1"), backend=BACKEND)
    calls: list[str] = []
    inner = episode._account.backend.call

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(BACKEND, name)

        def call(self, account: str, service: str, operation: str, payload: Any) -> Any:
            calls.append(operation)
            return inner(account, service, operation, payload)

    episode._account.backend = Counting()  # type: ignore[assignment]
    episode.act("s3", "ListBuckets", {})
    assert calls == ["ListBuckets"]
    calls.clear()
    episode.act(
        "s3", "PutBucketVersioning", {"Bucket": "uploads", "VersioningConfiguration": {"Status": "Suspended"}}
    )
    assert calls == ["PutBucketVersioning", "GetBucketVersioning"]
    episode.close()


def test_outcomes_are_json(tmp_path: Any) -> None:
    episode = Episode("e", load_task("hard-worker"), backend=BACKEND)
    for action in _actions("hard-dead-letters-audit")[:20]:
        json.dumps(vars(episode.act(**action)))
    episode.close()
