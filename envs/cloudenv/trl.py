"""CloudEnv as an environment for TRL's GRPOTrainer: `GRPOTrainer(..., environment_factory=CloudEnvTools)`.

TRL makes one object per rollout, calls `reset` with the columns of the data set's row, offers every other public
method to the model as a tool, and takes `get_reward` in the end. No server is needed. The columns that count:
`task` (an id of the bank, or `gen:<level>`) and `seed`.
"""

from __future__ import annotations

import json
from typing import Any

from .server.providers.aws.registry import SERVICES, closest
from .session import CloudEnvSession

MAX_ANSWER = 6000
"""Characters of an answer to the model."""


class CloudEnvTools:
    """One episode, played through tools."""

    def __init__(self) -> None:
        self._session = CloudEnvSession()
        self._reward = 0.0
        self._over = True
        self._state: dict[str, Any] = {}

    def reset(self, task: str = "easy-task-1", seed: int | None = None, **_: Any) -> str:
        """Start an episode; the text goes to the model behind its prompt."""
        observation, _info = self._session.reset(task, seed=seed)
        self._reward, self._over = 0.0, False
        self._state = observation["current_pipeline_state"]
        return (
            f"{observation['instruction']}\n\nServices: {', '.join(sorted(SERVICES))}. Account 123456789012, "
            f"region us-east-1.\nThe state of the pipeline:\n{json.dumps(self._state)}"
        )

    def aws(self, service: str, operation: str, payload: dict) -> str:  # type: ignore[type-arg]
        """Call one operation of AWS.

        Args:
            service: The service, such as s3 or lambda.
            operation: The operation as in boto3's API reference, in CamelCase, such as PutBucketVersioning.
            payload: The parameters of the operation, such as {"Bucket": "uploads"}.

        Returns:
            The result of the call, the reward so far, and the state of the pipeline where it has changed.
        """
        if self._over:
            raise ValueError("The episode is over.")
        action = {"service": service, "operation": operation, "payload": payload}
        observation, self._reward, terminated, truncated, _ = self._session.step(action)
        self._over = terminated or truncated
        state = observation["current_pipeline_state"]
        changed = {k: v for k, v in state.items() if self._state.get(k) != v}
        changed |= {k: [] for k in self._state if k not in state}
        self._state = state
        answer = {"result": observation["operation_result"], "reward": self._reward, "done": terminated}
        return json.dumps({**answer, "changed": changed})[:MAX_ANSWER]

    def operations(self, service: str) -> str:
        """List the operations of a service that may be called.

        Args:
            service: The service, such as s3 or lambda.

        Returns:
            The names of the operations.
        """
        if service not in SERVICES:
            raise ValueError(f"unknown service {service[:40]!r}; {closest(service, SERVICES)}")
        return ", ".join(sorted(SERVICES[service].operations))

    def state(self) -> str:
        """Show the state of the whole pipeline.

        Returns:
            Every resource with its configuration, as json.
        """
        return json.dumps(self._state)[:MAX_ANSWER]

    def get_reward(self) -> float:
        """The reward of the episode: 0.99 when the pipeline is repaired."""
        return float(self._reward)
