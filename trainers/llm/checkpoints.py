"""What a GRPO run needs to go on exactly where it stopped: model, optimiser, schedule, worlds, luck, stage,
memory.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from cloudrl.curriculum import CurriculumState
from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import checkpoint_manifest, new_checkpoint, restore_rng, rng_state, save_json
from evaluation.agents import lm_files
from evaluation.agents.lm_files import LanguageModel
from trainers.llm.meter import Meter
from trainers.llm.stream import Stream


@dataclass
class Progress:
    """The trainer's own state beside model and worlds."""

    warm: bool = False  # the warm start is done
    step: int = 0  # gradient steps
    best_score: float | None = None  # mean sampled reward of validation episodes
    seconds: float = 0.0  # processor time so far
    curriculum: CurriculumState = field(default_factory=CurriculumState)


def save_checkpoint(
    parent: Path,
    language: LanguageModel,
    trainer: Any,
    stream: Stream,
    meter: Meter,
    progress: Progress,
    keep: int,
    **meta: Any,
) -> None:
    """Write a whole checkpoint under `parent`; `trainer` is transformers' with optimiser and schedule."""
    torch_state = io.BytesIO()
    th.save(th.random.get_rng_state(), torch_state)
    with new_checkpoint(parent, progress.step, keep, observation_version=OBSERVATION_VERSION, **meta) as folder:
        lm_files.save(language, folder)
        if trainer.optimizer is not None:
            th.save(trainer.optimizer.state_dict(), folder / "optimizer.pt")
            th.save(trainer.lr_scheduler.state_dict(), folder / "scheduler.pt")
        state = {
            "global_step": trainer.state.global_step,
            "num_input_tokens_seen": int(trainer.state.num_input_tokens_seen),
            "entropy_coef": trainer.entropy_coef,
            "last_world_entropy": trainer._last_world_entropy,
        }
        save_json(folder / "trainer.json", state)
        arrays: dict[str, Any] = stream.get_state()
        np.savez(folder / "worlds.npz", **arrays)
        save_json(folder / "recent.json", {"episodes": stream.results, "constants": meter.constants})
        (folder / "progress.json").write_text(json.dumps(asdict(progress)))
        (folder / "rng.json").write_text(rng_state(torch=torch_state.getvalue()))
        if stream.memory is not None:
            stream.memory.save(folder / "memory.json")


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


def restore_trainer(folder: Path, trainer: Any) -> None:
    """Optimiser, schedule and step of transformers' trainer, once it has made them."""
    state = json.loads((folder / "trainer.json").read_text())
    trainer.state.global_step = state["global_step"]
    trainer.state.num_input_tokens_seen = state["num_input_tokens_seen"]
    trainer.entropy_coef = state["entropy_coef"]
    trainer._last_world_entropy = state["last_world_entropy"]
    if not (folder / "optimizer.pt").exists():
        return
    # weights_only: reading the file runs no code
    trainer.optimizer.load_state_dict(th.load(folder / "optimizer.pt", weights_only=True))
    trainer.lr_scheduler.load_state_dict(th.load(folder / "scheduler.pt", weights_only=True))


def restore_worlds(folder: Path, stream: Stream, meter: Meter) -> None:
    """Worlds, and what is remembered of the last ones, as they were when the checkpoint was written."""
    with np.load(folder / "worlds.npz", allow_pickle=False) as state:
        try:
            stream.set_state(state)
        except ValueError as error:
            raise UserError(f"{folder}: {error}; leave grpo.block and grpo.blocks as they were") from error
    recent = json.loads((folder / "recent.json").read_text())
    stream.results, meter.constants = recent["episodes"], recent["constants"]


def restore_luck(folder: Path) -> None:
    """Random generators as they were when the checkpoint was written."""
    others = restore_rng((folder / "rng.json").read_text())
    th.random.set_rng_state(th.load(io.BytesIO(others["torch"]), weights_only=True))
