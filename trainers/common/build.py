"""From a checked config to worlds and a model."""

from __future__ import annotations

from typing import Any

import torch as th
from sb3_contrib import MaskablePPO

from cloudrl.config import Device, Engine, Policy, PPOConfig
from cloudrl.errors import UserError
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.observation import (
    DEPENDENCY_COLUMNS,
    N_RESOURCE_FEATURES,
    N_WORLD_FEATURES,
    RESOURCE_COLUMN,
    RESOURCE_FEATURES,
    WORLD_FEATURES,
)
from cloudrl.scenarios.schema import Scenario
from envs.cloudops.sb3 import CloudOpsSB3VecEnv
from evaluation.agents.networks import SetPolicy
from trainers.common.fast_ppo import FastMaskablePPO

FEATURE_NAMES = {"resource": RESOURCE_FEATURES, "world": WORLD_FEATURES}


def pick_device(device: Device) -> str:
    """ "cpu" or "cuda". Raises UserError if cuda is asked for and there is none."""
    if device is Device.cuda and not th.cuda.is_available():
        raise UserError(
            "device=cuda: this machine has no CUDA device (or torch is a CPU build); say device=auto or cpu"
        )
    return "cuda" if device is not Device.cpu and th.cuda.is_available() else "cpu"


def make_memory(config: PPOConfig) -> ImmuneMemory | None:
    """The immune memory that training starts with; None if it is off."""
    if not config.memory.enabled:
        return None
    if config.memory.path is not None:
        return ImmuneMemory.load(config.memory.path, config.memory)
    return ImmuneMemory(config.memory)


def make_worlds(config: PPOConfig, scenario: Scenario, memory: ImmuneMemory | None) -> CloudOpsSB3VecEnv:
    """The training worlds as one VecEnv."""
    return CloudOpsSB3VecEnv(
        scenario,
        config.ppo.n_envs,
        config.seed,
        "train",
        control_variate=config.ppo.control_variate.value,
        reward=config.reward,
        safety=config.safety,
        memory=memory if memory is not None else False,
        reward_scale=config.ppo.reward_scale,
    )


def linear(start: float, end_fraction: float) -> Any:
    """A schedule of SB3: progress 1 -> 0 gives start -> start * end_fraction."""

    def schedule(progress_remaining: float) -> float:
        return start * (end_fraction + (1.0 - end_fraction) * max(0.0, progress_remaining))

    return schedule


def policy_arguments(config: PPOConfig) -> tuple[Any, dict[str, Any]]:
    """(policy class, policy_kwargs) of the config."""
    ppo = config.ppo
    optimizer = {"eps": 1e-5, "fused": True}
    if ppo.policy is Policy.mlp:
        return "MlpPolicy", {"net_arch": list(ppo.net_arch), "optimizer_kwargs": optimizer}
    return SetPolicy, {
        "resource_features": N_RESOURCE_FEATURES,
        "world_features": N_WORLD_FEATURES,
        "present_column": RESOURCE_COLUMN["present"],
        "dependency_columns": DEPENDENCY_COLUMNS,
        "width": ppo.width,
        "use_dependencies": ppo.edges,
        "noop_bias": ppo.noop_bias,
        "optimizer_kwargs": optimizer,
    }


def model_class(config: PPOConfig) -> type[MaskablePPO]:
    return FastMaskablePPO if config.ppo.engine is Engine.fast else MaskablePPO


def algorithm_arguments(config: PPOConfig) -> dict[str, Any]:
    """Arguments of MaskablePPO that a resumed run may change."""
    ppo = config.ppo
    return {
        "n_steps": ppo.n_steps,
        "batch_size": ppo.batch_size,
        "n_epochs": ppo.n_epochs,
        "learning_rate": linear(ppo.learning_rate, ppo.learning_rate_final_fraction),
        "gamma": ppo.gamma,
        "gae_lambda": ppo.gae_lambda,
        "ent_coef": ppo.ent_coef,
        "clip_range": ppo.clip_range,
        "clip_range_vf": ppo.clip_range_vf,
        "vf_coef": ppo.vf_coef,
        "max_grad_norm": ppo.max_grad_norm,
        "target_kl": ppo.target_kl,
    }


def make_model(config: PPOConfig, worlds: CloudOpsSB3VecEnv) -> MaskablePPO:
    """A fresh model."""
    policy, policy_kwargs = policy_arguments(config)
    return model_class(config)(
        policy,
        worlds,
        **algorithm_arguments(config),
        policy_kwargs=policy_kwargs,
        device=pick_device(config.device),
        seed=config.seed,
    )


def shift_noop(model: MaskablePPO, by: float) -> None:
    """Add `by` to the logit of NOOP."""
    policy: Any = model.policy
    with th.no_grad():
        if isinstance(policy, SetPolicy):
            policy.mlp_extractor.noop.bias += by  # type: ignore[operator, union-attr]
        else:
            policy.action_net.bias[-1] += by
