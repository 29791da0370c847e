"""What a scenario consists of: every constant of the world, typed. Values live in configs/scenario/*.yaml.

Units are in the names or beside the fields; the yaml files say where each number comes from. Every leaf name
is unique over all sections, so that kernels read one flat record (`params(scenario)`): p.failure_rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cloudrl.records import record, record_dtype
from cloudrl.scenarios.events import Event

MAX_DEPENDENCIES_SEEN = 4
"""An observation shows a resource's dependencies up to this many (the heaviest first)."""


@dataclass
class Horizon:
    ticks: int = 288  # decision steps of 5 minutes in an episode


@dataclass
class Prices:
    vm_vcpu_hour: float = 0.048  # $ / vCPU-hour
    database_vcpu_hour: float = 0.0855  # $ / vCPU-hour
    cache_vcpu_hour: float = 0.078  # $ / vCPU-hour
    queue_hour: float = 0.03  # $ / hour, whatever its size
    multi_az_factor: float = 2.0  # x price
    stopped_fraction: float = 0.10  # of the price: storage of a stopped machine


@dataclass
class Stakes:
    """What differs from world to world (log-uniform between low and high)."""

    value_low: float = 6.0  # $ of served traffic per $ of infrastructure
    value_high: float = 40.0
    breach_factor_low: float = 0.4
    breach_factor_high: float = 2.5
    labour_factor_low: float = 0.5
    labour_factor_high: float = 3.0
    burst_factor_low: float = 0.3
    burst_factor_high: float = 3.0


@dataclass
class Load:
    diurnal_amplitude: float = 0.5  # of the mean
    noise_persistence: float = 0.9  # AR(1) coefficient per tick
    noise_sd: float = 0.05  # of log load, per tick
    bursts_per_tick: float = 1 / 288
    burst_low: float = 1.5  # x load
    burst_high: float = 2.2
    burst_ticks_min: int = 6
    burst_ticks_max: int = 24
    retry_cap: float = 1.1  # x load, the retry budget
    utilisation_low: float = 0.05  # mean utilisation at nominal load
    utilisation_high: float = 0.35


@dataclass
class Flow:
    unhealthy_capacity_loss: float = 0.4  # of capacity at health 0
    slow_response_ratio: float = 3.0  # response / service time above which an answer is late
    slow_value_loss: float = 0.2  # of the value of a late answer
    cache_hit: float = 0.8
    cache_warm_ticks: int = 6
    soft_weight: float = 0.3  # of a hard dependency
    cache_weight: float = 0.2


@dataclass
class Failures:
    failure_rate: float = 1.2e-4  # 1 / tick at health 1
    repair_median_ticks: float = 4.0  # unattended, lognormal
    repair_sigma: float = 1.2
    overload_repair_ticks: int = 1  # a supervisor restarts an overloaded process
    health_leak: float = 0.002  # 1 / tick, mean
    initial_health_low: float = 0.7


@dataclass
class Security:
    security_clock: float = 30.0  # days of ageing in a day of load
    vulnerability_rate: float = 3 / 288  # 1 / (resource tick)
    severe_share: float = 0.10
    exposure_front: float = 0.3  # exploit exposure of the entry tier (1 = public)
    exposure_service: float = 0.3
    exposure_isolated: float = 0.1
    stopped_exposure: float = 0.1  # x exposure
    credential_rate: float = 0.05  # exploits per 30 days and unit of stale-credential factor
    misconfiguration_rate: float = 0.05  # exploits per 30 days of public exposure
    breach_loss: float = 1.2  # x infrastructure $ per day
    vm_data_factor: float = 0.3  # of the loss where no data lives
    unencrypted_factor: float = 2.0
    unlogged_factor: float = 1.5
    breach_isolation_ticks: int = 6


@dataclass
class Drift:
    exposure_rate: float = 2e-4  # 1 / (resource tick)
    decryption_rate: float = 3e-4
    logging_loss_rate: float = 1e-3


@dataclass
class Start:
    """Distribution of the first state."""

    initial_logged: float = 0.75  # share
    initial_encrypted: float = 0.6
    initial_exposed: float = 0.02
    initial_credential_days: float = 150.0  # uniform from 0
    initial_vulnerabilities: float = 3.0  # mean, hidden


@dataclass
class Jobs:
    """A machine without traffic may hold one scheduled job."""

    job_probability: float = 0.75
    job_ticks: int = 12
    job_value: float = 0.3  # of the world's value, while it should run and does not


@dataclass
class Operations:
    """Labour in $ per operation, durations in ticks, downtime as the unavailable part of the disruptive tick."""

    labour_analyze: float = 0.10
    labour_patch: float = 0.50
    labour_encrypt: float = 1.00
    labour_rotate: float = 0.25
    labour_restart: float = 0.25
    labour_resize: float = 0.25
    labour_stop_start: float = 0.25
    labour_delete: float = 1.50
    labour_logging: float = 0.10
    labour_restrict: float = 0.25
    downtime_vm: float = 0.5
    downtime_multi_az: float = 0.3
    downtime_cache: float = 0.2
    encrypt_vm_ticks: int = 2
    encrypt_cache_ticks: int = 4
    encrypt_database_ticks: int = 8
    start_vm_ticks: int = 1
    start_database_ticks: int = 2
    rotation_break: float = 0.05  # probability that a rotation halves service for a tick


@dataclass
class Sensors:
    lag_ticks_max: int = 0  # metrics of a resource are 0..max ticks old (at most 3)
    false_alarm_rate: float = 0.0  # 1 / (resource tick)


@dataclass
class SafetyLimits:
    """Thresholds of the safety rules (cloudrl/safety/rules)."""

    capacity_limit: float = 0.85  # utilisation
    forecast_margin: float = 1.1  # x forecast
    forecast_ticks: int = 24
    restart_cooldown_ticks: int = 12
    change_budget: float = 2.0  # disruptive operations
    change_refill: float = 1 / 6  # per tick
    rotation_cooldown_days: float = 15.0
    job_guard_ticks: int = 6
    unhealthy_dependency: float = 0.75  # availability
    recovery_only_served: float = 0.6  # share of traffic


@dataclass
class Win:
    win_served: float = 0.98  # share of traffic
    win_breach_loss: float = 0.3  # expected, x infrastructure $ of the episode
    win_bill: float = 1.2  # x infrastructure $ of the episode


@dataclass
class Topology:
    """Shapes a world may take: names in configs/scenario/topologies.yaml, kept apart per split."""

    train: list[str] = field(default_factory=list)
    validation: list[str] = field(default_factory=list)
    test: list[str] = field(default_factory=list)
    size_2: float = 0.15  # probability of 2 vCPU
    size_4: float = 0.45
    size_8: float = 0.40


@dataclass
class Scenario:
    """A distribution of worlds. `slots` is the padded number of resources that agents see."""

    name: str = "custom"
    version: int = 1
    slots: int = 12
    path: str | None = None  # an estate file: the person's own system instead of `topology`
    horizon: Horizon = field(default_factory=Horizon)
    prices: Prices = field(default_factory=Prices)
    stakes: Stakes = field(default_factory=Stakes)
    load: Load = field(default_factory=Load)
    flow: Flow = field(default_factory=Flow)
    failures: Failures = field(default_factory=Failures)
    security: Security = field(default_factory=Security)
    drift: Drift = field(default_factory=Drift)
    start: Start = field(default_factory=Start)
    jobs: Jobs = field(default_factory=Jobs)
    operations: Operations = field(default_factory=Operations)
    sensors: Sensors = field(default_factory=Sensors)
    safety_limits: SafetyLimits = field(default_factory=SafetyLimits)
    win: Win = field(default_factory=Win)
    events: list[Event] = field(default_factory=list)
    topology: Topology = field(default_factory=Topology)


PARAMS = record_dtype(Scenario())
"""One flat record with every number of a scenario: what the kernels read."""


def params(scenario: Scenario) -> np.ndarray:
    """The scenario's numbers as a (1,) array of dtype PARAMS."""
    return record(scenario, PARAMS)
