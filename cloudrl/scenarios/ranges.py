"""Which values the numbers of a scenario may take."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from cloudrl.errors import UserError
from cloudrl.ranges import AT_LEAST_ONE, POSITIVE, PROBABILITY, Range
from cloudrl.scenarios.events import check_events
from cloudrl.scenarios.schema import Scenario

# Every number of a scenario is finite and not negative; these are bound further.
SCENARIO_RANGES: dict[str, Range] = {
    "slots": Range(low=0),  # 0: as many as the estate has
    "ticks": AT_LEAST_ONE,
    "lag_ticks_max": Range(low=0, high=3),
    "noise_persistence": Range(low=0, high=0.9999),
    "noise_sd": Range(low=0, high=1),
    "cache_warm_ticks": AT_LEAST_ONE,
    "unencrypted_factor": POSITIVE,
    "unlogged_factor": POSITIVE,
    "retry_cap": AT_LEAST_ONE,
    "slow_response_ratio": AT_LEAST_ONE,
    "forecast_margin": POSITIVE,
    "capacity_limit": POSITIVE,
    "change_budget": POSITIVE,
    "repair_median_ticks": POSITIVE,
    "value_low": POSITIVE,
    "breach_factor_low": POSITIVE,
    "labour_factor_low": POSITIVE,
    "burst_factor_low": POSITIVE,
    "utilisation_low": POSITIVE,
    "ticks_min": AT_LEAST_ONE,
    "share": PROBABILITY,
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
    if scenario.topology.train:
        AT_LEAST_ONE.check(f"{prefix}.slots", scenario.slots)  # only an estate brings a number of its own
    for key, value in numbers.items():
        SCENARIO_RANGES.get(key.rpartition(".")[2], Range(low=0)).check(key, value)
    for key, low in numbers.items():
        for end_low, end_high in (("_low", "_high"), ("_min", "_max")):
            high = numbers.get(key.removesuffix(end_low) + end_high) if key.endswith(end_low) else None
            if high is not None and low > high:
                raise UserError(f"{key}={low}: must not lie above {key.removesuffix(end_low)}{end_high}={high}")
    check_events(prefix, scenario.events, scenario.horizon.ticks)
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
        elif isinstance(value, list):
            for k, item in enumerate(value):
                out |= _numbers(f"{key}[{k}]", item) if is_dataclass(item) else {}
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            out[key] = value
    return out
