"""Clients of a CloudEnv server: `MyEnv` blocks, `AsyncMyEnv` is awaited. Both speak OpenEnv's WebSocket protocol.

    with MyEnv(base_url="http://localhost:8000") as env:
        env.reset()
        result = env.step(CloudEnvAction(...))

An error of the agent (unknown operation, missing bucket) is in `result.observation.operation_result`; RuntimeError
is for messages that are no action at all, ConnectionError for a server that cannot be reached.
"""

from __future__ import annotations

from typing import Any

from ._openenv import EnvClient, StepResult, SyncEnvClient
from .models import CloudEnvAction, CloudEnvObservation, CloudEnvState


class AsyncMyEnv(EnvClient[CloudEnvAction, CloudEnvObservation, CloudEnvState]):
    """OpenEnv's client for CloudEnv: `async with AsyncMyEnv(base_url=...) as env: await env.reset()`."""

    def _step_payload(self, action: CloudEnvAction) -> dict[str, Any]:
        return action.model_dump(mode="json", exclude_none=True)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CloudEnvObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done", False))
        observation = CloudEnvObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> CloudEnvState:
        return CloudEnvState(**payload)

    def sync(self) -> MyEnv:
        """The blocking client around this one, always the same."""
        if self._sync_client is None:
            MyEnv(client=self)  # makes itself the one
        assert isinstance(self._sync_client, MyEnv)
        return self._sync_client


class MyEnv(SyncEnvClient[CloudEnvAction, CloudEnvObservation, CloudEnvState]):
    """A blocking client, ready for use: `reset()`, `step(action)`, `state()`, `close()`; also a context manager.

    It connects at the first call. One client is one session of the server, with one episode at a time.
    """

    def __init__(self, base_url: str | None = None, *, client: AsyncMyEnv | None = None, **options: Any) -> None:
        """base_url: of the server, http:// or ws://; options: OpenEnv's EnvClient's (timeouts, headers).

        client: an asynchronous client to wrap instead of making one.
        """
        super().__init__(client or AsyncMyEnv(base_url=base_url, **options))
        self._async._sync_client = self

    @classmethod
    def from_docker_image(cls, image: str, provider: Any = None, **options: Any) -> MyEnv:
        """Start a container of the image, wait until it answers, and return a connected client.

        provider: an OpenEnv ContainerProvider (default: the local Docker); options: for its start_container.
        `close()` also stops the container. Raises RuntimeError when there is no Docker.
        """
        return AsyncMyEnv.from_docker_image(image, provider, **options).sync()

    @classmethod
    def from_env(cls, repo_id: str, **options: Any) -> MyEnv:
        """As OpenEnv's `EnvClient.from_env`: a Hugging Face Space by its id, in Docker or under uv."""
        return AsyncMyEnv.from_env(repo_id, **options).sync()


CloudenvEnv = AsyncMyEnv
"""The name under which OpenEnv's AutoEnv looks for the client of `openenv-cloudenv`."""
CloudenvAction, CloudenvObservation = CloudEnvAction, CloudEnvObservation
"""The same for AutoAction."""
