"""The episodes of this server, behind both of its faces: OpenEnv's WebSocket and the HTTP API.

An episode is named by a scope and its id. Every WebSocket session is a scope of its own, so that sixty clients may
all play "ep-1"; HTTP requests share the scope HTTP, so that one `curl` finds the episode of the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..models import CloudEnvAction, CloudEnvObservation
from .api.pipeline.store import PipelineStore
from .errors import ApiProblem
from .managers.episode import Episode, StepOutcome, check_task
from .managers.episodes import EpisodeStore, TooManyEpisodes
from .managers.task import Task
from .providers.aws.backend import Backend, default_backend
from .providers.aws.errors import ApiError, BackendError, PipelineError
from .providers.aws.services import AWSService
from .settings import Settings

HTTP = "http"
INITIALIZE = "InitializeEnvironment"


class EpisodeHost:
    """Thread-safe; actions on one episode are carried out one after the other."""

    def __init__(
        self, settings: Settings, backend: Backend | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self.backend = backend or default_backend()
        self.pipelines = PipelineStore(settings.max_pipelines)
        self.episodes = EpisodeStore(
            self.backend, limit=settings.max_episodes, ttl=settings.idle_seconds, clock=clock
        )

    def initialize(
        self, scope: str, episode_id: str, action: CloudEnvAction, seed: int | None = None
    ) -> CloudEnvObservation:
        """Start the episode that the action names; one of the same name ends first."""
        try:
            if not action.task_id:
                raise ApiProblem(422, "TaskMissing", "InitializeEnvironment needs a task_id; " + self.some_tasks())
            task = self.pipelines.task(action.task_id)
            episode = self.open(scope, episode_id, task, _seed(action, seed))
        except ApiProblem as problem:
            return refused(action, problem.code, problem.message)
        outcome = episode.act(AWSService.INTERNAL, INITIALIZE, {})
        return observation(episode, outcome, instruction=task.instruction)

    def act(self, scope: str, episode_id: str | None, action: CloudEnvAction) -> CloudEnvObservation:
        """Carry out an action; everything that is wrong with it is in the observation, and the episode goes on."""
        episode = self.find(scope, episode_id)
        if episode is None:
            return refused(action, "EpisodeNotInitialized", self._not_initialized(episode_id))
        if action.task_id not in (None, episode.task.id):
            text = f"episode {episode_id!r} plays task {episode.task.id!r}, not {action.task_id!r}"
            return refused(action, "TaskMismatch", text, episode)
        return observation(episode, episode.act(action.service, action.operation, action.payload))

    def open(self, scope: str, episode_id: str, task: Task, seed: int | None) -> Episode:
        """Build an episode and keep it; one of the same name ends first. Raises ApiProblem."""
        try:
            with _problems():
                return self.episodes.create(_key(scope, episode_id), task, seed)
        except TooManyEpisodes as error:
            raise ApiProblem(429, "TooManyEpisodes", str(error)) from None

    def find(self, scope: str, episode_id: str | None) -> Episode | None:
        """An episode that is open; asking for it counts as using it."""
        return self.episodes.get(_key(scope, episode_id)) if episode_id else None

    def end(self, scope: str, episode_id: str) -> bool:
        """Close an episode and free its account; False when there is none."""
        return self.episodes.close(_key(scope, episode_id))

    def check(self, task: Task) -> None:
        """Build both pipelines once. Raises ApiProblem when one cannot be built or the ideal not be reached."""
        with _problems():
            check_task(task, self.backend)
        self.materialized(task)

    def materialized(self, task: Task) -> StepOutcome:
        """How the pipeline is when an episode begins. Raises ApiProblem."""
        with _problems():
            episode = Episode("materialized", task, backend=self.backend)
        try:
            return episode.observe()
        finally:
            episode.close()

    def close(self) -> None:
        """End every episode."""
        self.episodes.close_all()

    def welcome(self) -> str:
        """What a session is told that has no episode yet."""
        return (
            f'Start an episode: service "internal", operation "{INITIALIZE}", with a task_id; {self.some_tasks()}'
        )

    def some_tasks(self, most: int = 5) -> str:
        """A closing phrase that names tasks."""
        names = self.pipelines.names()
        return f"such as {', '.join(names[:most])} ({len(names)} in all: GET /api/tasks)"

    def _not_initialized(self, episode_id: str | None) -> str:
        which = f"episode {episode_id!r}" if episode_id else "this session"
        return f"{which} has not begun, has ended, or was idle too long. {self.welcome()}"


def _key(scope: str, episode_id: str) -> str:
    return f"{scope}/{episode_id}"


def _episode_id(episode: Episode) -> str:
    return episode.id.partition("/")[2]


@contextmanager
def _problems() -> Iterator[None]:
    """What keeps an episode from being built, as an ApiProblem."""
    try:
        yield
    except PipelineError as error:
        cause = error.__context__  # building says at which resource it failed, and keeps why
        if isinstance(cause, ApiError) and cause.code == "EmulatorUnavailable":
            raise ApiProblem(503, cause.code, cause.message) from None
        raise ApiProblem(422, "PipelineError", str(error)) from None
    except ApiError as error:
        raise ApiProblem(503, error.code, error.message) from None
    except BackendError as error:
        raise ApiProblem(503, "EmulatorUnavailable", str(error)) from None


def observation(episode: Episode, outcome: StepOutcome, instruction: str = "") -> CloudEnvObservation:
    """What the agent sees of an outcome: all but the diff, which would tell it the solution."""
    return CloudEnvObservation(
        task_id=episode.task.id,
        episode_id=_episode_id(episode),
        step_count=outcome.step_count,
        instruction=instruction,
        operation_result=outcome.operation_result,
        current_pipeline_state=outcome.state,
        reward=outcome.reward,
        done=outcome.done,
        truncated=outcome.truncated,
    )


def refused(
    action: CloudEnvAction, code: str, message: str, episode: Episode | None = None
) -> CloudEnvObservation:
    """The observation after an action that reached no episode, or not the one it was meant for."""
    result = {
        "service": str(getattr(action.service, "value", action.service)),
        "operation": action.operation,
        "status": "ERROR",
        "error": {"code": code, "message": message},
    }
    if episode is None:
        return CloudEnvObservation(episode_id=action.episode_id, operation_result=result, reward=0.0)
    seen = observation(episode, episode.observe())
    seen.operation_result = result
    return seen


def _seed(action: CloudEnvAction, default: int | None) -> int | None:
    seed = action.payload.get("seed", default)
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise ApiProblem(422, "BadSeed", f"payload.seed must be a whole number, not {seed!r:.50}")
    return seed
