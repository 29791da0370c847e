"""What a run needs to go on exactly where it stopped: model, optimiser, worlds, luck, stage, memory."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO

from cloudrl.config import Policy, PPOConfig
from cloudrl.curriculum import CurriculumState
from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import checkpoint_manifest, new_checkpoint, restore_rng, rng_state, save_json
from envs.cloudops.sb3 import CloudOpsSB3VecEnv
from evaluation.agents.networks import SetPolicy
from evaluation.agents.policy_agent import save_policy
from trainers.common.build import FEATURE_NAMES, algorithm_arguments, model_class, pick_device, policy_arguments

__all__ = ["Progress", "load_model", "load_progress", "restore_worlds", "save_checkpoint"]


@dataclass
class Progress:
    """The trainer's own state beside the model."""

    warm: bool = False  # the warm start is done
    rollouts: int = 0
    best_score: float | None = None  # mean sampled reward on validation worlds
    next_evaluation: int = 0
    next_checkpoint: int = 0
    seconds: float = 0.0  # processor time so far
    curriculum: CurriculumState = field(default_factory=CurriculumState)


def save_checkpoint(
    parent: Path,
    model: MaskablePPO,
    worlds: CloudOpsSB3VecEnv,
    progress: Progress,
    keep: int,
    **meta: Any,
) -> None:
    """Write a whole checkpoint under `parent`."""
    torch_state = io.BytesIO()
    th.save(th.random.get_rng_state(), torch_state)
    with new_checkpoint(
        parent, model.num_timesteps, keep, observation_version=OBSERVATION_VERSION, **meta
    ) as folder:
        model.save(folder / "model.zip")
        save_policy(
            model.policy, folder, observation_version=OBSERVATION_VERSION, feature_names=FEATURE_NAMES,
            notes={"steps": model.num_timesteps, "scenario": worlds.scenario.name, **meta},
        )  # fmt: skip
        assert model._last_episode_starts is not None
        arrays: dict[str, Any] = {"starts": model._last_episode_starts, **worlds.get_state()}
        np.savez(folder / "worlds.npz", **arrays)
        save_json(folder / "recent.json", worlds.recent_metrics())
        (folder / "progress.json").write_text(json.dumps(asdict(progress)))
        (folder / "rng.json").write_text(rng_state(torch=torch_state.getvalue()))
        if worlds.memory is not None:
            worlds.memory.save(folder / "memory.json")


def load_progress(folder: Path) -> Progress:
    """The trainer's state in a checkpoint. Raises UserError for another version of the observation."""
    version = checkpoint_manifest(folder).get("meta", {}).get("observation_version")
    if version != OBSERVATION_VERSION:
        raise UserError(
            f"{folder}: made for version {version} of the observation, "
            f"this is version {OBSERVATION_VERSION}: train anew"
        )
    data = json.loads((folder / "progress.json").read_text())
    return Progress(**{**data, "curriculum": CurriculumState(**data["curriculum"])})


def load_model(folder: Path, config: PPOConfig, worlds: CloudOpsSB3VecEnv) -> MaskablePPO:
    """The model of a checkpoint, with its optimiser and sampler, on `worlds`; settings are those of `config`."""
    try:
        model = model_class(config).load(
            folder / "model.zip",
            env=worlds,
            device=pick_device(config.device),
            force_reset=False,
            **algorithm_arguments(config),
        )
    except (ValueError, KeyError, RuntimeError) as error:
        raise UserError(f"{folder}: cannot be loaded ({error}); resume from another checkpoint") from error
    _, wanted = policy_arguments(config)
    if isinstance(model.policy, SetPolicy) != (config.ppo.policy is Policy.set) or any(
        model.policy_kwargs.get(key) != wanted.get(key) for key in ("width", "use_dependencies", "net_arch")
    ):
        raise UserError(
            f"{folder}: its network differs from ppo.policy, width, edges or net_arch; start a new run for that"
        )
    return model


def restore_worlds(folder: Path, model: MaskablePPO, worlds: CloudOpsSB3VecEnv) -> None:
    """Worlds with their memory, and random generators, as they were when the checkpoint was written."""
    with np.load(folder / "worlds.npz", allow_pickle=False) as state:
        model._last_obs = worlds.set_state(state)  # type: ignore[assignment]
        model._last_episode_starts = state["starts"]
    worlds.restore_recent_metrics(json.loads((folder / "recent.json").read_text()))
    others = restore_rng((folder / "rng.json").read_text())
    th.random.set_rng_state(th.load(io.BytesIO(others["torch"]), weights_only=True))
