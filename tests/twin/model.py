"""The things a world is made of. Field names and units are those of cloudrl.types."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from cloudrl.measurements import UNANALYZED_TICKS
from cloudrl.records import leaves
from cloudrl.scenarios.events import Event
from cloudrl.scenarios.schema import Scenario
from cloudrl.types import CRASHED, LAG, MAX_EVENTS, PENDING, QUEUE, RUNNING, STOPPED
from tests.twin.streams import Luck


def constants(scenario: Scenario) -> SimpleNamespace:
    """Every number of a scenario by its leaf name."""
    return SimpleNamespace(**dict(leaves(scenario)))


@dataclass(slots=True, eq=False)
class Resource:
    index: int
    kind: int
    critical: bool
    data_bearing: bool
    multi_az: bool
    idle: bool
    status: int = RUNNING
    size: int = 0
    unit_price: float = 0.0
    exposure_base: float = 0.0
    leak: float = 0.0
    job_start: int = -1
    busy_op: int = 0
    busy_ticks: int = 0
    repair_ticks: int = 0
    overload_ticks: int = 0
    incident: int = 0
    hold: bool = False
    health: float = 1.0
    warmth: float = 1.0
    serving: float = 1.0
    utilisation: float = 0.0
    latency: float = 1.0
    known_count: int = 0
    known_epss: float = 0.0
    known_cvss: float = 0.0
    hidden_count: int = 0
    hidden_epss: float = 0.0
    hidden_cvss: float = 0.0
    exposed: bool = False
    exposure_seen: bool = False
    encrypted: bool = False
    logging: bool = False
    credential_days: float = 0.0
    ticks_since_analyze: int = UNANALYZED_TICKS
    ticks_since_restart: int = 10_000
    impossible: set[int] = field(default_factory=set)
    forbidden: set[int] = field(default_factory=set)
    lag: int = 0
    alarm: bool = False
    past_health: list[float] = field(default_factory=list)
    past_utilisation: list[float] = field(default_factory=list)
    past_latency: list[float] = field(default_factory=list)
    memory_risk: float = 0.0
    group: Group = field(init=False)

    @property
    def serves(self) -> bool:
        """It runs, and no operation is under way."""
        return self.status == RUNNING and self.busy_ticks == 0

    @property
    def vcpu(self) -> float:
        return 2.0**self.size

    def fill_past(self) -> None:
        """Sensors start as if nothing had changed before."""
        self.past_health = [self.health] * (LAG + 1)
        self.past_utilisation = [self.utilisation] * (LAG + 1)
        self.past_latency = [self.latency] * (LAG + 1)


@dataclass(slots=True, eq=False)
class Edge:
    target: Group
    kind: int
    calls: float
    cache: Resource | None


@dataclass(slots=True, eq=False)
class Group:
    index: int
    idle: bool
    entry_share: float
    members: list[Resource]
    edges: list[Edge] = field(default_factory=list)
    dependents: int = 0
    demand: float = 0.0
    weight: float = 0.0
    load: float = 0.0
    capability: float = 1.0
    slow_self: float = 0.0
    availability: float = 1.0
    slow: float = 0.0


@dataclass(slots=True, eq=False)
class Note:
    """Something that was done or happened, waiting for what follows."""

    signature: tuple[int, int]  # (context, event)
    group: Group
    tick: int
    bad: bool = False
    severity: float = 0.0


@dataclass(slots=True, eq=False)
class World:
    luck: Luck
    seed: int
    template: int
    groups: list[Group]
    resources: list[Resource]
    tick: int = 0
    base_cost: float = 0.0
    value: float = 0.0
    breach_factor: float = 1.0
    labour_factor: float = 1.0
    burst_factor: float = 1.0
    log_value: float = 0.0
    log_breach: float = 0.0
    log_burst: float = 0.0
    log_cost: float = 0.0
    phase: float = 0.0
    noise: float = 0.0
    burst_ticks: int = 0
    burst: float = 1.0
    load: float = 1.0
    forecast_now: float = 1.0
    forecast_peak: float = 0.0
    forecast_soon: float = 0.0
    served: float = 1.0
    slow: float = 0.0
    events: list[Event] = field(default_factory=list)
    event_start: list[int] = field(default_factory=lambda: [0] * MAX_EVENTS)
    event_end: list[int] = field(default_factory=lambda: [0] * MAX_EVENTS)
    event_strength: list[float] = field(default_factory=lambda: [0.0] * MAX_EVENTS)
    event_pick: list[float] = field(default_factory=lambda: [0.0] * MAX_EVENTS)
    changes: float = 0.0
    cascade: bool = False
    cascade_root: Group | None = None
    cascade_blast: float = 0.0
    tick_infrastructure: float = 0.0
    tick_outage: float = 0.0
    tick_exposure: float = 0.0
    tick_labour: float = 0.0
    reward_cost: float = 0.0
    reward_security: float = 0.0
    reward_reliability: float = 0.0
    reward_action: float = 0.0
    reward_failure: float = 0.0
    reward: float = 0.0
    executed: int = -1
    verdict: int = 0
    tick_crashes: int = 0
    tick_breaches: int = 0
    tick_cascades: int = 0
    infrastructure: float = 0.0
    outage: float = 0.0
    exposure: float = 0.0
    labour: float = 0.0
    breach_realised: float = 0.0
    reward_total: float = 0.0
    served_traffic: float = 0.0
    traffic: float = 0.0
    exposure_hours: float = 0.0
    crashes: int = 0
    breaches: int = 0
    cascades: int = 0
    max_blast: float = 0.0
    operations: int = 0
    disruptions: int = 0
    invalid: int = 0
    vetoed: int = 0
    violations: int = 0
    data_losses: int = 0
    pending: list[Note | None] = field(default_factory=lambda: [None] * PENDING)


def billed_price(p: SimpleNamespace, r: Resource) -> float:
    """$ per hour that the resource costs as it is; the caller leaves deleted ones out."""
    price = r.unit_price if r.kind == QUEUE else r.unit_price * r.vcpu
    return price * p.stopped_fraction if r.status == STOPPED else price


def crash(w: World, r: Resource, repair_ticks: int, incident: int) -> None:
    """The resource goes down and loses what it was doing."""
    r.status = CRASHED
    r.incident = incident
    r.busy_ticks = r.overload_ticks = 0
    r.warmth = 0.0
    r.repair_ticks = repair_ticks
    w.crashes += 1
    w.tick_crashes += 1
