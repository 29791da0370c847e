"""TensorBoard, progress.csv and the progress bar of a run. A resumed run appends to what is there."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams
from tqdm import tqdm

from cloudrl.config import PPOConfig
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.runs import Run
from trainers.common.pictures import explain_operations

LAYOUT = {
    "Outcome": {
        "Validation reward": ["Multiline", ["eval/mean_reward", "eval/deterministic_reward"]],
        "Validation wins, share": ["Multiline", ["ops/win_rate"]],
        "Saved against doing nothing, $": ["Multiline", ["ops/savings"]],
        "Validation safety": ["Multiline", ["eval/cascades", "eval/violations"]],
        "Training reward": ["Multiline", ["rollout/ep_rew_mean"]],
    },
    "Reward and bill": {
        "Reward by term": ["Multiline", [f"reward/{term}" for term in TERM_NAMES]],
        "Bill by part, $": ["Multiline", [f"bill/{part}" for part in BILL_PARTS]],
    },
    "Operations": {
        "Traffic served, share": ["Multiline", ["ops/slo"]],
        "Cascades per episode": ["Multiline", ["ops/cascades"]],
        "Safety": [
            "Multiline",
            ["safety/veto_rate", "safety/invalid_rate", "safety/violations", "safety/mask_fraction"],
        ],
        "Memory": ["Multiline", ["memory/size", "memory/hits", "memory/vetoes"]],
    },
    "PPO: learning": {
        "Loss": ["Multiline", ["train/policy_gradient_loss", "train/value_loss", "warm_start/loss"]],
        "Trust region": ["Multiline", ["train/approx_kl", "train/clip_fraction"]],
        "Entropy and fit": ["Multiline", ["train/entropy_loss", "train/explained_variance"]],
        "Curriculum": ["Multiline", ["curriculum/stage"]],
    },
}
"""Custom-scalars tab: what belongs together stands together.

TensorBoard merges categories of the same name, and charts that are the same: what both trainers log has one name.
"""

METRICS = ("eval/mean_reward", "eval/deterministic_reward", "eval/bill", "ops/win_rate", "ops/savings")
"""Results by which the HParams tab compares runs."""


class CsvRows(KVWriter):
    """progress.csv: one row per dump; a new column rewrites the header, a resumed run keeps earlier rows."""

    def __init__(self, path: Path, resume_step: int | None) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if resume_step is not None and path.exists():
            self.rows = _rows_until(path, resume_step)
        self.columns = list(self.rows[0]) if self.rows else ["step"]
        self._rewrite()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        row = {"step": step, **{k: v for k, v in key_values.items() if np.isscalar(v)}}
        self.rows.append(row)
        new = [key for key in row if key not in self.columns]
        if new:
            self.columns += sorted(new)
            self._rewrite()
        else:
            with open(self.path, "a", newline="") as file:
                csv.DictWriter(file, self.columns).writerow(row)

    def _rewrite(self) -> None:
        temporary = self.path.with_name(self.path.name + ".tmp")
        with open(temporary, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(self.rows)
        temporary.replace(self.path)

    def close(self) -> None:
        """Nothing is held open."""


def _rows_until(path: Path, step: int) -> list[dict[str, Any]]:
    """The rows up to a step; a last line that a kill cut short is left out."""
    text = path.read_text()
    lines = text[: text.rfind("\n") + 1].splitlines()
    rows = [row for row in csv.DictReader(lines) if None not in row.values() and None not in row]
    return [row for row in rows if int(row["step"]) <= step]


def make_logger(config: PPOConfig, run: Run, resume_step: int | None) -> Logger:
    """Logger of a run folder. `resume_step`: drop what was logged after it; None for a new run."""
    board = TensorBoardOutputFormat(str(run.tb))
    board.writer.close()
    for empty in run.tb.glob("events.*"):
        if empty.stat().st_size < 100:  # the writer that was just replaced
            empty.unlink()
    purge = None if resume_step is None else resume_step + 1
    board.writer = SummaryWriter(str(run.tb), purge_step=purge)
    if resume_step is None:
        board.writer.add_custom_scalars(LAYOUT)
        explain_operations(board.writer)
    for summary in hparams(_settings(config), dict.fromkeys(METRICS, 0.0)):
        board.writer.file_writer.add_summary(summary)  # type: ignore[attr-defined]
    return Logger(str(run.tb), [CsvRows(run.progress_file, resume_step), board])


def _settings(config: PPOConfig) -> dict[str, Any]:
    """What the HParams tab shows of a run: few, and named as in GRPO's runs where they are the same."""
    return {
        "trainer": "ppo",
        "seed": config.seed,
        "scenario": config.curriculum.stages[-1].scenario if config.curriculum.stages else config.scenario.name,
        "curriculum": ", ".join(stage.name for stage in config.curriculum.stages),
        "steps": int(config.ppo.total_timesteps),
        "learning_rate": config.ppo.learning_rate,
        "policy": config.ppo.policy.value,
        "warm_start": int(config.warm_start.states),
        "safety": config.safety.mode.value,
        "memory": config.memory.enabled,
    }


class Bar:
    """A progress bar on a terminal, from the first `to` on; one line per message elsewhere."""

    def __init__(self, name: str, total: int, shown: bool) -> None:
        self.name, self.total = name, total
        self.interactive = shown and sys.stderr.isatty()
        self._bar: tqdm | None = None

    def to(self, n: int, text: str = "") -> None:
        """Move to `n` of the total."""
        if not self.interactive:
            return
        if self._bar is None:  # a resumed run's speed is measured from where it goes on
            self._bar = tqdm(
                desc=self.name, total=self.total, initial=n, unit="step", unit_scale=True, dynamic_ncols=True
            )
        self._bar.n = min(n, self.total)
        if text:
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.refresh()

    def say(self, text: str) -> None:
        """A line above the bar."""
        if self.interactive:
            tqdm.write(text)
        else:
            print(text, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
