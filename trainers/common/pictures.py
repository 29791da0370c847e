"""A validation in pictures, for TensorBoard: one of its worlds, and how often each operation was executed."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from envs.cloudops.history import History
from envs.cloudops.render_rgb import render_rgb
from evaluation.rollout import Episodes

WORLD, OPERATIONS = "validation/median_world", "validation/operations"
"""Tags: an image, and a histogram whose k-th bucket is the k-th operation."""


def show_validation(
    board: SummaryWriter,
    scenario: Scenario,
    safety: SafetyConfig,
    episodes: Episodes,
    actions: np.ndarray,
    step: int,
) -> None:
    """Draw the world with the median bill at its worst tick, and the mix of operations.

    Args:
        actions: executed flat actions (B, T) of the episodes.
    """
    median = int(np.argsort(episodes.bill, kind="stable")[(len(episodes.bill) - 1) // 2])
    frame = worst_moment(scenario, safety, int(episodes.seeds[median]), actions[median])
    board.add_image(WORLD, frame, step, dataformats="HWC")
    if episodes.ops is not None:
        show_operations(board, episodes.ops[:, :N_OPS].sum(axis=0), step)


def worst_moment(scenario: Scenario, safety: SafetyConfig, seed: int, actions: np.ndarray) -> np.ndarray:
    """A picture (600, 960, 3) of a world, played by actions (T,), in the tick with the costliest outage, or at its
    end if there was none."""
    sim = Simulator(scenario, 1, safety=safety)
    sim.reset(seed)
    history, worst, moment, ticks = History(), 0.0, None, 0
    for action in actions.tolist():
        sim.step([action])
        history.note(sim, 0, action)
        outage = float(sim.state.worlds["tick_outage"][0])
        if outage > worst:
            worst, moment, ticks = outage, sim.snapshot(0), len(history.load)
    if moment is not None:
        sim.restore(moment)
        history.cut(ticks)
    return render_rgb(sim, history=history)


def show_operations(board: SummaryWriter, counts: np.ndarray, step: int) -> None:
    """A histogram of how often each operation (N_OPS,) was executed; NOOP, which is most of them, is left out."""
    numbers = np.arange(N_OPS)
    total = float(counts.sum())
    board.add_histogram_raw(
        OPERATIONS, min=-0.5, max=N_OPS - 0.5, num=total, sum=float((numbers * counts).sum()),
        sum_squares=float((numbers**2 * counts).sum()), bucket_limits=(numbers + 0.5).tolist(),
        bucket_counts=counts.astype(float).tolist(), global_step=step,
    )  # fmt: skip


def explain_operations(board: SummaryWriter) -> None:
    """Which bucket is which operation: once, in the text tab."""
    rows = "\n".join(f"| {k} | {name} |" for k, name in enumerate(OP_NAMES[:N_OPS]))
    board.add_text(
        OPERATIONS, f"Buckets of the histogram `{OPERATIONS}`:\n\n| bucket | operation |\n|---|---|\n{rows}"
    )


def board_of(logger: Any) -> SummaryWriter | None:
    """TensorBoard's writer behind a logger of stable-baselines3."""
    for output in logger.output_formats:
        writer = getattr(output, "writer", None)
        if isinstance(writer, SummaryWriter):
            return writer
    return None
