"""The load profile: a (2, L) table of 5-minute columns that a world walks through, cyclic.

Row 0 is the mean outside traffic (mean 1), row 1 its maximum over this column and the forecast horizon.
"""

from __future__ import annotations

import math

import numpy as np

from cloudrl.measurements import TICKS_PER_DAY


def sine_profile(amplitude: float, horizon_ticks: int, period: int = TICKS_PER_DAY) -> np.ndarray:
    """(2, period) table of a day whose load swings by `amplitude` around 1."""
    return with_peaks(1.0 + amplitude * np.sin(2.0 * math.pi * np.arange(period) / period), horizon_ticks)


def day_profile(amplitude: float, peak_hour: float, horizon_ticks: int) -> np.ndarray:
    """(2, 288) table of a day that begins at midnight and is busiest at `peak_hour`."""
    hours = np.arange(TICKS_PER_DAY) * 24.0 / TICKS_PER_DAY
    return with_peaks(1.0 + amplitude * np.cos(2.0 * math.pi * (hours - peak_hour) / 24.0), horizon_ticks)


def with_peaks(load: np.ndarray, horizon_ticks: int) -> np.ndarray:
    """(2, L): the load and its maximum over this and the next `horizon_ticks` columns, cyclic."""
    window = min(horizon_ticks, len(load) - 1) + 1
    peak, width = load, 1
    while width < window:  # doubling: a trace of a year stays cheap whatever the horizon
        step = min(width, window - width)
        peak = np.maximum(peak, np.roll(peak, -step))
        width += step
    return np.stack([load, peak])
