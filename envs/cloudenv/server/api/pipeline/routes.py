"""`/api/pipelines` and `/api/tasks`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from ...errors import ApiProblem
from ...host import HTTP, EpisodeHost
from ...managers.task import Task
from ...providers.aws.errors import PipelineError
from ...providers.aws.registry import SERVICES


class NewPipeline(BaseModel):
    """A task: `broken_pipeline` is built and shown, `ideal_pipeline` is what it should become.

    Both map a resource id to a list with its configuration, as in a task file; so do the optional fields.
    """

    model_config = ConfigDict(
        extra="allow",  # title, level, instruction, max_steps, faults: a whole task file can be posted
        json_schema_extra={
            "examples": [
                {
                    "pipeline_id": "easy-task-1",
                    "broken_pipeline": {"s3:bucket_1": [{"service": "s3:bucket1", "policies": []}]},
                    "ideal_pipeline": {"s3:bucket_1": [{"service": "s3:bucket1", "policies": []}]},
                }
            ]
        },
    )

    pipeline_id: str = Field(description="the `task_id` of actions; 1 to 120 letters, digits and ._:-")
    broken_pipeline: dict[str, Any]
    ideal_pipeline: dict[str, Any]


class NewName(BaseModel):
    """What the pipeline is called from now on."""

    model_config = ConfigDict(extra="forbid")

    pipeline_id: str


class Pipeline(BaseModel):
    """A pipeline with both of its graphs."""

    pipeline_id: str
    level: str
    title: str
    built_in: bool
    broken_pipeline: dict[str, Any]
    ideal_pipeline: dict[str, Any]


class Pipelines(BaseModel):
    """Posted pipelines first, then the built-in tasks."""

    pipelines: list[Pipeline]


class Validation(BaseModel):
    """How far a pipeline is from its ideal; `valid` when `diff` is empty."""

    pipeline_id: str
    episode_id: str | None
    valid: bool
    reward: float
    diff: list[dict[str, Any]]


def router(host: EpisodeHost) -> APIRouter:
    """The routes, on the pipelines and episodes of a host."""
    api = APIRouter(tags=["Pipelines"])

    @api.post("/api/pipelines", status_code=201)
    def create(body: NewPipeline) -> Pipeline:
        """Create a pipeline and materialize it: it is built on the emulator once, so that a task that cannot be
        built is refused here and not in the middle of a training run."""
        try:
            task = Task.from_json(body.model_dump())
        except (PipelineError, TypeError) as error:
            raise ApiProblem(422, "PipelineError", str(error)) from None
        host.pipelines.check_free(task.id)  # before the work, and again when it is added
        host.check(task)
        host.pipelines.add(task)
        return _shown(task, built_in=False)

    @api.get("/api/pipelines")
    def every() -> Pipelines:
        """All of them."""
        return Pipelines(pipelines=[_shown(task, built_in) for task, built_in in host.pipelines.all()])

    @api.get("/api/pipelines/{pipeline_id}")
    def one(pipeline_id: str) -> Pipeline:
        """One, posted, built in, or generated (`gen:<level>:<seed>`)."""
        return _shown(host.pipelines.task(pipeline_id), not host.pipelines.posted(pipeline_id))

    @api.put("/api/pipelines/{pipeline_id}")
    def rename(pipeline_id: str, body: NewName) -> Pipeline:
        """Rename a posted pipeline. Episodes that play it go on under the old name."""
        return _shown(host.pipelines.rename(pipeline_id, body.pipeline_id), built_in=False)

    @api.delete("/api/pipelines/{pipeline_id}", status_code=204)
    def remove(pipeline_id: str) -> None:
        """Remove a posted pipeline. Episodes that play it go on."""
        host.pipelines.remove(pipeline_id)

    @api.get("/api/pipelines/{pipeline_id}/validate")
    def validate(pipeline_id: str, episode_id: str | None = Query(default=None, max_length=255)) -> Validation:
        """Compare with the ideal: the episode `episode_id` as it is now, or the pipeline as it is materialized."""
        task = host.pipelines.task(pipeline_id)
        if episode_id is None:
            outcome = host.materialized(task)
        else:
            found = host.find(HTTP, episode_id)
            if found is None or found.task.id != task.id:
                raise ApiProblem(404, "EpisodeNotFound", f"no episode {episode_id!r} plays {pipeline_id!r}")
            outcome = found.observe()
        return Validation(
            pipeline_id=pipeline_id,
            episode_id=episode_id,
            valid=not outcome.diff,
            reward=outcome.reward,
            diff=outcome.diff,
        )

    @api.get("/api/tasks")
    def tasks() -> dict[str, list[dict[str, Any]]]:
        """Id, level and title of every pipeline; without the ideal, unlike /api/pipelines."""
        return {
            "tasks": [
                {"id": task.id, "level": task.level, "title": task.title, "built_in": built_in}
                for task, built_in in host.pipelines.all()
            ]
        }

    @api.get("/api/tasks/{task_id}")
    def task(task_id: str) -> dict[str, Any]:
        """What an agent may know before it starts: the instruction, and the operations of the task's services."""
        found = host.pipelines.task(task_id)
        services = sorted({node.type.service for node in found.ideal_graph})
        return {
            "id": found.id,
            "level": found.level,
            "title": found.title,
            "instruction": found.instruction,
            "max_steps": found.max_steps,
            "operations": {name: sorted(SERVICES[name].operations) for name in services},
        }

    return api


def _shown(task: Task, built_in: bool) -> Pipeline:
    return Pipeline(
        pipeline_id=task.id,
        level=task.level,
        title=task.title,
        built_in=built_in,
        broken_pipeline=dict(task.broken),
        ideal_pipeline=dict(task.ideal),
    )
