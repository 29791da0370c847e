"""Figures of an evaluation for TensorBoard: one point per agent, under the tags that training uses.

`tensorboard --logdir runs` then shows trained agents beside the runs that they come from.
"""

from __future__ import annotations

import re
from pathlib import Path

from tensorboard.summary import Writer

from cloudrl.reward.bill import BILL_PARTS
from evaluation.report.summary import Row, Summary

_MEANS = {
    "served": "ops/slo",
    "cascades": "ops/cascades",
    "violations": "safety/violations",
    "unnecessary": "ops/unnecessary",
    "json_valid": "llm/json_valid",
}
"""Tag of a figure's mean."""


def scalars(row: Row) -> dict[str, float]:
    """Tags and values of one agent; a figure that nobody knows is left out."""
    intervals = {
        "eval/score": row.score,
        "eval/mean_reward": row.reward,
        "ops/win_rate": row.won,
        "ops/savings": row.saved,
        "bill/total": row.bill,
    }
    out = {tag: value.mean for tag, value in intervals.items() if value is not None}
    out |= {f"bill/{part}": row.parts[part] for part in BILL_PARTS}
    return out | {tag: row.means[name].mean for name, tag in _MEANS.items() if name in row.means}


def write_scalars(folder: Path, summary: Summary) -> None:
    """One TensorBoard run per agent below `folder`."""
    for row in summary.agents:
        writer = Writer(str(folder / re.sub(r"[^\w.,() +-]", "_", row.name)))
        for tag, value in scalars(row).items():
            writer.add_scalar(tag, value, 0)
        writer.close()
