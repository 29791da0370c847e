"""Environments over the simulated cloud. Importing this package registers the gymnasium ids.

>>> import gymnasium as gym, envs
>>> env = gym.make("CloudOps-Medium-v1")
>>> vec = gym.make_vec("CloudOps-Medium-v1", num_envs=64)
"""

from __future__ import annotations

import gymnasium

from cloudrl.scenarios.library import SUITES

IDS = tuple(SUITES.values())
"""The registered ids."""


def register() -> None:
    """Register every suite with gymnasium (again, after somebody cleared the registry).

    max_episode_steps stays unset: the horizon is part of the task and ends an episode with terminated=True, so no
    TimeLimit may fire first.
    """
    for scenario, env_id in SUITES.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point="envs.cloudops.env:CloudOpsEnv",
                vector_entry_point="envs.cloudops.vector_env:CloudOpsVectorEnv",
                kwargs={"scenario": scenario},
            )


register()
