"""Runs of the PPO trainer that take a second."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloudrl.compose import compose, curriculum_scenarios
from cloudrl.config import PPOConfig
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import Run, create_run
from trainers.ppo import Trainer

TICKS = 24
ROLLOUT = 8 * 12
STAGES = (
    f"curriculum.stages=[{{name:first,scenario:easy,overrides:{{horizon.ticks:{TICKS}}},max_fraction:0.5}},"
    f"{{name:second,scenario:easy,overrides:{{horizon.ticks:{TICKS},failures.failure_rate:0.01}}}}]"
)
SHORT = (
    f"scenario.horizon.ticks={TICKS}",
    "warm_start.states=64",
    "warm_start.noop_offsets=[0.0]",
    "ppo.n_envs=8",
    "ppo.n_steps=12",
    "ppo.batch_size=48",
    "ppo.n_epochs=2",
    "ppo.width=16",
    "ppo.learning_rate=3e-3",
    "ppo.value_warmup_rollouts=2",
    f"ppo.total_timesteps={8 * ROLLOUT}",
    f"ppo.checkpoint_every={2 * ROLLOUT}",
    f"ppo.eval_every={3 * ROLLOUT}",
    "evaluation.worlds=3",
    "evaluation.final_worlds=3",
)


def arguments(tmp_path: Path, *more: str) -> list[str]:
    """Command line of a short run; later values win."""
    own = {text.split("=")[0] for text in more}
    return [*(text for text in SHORT if text.split("=")[0] not in own), f"runs_dir={tmp_path / 'runs'}", *more]


def short_config(tmp_path: Path, *more: str) -> PPOConfig:
    config: PPOConfig = compose("ppo", arguments(tmp_path, *more))
    return config


def new_trainer(config: PPOConfig, run: Run | None = None) -> Trainer:
    run = run or create_run("ppo", config, [], observation_version=OBSERVATION_VERSION)
    return Trainer(config, run, curriculum_scenarios(config) or [config.scenario])


def final_state(trainer: Trainer) -> dict[str, Any]:
    """All that a run computed, comparable with ==; times are left out."""
    model = trainer.model
    state: dict[str, Any] = {f"weight.{k}": v.numpy().tobytes() for k, v in model.policy.state_dict().items()}
    for i, entry in model.policy.optimizer.state_dict()["state"].items():
        state |= {f"adam.{i}.{k}": v.numpy().tobytes() for k, v in entry.items()}
    state |= {f"worlds.{k}": _bytes(np.asarray(v)) for k, v in trainer.worlds.get_state().items()}
    state["last_obs"] = np.asarray(model._last_obs).tobytes()
    state["starts"] = np.asarray(model._last_episode_starts).tobytes()
    state["steps"] = model.num_timesteps
    state["updates"] = model._n_updates
    state["sampler"] = getattr(model, "sampler_tick", None)
    state["rollouts"] = trainer.progress.rollouts
    state["best"] = trainer.progress.best_score
    state["curriculum"] = vars(trainer.progress.curriculum)
    state["csv"] = progress_rows(trainer.run)
    return state


def _bytes(array: np.ndarray) -> bytes:
    """Of a record its fields only: what lies between them is nobody's."""
    return b"".join(array[n].tobytes() for n in array.dtype.names) if array.dtype.names else array.tobytes()


def progress_rows(run: Run) -> list[dict[str, str]]:
    with open(run.progress_file, newline="") as file:
        return [{k: v for k, v in row.items() if k != "time/fps"} for row in csv.DictReader(file)]


def differences(a: dict[str, Any], b: dict[str, Any]) -> Sequence[str]:
    return [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
