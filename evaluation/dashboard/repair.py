"""One repair task of CloudEnv, worked on by a person: the session, what was done, and what may be done next."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError, Shape
from botocore.session import Session
from pydantic import ValidationError

from cloudenv.models import CloudEnvAction, encode_bytes
from cloudenv.server.managers.graph import Graph, Node
from cloudenv.server.managers.task import Task, list_tasks, load_task
from cloudenv.server.providers.aws.errors import PipelineError
from cloudenv.server.providers.aws.registry import SERVICES
from cloudenv.session import CloudEnvSession
from cloudrl.errors import UserError

KEPT = 200
"""Actions that are remembered."""
_LEVELS = {"easy": 0, "medium": 1, "hard": 2}


@dataclass(frozen=True)
class Done:
    """An action and what came of it."""

    action: dict[str, Any]
    result: dict[str, Any]
    reward: float

    @property
    def error(self) -> str:
        """Empty for an action that worked."""
        error = self.result.get("error") or {}
        return (
            f"{error.get('code', 'Error')}: {error.get('message', '')}" if self.result["status"] == "ERROR" else ""
        )


class Repair:
    """A task in progress. One person's; `close` frees its part of the emulator. Raises UserError: no such task."""

    def __init__(self, name: str) -> None:
        name = (name or "").strip()
        self.lock = threading.RLock()
        self._session = CloudEnvSession()
        try:
            self.task: Task = load_task(name if name.count(":") != 1 else f"{name}:0")
            self.observation, info = self._session.reset(self.task)
        except PipelineError as error:
            raise UserError(str(error)) from None
        self.diff: list[dict[str, Any]] = info["diff"]
        self.truncated = False
        self.log: list[Done] = []

    @property
    def reward(self) -> float:
        return float(self.observation["reward"])

    @property
    def done(self) -> bool:
        return bool(self.observation["done"])

    @property
    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Every resource as read back from the emulator; of one that is missing, an empty list."""
        found: dict[str, list[dict[str, Any]]] = encode_bytes(self.observation["current_pipeline_state"])
        return found

    def services(self) -> list[str]:
        """Those of the task."""
        return sorted({node.type.service for graph in self._graphs() for node in graph})

    def nodes(self) -> dict[str, Node]:
        """Declared resources by id: those that are there and those that should be."""
        broken, ideal = self._graphs()
        return {**ideal.nodes, **broken.nodes}

    def wanted_references(self) -> set[tuple[str, str]]:
        """(id, id that it should refer to), as the ideal has them."""
        return {
            (node.id, other) for node in self.task.ideal_graph for ids in node.refers.values() for other in ids
        }

    def references(self) -> set[tuple[str, str]]:
        """(id, id that it refers to) now: the ARN, URL or name of the other one stands in its configuration.

        Where nothing differs from the ideal, the ideal's references hold, however they are written.
        """
        wrong = {entry["resource"] for entry in self.diff}
        out = {(name, other) for name, other in self.wanted_references() if name not in wrong}
        nodes = self.nodes()
        for name, entries in self.state.items():
            strings = list(_strings([{k: v for k, v in e.items() if k != "instance"} for e in entries]))
            for other, node in nodes.items():
                if other != name and any(_means(text, node) for text in strings):
                    out.add((name, other))
        return out

    def step(self, service: str, operation: str, payload: Any) -> Done:
        """Carry out an operation. Raises UserError for what no client could send."""
        action = checked(service, operation, payload)
        with self.lock:
            observation, _, _, self.truncated, info = self._session.step(action)
            self.observation, self.diff = observation, info["diff"]
            done = Done(action, encode_bytes(observation["operation_result"]), self.reward)
            self.log = [*self.log[-KEPT + 1 :], done]
        return done

    def next_step(self) -> dict[str, Any] | None:
        """The first action that repairs something from here; None where nothing is left."""
        with self.lock:
            steps = self._session.solution()
        return steps[0] if steps else None

    def close(self) -> None:
        """Free the episode's account."""
        with self.lock:
            self._session.close()

    def _graphs(self) -> tuple[Graph, Graph]:
        return self.task.broken_graph, self.task.ideal_graph


def tasks() -> list[tuple[str, str]]:
    """(label, id) of the tasks that come with CloudEnv, easy ones first."""
    found = [load_task(name) for name in list_tasks()]
    found.sort(key=lambda task: (_LEVELS[task.level], task.title.lower()))
    return [(f"{task.level}: {task.title or task.id}", task.id) for task in found]


def operations(service: str) -> list[str]:
    """What may be called of a service."""
    return sorted(SERVICES[service].operations) if service in SERVICES else []


def example(repair: Repair, service: str, operation: str) -> str:
    """A payload with the arguments that an operation cannot do without, as json, about the task's resources."""
    try:
        shape = Session().get_service_model(service).operation_model(operation).input_shape
    except (UnknownServiceError, OperationNotFoundError):
        return "{}"
    if shape is None:
        return "{}"
    own = next((node for node in repair.nodes().values() if node.type.service == service), None)
    return json.dumps(_skeleton(shape, own), indent=2)


def checked(service: str, operation: str, payload: Any) -> dict[str, Any]:
    """An action as CloudEnv's server would take it, from a person's words. Raises UserError."""
    if not (service or "").strip() or not (operation or "").strip():
        raise UserError("choose a service and an operation")
    try:
        value = json.loads(payload or "{}") if isinstance(payload, str) else payload
    except ValueError as error:
        raise UserError(f"payload: not JSON: {error}") from None
    try:
        action = CloudEnvAction(service=service.strip(), operation=operation.strip(), payload=value)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
    name = getattr(action.service, "value", action.service)
    return {"service": str(name), "operation": action.operation, "payload": action.payload}


def _skeleton(shape: Shape, own: Node | None, name: str = "", depth: int = 0) -> Any:
    """A value of this shape, with required members only."""
    if shape.type_name == "structure":
        required = shape.required_members or ([next(iter(shape.members))] if depth == 0 and shape.members else [])
        return {key: _skeleton(shape.members[key], own, key, depth + 1) for key in required if depth < 6}
    if shape.type_name == "list":
        return [_skeleton(shape.member, own, name, depth + 1)]
    if shape.type_name == "map":
        return {}
    if shape.type_name == "string":
        return shape.enum[0] if getattr(shape, "enum", None) else _own_name(name, own)
    return {"boolean": False, "integer": 1, "long": 1}.get(shape.type_name, "")


def _own_name(member: str, own: Node | None) -> str:
    """How a resource of the task is called in an argument such as BucketName, QueueUrl, RoleArn."""
    if own is None:
        return ""
    for end, attribute in (("arn", "arn"), ("url", "url"), ("id", "id")):
        if member.lower().endswith(end):
            try:
                return own.type.attribute(own.name, attribute)
            except KeyError:
                return own.name
    return own.name if member.lower().endswith(("name", "bucket", "identifier")) else ""


def _strings(value: Any) -> Any:
    """Every string within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _means(text: str, node: Node) -> bool:
    """Whether a string of a configuration means a resource."""
    for attribute in ("arn", "url", "id"):
        try:
            whole = node.type.attribute(node.name, attribute)
        except KeyError:
            continue
        before, found, after = text.partition(whole)
        if found and not after[:1].isalnum() and after[:1] not in ("-", "_") and not before[-1:].isalnum():
            return True
    return text == node.name
