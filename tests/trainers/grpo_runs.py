"""Runs of the GRPO trainer that take seconds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from cloudrl.compose import compose, curriculum_scenarios
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import Run, create_run, resume_point
from evaluation.agents import lm_files
from trainers.grpo import Trainer
from trainers.llm.models import make_language

SHORT = (
    "scenario.horizon.ticks=12",
    "warm_start.states=64",
    "warm_start.batch=8",
    "model.width=16",
    "model.layers=1",
    "model.heads=2",
    "grpo.steps=4",
    "grpo.states=4",
    "grpo.group=4",
    "grpo.block=2",
    "grpo.blocks=3",
    "grpo.learning_rate=3e-3",
    "grpo.eval_every=2",
    "grpo.checkpoint_every=2",
    "grpo.samples_every=2",
    "grpo.log_every=1",
    "evaluation.worlds=2",
    "evaluation.final_worlds=2",
)


def arguments(tmp_path: Path, *more: str) -> list[str]:
    """Command line of a short run; later values win."""
    own = {text.split("=")[0] for text in more}
    foreign = any(text.startswith("model=") and text != "model=tiny" for text in more)
    kept = [t for t in SHORT if t.split("=")[0] not in own and not (foreign and t.startswith("model."))]
    return [*kept, f"runs_dir={tmp_path / 'runs'}", *more]


def new_trainer(tmp_path: Path, *more: str) -> Trainer:
    config = compose("grpo", arguments(tmp_path, *more))
    run = create_run("grpo", config, [], observation_version=OBSERVATION_VERSION)
    scenarios = curriculum_scenarios(config) or [config.scenario]
    return Trainer(config, run, scenarios, make_language(config, scenarios[0]))


def resumed(trainer: Trainer) -> Trainer:
    """What `resume=<run>` makes of a run."""
    run, checkpoint = resume_point(trainer.run.path, "grpo")
    assert checkpoint is not None
    language = lm_files.load(checkpoint, trainable=True)
    return Trainer(trainer.config, run, trainer.scenarios, language, checkpoint=checkpoint)


def final_state(trainer: Trainer) -> dict[str, Any]:
    """All that a run computed, comparable with ==; times are left out."""
    state: dict[str, Any] = {}
    for name, weight in trainer.language.model.state_dict().items():
        state[f"weight.{name}"] = weight.numpy().tobytes()
    for i, entry in trainer.trl.optimizer.state_dict()["state"].items():
        state |= {f"adam.{i}.{k}": v.numpy().tobytes() for k, v in entry.items()}
    state["schedule"] = trainer.trl.lr_scheduler.state_dict()["last_epoch"]
    for name, array in trainer.stream.get_state().items():
        state[f"worlds.{name}"] = _bytes(np.asarray(array))
    state["episodes"] = trainer.stream.results
    state["step"] = trainer.progress.step
    state["best"] = trainer.progress.best_score
    state["curriculum"] = vars(trainer.progress.curriculum)
    state["csv"] = progress_rows(trainer.run)
    return state


def _bytes(array: np.ndarray) -> bytes:
    """Of a record its fields only: what lies between them is nobody's."""
    return b"".join(array[n].tobytes() for n in array.dtype.names) if array.dtype.names else array.tobytes()


_TIMES = ("train/step_time", "train/num_tokens", "time/")


def progress_rows(run: Run) -> list[dict[str, str]]:
    with open(run.progress_file, newline="") as file:
        return [{k: v for k, v in row.items() if v and not k.startswith(_TIMES)} for row in csv.DictReader(file)]


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
