"""CloudEnv as an OpenEnv environment: one session, one episode at a time."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from .._openenv import Environment, EnvironmentMetadata
from ..models import CloudEnvAction, CloudEnvObservation, CloudEnvState
from .host import INITIALIZE, EpisodeHost
from .providers.aws.services import AWSService

LEVELS = ("easy", "medium", "hard")


class CloudEnvEnvironment(Environment[CloudEnvAction, CloudEnvObservation, CloudEnvState]):
    """A session over WebSocket. Its episodes are its own, whatever they are called, and end with it.

    `reset(task_id=...)` starts an episode; a bare `reset()` waits for the action InitializeEnvironment, which
    names task and episode. Starting another episode ends the one before.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, host: EpisodeHost) -> None:
        super().__init__()
        self._host = host
        self._scope = f"session-{uuid4().hex}"
        self._episode_id: str | None = None
        self._seed: int | None = None
        self._state = CloudEnvState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> CloudEnvObservation:
        """End the episode of this session, and start one when a task is named.

        seed: of what the task leaves open; task_id may also stand in `options`; split and index name a task as in
        OpenEnv's Task API. An unknown task is an error in the observation.
        """
        self.close()
        self._seed = seed
        task_id = task_id or (options or {}).get("task_id")
        if task_id is None and split is not None:
            task_id = self.get_task(split, index or 0)["id"]
        if task_id is None:
            self._state = CloudEnvState(episode_id=episode_id)
            return CloudEnvObservation(episode_id=episode_id, reward=0.0, instruction=self._host.welcome())
        return self._start(
            CloudEnvAction(
                service=AWSService.INTERNAL, operation=INITIALIZE, episode_id=episode_id, task_id=str(task_id)
            )
        )

    def step(self, action: CloudEnvAction, timeout_s: float | None = None) -> CloudEnvObservation:
        """Carry out an action. What is wrong with it is in the observation; the session goes on."""
        if action.service == AWSService.INTERNAL and action.operation == INITIALIZE:
            return self._start(action)
        return self._note(self._host.act(self._scope, action.episode_id or self._episode_id, action))

    def _start(self, action: CloudEnvAction) -> CloudEnvObservation:
        self.close()
        episode_id = action.episode_id or self._state.episode_id or uuid4().hex
        seen = self._host.initialize(self._scope, episode_id, action, self._seed)
        if seen.task_id is not None:
            self._episode_id = episode_id
        return self._note(seen)

    def _note(self, seen: CloudEnvObservation) -> CloudEnvObservation:
        if seen.task_id is None:  # it reached no episode
            return seen
        self._state = CloudEnvState(
            episode_id=seen.episode_id,
            step_count=seen.step_count,
            task_id=seen.task_id,
            done=seen.done,
            reward=None if seen.reward is None else float(seen.reward),
        )
        return seen

    @property
    def state(self) -> CloudEnvState:
        """Where the episode stands."""
        return self._state

    def close(self) -> None:
        """End the episode of this session and free its account; the session can go on with another."""
        if self._episode_id is not None:
            self._host.end(self._scope, self._episode_id)
            self._episode_id = None

    def get_metadata(self) -> EnvironmentMetadata:
        from .. import __version__

        return EnvironmentMetadata(
            name="cloudenv", description="Repair tasks on an emulated AWS", version=__version__, author="Cloud-RL"
        )

    # OpenEnv's Task API: the built-in tasks by level

    def list_splits(self) -> list[str]:
        """The levels."""
        return list(LEVELS)

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Every built-in task of a level."""
        return [
            {"id": task.id, "level": task.level, "title": task.title, "index": position}
            for position, task in enumerate(task for task, _ in self._host.pipelines.all() if task.level == split)
        ]

    def num_tasks(self, split: str) -> int:
        """How many tasks a level has."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Raises IndexError."""
        if index < 0:
            raise IndexError(index)
        return self.list_tasks(split)[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """The tasks start..stop of a level, as a slice."""
        return self.list_tasks(split)[start:stop]
