"""Traffic from a CSV: resampled as by hand, refused in one line when it is unsound."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudrl import Simulator, load_scenario
from cloudrl.errors import UserError
from cloudrl.scenarios.profile import day_profile, sine_profile, with_peaks
from cloudrl.scenarios.trace import read_trace
from tests.core.play import FULL

ESTATE = """\
load: {csv: t.csv}
services:
  web: {kind: vm, replicas: 2, entry: 1, calls: {database: 1}}
  database: {kind: database, data: true}
"""
START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(ESTATE)


def rows(values: list[float], seconds: float = 300, clock: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    return [f"{(START + timedelta(seconds=k * seconds)).strftime(clock)},{v}" for k, v in enumerate(values)]


def trace(lines: list[str] | str | bytes, header: str = "timestamp,value") -> np.ndarray:
    """The load profile of these rows."""
    if isinstance(lines, list):
        lines = "\n".join([header, *lines]) + "\n"
    Path("t.csv").write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    return read_trace(Path("t.csv"))


def normal(values: object) -> np.ndarray:
    array = np.array(values, float)
    return array / array.mean()


# ---- resampling by hand -----------------------------------------------------------------------------------------


def test_five_minutes_stay_as_they_are() -> None:
    values = [float(v) for v in range(1, 25)]
    np.testing.assert_allclose(trace(rows(values)), normal(values), rtol=1e-12)


def test_finer_rows_are_averaged() -> None:
    values = [float(v % 7) for v in range(60)]  # one per minute
    want = [np.mean(values[k : k + 5]) for k in range(0, 60, 5)]
    np.testing.assert_allclose(trace(rows(values, 60)), normal(want), rtol=1e-12)


def test_an_interval_that_does_not_divide_five_minutes() -> None:
    values = [float(v) for v in range(30)]  # every two minutes: 3, 2, 3, 2, ... rows in a column
    times = np.arange(30) * 120
    want = [np.mean([v for t, v in zip(times, values, strict=True) if t // 300 == k]) for k in range(12)]
    np.testing.assert_allclose(trace(rows(values, 120)), normal(want), rtol=1e-12)


def test_coarser_rows_are_joined_by_straight_lines_and_the_end_to_the_beginning() -> None:
    got = trace(rows([10.0, 40.0], 1800))  # an hour: 12 columns
    up = [10 + 5 * k for k in range(6)]
    down = [40 - 5 * k for k in range(6)]
    np.testing.assert_allclose(got, normal(up + down), rtol=1e-12)


def test_a_short_gap_is_filled_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    values = [float(v) for v in range(1, 25)]
    lines = rows(values)
    del lines[10:13], lines[3]
    with caplog.at_level(logging.WARNING):
        got = trace(lines)
        again = trace(lines)
    np.testing.assert_allclose(got, normal(values), rtol=1e-12)  # they lay on the line
    assert again is got or (again == got).all()
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "\n" not in message and "2 gaps" in message and "line 5" in message and "20 minutes" in message


def test_a_gap_in_fine_rows_is_filled() -> None:
    lines = rows([1.0] * 30 + [3.0] * 30 + [5.0] * 30, 60)
    del lines[30:60]
    want = [1.0] * 6 + [1 + 4 * k / 7 for k in range(1, 7)] + [5.0] * 6
    np.testing.assert_allclose(trace(lines), normal(want), rtol=1e-12)


ONE_HOUR = [float(v) for v in range(1, 13)]


@pytest.mark.parametrize(
    "clock",
    [
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M:%S+02:00",
        "%Y-%m-%dT%H:%M:%S.%f",
        "%Y-%m-%d %H:%M",
    ],
)
def test_ways_to_write_a_time(clock: str) -> None:
    np.testing.assert_allclose(trace(rows(ONE_HOUR, clock=clock)), normal(ONE_HOUR), rtol=1e-12)


@pytest.mark.parametrize(("unit", "form"), [(1, "%d"), (1000, "%d"), (1, "%.3f"), (1000, "%.6e")])
def test_epochs(unit: int, form: str) -> None:
    start = 1_700_000_000
    lines = [form % ((start + 300 * k) * unit) + f",{v}" for k, v in enumerate(ONE_HOUR)]
    if form == "%.6e":
        lines = [f"{(start + 300 * k) * unit:.1f},{v}" for k, v in enumerate(ONE_HOUR)]
    np.testing.assert_allclose(trace(lines), normal(ONE_HOUR), rtol=1e-12)


def test_what_spreadsheets_write() -> None:
    lines = rows(ONE_HOUR)
    text = "Timestamp;Value\n" + "\n".join(line.replace(",", ";").replace(".0", ",0") for line in lines)
    windows = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n\r\n"
    np.testing.assert_allclose(trace(windows), normal(ONE_HOUR), rtol=1e-12)
    np.testing.assert_allclose(trace(text.replace("\n", "\r")), normal(ONE_HOUR), rtol=1e-12)
    np.testing.assert_allclose(trace(text.replace(";", "\t").replace(",", ".")), normal(ONE_HOUR), rtol=1e-12)
    quoted = ['"' + line.replace(",", '","') + '"' for line in lines]
    np.testing.assert_allclose(trace(quoted, '"timestamp","value"'), normal(ONE_HOUR), rtol=1e-12)
    more = [line + ",eu-west-1" for line in lines]
    np.testing.assert_allclose(trace(more, "timestamp, value ,region"), normal(ONE_HOUR), rtol=1e-12)


def test_extreme_numbers() -> None:
    assert np.isfinite(trace(rows([1e308] * 11 + [0.0]))).all()
    assert np.isfinite(trace(rows([5e-324] * 12))).all()


# ---- unsound traces ---------------------------------------------------------------------------------------------

HOUR = rows(ONE_HOUR)
HEADER = "timestamp,value\n"


def body(lines: list[str]) -> str:
    return HEADER + "\n".join(lines) + "\n"


def at(line: int, text: str) -> str:
    """A sound trace with another text on one line (the header is line 1)."""
    lines = list(HOUR)
    lines[line - 2] = text
    return body(lines)


BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["is empty", "timestamp,value"]),
    "blank": ("\n\n", ["is empty"]),
    "header only": (HEADER, ["0 rows"]),
    "no header": ("\n".join(HOUR), ["line 1", "timestamp,value"]),
    "another header": ("time,requests\n" + "\n".join(HOUR), ["line 1", "'time,requests'"]),
    "a column twice": ("timestamp,value,value\n" + "\n".join(h + ",1" for h in HOUR), ["line 1", "twice"]),
    "text": (at(5, HOUR[3].split(",")[0] + ",many"), ["line 5", "'many'", "number"]),
    "no value": (at(5, HOUR[3].split(",")[0] + ","), ["line 5", "no value"]),
    "nan": (at(5, HOUR[3].split(",")[0] + ",NaN"), ["line 5", "'NaN'"]),
    "infinite": (at(5, HOUR[3].split(",")[0] + ",inf"), ["line 5", "'inf'"]),
    "negative": (at(5, HOUR[3].split(",")[0] + ",-3"), ["line 5", "-3", "negative"]),
    "no time": (at(5, ",3"), ["line 5", "''"]),
    "not a time": (at(5, "yesterday,3"), ["line 5", "'yesterday'", "ISO 8601"]),
    "not a date": (at(5, "2026-02-30 00:00:00,3"), ["line 5", "'2026-02-30 00:00:00'"]),
    "nanoseconds": (at(2, "1700000000000000000,3"), ["line 2", "milliseconds"]),
    "too few columns": (at(5, "3"), ["line 5", "1 columns"]),
    "too many columns": (at(5, HOUR[3] + ",9"), ["line 5", "3 columns"]),
    "clocks mixed": (at(5, "1700000000,3"), ["line 5", "another kind"]),
    "zones mixed": (at(5, "2026-03-01 00:15:00Z,3"), ["line 5", "another kind"]),
    "twice": (at(6, HOUR[3]), ["line 6", "that of the line before", "UTC"]),
    "unsorted": (at(6, "2026-03-01 00:01:00,3"), ["line 6", "lies before"]),
    "a long gap": (
        body([*HOUR, "2026-03-01 04:00:00,1", "2026-03-01 04:05:00,1"]),
        ["line 14", "3.08 hours", "60 minutes"],
    ),
    "one row": (body(HOUR[:1]), ["1 rows"]),
    "too short": (body(HOUR[:11]), ["55 minutes", "an hour"]),
    "too long": (body([f"{k * 86_400},1" for k in range(400)]), ["400 days", "a year"]),
    "all zero": (body(rows([0.0] * 12)), ["every value is 0"]),
    "UTF-16": (body(HOUR).encode("utf-16"), ["UTF-8"]),
    "a zero byte": (at(5, "\0,\0"), ["line 5"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_trace_ends_in_one_line(case: str) -> None:
    text, fragments = BAD[case]
    Path("t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as error:
        load_scenario("estate", path="my.yaml")
    line = str(error.value)
    assert line.startswith("t.csv") and len(line.splitlines()) == 1 and len(line) < 300
    for fragment in fragments:
        assert fragment in line, line


def test_a_trace_that_vanishes() -> None:
    trace(HOUR)
    scenario = load_scenario("estate", path="my.yaml")
    Path("t.csv").unlink()
    with pytest.raises(UserError, match=r"t\.csv"):
        Simulator(scenario, 1)


def test_the_path_begins_at_the_estate() -> None:
    Path("sub").mkdir()
    Path("sub/my.yaml").write_text(ESTATE)
    with pytest.raises(UserError, match=r"sub/my\.yaml, line 1: load\.csv: no such file: 't\.csv'"):
        load_scenario("estate", path="sub/my.yaml")
    trace(HOUR)
    Path("t.csv").rename("sub/t.csv")
    assert Simulator(load_scenario("estate", path="sub/my.yaml"), 1).rules.profile.shape == (2, 12)


def test_nights_without_traffic_play() -> None:
    trace(rows([0.0] * 100 + [5.0] * 44, 600))
    scenario = load_scenario("estate", path="my.yaml", horizon__ticks=60)
    sim = Simulator(scenario, 16)
    sim.reset(np.arange(16))
    for _ in range(sim.ticks):
        sim.step(np.full(16, sim.noop))
        assert np.isfinite(sim.observations).all() and np.isfinite(sim.rewards).all()
    assert np.isfinite(sim.bill()).all() and sim.won().shape == (16,)
    assert (sim.state.worlds["traffic"] == 0).any(), "a world whose whole episode lies in the night"


@settings(
    max_examples=3000 if FULL else 200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.integers(0, 400),
    st.integers(0, 30),
    st.sampled_from(
        ["", "\n", ",", ";", '"', "'", "\0", "1", "-", "e", "nan", " ", "\t", "9" * 400, "\r", "Z", "\u2028"]
    ),
)
def test_a_damaged_trace_is_read_or_refused_in_one_line(start: int, length: int, piece: str) -> None:
    text = body(HOUR)
    try:
        load = trace(text[:start] + piece + text[start + length :])
        assert np.isfinite(load).all() and (load >= 0).all() and abs(load.mean() - 1) < 1e-9
    except UserError as error:
        assert len(str(error).splitlines()) == 1


# ---- profiles ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=40), st.integers(0, 60))
def test_peaks_look_ahead(values: list[float], horizon: int) -> None:
    load, peak = with_peaks(np.array(values), horizon)
    n = len(values)
    for k in range(n):
        assert peak[k] == max(values[(k + j) % n] for j in range(min(horizon, n - 1) + 1))
        assert load[k] == values[k]


def test_days() -> None:
    day = day_profile(0.5, 18.0, 24)
    assert day.shape == (2, 288) and day[0].argmax() == 18 * 12
    np.testing.assert_allclose(np.roll(day[0], -12 * 12), sine_profile(0.5, 24)[0], atol=1e-12)
