"""Every fault, on every template where it applies: it breaks one property, and nothing but its repair heals it.

The default run tries every fault on one template; CLOUDRL_FULL=1 tries all.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from core_weaken import weaker
from emulators import running

from cloudenv.server.managers.corruption import Pick, corrupt, menu
from cloudenv.server.managers.episode import Episode, check_task
from cloudenv.server.managers.graph import parse_graph
from cloudenv.server.managers.task import Task
from cloudenv.server.managers.templates import TEMPLATES, Names
from cloudenv.server.providers.aws.backend import Backend
from cloudenv.server.providers.aws.controls import CONTROLS
from cloudenv.server.providers.aws.moto_backend import MotoBackend
from cloudenv.server.providers.aws.registry import SERVICES

FULL = os.environ.get("CLOUDRL_FULL") == "1"
GRAPHS = {name: parse_graph(t.make(Names(random.Random(1)))) for name, t in TEMPLATES.items()}


def _cases() -> Iterator[Any]:
    seen = set()
    for name, graph in sorted(GRAPHS.items(), key=lambda item: bool(item[1].missing_in("moto"))):
        for pick in menu(graph):
            first = pick.fault.id not in seen
            seen.add(pick.fault.id)
            if first or FULL:
                yield pytest.param(name, pick, id=f"{pick.fault.id}-{name}-{pick.resource}")


@pytest.fixture(scope="module")
def moto() -> Backend:
    return MotoBackend()


@pytest.fixture(scope="module")
def ministack() -> Iterator[Backend]:
    with running("ministack") as backend:
        yield backend


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    """moto in process, and ministack for a template with something that moto does not have."""
    graph = GRAPHS[request.node.callspec.params["name"]]
    found: Backend = request.getfixturevalue("ministack" if graph.missing_in("moto") else "moto")
    return found


def _episode(name: str, pick: Pick, backend: Backend) -> Episode:
    graph = GRAPHS[name]
    broken = corrupt(graph, [pick], random.Random(0))
    return Episode("e", Task("t", broken=broken, ideal=graph.source, max_steps=1000), backend=backend)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_template_reads_back_as_it_was_declared(name: str, backend: Backend) -> None:
    check_task(Task("t", broken=GRAPHS[name].source, ideal=GRAPHS[name].source), backend)


@pytest.mark.parametrize("name, pick", list(_cases()))
def test_a_fault_and_its_repair(name: str, pick: Pick, backend: Backend) -> None:
    episode = _episode(name, pick, backend)
    diff = episode.diff()
    assert [(d["resource"], d["property"]) for d in diff] == [(pick.resource, pick.property)]
    solution = episode.solution()
    outcome = None
    for action in solution:
        assert outcome is None or not outcome.done, "the solution is longer than needed"
        outcome = episode.act(**action)
        assert outcome.operation_result["status"] == "SUCCESS", (action, outcome.operation_result)
    assert outcome is not None and outcome.done and outcome.reward == 0.99
    episode.close()


@pytest.mark.parametrize("name, pick", list(_cases()))
def test_nothing_weaker_repairs_it(name: str, pick: Pick, backend: Backend) -> None:
    episode = _episode(name, pick, backend)
    solution = episode.solution()
    leftover = _leftover(episode.diff()[0])
    tried = 0
    if len(solution) == 1:
        adds = solution[0]["operation"].startswith(("Create", "Add", "Authorize"))
        for label, payload in weaker(solution[0], leftover):
            again = _episode(name, pick, backend) if adds else episode  # other calls replace what was there
            outcome = again.act(solution[0]["service"], solution[0]["operation"], payload)
            assert not outcome.done and outcome.reward < 0.99, label
            tried += 1
            if adds:
                again.close()
    else:
        for i, label, payload in _one_step_weaker(solution, leftover):
            again = _episode(name, pick, backend)
            for j, action in enumerate(solution):
                if j != i:
                    outcome = again.act(**action)
                elif payload is not None:
                    outcome = again.act(action["service"], action["operation"], payload)
            assert not outcome.done and outcome.reward < 0.99, f"{solution[i]['operation']}: {label}"
            again.close()
            tried += 1
    # a repair that only takes something away has nothing that could be left out
    assert tried or all(a["operation"].startswith(("Delete", "Remove", "Revoke")) for a in solution)
    for action in episode.solution():
        outcome = episode.act(**action)
    assert outcome.done and outcome.reward == 0.99
    episode.close()


def _one_step_weaker(
    solution: list[dict[str, Any]], leftover: list[dict[str, Any]]
) -> Iterator[tuple[int, str, dict[str, Any] | None]]:
    """(number of the step, what was changed, its payload): each step left out, and at full size made weaker."""
    for i, action in enumerate(solution):
        yield i, "left out", None
        if FULL:
            for label, payload in weaker(action, leftover):
                yield i, label, payload


def _leftover(difference: dict[str, Any]) -> list[dict[str, Any]]:
    """Statements of the broken policy that the ideal one does not have."""

    def listed(value: Any) -> list[Any]:
        items = value if isinstance(value, list) else []
        return [s for item in items if isinstance(item, dict) for s in item.get("statements", [item])]

    right = listed(difference["expected"])
    return [s for s in listed(difference["actual"]) if "Effect" in s and s not in right]


def test_every_fault_has_a_template_controls_and_a_title() -> None:
    described = {f.id: f for s in SERVICES.values() for t in s.types for p in t.properties for f in p.faults}
    reached = {pick.fault.id for graph in GRAPHS.values() for pick in menu(graph)}
    assert set(described) - reached == set()
    assert len(described) == sum(len(p.faults) for s in SERVICES.values() for t in s.types for p in t.properties)
    for fault in described.values():
        assert fault.controls and fault.title and fault.level in ("easy", "medium", "hard"), fault.id
        assert set(fault.controls) <= set(CONTROLS), f"{fault.id}: not in controls.py"
    public = [f for f in described.values() if not all(c.startswith("WIRING.") for c in f.controls)]
    assert len(public) >= 24


ID = re.compile(
    r"CIS-AWS-\d\.0:\d(\.\d+)+|(FSBP|SecurityHub):[A-Z][A-Za-z0-9]+\.\d+|Checkov:CKV2?_AWS_\d+"
    r"|Prowler:[a-z0-9_]+|WIRING\.\d+"
)


def test_every_control_has_the_form_of_its_kind_a_title_and_a_fault() -> None:
    used = {
        c for s in SERVICES.values() for t in s.types for p in t.properties for f in p.faults for c in f.controls
    }
    assert used == set(CONTROLS)
    for control, title in CONTROLS.items():
        assert ID.fullmatch(control), control
        assert len(title.split()) >= 3 and title == title.strip(), control
