"""Which values the numbers of a config may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from cloudrl.errors import UserError
from cloudrl.scenarios.schema import Scenario


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

# Every number of a scenario is finite and not negative; these are bound further.
SCENARIO_RANGES: dict[str, Range] = {
    "slots": AT_LEAST_ONE,
    "ticks": AT_LEAST_ONE,
    "lag_ticks_max": Range(low=0, high=3),
    "noise_persistence": Range(low=0, high=0.9999),
    "retry_cap": AT_LEAST_ONE,
    "slow_response_ratio": AT_LEAST_ONE,
    "forecast_margin": POSITIVE,
    "capacity_limit": POSITIVE,
    "repair_median_ticks": POSITIVE,
    "value_low": POSITIVE,
    "breach_factor_low": POSITIVE,
    "labour_factor_low": POSITIVE,
    "burst_factor_low": POSITIVE,
    "utilisation_low": POSITIVE,
} | dict.fromkeys(
    [
        "diurnal_amplitude", "bursts_per_tick", "stopped_fraction", "unhealthy_capacity_loss", "slow_value_loss",
        "cache_hit", "soft_weight", "cache_weight", "failure_rate", "health_leak", "initial_health_low",
        "vulnerability_rate", "severe_share", "exposure_front", "exposure_service", "exposure_isolated",
        "stopped_exposure", "vm_data_factor", "exposure_rate", "decryption_rate", "logging_loss_rate",
        "initial_logged", "initial_encrypted", "initial_exposed", "job_probability", "downtime_vm",
        "downtime_multi_az", "downtime_cache", "rotation_break", "false_alarm_rate", "unhealthy_dependency",
        "recovery_only_served", "win_served", "size_2", "size_4", "size_8", "utilisation_high",
    ],
    PROBABILITY,
)  # fmt: skip


def check_scenario(prefix: str, scenario: Scenario) -> None:
    """Every number in its range, every low below its high, the machine sizes a distribution."""
    numbers = _numbers(prefix, scenario)
    for key, value in numbers.items():
        SCENARIO_RANGES.get(key.rpartition(".")[2], Range(low=0)).check(key, value)
    for key, low in numbers.items():
        for end_low, end_high in (("_low", "_high"), ("_min", "_max")):
            high = numbers.get(key.removesuffix(end_low) + end_high) if key.endswith(end_low) else None
            if high is not None and low > high:
                raise UserError(f"{key}={low}: must not lie above {key.removesuffix(end_low)}{end_high}={high}")
    topology = scenario.topology
    sizes = topology.size_2 + topology.size_4 + topology.size_8
    if abs(sizes - 1) > 1e-6:
        raise UserError(f"{prefix}.topology: size_2 + size_4 + size_8 = {sizes:g}; probabilities must sum to 1")


def _numbers(prefix: str, config: Any) -> dict[str, float]:
    out: dict[str, float] = {}
    for f in fields(config):
        key, value = f"{prefix}.{f.name}", getattr(config, f.name)
        if is_dataclass(value):
            out |= _numbers(key, value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            out[key] = value
    return out
