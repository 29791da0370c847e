"""The same tasks on every emulator: moto in process, moto as a server, ministack. The rewards are identical.

ministack needs its own environment (it pins botocore): CLOUDENV_MINISTACK_PYTHON names that environment's Python.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloudenv.server.managers.corruption import corrupt, menu
from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.graph import parse_graph
from cloudenv.server.managers.task import Task, list_tasks, load_task
from cloudenv.server.managers.templates import TEMPLATES, Names
from cloudenv.server.providers.aws.backend import Backend, HttpBackend
from cloudenv.server.providers.aws.capabilities import UNSUPPORTED
from cloudenv.server.providers.aws.errors import PipelineError
from cloudenv.server.providers.aws.moto_backend import MotoBackend

FULL = os.environ.get("CLOUDRL_FULL") == "1"
PYTHON = os.environ.get("CLOUDENV_MINISTACK_PYTHON", "")
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


@contextmanager
def _emulator(kind: str) -> Iterator[Backend]:
    if kind == "moto":
        yield MotoBackend()
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if kind == "ministack":
        if not PYTHON:
            pytest.skip("CLOUDENV_MINISTACK_PYTHON does not name the Python of an environment with ministack")
        command = [str(Path(PYTHON).with_name("ministack"))]
        if not Path(command[0]).exists():
            pytest.skip(f"{command[0]} is not there: install ministack in that environment")
    else:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    env = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    }
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, f"{kind} ended at once"
            time.sleep(0.1)
        yield HttpBackend(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:  # moto's server does not always end when it is asked to
            process.kill()
            process.wait()


@pytest.fixture(scope="module", params=["moto-server", "ministack"])
def emulator(request: pytest.FixtureRequest) -> Iterator[tuple[str, Backend]]:
    with _emulator(request.param) as backend:
        yield ("moto" if request.param == "moto-server" else request.param), backend


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
    if missing := task.ideal_graph.missing_in(kind):
        with pytest.raises(PipelineError):  # the table must not be more cautious than the emulator
            Episode("e", Task("t", broken=task.ideal, ideal=task.ideal), backend=backend)
        pytest.skip(f"{kind} cannot: {missing[0]}")
    seen = _play(task, backend)
    assert seen == _play(task, MotoBackend())
    assert seen[-1] == ("SUCCESS", 0.99, True)


def _faults() -> list[Any]:
    cases, seen = [], set()
    for name, template in TEMPLATES.items():
        graph = parse_graph(template.make(Names(random.Random(1))))
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
    if graph.missing_in(kind):
        pytest.skip(f"{kind} cannot: {graph.missing_in(kind)[0]}")
    task = Task("t", broken=corrupt(graph, [pick], random.Random(0)), ideal=graph.source)
    seen = _play(task, backend)
    assert seen[0] == [(pick.resource, pick.property)]
    assert seen[-1] == ("SUCCESS", 0.99, True)


@pytest.mark.parametrize("case", [(e, *what) for e, found in UNSUPPORTED.items() for what in found], ids=str)
def test_what_is_called_unsupported_really_is(case: tuple[str, str, str, str]) -> None:
    kind, service, resource, prop = case
    for template in TEMPLATES.values():
        graph = parse_graph(template.make(Names(random.Random(1))))
        of_case = [n for n in graph if (n.type.service, n.type.kind) == (service, resource) and prop in n.wanted]
        if of_case:
            break
    else:
        pytest.fail(f"no template has {service} {resource} {prop}")
    only = {
        i: [{k: v for k, v in graph.source[i][0].items() if k in _kept(graph, i, of_case[0].id, prop)}]
        for i in graph.nodes
    }
    with _emulator(kind) as backend, pytest.raises(PipelineError):
        episode = Episode("e", Task("t", broken=only, ideal=only), backend=backend)
        try:
            assert episode.diff()[0]["property"] == prop
            raise PipelineError("built, but it does not read back as declared")
        finally:
            episode.close()


def _kept(graph: Any, node_id: str, of_case: str, prop: str) -> set[str]:
    """Properties of a resource without the other unsupported ones."""
    node = graph.nodes[node_id]
    bad = {
        p for found in UNSUPPORTED.values() for s, k, p in found if (s, k) == (node.type.service, node.type.kind)
    }
    return {"service", "instance", "kind", *node.wanted} - (bad - ({prop} if node_id == of_case else set()))
