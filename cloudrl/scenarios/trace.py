"""A person's own traffic: a CSV `timestamp,value` at any interval -> a load profile in 5-minute columns, mean 1.

Finer than 5 minutes is averaged, coarser is interpolated in a straight line; the trace repeats, so its end is
joined to its beginning. Short gaps are filled with one warning, long ones are an error that names the line.
"""

from __future__ import annotations

import csv
import functools
import logging
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from cloudrl.errors import UserError
from cloudrl.scenarios.yaml_tree import decode, one_line, quote, read_limited

log = logging.getLogger(__name__)

COLUMN_SECONDS = 300
MAX_BYTES = 32_000_000
MAX_DAYS = 366
GAP_SECONDS = 3600.0  # filled up to this, or up to three intervals where these are longer
_HEADER = "the first line must be the header timestamp,value"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_trace(path: Path) -> np.ndarray:
    """(L,) load per 5-minute column, mean 1. Raises UserError, one line. Warns once per content of the file."""
    return _load(read_limited(path, str(path), MAX_BYTES, "resample it to 5 minutes first"), str(path))


@functools.lru_cache(maxsize=4)
def _load(data: bytes, shown_as: str) -> np.ndarray:
    load = resample(*parse(decode(data, shown_as), shown_as), shown_as)
    load.setflags(write=False)
    return load


def parse(text: str, shown_as: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds, values and line numbers of the rows, sound one by one."""
    rows = _rows(text, shown_as)
    try:
        header_line, header = next(rows)
    except StopIteration:
        raise UserError(f"{shown_as}: is empty; {_HEADER}") from None
    names = [name.strip().strip('"').lower() for name in header]
    if "timestamp" not in names or "value" not in names:
        found = quote(",".join(header), 60)
        raise UserError(f"{shown_as}, line {header_line}: no columns timestamp and value in {found}; {_HEADER}")
    t, v = names.index("timestamp"), names.index("value")
    if names.count("timestamp") > 1 or names.count("value") > 1:
        raise UserError(
            f"{shown_as}, line {header_line}: a column is named twice; keep one timestamp and one value"
        )
    times, values, lines = [], [], []
    clock: str | None = None
    for line, row in rows:
        where = f"{shown_as}, line {line}"
        if len(row) != len(header):
            raise UserError(f"{where}: {len(row)} columns where the header has {len(header)}; mend the row")
        seconds, kind = _seconds(row[t].strip(), where)
        if clock not in (None, kind):
            raise UserError(
                f"{where}: a time of another kind ({kind}) than above ({clock}); write all the same way"
            )
        clock = kind
        times.append(seconds)
        values.append(_value(row[v].strip(), where))
        lines.append(line)
    return np.array(times), np.array(values), np.array(lines)


def resample(times: np.ndarray, values: np.ndarray, lines: np.ndarray, shown_as: str) -> np.ndarray:
    """(L,) load per 5-minute column from the first timestamp on, mean 1."""
    if len(times) < 2:
        raise UserError(f"{shown_as}: has {len(times)} rows of data; a load profile needs an hour at least")
    steps = np.diff(times)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        what = "is that of the line before" if steps[k] == 0 else "lies before that of the line above"
        cure = "sort the rows and keep one per time (a clock set back in autumn? write UTC)"
        raise UserError(f"{shown_as}, line {lines[k + 1]}: its timestamp {what}; {cure}")
    interval = float(np.median(steps))
    span = float(times[-1] - times[0]) + interval
    if span < 3600 - 1e-6:
        raise UserError(f"{shown_as}: covers {span / 60:.3g} minutes; a load profile needs an hour at least")
    if span > MAX_DAYS * 86_400:
        raise UserError(f"{shown_as}: covers {span / 86_400:,.0f} days; cut it to a year at most")
    _check_gaps(steps, lines, interval, shown_as)
    top = float(values.max())
    if top <= 0:
        raise UserError(f"{shown_as}: every value is 0; a load profile needs traffic")
    load = _columns(times - times[0], values / top, interval, span)
    return load / load.mean()


def _columns(times: np.ndarray, values: np.ndarray, interval: float, span: float) -> np.ndarray:
    n = max(1, math.floor(span / COLUMN_SECONDS + 0.5))
    period = float(n * COLUMN_SECONDS)
    if interval >= COLUMN_SECONDS:
        inside = times < period
        return np.interp(np.arange(n) * float(COLUMN_SECONDS), times[inside], values[inside], period=period)
    column = np.floor(times / COLUMN_SECONDS).astype(np.int64)
    inside = column < n
    count = np.bincount(column[inside], minlength=n)
    total = np.bincount(column[inside], values[inside], minlength=n)
    full = np.flatnonzero(count)
    return np.interp(np.arange(n), full, total[full] / count[full], period=n)


def _check_gaps(steps: np.ndarray, lines: np.ndarray, interval: float, shown_as: str) -> None:
    limit = max(GAP_SECONDS, 3 * interval)
    worst = int(np.argmax(steps))
    if steps[worst] > limit + 1e-6:
        message = f"nothing for {_span(steps[worst])} before this line; gaps up to {_span(limit)} are filled"
        raise UserError(f"{shown_as}, line {lines[worst + 1]}: {message}; complete the data or cut off one side")
    gaps = steps > max(1.5 * interval, COLUMN_SECONDS)
    if gaps.any():
        first = lines[int(np.argmax(gaps)) + 1]
        n, longest = int(gaps.sum()), _span(steps[worst])
        log.warning(
            "%s: %d gaps filled in straight lines (first before line %d, longest %s)", shown_as, n, first, longest
        )


def _span(seconds: float) -> str:
    if seconds < 7200:
        return f"{seconds / 60:.3g} minutes"
    return f"{seconds / 3600:.3g} hours" if seconds < 172_800 else f"{seconds / 86_400:.3g} days"


# ---- rows -------------------------------------------------------------------------------------------------------


def _rows(text: str, shown_as: str) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every row that is not blank, the header first. Separators , ; and tab."""
    lines = re.split("\r\n|\r|\n", text)
    first = next((line for line in lines if line.strip()), "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(lines, delimiter=separator)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                if separator == ";":  # where ; separates, a comma is the decimal point
                    row = [cell.replace(",", ".") if cell.count(",") == 1 else cell for cell in row]
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(one_line(f"{shown_as}, line {reader.line_num}: not readable as CSV: {error}")) from error


def _value(cell: str, where: str) -> float:
    if not cell:
        raise UserError(f"{where}: no value; remove the row (short gaps are filled) or write the number")
    try:
        value = float(cell) if "_" not in cell else math.nan
    except ValueError:
        raise UserError(f"{where}: the value {quote(cell)} is no number; mend or remove the row") from None
    if not math.isfinite(value):
        raise UserError(
            f"{where}: the value {quote(cell)} is no finite number; remove the row (short gaps are filled)"
        )
    if value < 0:
        raise UserError(f"{where}: the value {value:g} is negative; traffic is 0 or more")
    return value


def _seconds(cell: str, where: str) -> tuple[float, str]:
    """Seconds since 1970 and the kind of clock they come from."""
    if _NUMBER.fullmatch(cell):
        number = float(cell)
        if not 0 <= number < 1e14:
            raise UserError(
                f"{where}: the timestamp {quote(cell)} is in neither seconds nor milliseconds since 1970"
            )
        return (number, "seconds") if number < 1e11 else (number / 1000, "milliseconds")
    try:
        moment = datetime.fromisoformat(cell)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC).timestamp(), "time without zone"
        return moment.timestamp(), "time with zone"
    except (ValueError, OverflowError):
        cure = "write 2026-01-31 14:05:00, ISO 8601, or seconds or milliseconds since 1970"
        raise UserError(f"{where}: the timestamp {quote(cell)} is not readable; {cure}") from None
