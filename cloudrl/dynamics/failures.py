"""Health, crashes and repair.

Failures are Poisson with hazard  f exp(2 (1 - health)) (1 + 5 max(0, rho - 0.85)). A machine that is overloaded
for two ticks, or loaded twice over, crashes; a supervisor brings it back. Other crashes are repaired by themselves
after a lognormal time, unless somebody restarts the resource.
"""

from __future__ import annotations

import math

from cloudrl.jit import kernel
from cloudrl.seeding import gaussian, uniform
from cloudrl.types import CRASHED, FAILURE_INCIDENT, NO_INCIDENT, OVERLOAD_INCIDENT, RUNNING

HEALTH_MIN = 0.1
HEALTH_AFTER_REPAIR = 0.6
OVERLOAD_TICKS = 2
OVERLOAD_AT_ONCE = 2.0  # utilisation
REPAIR_MAX = 96.0  # ticks
_E2 = math.exp(2.0)


@kernel
def crash(w, r, repair_ticks, incident):  # type: ignore[no-untyped-def]
    """Take the resource down for `repair_ticks`."""
    r.status = CRASHED
    r.incident = incident
    r.busy_ticks = 0
    r.warmth = 0.0
    r.overload_ticks = 0
    r.repair_ticks = repair_ticks
    w.crashes += 1
    w.tick_crashes += 1


@kernel
def repair_time(p, u1, u2):  # type: ignore[no-untyped-def]
    """Ticks until an unattended resource comes back."""
    ticks = math.ceil(p.repair_median_ticks * math.exp(p.repair_sigma * gaussian(u1, u2)))
    return int(min(REPAIR_MAX, max(1.0, ticks)))


@kernel
def advance(p, w, r, i, draws):  # type: ignore[no-untyped-def]
    """One tick of wear, crash or repair of resource `i`."""
    r.incident = NO_INCIDENT
    if r.status == RUNNING:
        rho = r.utilisation
        r.overload_ticks = r.overload_ticks + 1 if rho > 1.0 else 0
        r.health = max(HEALTH_MIN, r.health - 2.0 * r.leak * uniform(draws, i, 0))
        if r.warmth < 1.0:
            r.warmth = min(1.0, r.warmth + 1.0 / p.cache_warm_ticks)
        if r.busy_ticks == 0:
            u = uniform(draws, i, 1)
            pressure = p.failure_rate * (1.0 + 5.0 * max(0.0, rho - 0.85))
            # exp only where it can matter: exp(2 (1 - health)) <= e^2
            if u < pressure * _E2 and u < pressure * math.exp(2.0 * (1.0 - r.health)):
                crash(w, r, repair_time(p, uniform(draws, i, 2), uniform(draws, i, 3)), FAILURE_INCIDENT)
            elif r.overload_ticks >= OVERLOAD_TICKS or rho > OVERLOAD_AT_ONCE:
                crash(w, r, p.overload_repair_ticks, OVERLOAD_INCIDENT)
    elif r.status == CRASHED:
        r.repair_ticks -= 1
        if r.repair_ticks <= 0:
            r.status = RUNNING
            r.health = max(HEALTH_AFTER_REPAIR, r.health)
            r.warmth = 0.0
