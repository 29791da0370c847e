"""The pipelines that people posted, and the built-in tasks behind them: what a `task_id` can name."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from ...errors import ApiProblem
from ...managers.task import Task, list_tasks, load_task
from ...providers.aws.errors import PipelineError


class PipelineStore:
    """Thread-safe. A posted pipeline may bear the name of a built-in task and then stands in front of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._posted: dict[str, Task] = {}
        self._lock = threading.Lock()

    def task(self, name: str) -> Task:
        """A posted pipeline, a built-in task, or a generated one (`gen:<level>:<seed>`).

        Raises ApiProblem 404 with the closest name.
        """
        with self._lock:
            if name in self._posted:
                return self._posted[name]
        try:
            return load_task(name)
        except PipelineError as error:
            raise ApiProblem(404, "TaskNotFound", str(error)) from None

    def posted(self, name: str) -> bool:
        """Whether the name is one that was posted."""
        with self._lock:
            return name in self._posted

    def all(self) -> Iterator[tuple[Task, bool]]:
        """Every pipeline with whether it is built in; the posted ones first."""
        with self._lock:
            mine = dict(self._posted)
        for task in mine.values():
            yield task, False
        for name in list_tasks():
            if name not in mine:
                yield load_task(name), True

    def names(self) -> list[str]:
        """Of all pipelines, the posted ones first."""
        with self._lock:
            return list(dict.fromkeys([*self._posted, *list_tasks()]))

    def check_free(self, name: str) -> None:
        """Raises ApiProblem 409 when a posted pipeline has the name, 429 when there are too many."""
        with self._lock:
            self._free(name)

    def add(self, task: Task) -> None:
        """Raises ApiProblem 409 and 429, as `check_free`."""
        with self._lock:
            self._free(task.id)
            self._posted[task.id] = task

    def rename(self, name: str, to: str) -> Task:
        """Raises ApiProblem 404, 409, and 422 for a name that is none."""
        with self._lock:
            task = self._own(name)
            if to != name and to in self._posted:
                raise ApiProblem(
                    409, "PipelineExists", f"a pipeline {to!r} is there; DELETE it, or take another id"
                )
            try:
                renamed = Task.from_json({**task.to_json(), "task_id": to})
            except PipelineError as error:
                raise ApiProblem(422, "PipelineError", str(error)) from None
            del self._posted[name]
            self._posted[to] = renamed
            return renamed

    def remove(self, name: str) -> None:
        """Raises ApiProblem 404; a built-in task of the same name is there again."""
        with self._lock:
            self._own(name)
            del self._posted[name]

    def _own(self, name: str) -> Task:
        if name in self._posted:
            return self._posted[name]
        if name in list_tasks():
            raise ApiProblem(409, "BuiltIn", f"{name} is a built-in task; it can be neither renamed nor removed")
        raise ApiProblem(404, "PipelineNotFound", f"there is no pipeline {name!r}; GET /api/pipelines lists them")

    def _free(self, name: str) -> None:
        if name in self._posted:
            raise ApiProblem(409, "PipelineExists", f"a pipeline {name!r} is there; DELETE it, or take another id")
        if len(self._posted) >= self._most:
            raise ApiProblem(429, "TooManyPipelines", f"{self._most} pipelines are posted; DELETE one first")
