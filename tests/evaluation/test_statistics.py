"""Intervals, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.statistics import Interval, bootstrap, paired


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


def test_a_difference_is_taken_world_by_world() -> None:
    """Worlds that differ by thousands do not widen the interval of a difference that is 1 in each."""
    a = np.array([1.0, 1000.0, 50_000.0])
    assert paired(a + 1, a) == Interval(1.0, 1.0, 1.0)
    assert paired(np.array([True, True]), np.array([False, False])) == Interval(1.0, 1.0, 1.0)


def test_nothing_to_average() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap(np.array([]))


def test_text() -> None:
    interval = Interval(1.234, 0.5, 2.0)
    assert str(interval) == "1.23 [0.50, 2.00]" and interval.half_width == 0.75
