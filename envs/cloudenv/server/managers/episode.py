"""One episode: a broken pipeline in an account of its own, and an agent that repairs it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..providers.aws.account import Account
from ..providers.aws.backend import Backend, default_backend
from ..providers.aws.errors import ApiError, PipelineError
from ..providers.aws.registry import SERVICES
from .build import BuildEngine
from .diff import Ideal, name_of
from .graph import Graph
from .guard import Guard
from .observe import Observer
from .reward import RewardEngine
from .task import Task

MAX_OUTPUT = 8000
"""Characters of json that the output of one call may have in an observation."""

SUCCESS, ERROR = "SUCCESS", "ERROR"


@dataclass(frozen=True)
class StepOutcome:
    """What an action led to. All values are json.

    operation_result: {"service", "operation", "status": SUCCESS | ERROR, "output"?, "error"?: {"code", "message"}}
    state: resource id -> [configuration], the `current_pipeline_state` of the observation
    diff: readable entries, extras included; it holds the expected values, so an agent should not see it
    truncated: the steps are used up; done: the pipeline is repaired
    """

    operation_result: dict[str, Any]
    reward: float
    done: bool
    truncated: bool
    step_count: int
    state: dict[str, list[dict[str, Any]]]
    diff: list[dict[str, Any]] = field(default_factory=list)


class Episode:
    """A task in progress. `act` never raises, whatever the agent sends. Thread-safe.

    Raises PipelineError when the broken pipeline cannot be built; nothing is left behind then.
    """

    def __init__(
        self, episode_id: str, task: Task, *, backend: Backend | None = None, seed: int | None = None
    ) -> None:
        self.id = episode_id
        self.task = task
        self.seed = seed
        self.step_count = 0
        self.errors = 0
        self.done = False
        self.truncated = False
        self.closed = False
        self._lock = threading.RLock()
        self._account = Account(backend or default_backend())
        self._engine = BuildEngine(self._account)
        graphs: tuple[Graph, Graph] = (task.broken_graph, task.ideal_graph)
        self._now = Observer(self._account, [node.type.service for graph in graphs for node in graph])
        self._guard = Guard(self._account, task.ideal_graph)
        try:
            self._engine.build(task.broken_graph, task.ideal_graph)
            try:
                self._now.read_all()
            except ApiError as e:
                raise PipelineError(f"the pipeline cannot be read back: {e}") from None
            self._ideal = Ideal(task.ideal_graph, task.broken_graph, self._now)
        except BaseException:
            self.close()
            raise
        self._stale = False
        self._differences = self._ideal.diff(self._now)
        self._rewards = RewardEngine(task.ideal_graph, self._differences)
        self.reward = self._rewards.reward(self._differences, 0, 0)[0] if self._differences else 0.0

    def act(self, service: str, operation: str, payload: Mapping[str, Any] | None = None) -> StepOutcome:
        """Carry out one action. Errors are in the outcome's operation_result."""
        service = str(getattr(service, "value", service))
        with self._lock:
            result: dict[str, Any] = {
                "service": service[:60],
                "operation": str(operation)[:120],
                "status": SUCCESS,
            }
            if service == "internal":
                if operation != "InitializeEnvironment":
                    _fail(result, "NotAllowed", "the only internal operation is InitializeEnvironment")
                return self._outcome(result)
            if self.closed or self.done or self.truncated:
                why = (
                    "closed"
                    if self.closed
                    else "over: the pipeline is repaired"
                    if self.done
                    else "over: no steps left"
                )
                _fail(result, "EpisodeOver", f"the episode is {why}; reset to start another")
                return self._outcome(result)
            self.step_count += 1
            try:
                self._carry_out(service, operation, payload, result)
            except ApiError as e:
                _fail(result, e.code, e.message)
            if result["status"] == ERROR:
                self.errors += 1
            self._differences = self._ideal.diff(self._now)
            self.reward, done = self._rewards.reward(self._differences, self.errors, self.step_count)
            self.done = done and not self._stale
            self.truncated = not self.done and self.step_count >= self.task.max_steps
            return self._outcome(result)

    def observe(self) -> StepOutcome:
        """The present state without acting; no step is counted."""
        with self._lock:
            return self._outcome({"service": "internal", "operation": "Observe", "status": SUCCESS})

    def diff(self) -> list[dict[str, Any]]:
        """What differs from the ideal, as readable entries."""
        with self._lock:
            return [d.to_json() for d in self._differences]

    def solution(self) -> list[dict[str, Any]]:
        """Actions {"service", "operation", "payload"} that repair the pipeline from where it is now."""
        with self._lock:
            if self.closed or not self._differences:
                return []
            calls = self._engine.repair(self.task.ideal_graph, self._now, self._ideal.wanted(self._differences))
            return [{"service": c.service, "operation": c.operation, "payload": dict(c.payload)} for c in calls]

    def close(self) -> None:
        """Free the account. Further actions are answered with an error. May be called twice."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            if not self._account.free():
                try:
                    self._now.read_all()
                except ApiError:
                    return  # an emulator that is down has nothing to free
                self._engine.clear(self._now)

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Every resource: declared ones under their id (missing: an empty list), others as <service>:<name>."""
        with self._lock:
            out: dict[str, list[dict[str, Any]]] = {}
            declared = self.task.broken_graph.by_key() | self.task.ideal_graph.by_key()
            shown = {n.key: n.id for n in declared.values()}
            for key, node_id in sorted(shown.items(), key=lambda item: item[1]):
                out[node_id] = [self._shown(key)] if key in self._now.state else []
            for key in self._now.state:
                if key not in shown:
                    out[_free_name(name_of(key), key, out)] = [self._shown(key)]
            return out

    def _carry_out(self, service: str, operation: str, payload: Any, result: dict[str, Any]) -> None:
        if self._stale:
            self._reread()
        checked = self._guard.check(service, operation, payload, self._now)
        try:
            output = self._account.call(service, operation, checked)
            result["output"] = _short(output)
        except ApiError:
            self._refresh(service, operation, checked)  # a failed call may have changed something before it failed
            raise
        self._refresh(service, operation, checked)

    def _refresh(self, service: str, operation: str, payload: Mapping[str, Any]) -> None:
        try:
            self._now.refresh(service, operation, payload)
        except ApiError:
            self._stale = True
            raise

    def _reread(self) -> None:
        self._now.read_all()
        self._stale = False

    def _shown(self, key: tuple[str, str, str]) -> dict[str, Any]:
        """A resource as the pipeline API writes it: what a task declares, and what is not as it comes."""
        service, kind, name = key
        described = self._now.types[service, kind]
        declared = {
            p for g in (self.task.broken_graph, self.task.ideal_graph) for n in g if n.key == key for p in n.wanted
        }
        out: dict[str, Any] = {"service": service, "instance": name}
        if len(SERVICES[service].types) > 1:
            out["kind"] = kind
        for prop in described.properties:
            value = self._now.state[key][prop.name]
            if prop.name in declared or prop.key(value) != prop.key(prop.empty):
                out[prop.name] = value
        return out

    def _outcome(self, result: dict[str, Any]) -> StepOutcome:
        return StepOutcome(
            operation_result=result,
            reward=self.reward,
            done=self.done,
            truncated=self.truncated,
            step_count=self.step_count,
            state=self.state(),
            diff=[d.to_json() for d in self._differences],
        )


def check_task(task: Task, backend: Backend | None = None) -> None:
    """Build the ideal pipeline in an account of its own and see that it reads back as declared.

    Raises PipelineError that says what did not take: nobody could solve such a task.
    """
    episode = Episode("check", Task(task.id, broken=task.ideal, ideal=task.ideal), backend=backend)
    try:
        if wrong := episode.diff():
            first = wrong[0]
            raise PipelineError(
                f"ideal_pipeline cannot be reached: {first['text']} even when built as declared "
                f"(declared {json.dumps(first['expected'])[:200]}, reads {json.dumps(first['actual'])[:200]})"
            )
    finally:
        episode.close()


def _fail(result: dict[str, Any], code: str, message: str) -> None:
    result["status"] = ERROR
    result["error"] = {"code": code, "message": message[:1000]}
    result.pop("output", None)


def _short(output: dict[str, Any]) -> Any:
    """The output of a call, cut when it is long."""
    text = json.dumps(output, default=str)
    return output if len(text) <= MAX_OUTPUT else {"truncated": True, "text": text[:MAX_OUTPUT]}


def _free_name(name: str, key: tuple[str, str, str], taken: Mapping[str, Any]) -> str:
    return name if name not in taken else f"{key[0]}:{key[1]}:{key[2]}"
