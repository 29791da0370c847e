"""The load profile: a (2, L) table of 5-minute columns that a world walks through, cyclic.

Sines are math's, not numpy's: its vectorised ones differ in the last bit from machine to machine.
Row 0 is the mean outside traffic (mean 1), row 1 its maximum over this column and the forecast horizon.
"""

from __future__ import annotations

import math

import numpy as np

from cloudrl.measurements import TICKS_PER_DAY


def sine_profile(amplitude: float, horizon_ticks: int, period: int = TICKS_PER_DAY) -> np.ndarray:
    """(2, period) table of a day whose load swings by `amplitude` around 1."""
    load = [1.0 + amplitude * math.sin(2.0 * math.pi * t / period) for t in range(period)]
    return with_peaks(np.array(load), horizon_ticks)


def day_profile(amplitude: float, peak_hour: float, horizon_ticks: int) -> np.ndarray:
    """(2, 288) table of a day that begins at midnight and is busiest at `peak_hour`."""
    hours = [t * 24.0 / TICKS_PER_DAY for t in range(TICKS_PER_DAY)]
    load = [1.0 + amplitude * math.cos(2.0 * math.pi * (hour - peak_hour) / 24.0) for hour in hours]
    return with_peaks(np.array(load), horizon_ticks)


def with_peaks(load: np.ndarray, horizon_ticks: int) -> np.ndarray:
    """(2, L): the load and its maximum over this and the next `horizon_ticks` columns, cyclic."""
    window = min(horizon_ticks, len(load) - 1) + 1
    peak, width = load, 1
    while width < window:  # doubling: a trace of a year stays cheap whatever the horizon
        step = min(width, window - width)
        peak = np.maximum(peak, np.roll(peak, -step))
        width += step
    return np.stack([load, peak])
