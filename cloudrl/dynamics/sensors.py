"""What monitoring shows: metrics that may be late, alarms that may be false."""

from __future__ import annotations

from cloudrl.jit import kernel
from cloudrl.seeding import uniform
from cloudrl.types import CRASHED, LAG

ALARM_UTILISATION = 0.9
ALARM_HEALTH = 0.5


@kernel
def read(p, r, i, draws, false_alarm_rate):  # type: ignore[no-untyped-def]
    """Record this tick's metrics of resource `i` and raise its alarm."""
    if p.lag_ticks_max > 0:
        for k in range(LAG, 0, -1):
            r.past_health[k] = r.past_health[k - 1]
            r.past_utilisation[k] = r.past_utilisation[k - 1]
            r.past_latency[k] = r.past_latency[k - 1]
    r.past_health[0] = r.health
    r.past_utilisation[0] = r.utilisation
    r.past_latency[0] = r.latency
    troubled = r.status == CRASHED or r.utilisation > ALARM_UTILISATION or r.health < ALARM_HEALTH
    false = false_alarm_rate > 0.0 and uniform(draws, i, 0) < false_alarm_rate
    r.alarm = 1 if troubled or false else 0
