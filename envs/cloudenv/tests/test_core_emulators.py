"""The same tasks on every emulator: moto in process, moto as a server, ministack. The rewards are identical."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from emulators import family, running

from cloudenv.server.managers.corruption import corrupt, menu
from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.graph import parse_graph
from cloudenv.server.managers.task import Task, list_tasks, load_task
from cloudenv.server.managers.templates import TEMPLATES, Names
from cloudenv.server.providers.aws.backend import Backend
from cloudenv.server.providers.aws.capabilities import UNREPAIRABLE, UNSUPPORTED, unrepairable
from cloudenv.server.providers.aws.errors import PipelineError
from cloudenv.server.providers.aws.moto_backend import MotoBackend

FULL = os.environ.get("CLOUDRL_FULL") == "1"
SAMPLE = ["easy-task-1", "medium-task-1", "hard-task-1", "hard-log-delivery", "hard-network", "medium-server"]
SAMPLE += [
    "hard-lost-events",
    "hard-rotation-stuck",
    "medium-silent-trail",
    "hard-no-report",
    "easy-cache-forgets",
]

MEDDLE = [  # a regression, an error of our own validation, one of the emulator, an extra
    ("s3", "CreateBucket", {"Bucket": "my-own-bucket"}),
    ("sqs", "SetQueueAttributes", {"QueueUrl": "nowhere", "Attributes": {"VisibilityTimeout": "99999"}}),
    ("sqs", "DeleteQueue", {"QueueUrl": "nowhere"}),
    ("iam", "PutRolePolicy", {"RoleName": "nobody", "PolicyName": "p", "PolicyDocument": "{}"}),
    ("lambda", "UpdateFunctionConfiguration", {"FunctionName": "nothing", "Timeout": 901}),
    ("ec2", "AuthorizeSecurityGroupIngress", {"GroupId": "sg-0", "IpPermissions": []}),
    ("s3", "DeleteBucket", {"Bucket": "my-own-bucket"}),
]


@pytest.fixture(scope="module", params=["moto-server", "ministack"])
def emulator(request: pytest.FixtureRequest) -> Iterator[tuple[str, Backend]]:
    with running(request.param) as backend:
        yield request.param, backend


def _graph(template: str) -> Any:
    return parse_graph(TEMPLATES[template].make(Names(random.Random(1))))


def _play(task: Task, backend: Backend) -> list[Any]:
    """What an agent sees of the rewards: of meddling, then of the solution."""
    episode = Episode("e", task, backend=backend)
    try:
        seen: list[Any] = [sorted((d["resource"], str(d["property"])) for d in episode.diff())]
        for action in [*MEDDLE, *(tuple(a.values()) for a in episode.solution())]:
            outcome = episode.act(*action)
            seen.append((outcome.operation_result["status"], outcome.reward, outcome.done))
        return seen
    finally:
        episode.close()
        if not isinstance(backend, MotoBackend):
            episode._now.read_all()
            assert episode._now.state == {}, "closing left something in the account"


@pytest.mark.parametrize("name", list_tasks() if FULL else SAMPLE)
def test_the_rewards_are_those_of_moto_in_process(name: str, emulator: tuple[str, Backend]) -> None:
    kind, backend = emulator
    task = load_task(name)
    if missing := task.ideal_graph.missing_in(family(kind)):
        with pytest.raises(PipelineError):  # the table must not be more cautious than the emulator
            Episode("e", Task("t", broken=task.ideal, ideal=task.ideal), backend=backend)
        pytest.skip(f"{kind} cannot: {missing[0]}")
    if never := unrepairable(kind, [f["fault"] for f in task.faults]):
        pytest.skip(f"{kind} cannot: {never[0]}")
    seen = _play(task, backend)
    assert seen == _play(task, MotoBackend())
    assert seen[-1] == ("SUCCESS", 0.99, True)


def _faults() -> list[Any]:
    cases, seen = [], set()
    for name in TEMPLATES:
        graph = _graph(name)
        for pick in menu(graph):
            if FULL or pick.fault.id not in seen:
                seen.add(pick.fault.id)
                cases.append(pytest.param(graph, pick, id=f"{pick.fault.id}-{name}-{pick.resource}"))
    return cases


@pytest.mark.full
@pytest.mark.skipif(not FULL, reason="every fault on every emulator: CLOUDRL_FULL=1")
@pytest.mark.parametrize("graph, pick", _faults())
def test_every_fault_is_broken_and_repaired_alike(graph: Any, pick: Any, emulator: tuple[str, Backend]) -> None:
    kind, backend = emulator
    if cannot := [*graph.missing_in(family(kind)), *unrepairable(kind, [pick.fault.id])]:
        pytest.skip(f"{kind} cannot: {cannot[0]}")
    task = Task("t", broken=corrupt(graph, [pick], random.Random(0)), ideal=graph.source)
    seen = _play(task, backend)
    assert seen[0] == [(pick.resource, pick.property)]
    assert seen[-1] == ("SUCCESS", 0.99, True)


@pytest.mark.parametrize("case", [(e, *what) for e, found in UNSUPPORTED.items() for what in found], ids=str)
def test_what_is_called_unsupported_really_is(case: tuple[str, str, str, str]) -> None:
    kind, service, resource, prop = case
    for graph in map(_graph, TEMPLATES):
        of_case = [n for n in graph if (n.type.service, n.type.kind) == (service, resource) and prop in n.wanted]
        if of_case:
            break
    else:
        pytest.fail(f"no template has {service} {resource} {prop}")
    only = {
        i: [{k: v for k, v in graph.source[i][0].items() if k in _kept(graph, i, of_case[0].id, prop)}]
        for i in graph.nodes
    }
    with running(kind) as backend, pytest.raises(PipelineError):
        episode = Episode("e", Task("t", broken=only, ideal=only), backend=backend)
        try:
            assert episode.diff()[0]["property"] == prop
            raise PipelineError("built, but it does not read back as declared")
        finally:
            episode.close()


@pytest.mark.parametrize("kind, fault", [(e, fault) for e, found in UNREPAIRABLE.items() for fault in found])
def test_what_is_called_unrepairable_really_is(kind: str, fault: str) -> None:
    found = ((graph, pick) for graph in map(_graph, TEMPLATES) for pick in menu(graph) if pick.fault.id == fault)
    graph, pick = next(found)
    task = Task("t", broken=corrupt(graph, [pick], random.Random(0)), ideal=graph.source)
    with running(kind) as backend:
        assert _play(task, backend)[-1] != ("SUCCESS", 0.99, True)


def _kept(graph: Any, node_id: str, of_case: str, prop: str) -> set[str]:
    """Properties of a resource without the other unsupported ones."""
    node = graph.nodes[node_id]
    bad = {
        p for found in UNSUPPORTED.values() for s, k, p in found if (s, k) == (node.type.service, node.type.kind)
    }
    return {"service", "instance", "kind", *node.wanted} - (bad - ({prop} if node_id == of_case else set()))
