"""Intervals. Worlds are paired: every agent meets the same ones, so differences are taken per world."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2.0

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def bootstrap(values: np.ndarray, n: int = 2000, seed: int = 0) -> Interval:
    """Mean over worlds with the percentile bootstrap interval; the same values give the same interval."""
    values = np.asarray(values, float)
    if len(values) == 0:
        raise ValueError("no values to average")
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (n, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))


def paired(a: np.ndarray, b: np.ndarray) -> Interval:
    """Mean of a - b over the same worlds."""
    return bootstrap(np.asarray(a, float) - np.asarray(b, float))
