"""Five simulated minutes of one world."""

from __future__ import annotations

import math
from types import SimpleNamespace

from cloudrl.dynamics.failures import (
    HEALTH_AFTER_REPAIR,
    HEALTH_MIN,
    OVERLOAD_AT_ONCE,
    OVERLOAD_TICKS,
    REPAIR_MAX,
)
from cloudrl.dynamics.sensors import ALARM_HEALTH, ALARM_UTILISATION
from cloudrl.measurements import TICK_HOURS, TICKS_PER_DAY
from cloudrl.seeding import DRIFT, FAILURE, SECURITY, SENSOR
from cloudrl.types import (
    BREACH_INCIDENT,
    CRASHED,
    DELETED,
    FAILURE_INCIDENT,
    NO_INCIDENT,
    OVERLOAD_INCIDENT,
    QUEUE,
    RUNNING,
)
from tests.twin import events, operations, traffic
from tests.twin.model import Resource, World, billed_price, crash
from tests.twin.risk import breach_cost, exploit_intensity, new_vulnerability
from tests.twin.streams import gaussian, uniform


def tick(p: SimpleNamespace, w: World, profile: traffic.Profile, op: int | None, target: Resource | None) -> None:
    """Play one tick; `op` on `target` has been judged, None is NOOP."""
    w.tick_crashes = w.tick_breaches = 0
    w.tick_labour = w.tick_exposure = 0.0
    if op is not None and target is not None:
        operations.begin(p, w, target, op)
    w.changes = max(0.0, w.changes - p.change_refill)

    traffic.arrive(p, w, profile)
    traffic.flow(p, w)
    traffic.track_cascade(p, w)

    price = 0.0
    outage = w.load * ((1.0 - w.served) + p.slow_value_loss * w.served * w.slow)
    failure, drift = w.luck.stream(FAILURE, w.tick), w.luck.stream(DRIFT, w.tick)
    security, sensor = w.luck.stream(SECURITY, w.tick), w.luck.stream(SENSOR, w.tick)
    false_alarms = events.false_alarms(p, w)
    for r in w.resources:
        job_due = r.job_start >= 0 and r.job_start <= w.tick < r.job_start + p.job_ticks
        if r.status == DELETED:
            outage += p.job_value if job_due else 0.0
            continue
        price += billed_price(p, r)
        if job_due:
            outage += p.job_value * (1.0 - r.serving)
        wear(p, w, r, failure)
        decay(p, r, drift)
        attack(p, w, r, security)
        operations.advance(r)
        measure(p, r, sensor, false_alarms)
    for r in w.resources:
        events.strike(w, r)

    w.tick_infrastructure = price * TICK_HOURS
    w.tick_outage = w.value * TICK_HOURS * outage
    w.infrastructure += w.tick_infrastructure
    w.outage += w.tick_outage
    w.exposure += w.tick_exposure
    w.labour += w.tick_labour
    w.served_traffic += w.served * w.load
    w.traffic += w.load
    w.tick += 1
    profile.forecast(w)


def wear(p: SimpleNamespace, w: World, r: Resource, draws: int) -> None:
    """Health, failures and repair."""
    r.incident = NO_INCIDENT
    if r.status == RUNNING:
        rho = r.utilisation
        r.overload_ticks = r.overload_ticks + 1 if rho > 1.0 else 0
        r.health = max(HEALTH_MIN, r.health - 2.0 * r.leak * uniform(draws, r.index, 0))
        if r.warmth < 1.0:
            r.warmth = min(1.0, r.warmth + 1.0 / p.cache_warm_ticks)
        if r.busy_ticks > 0:
            return
        hazard = p.failure_rate * (1.0 + 5.0 * max(0.0, rho - 0.85)) * math.exp(2.0 * (1.0 - r.health))
        if uniform(draws, r.index, 1) < hazard:
            spread = math.exp(p.repair_sigma * gaussian(uniform(draws, r.index, 2), uniform(draws, r.index, 3)))
            repair = math.ceil(p.repair_median_ticks * spread)
            crash(w, r, int(min(REPAIR_MAX, max(1.0, repair))), FAILURE_INCIDENT)
        elif r.overload_ticks >= OVERLOAD_TICKS or rho > OVERLOAD_AT_ONCE:
            crash(w, r, p.overload_repair_ticks, OVERLOAD_INCIDENT)
    elif r.status == CRASHED:
        r.repair_ticks -= 1
        if r.repair_ticks <= 0:
            r.status = RUNNING
            r.health = max(HEALTH_AFTER_REPAIR, r.health)
            r.warmth = 0.0


def decay(p: SimpleNamespace, r: Resource, draws: int) -> None:
    """What goes wrong by itself."""
    i = r.index
    r.ticks_since_analyze += 1
    r.ticks_since_restart += 1
    r.credential_days += p.security_clock / TICKS_PER_DAY
    if r.kind != QUEUE and uniform(draws, i, 0) < p.vulnerability_rate:
        epss, cvss = new_vulnerability(p, *(uniform(draws, i, slot) for slot in (1, 2, 3, 4)))
        r.hidden_count += 1
        r.hidden_epss += epss
        r.hidden_cvss = max(r.hidden_cvss, cvss)
    if uniform(draws, i, 5) < p.exposure_rate:
        r.exposed = True
    if r.kind != QUEUE and uniform(draws, i, 6) < p.decryption_rate:
        r.encrypted = False
    if uniform(draws, i, 7) < p.logging_loss_rate:
        r.logging = False
    if r.logging:
        r.exposure_seen = r.exposed


def attack(p: SimpleNamespace, w: World, r: Resource, draws: int) -> None:
    """The premium for the exposure of this tick, and the dice of the breach itself."""
    intensity = exploit_intensity(p, r, r.known_epss + r.hidden_epss, r.exposed, r.credential_days)
    hazard = 1.0 - math.exp(-intensity)
    loss = breach_cost(p, w, r)
    w.tick_exposure += hazard * loss
    if r.exposed:
        w.exposure_hours += TICK_HOURS
    if uniform(draws, r.index, 0) >= hazard:
        return
    w.breaches += 1
    w.tick_breaches += 1
    w.breach_realised += loss
    r.exposed = r.exposure_seen = False
    r.credential_days = 0.0
    r.known_count, r.known_epss, r.known_cvss = 0, 0.0, 0.0
    r.hidden_count, r.hidden_epss, r.hidden_cvss = 0, 0.0, 0.0
    r.ticks_since_analyze = 0
    r.incident = BREACH_INCIDENT
    if r.status == RUNNING:  # isolated while somebody looks at it
        crash(w, r, p.breach_isolation_ticks, BREACH_INCIDENT)


def measure(p: SimpleNamespace, r: Resource, draws: int, false_alarms: float) -> None:
    """Metrics, perhaps late, and the alarm, perhaps false."""
    for past, value in (
        (r.past_health, r.health),
        (r.past_utilisation, r.utilisation),
        (r.past_latency, r.latency),
    ):
        if p.lag_ticks_max > 0:
            past.insert(0, value)
            past.pop()
        else:
            past[0] = value
    r.alarm = r.status == CRASHED or r.utilisation > ALARM_UTILISATION or r.health < ALARM_HEALTH
    if false_alarms > 0.0 and uniform(draws, r.index, 0) < false_alarms:
        r.alarm = True
