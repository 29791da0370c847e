"""The bill J: dollars, what the benchmark scores. It never sees the reward."""

from __future__ import annotations

import numpy as np

from cloudrl.measurements import TICK_HOURS

BILL_PARTS = ("infrastructure", "outage", "exposure", "labour")


def bill(worlds: np.ndarray) -> np.ndarray:
    """$ of each world so far, (B,)."""
    return sum((worlds[part] for part in BILL_PARTS), np.zeros(len(worlds)))


def bill_parts(worlds: np.ndarray) -> dict[str, np.ndarray]:
    """$ per part, each (B,)."""
    return {part: worlds[part].copy() for part in BILL_PARTS}


def served_share(worlds: np.ndarray) -> np.ndarray:
    """Share of the traffic that was served, (B,)."""
    traffic = worlds["traffic"]
    return np.where(traffic > 0, worlds["served_traffic"] / np.maximum(traffic, 1e-12), 1.0)


def won(p: np.ndarray, worlds: np.ndarray) -> np.ndarray:
    """(B,) bool: traffic served, little breach loss expected, no data lost, nothing unsafe done, bill in budget.

    `p`: the scenario's record. Limits are shares of the baseline infrastructure dollars of the ticks played. That
    no breach happened is reported apart: its dice would decide.
    """
    base = worlds["base_cost"] * TICK_HOURS * worlds["tick"]
    return (
        (served_share(worlds) >= p["win_served"])
        & (worlds["exposure"] <= p["win_breach_loss"] * base)
        & (worlds["data_losses"] == 0)
        & (worlds["violations"] == 0)
        & (bill(worlds) <= p["win_bill"] * base)
    )
