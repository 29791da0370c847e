"""A small world with the layout of the real observation, as one vectorised environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

N_DEPENDENCIES = 4
WORLD_FEATURES = 3


class ToyVecEnv(VecEnv):
    """Resources need an operation now and then; the right one earns its urgency, a wrong one costs 0.1.

    A resource: present, urgency, one-hot need (n_ops), four dependencies. The world: time left, mean urgency,
    share of resources in need. Episodes are cut off at `horizon` (truncated) or collapse early (terminated).
    """

    def __init__(
        self, n_envs: int = 8, n_slots: int = 4, n_ops: int = 12, horizon: int = 16, seed: int = 0
    ) -> None:
        self.n_slots, self.n_ops, self.horizon = n_slots, n_ops, horizon
        self.resource_features = 2 + n_ops + N_DEPENDENCIES
        length = n_slots * self.resource_features + WORLD_FEATURES
        self.render_mode = None
        super().__init__(
            n_envs, spaces.Box(-np.inf, np.inf, (length,), np.float32), spaces.Discrete(n_slots * n_ops + 1)
        )
        self.rng = np.random.default_rng(seed)
        self.live = np.zeros((n_envs, n_slots), bool)
        self.need = np.zeros((n_envs, n_slots), np.int64)  # -1 for none
        self.urgency = np.zeros((n_envs, n_slots), np.float32)
        self.dependencies = np.zeros((n_envs, n_slots, N_DEPENDENCIES), np.int64)  # -1 for none
        self.tick = np.zeros(n_envs, np.int64)

    @property
    def set_policy_kwargs(self) -> dict[str, Any]:
        """Arguments of SetPolicy for this layout."""
        first = 2 + self.n_ops
        return {
            "resource_features": self.resource_features,
            "world_features": WORLD_FEATURES,
            "n_ops": self.n_ops,
            "present_column": 0,
            "dependency_columns": tuple(range(first, first + N_DEPENDENCIES)),
        }

    def _new_worlds(self, which: np.ndarray) -> None:
        n, slots = len(which), self.n_slots
        self.live[which] = self.rng.random((n, slots)) < 0.8
        self.live[which, 0] = True
        self.need[which] = -1
        self.urgency[which] = self.rng.random((n, slots))
        dependencies = self.rng.integers(-slots, slots, (n, slots, N_DEPENDENCIES))
        self.dependencies[which] = np.maximum(dependencies, -1)
        self.tick[which] = 0

    def _obs(self) -> np.ndarray:
        n, slots, ops = self.num_envs, self.n_slots, self.n_ops
        obs = np.zeros((n, slots * self.resource_features + WORLD_FEATURES), np.float32)
        table = obs[:, : slots * self.resource_features].reshape(n, slots, self.resource_features)
        table[..., 0] = 1
        table[..., 1] = self.urgency
        table[..., 2 : 2 + ops] = self.need[..., None] == np.arange(ops)
        table[..., 2 + ops :] = (self.dependencies + 1) / slots
        table[~self.live] = 0
        obs[:, -3] = 1 - self.tick / self.horizon
        obs[:, -2] = (self.urgency * self.live).mean(1)
        obs[:, -1] = (self.need >= 0).mean(1)
        return obs

    def action_masks(self) -> np.ndarray:
        """(B, A): a third of the operations is invalid, another third at each tick; a needed one never is."""
        ops = np.arange(self.n_ops)
        valid = (ops + np.arange(self.n_slots)[:, None] + self.tick[:, None, None]) % 3 != 0
        valid = (valid | (self.need[..., None] == ops)) & self.live[..., None]
        return np.concatenate([valid.reshape(self.num_envs, -1), np.ones((self.num_envs, 1), bool)], 1)

    def reset(self) -> np.ndarray:
        self._new_worlds(np.arange(self.num_envs))
        self.tick[:] = np.arange(self.num_envs) % self.horizon  # episodes end at different steps
        return self._obs()

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        worlds = np.arange(self.num_envs)
        slot, op = np.divmod(self.actions, self.n_ops)
        acts = slot < self.n_slots
        slot = np.where(acts, slot, 0)
        right = acts & (self.need[worlds, slot] == op)
        rewards = np.where(right, self.urgency[worlds, slot], np.where(acts, -0.1, 0.0)).astype(np.float32)
        self.need[worlds[right], slot[right]] = -1
        appears = (self.rng.random(self.need.shape) < 0.1) & self.live & (self.need < 0)
        self.need[appears] = self.rng.integers(0, self.n_ops, int(appears.sum()))
        self.tick += 1
        terminated = self.rng.random(self.num_envs) < 0.01
        dones = terminated | (self.tick >= self.horizon)
        infos: list[dict[str, Any]] = [{} for _ in worlds]
        obs = self._obs()
        ended = np.flatnonzero(dones)
        for i in ended:
            infos[i] = {"terminal_observation": obs[i], "TimeLimit.truncated": not terminated[i]}
        if len(ended):
            self._new_worlds(ended)
            obs = self._obs()
        return obs, rewards, dones, infos

    def close(self) -> None:
        pass

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        return getattr(self, method_name)(*args, **kwargs)

    def has_attr(self, attr_name: str) -> bool:
        return hasattr(self, attr_name)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs
