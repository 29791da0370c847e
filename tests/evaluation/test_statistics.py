"""Estimates and intervals: values worked out by hand, scipy, and what an interval promises, its coverage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evaluation import statistics
from evaluation.statistics import (
    Interval,
    bootstrap,
    improvement,
    iqm,
    paired,
    pass_power,
    profile,
    spread,
    stratified,
    worlds_needed,
    worst_tenth,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60).map(np.array)


# ---- estimators ------------------------------------------------------------------------------------------------


def test_interquartile_mean_by_hand() -> None:
    assert iqm(np.array([100.0, 1, 2, 3, 4, 5, 6, -100])) == 3.5  # sorted: -100 1 | 2 3 4 5 | 6 100
    assert iqm(np.array([7.0])) == 7.0
    assert iqm(np.array([[0.0, 1, 2, 9], [9.0, 0, 0, 9]])).tolist() == [1.5, 4.5]


@given(NUMBERS)
def test_interquartile_mean_is_scipys(values: np.ndarray) -> None:
    assert iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), rel=1e-9, abs=1e-6)


def test_worst_tenth_by_hand() -> None:
    assert worst_tenth(np.arange(20.0)[::-1]) == 0.5  # 0 and 1
    assert worst_tenth(np.arange(21.0)) == 1.0  # 0, 1 and 2: a tenth is rounded up
    assert worst_tenth(np.array([4.0, 5.0])) == 4.0


@given(NUMBERS)
def test_order_of_worlds_means_nothing(values: np.ndarray) -> None:
    for estimator in (iqm, worst_tenth, statistics.mean):
        assert estimator(values) == pytest.approx(estimator(values[::-1]), rel=1e-12, abs=1e-9)
    assert worst_tenth(values) <= iqm(values) + 1e-9


# ---- intervals -------------------------------------------------------------------------------------------------


def test_equal_values_leave_no_doubt() -> None:
    assert bootstrap(np.full(7, 2.5)) == Interval(2.5, 2.5, 2.5)
    assert bootstrap(np.array([3])) == Interval(3.0, 3.0, 3.0)


def test_two_worlds() -> None:
    """Of the means of two draws from {0, 1} a quarter is 0 and a quarter is 1: the interval is all of it."""
    assert bootstrap(np.array([0.0, 1.0])) == Interval(0.5, 0.0, 1.0)
    assert bootstrap(np.array([True, False])) == Interval(0.5, 0.0, 1.0)


def test_many_worlds_agree_with_the_normal_interval() -> None:
    values = np.tile([1.0, 3.0], 200)  # mean 2, standard deviation 1, 400 worlds: 2 +- 1.96 / 20
    found = bootstrap(values)
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(0.098, rel=0.08)
    assert found == bootstrap(values)  # the same values, the same interval


@pytest.mark.parametrize("estimator", [statistics.mean, iqm])
def test_intervals_are_scipys(estimator: Callable[[np.ndarray], np.ndarray]) -> None:
    values = np.random.default_rng(3).gamma(2.0, 30.0, 200)
    theirs = scipy.stats.bootstrap(
        (values,), lambda x, axis: estimator(x), n_resamples=20_000,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    ours = bootstrap(values, n=20_000, estimator=estimator)
    assert ours.low == pytest.approx(theirs.low, abs=0.1 * ours.half_width)
    assert ours.high == pytest.approx(theirs.high, abs=0.1 * ours.half_width)


def test_a_difference_is_taken_world_by_world() -> None:
    """Worlds that differ by thousands do not widen the interval of a difference that is 1 in each."""
    a = np.array([1.0, 1000.0, 50_000.0])
    assert paired(a + 1, a) == Interval(1.0, 1.0, 1.0)
    assert paired(np.array([True, True]), np.array([False, False])) == Interval(1.0, 1.0, 1.0)


def test_nothing_to_average() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap(np.array([]))
    with pytest.raises(ValueError, match="not a number"):
        bootstrap(np.array([1.0, np.nan]))


def test_text() -> None:
    interval = Interval(1.234, 0.5, 2.0)
    assert str(interval) == "1.23 [0.50, 2.00]" and interval.half_width == 0.75


# ---- several training runs -------------------------------------------------------------------------------------


def test_one_run_is_a_stratum() -> None:
    values = np.random.default_rng(0).normal(size=80)
    assert stratified(values, statistics.mean) == bootstrap(values)


def test_every_sample_keeps_every_run() -> None:
    """Runs that are each constant leave no doubt, however far apart they lie: none of them is ever left out."""
    values = np.repeat([[0.0], [10.0], [50.0]], 30, axis=1)
    for shared in (True, False):
        assert stratified(values, statistics.mean, shared=shared) == Interval(20.0, 20.0, 20.0)
    assert spread(values) == (0.0, 50.0)


def coverage(shared: bool) -> float:
    """How often the interval holds the truth: three runs, whose worlds are easy or hard for all of them."""
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(200):
        values = rng.normal(size=60) + 0.2 * rng.normal(size=(3, 60))
        found = stratified(values, statistics.mean, n=400, shared=shared)
        inside += found.low <= 0.0 <= found.high
    return inside / 200


def test_worlds_that_all_runs_share_are_drawn_together() -> None:
    """Of 95 % intervals 95 % hold the truth; drawn apart, the same worlds count three times."""
    assert coverage(shared=True) > 0.90
    assert coverage(shared=False) < 0.85


# ---- comparisons -----------------------------------------------------------------------------------------------


def test_improvement_by_hand() -> None:
    found = improvement(np.array([2.0, 0.0, 1.0, 5.0]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert found.mean == (1 + 0 + 0.5 + 1) / 4
    assert improvement(np.ones(9), np.zeros(9)) == Interval(1.0, 1.0, 1.0)
    assert improvement(np.ones(9), np.ones(9)) == Interval(0.5, 0.5, 0.5)


def test_the_interval_of_an_improvement_is_near_the_exact_one() -> None:
    """Without ties it is a share: compare with the exact interval of 120 out of 200."""
    a = np.repeat([1.0, -1.0], [120, 80])
    exact = scipy.stats.binomtest(120, 200).proportion_ci(0.95)
    found = improvement(a, np.zeros(200))
    assert found.mean == 0.6
    assert found.low == pytest.approx(exact.low, abs=0.01) and found.high == pytest.approx(exact.high, abs=0.01)


@given(NUMBERS)
def test_improvement_and_decline_are_one(values: np.ndarray) -> None:
    other = values[np.random.default_rng(0).permutation(len(values))]
    assert improvement(values, other).mean + improvement(other, values).mean == pytest.approx(1.0)


def test_profile_by_hand() -> None:
    found = profile(np.array([0.0, 50.0, 50.0, 100.0]), np.array([-1.0, 50.0, 51.0, 100.1]))
    assert found.share.tolist() == [1.0, 0.75, 0.25, 0.0]
    assert found.low[0] == found.high[0] == 1.0 and found.low[3] == found.high[3] == 0.0
    assert (found.low <= found.share).all() and (found.share <= found.high).all()


def test_a_profile_averages_runs_and_is_an_interval_at_each_threshold() -> None:
    values = np.random.default_rng(5).normal(size=(2, 50))
    found = profile(values, np.array([0.3]))
    assert found.share[0] == (values >= 0.3).mean()
    single = bootstrap((values >= 0.3).mean(axis=0))
    assert (found.low[0], found.high[0]) == pytest.approx((single.low, single.high))


def test_the_area_under_a_profile_is_the_mean() -> None:
    values = np.random.default_rng(2).uniform(0, 1, 100)
    tau = np.linspace(0, 1, 2001)
    assert np.trapezoid(profile(values, tau, n=50).share, tau) == pytest.approx(values.mean(), abs=1e-3)


def test_pass_power_by_hand() -> None:
    passed = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]], bool)  # 4, 2 and 0 of 4 attempts
    assert pass_power(passed, 1) == pytest.approx((1 + 0.5 + 0) / 3)
    assert pass_power(passed, 2) == pytest.approx((1 + 1 / 6 + 0) / 3)
    assert pass_power(passed, 4) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="at least 5"):
        pass_power(passed, 5)


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=8), st.integers(1, 5))
def test_pass_power_counts_every_choice_of_attempts(worlds: list[list[bool]], k: int) -> None:
    passed = np.array(worlds).T
    counted = np.mean([[passed[list(c), b].all() for c in combinations(range(5), k)] for b in range(len(worlds))])
    assert pass_power(passed, k) == pytest.approx(counted)


def test_worlds_needed() -> None:
    differences = np.tile([0.0, 2.0], 50)  # mean 1, sd 1.005: (1.96 x 1.005)^2 = 3.88
    assert worlds_needed(differences) == 4
    assert worlds_needed(np.tile([-9.0, 11.0], 50)) == 389  # mean 1, sd 10.05
    assert worlds_needed(np.zeros(5)) is None
