"""TensorBoard, progress.csv and the progress bar of a run. A resumed run appends to what is there."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from cloudrl.reward.bill import BILL_PARTS
from cloudrl.reward.terms import TERM_NAMES

LAYOUT = {
    "Outcome": {
        "Validation reward": ["Multiline", ["eval/mean_reward", "eval/deterministic_reward"]],
        "Validation wins and savings": ["Multiline", ["ops/win_rate", "ops/savings"]],
        "Training reward": ["Multiline", ["rollout/ep_rew_mean"]],
    },
    "Reward and bill": {
        "Reward by term": ["Multiline", [f"reward/{term}" for term in TERM_NAMES]],
        "Bill by part, $": ["Multiline", [f"bill/{part}" for part in BILL_PARTS]],
    },
    "Operations": {
        "Service": ["Multiline", ["ops/slo", "ops/cascades"]],
        "Safety": [
            "Multiline",
            ["safety/veto_rate", "safety/invalid_rate", "safety/violations", "safety/mask_fraction"],
        ],
        "Memory": ["Multiline", ["memory/size", "memory/hits", "memory/vetoes"]],
    },
    "Learning": {
        "Loss": ["Multiline", ["train/policy_gradient_loss", "train/value_loss", "warm_start/loss"]],
        "Trust region": ["Multiline", ["train/approx_kl", "train/clip_fraction"]],
        "Entropy and fit": ["Multiline", ["train/entropy_loss", "train/explained_variance"]],
        "Curriculum": ["Multiline", ["curriculum/stage"]],
    },
}
"""Custom-scalars tab: what belongs together stands together."""


class CsvRows(KVWriter):
    """progress.csv: one row per dump; a new column rewrites the header, a resumed run keeps earlier rows."""

    def __init__(self, path: Path, resume_step: int | None) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if resume_step is not None and path.exists():
            with open(path, newline="") as file:
                self.rows = [r for r in csv.DictReader(file) if int(r["step"]) <= resume_step]
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


def make_logger(tb: Path, progress_file: Path, resume_step: int | None) -> Logger:
    """Logger of a run folder. `resume_step`: drop what was logged after it; None for a new run."""
    board = TensorBoardOutputFormat(str(tb))
    board.writer.close()
    for empty in tb.glob("events.*"):
        if empty.stat().st_size < 100:  # the writer that was just replaced
            empty.unlink()
    board.writer = SummaryWriter(str(tb), purge_step=resume_step)
    if resume_step is None:
        board.writer.add_custom_scalars(LAYOUT)
    return Logger(str(tb), [CsvRows(progress_file, resume_step), board])


class Bar:
    """A progress bar on a terminal; one line per message elsewhere."""

    def __init__(self, total: int, shown: bool) -> None:
        self.interactive = shown and sys.stderr.isatty()
        self._bar = tqdm(total=total, unit="step", unit_scale=True, disable=not self.interactive, dynamic_ncols=True)

    def to(self, n: int, text: str = "") -> None:
        """Move to `n` of the total."""
        if self.interactive:
            self._bar.n = n
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
        self._bar.close()
