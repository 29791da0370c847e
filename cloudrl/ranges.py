"""Which values the numbers of a config may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cloudrl.errors import UserError


@dataclass(frozen=True)
class Range:
    """An interval; `check` accepts None, the "not given" of optional settings."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    whole: bool = False

    def check(self, key: str, value: float | None) -> None:
        if value is None:
            return
        above = value > self.low if self.low_open else value >= self.low
        if not (math.isfinite(value) and above and value <= self.high):
            raise UserError(f"{key}={value}: must be {self}")
        if self.whole and value != int(value):
            raise UserError(f"{key}={value}: must be a whole number")

    def __str__(self) -> str:
        if self.low == -math.inf and self.high == math.inf:
            return "a finite number"
        if self.high == math.inf:
            return f"{'greater than' if self.low_open else 'at least'} {self.low:.10g}"
        if self.low == -math.inf:
            return f"at most {self.high:.10g}"
        return f"in {'(' if self.low_open else '['}{self.low:.10g}, {self.high:.10g}]"


def check_ranges(prefix: str, config: Any, ranges: Mapping[str, Range]) -> None:
    """Check the named fields of a dataclass."""
    for name, allowed in ranges.items():
        allowed.check(f"{prefix}.{name}", getattr(config, name))


PROBABILITY = Range(low=0, high=1)
POSITIVE = Range(low=0, low_open=True)
AT_LEAST_ONE = Range(low=1)
