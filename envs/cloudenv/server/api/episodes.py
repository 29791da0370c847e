"""OpenEnv's /reset, /step and /state over plain HTTP, with memory: requests find their episode by its id."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from ..._openenv import serialize_observation
from ...models import CloudEnvAction, CloudEnvObservation, CloudEnvState, Text
from ..errors import ApiProblem
from ..host import HTTP, INITIALIZE, EpisodeHost, observation
from ..providers.aws.services import AWSService

EpisodeId = Query(default=None, max_length=255)


class ResetBody(BaseModel):
    """Without a task_id nothing is started: InitializeEnvironment does it."""

    model_config = ConfigDict(extra="ignore")

    task_id: Text | None = Field(default=None, max_length=255)
    episode_id: Text | None = Field(default=None, min_length=1, max_length=255)
    seed: int | None = Field(default=None, ge=0)


class StepBody(BaseModel):
    """One action; its episode_id says whose it is."""

    model_config = ConfigDict(extra="ignore")

    action: CloudEnvAction


class StepAnswer(BaseModel):
    """OpenEnv's answer to /reset and /step."""

    observation: dict[str, Any]
    reward: float | None
    done: bool
    metadata: dict[str, Any] | None = None


def router(host: EpisodeHost) -> APIRouter:
    """The routes, on the episodes of a host. They run in threads: the emulator blocks."""
    api = APIRouter(tags=["Episodes"])

    @api.post("/reset")
    def reset(body: ResetBody | None = None) -> StepAnswer:
        """Start an episode on `task_id`, or say how to start one."""
        body = body or ResetBody()
        if body.task_id is None:
            seen = CloudEnvObservation(episode_id=body.episode_id, reward=0.0, instruction=host.welcome())
            return _answer(seen)
        episode_id = body.episode_id or uuid4().hex
        action = CloudEnvAction(
            service=AWSService.INTERNAL, operation=INITIALIZE, episode_id=episode_id, task_id=body.task_id
        )
        return _answer(host.initialize(HTTP, episode_id, action, body.seed))

    @api.post("/step")
    def step(body: StepBody) -> StepAnswer:
        """Carry out one action. What is wrong with it is in `observation.operation_result`."""
        action = body.action
        if action.service == AWSService.INTERNAL and action.operation == INITIALIZE:
            return _answer(host.initialize(HTTP, action.episode_id or uuid4().hex, action))
        return _answer(host.act(HTTP, action.episode_id, action))

    @api.get("/state")
    def state(episode_id: str | None = EpisodeId) -> CloudEnvState:
        """Where an episode stands; without an id, a state in which nothing has begun."""
        if episode_id is None:
            return CloudEnvState()
        seen = look(episode_id)
        return CloudEnvState(
            episode_id=episode_id,
            step_count=seen.step_count,
            task_id=seen.task_id,
            done=seen.done,
            reward=float(seen.reward or 0.0),
        )

    @api.get("/api/episodes/{episode_id}")
    def get(episode_id: str) -> StepAnswer:
        """The observation as it is now; no step is counted."""
        return _answer(look(episode_id))

    @api.delete("/api/episodes/{episode_id}", status_code=204)
    def delete(episode_id: str) -> None:
        """End an episode and free its account."""
        if not host.end(HTTP, episode_id):
            raise _unknown(episode_id)

    def look(episode_id: str) -> CloudEnvObservation:
        episode = host.find(HTTP, episode_id)
        if episode is None:
            raise _unknown(episode_id)
        return observation(episode, episode.observe())

    return api


def _unknown(episode_id: str) -> ApiProblem:
    return ApiProblem(
        404, "EpisodeNotFound", f"there is no episode {episode_id!r}; InitializeEnvironment starts it"
    )


def _answer(seen: CloudEnvObservation) -> StepAnswer:
    return StepAnswer(**serialize_observation(seen))
