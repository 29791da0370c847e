"""One tick of one world, in the order in which things happen. Bills are dollars; nothing here knows rewards."""

from __future__ import annotations

from cloudrl.actions import NOOP
from cloudrl.dynamics import cascade, drift, events, failures, flow, load, operations, security, sensors
from cloudrl.jit import kernel
from cloudrl.measurements import TICK_HOURS, billed_price, job_pending
from cloudrl.seeding import DRIFT, FAILURE, SECURITY, SENSOR, stream
from cloudrl.types import DELETED


@kernel
def tick(p, profile, table, w, groups, resources, edges, op, slot):  # type: ignore[no-untyped-def]
    """Advance world `w` by five minutes. `op` on `slot` has been judged; NOOP does nothing.

    `profile`: the load's; `table`: the scenario's timed events.
    """
    w.tick_crashes = 0
    w.tick_breaches = 0
    w.tick_labour = 0.0
    w.tick_exposure = 0.0
    if op != NOOP:
        operations.begin(p, w, resources[slot], slot, op)
    w.changes = max(0.0, w.changes - p.change_refill)

    load.advance(p, w, profile)
    false_alarm_rate = p.false_alarm_rate
    if table.shape[0] > 0:
        w.load *= events.surge(table, w, w.tick)
        false_alarm_rate = events.false_alarm_rate(table, p, w)
    flow.route(p, w, groups, resources, edges)
    flow.propagate(p, w, groups, edges)
    cascade.track(p, w, groups, edges)
    outage = w.load * ((1.0 - w.served) + p.slow_value_loss * w.served * w.slow)

    infrastructure = 0.0
    failure_draws = stream(w.key, FAILURE, w.tick)
    drift_draws = stream(w.key, DRIFT, w.tick)
    security_draws = stream(w.key, SECURITY, w.tick)
    sensor_draws = stream(w.key, SENSOR, w.tick)
    for i in range(w.n_resources):
        r = resources[i]
        if r.status >= DELETED:
            if job_pending(p, w, r) and w.tick >= r.job_start:
                outage += p.job_value
            continue
        infrastructure += billed_price(p, r)
        if job_pending(p, w, r) and w.tick >= r.job_start:
            outage += p.job_value * (1.0 - r.serving)
        failures.advance(p, w, r, i, failure_draws)
        drift.advance(p, r, i, drift_draws)
        security.advance(p, w, r, i, security_draws)
        operations.advance(r)
        sensors.read(p, r, i, sensor_draws, false_alarm_rate)
    if table.shape[0] > 0:
        events.strike(table, w, groups, resources)

    w.tick_infrastructure = infrastructure * TICK_HOURS
    w.tick_outage = w.value * TICK_HOURS * outage
    w.infrastructure += w.tick_infrastructure
    w.outage += w.tick_outage
    w.exposure += w.tick_exposure
    w.labour += w.tick_labour
    w.served_traffic += w.served * w.load
    w.traffic += w.load
    w.tick += 1
    load.look_ahead(w, profile)
