"""A trained network as an agent whose choices never depend on the batch."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch as th
from numpy.typing import ArrayLike, NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from evaluation.agents.agent import View
from evaluation.agents.networks import action_logits_and_values
from evaluation.agents.policy_files import FeatureNames, load_policy, save_policy
from evaluation.agents.sampling import argmax_masked, sample_masked

__all__ = ["PolicyAgent", "save_policy"]

BLOCK = 256
"""Worlds per forward pass. A matrix product may round differently for another number of rows."""


class PolicyAgent:
    """Acts in any number of worlds at once.

    The network always sees `block` rows, the missing ones zero, so that what it says about a world is
    bit for bit the same alone and among others. Sampled actions are drawn from the agent's own luck and the tick.

    :param policy: the network
    :param deterministic: the best valid action; otherwise a draw from the policy
    :param noop_offset: added to the logit of NOOP (the last action) in deterministic mode
    :param block: rows of a forward pass
    """

    def __init__(
        self,
        policy: MaskableActorCriticPolicy,
        *,
        deterministic: bool = True,
        noop_offset: float = 0.0,
        block: int = BLOCK,
        name: str = "policy",
    ) -> None:
        self.name = name
        self.policy = policy
        self.deterministic = deterministic
        self.noop_offset = noop_offset
        self.block = block
        self.description: dict[str, Any] = {}
        policy.set_training_mode(False)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        observation_version: int | None = None,
        feature_names: FeatureNames | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> PolicyAgent:
        """The agent saved in the folder `path` by `save_policy`; `options` as in the constructor.

        :raises ValueError: a missing or foreign file, another observation version
        """
        policy, description = load_policy(
            path, observation_version=observation_version, feature_names=feature_names, device=device
        )
        agent = cls(policy, **options)
        agent.description = description
        return agent

    def act(self, view: View) -> NDArray[np.int64]:
        """One action per world, (B,)."""
        return self.choose(view.observations, view.masks, view.luck, view.tick)

    def choose(
        self,
        observations: NDArray[np.float32],
        masks: NDArray[np.bool_],
        keys: NDArray[np.uint64],
        tick: ArrayLike,
    ) -> NDArray[np.int64]:
        """One action per world, (B,).

        :param observations: (B, D)
        :param masks: (B, A), True for a valid action
        :param keys: (B,), of the draws
        :param tick: one for all worlds, or (B,)
        """
        n_worlds = len(observations)
        if masks.shape[0] != n_worlds or keys.shape != (n_worlds,):
            raise ValueError(f"{n_worlds} observations, masks {masks.shape}, keys {keys.shape}")
        actions = np.empty(n_worlds, np.int64)
        log_probs = np.empty(n_worlds, np.float32)
        ticks = np.ascontiguousarray(np.broadcast_to(np.asarray(tick, np.int64), n_worlds))
        masks = np.ascontiguousarray(masks, np.bool_)
        keys = np.ascontiguousarray(keys, np.uint64)
        for start in range(0, n_worlds, self.block):
            part = slice(start, start + self.block)
            logits = self._logits(observations[part])
            if logits.shape[1] != masks.shape[1]:
                raise ValueError(f"the policy knows {logits.shape[1]} actions, the masks {masks.shape[1]}")
            if self.deterministic:
                bad = argmax_masked(logits, masks[part], float(self.noop_offset), actions[part])
            else:
                bad = sample_masked(logits, masks[part], keys[part], ticks[part], actions[part], log_probs[part])
            if bad >= 0:
                raise ValueError(f"world {start + bad} has no valid action or logits that are not finite")
        return actions

    def _logits(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of up to `block` observations, from a forward pass over exactly `block` rows."""
        padded = np.zeros((self.block, observations.shape[1]), np.float32)
        padded[: len(observations)] = observations
        with th.no_grad():
            obs = th.from_numpy(padded).to(self.policy.device)
            logits, _ = action_logits_and_values(self.policy, obs)
        return logits[: len(observations)].cpu().numpy()
