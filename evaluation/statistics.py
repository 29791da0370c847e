"""Estimates with their intervals. Worlds are paired: every agent meets the same ones, so differences are taken per
world.

Every interval is a percentile bootstrap over worlds with a fixed seed: the same values give the same interval.
The estimators are those of Agarwal et al. (Deep Reinforcement Learning at the Edge of the Statistical Precipice,
NeurIPS 2021): interquartile mean, stratified bootstrap, performance profile, probability of improvement.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SAMPLES = 2000
LEVEL = (2.5, 97.5)

Estimator = Callable[[np.ndarray], np.ndarray]
"""Maps samples (..., n) to estimates (...)."""


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


# ---- estimators ------------------------------------------------------------------------------------------------


def mean(samples: np.ndarray) -> np.ndarray:
    """Mean over the last axis."""
    return np.asarray(samples, float).mean(axis=-1)


def iqm(samples: np.ndarray) -> np.ndarray:
    """Interquartile mean over the last axis: of what is left when a quarter is cut off at each end."""
    n = samples.shape[-1]
    cut = n // 4
    return np.sort(np.asarray(samples, float), axis=-1)[..., cut : n - cut].mean(axis=-1)


def worst_tenth(samples: np.ndarray) -> np.ndarray:
    """Mean of the lowest tenth over the last axis (of at least one): how bad the bad worlds are."""
    worst = -(-samples.shape[-1] // 10)
    return np.sort(np.asarray(samples, float), axis=-1)[..., :worst].mean(axis=-1)


# ---- intervals -------------------------------------------------------------------------------------------------


def bootstrap(values: np.ndarray, n: int = SAMPLES, seed: int = 0, estimator: Estimator = mean) -> Interval:
    """`estimator` of values (B,), by default the mean, with its interval over worlds.

    Raises ValueError: nothing to average, or a value that is not a number.
    """
    values = _checked(values)
    low, high = np.percentile(estimator(values[_draws(len(values), n, seed)]), LEVEL)
    return Interval(float(estimator(values)), float(low), float(high))


def paired(a: np.ndarray, b: np.ndarray) -> Interval:
    """Mean of a - b over the same worlds."""
    return bootstrap(np.asarray(a, float) - np.asarray(b, float))


def stratified(
    values: np.ndarray, estimator: Estimator = iqm, n: int = SAMPLES, seed: int = 0, *, shared: bool = True
) -> Interval:
    """`estimator` over all values (K, B) of K training runs on B worlds; every bootstrap sample keeps every run.

    Worlds are drawn within each run. `shared`: all runs met the same worlds, so the same worlds are drawn for all;
    drawing them apart takes a hard world for K independent ones, and the interval comes out too narrow. The
    interval is that of these K runs on other worlds; how far runs differ is another matter (`spread`).
    """
    values = np.atleast_2d(_checked(values))
    runs, worlds = values.shape
    if shared:
        drawn = values[:, _draws(worlds, n, seed)].transpose(1, 0, 2)
    else:
        drawn = np.stack([values[k, _draws(worlds, n, seed + k)] for k in range(runs)], axis=1)
    low, high = np.percentile(estimator(drawn.reshape(n, runs * worlds)), LEVEL)
    return Interval(float(estimator(values.reshape(-1))), float(low), float(high))


def spread(values: np.ndarray, estimator: Estimator = mean) -> tuple[float, float]:
    """Lowest and highest estimate among the K training runs of values (K, B)."""
    each = estimator(np.atleast_2d(_checked(values)))
    return float(each.min()), float(each.max())


# ---- comparisons -----------------------------------------------------------------------------------------------


def improvement(a: np.ndarray, b: np.ndarray) -> Interval:
    """Probability that a > b in a world, both on the same luck; equal counts half. (B,) each; higher is better."""
    a, b = _checked(a), _checked(b)
    return bootstrap((a > b) + 0.5 * (a == b))


class Profile(NamedTuple):
    """Share of worlds whose value is at least tau, with a pointwise band."""

    tau: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def profile(values: np.ndarray, tau: np.ndarray, n: int = SAMPLES, seed: int = 0) -> Profile:
    """Performance profile of values (B,) or (K, B) at the thresholds `tau` (C,)."""
    values = np.atleast_2d(_checked(values))
    reached = (values[:, :, None] >= tau).mean(axis=0)  # (B, C), averaged over training runs
    counts = np.stack([np.bincount(row, minlength=len(reached)) for row in _draws(len(reached), n, seed)])
    low, high = np.percentile(counts @ reached / len(reached), LEVEL, axis=0)
    return Profile(np.asarray(tau, float), reached.mean(axis=0), low, high)


def pass_power(passed: np.ndarray, k: int) -> float:
    """pass^k: the probability that k attempts at one world all pass, averaged over worlds.

    `passed` (n, B) bool, n >= k attempts. Unbiased: C(c, k) / C(n, k) for c passes out of n
    (Yao et al., tau-bench, 2024).

    Raises ValueError: fewer attempts than k.
    """
    passed = np.atleast_2d(np.asarray(passed, bool))
    attempts = len(passed)
    if not 1 <= k <= attempts:
        raise ValueError(f"pass^{k} needs at least {k} attempts, there are {attempts}")
    passes = passed.sum(axis=0).astype(float)
    chance = np.ones(passed.shape[1])
    for i in range(k):
        chance *= np.maximum(passes - i, 0.0) / (attempts - i)
    return float(chance.mean())


def worlds_needed(differences: np.ndarray) -> int | None:
    """Worlds after which an interval of the mean of `differences` (B,) would leave out 0, were this mean the true
    one; None if it is 0."""
    differences = np.asarray(differences, float)
    centre = float(differences.mean())
    if centre == 0.0 or len(differences) < 2:
        return None
    return int(np.ceil((1.96 * float(differences.std(ddof=1)) / centre) ** 2))


def _checked(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, float)
    if values.size == 0:
        raise ValueError("no values to average")
    if np.isnan(values).any():
        raise ValueError("a value is not a number: leave out the worlds without one first")
    return values


@functools.lru_cache(maxsize=4)
def _draws(worlds: int, n: int, seed: int) -> np.ndarray:
    """Indices (n, worlds) of n samples with replacement."""
    return np.random.default_rng(seed).integers(0, worlds, (n, worlds))
