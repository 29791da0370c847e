"""Exposure to attack. The hazard is billed as an insurance premium (hazard x loss); the breach itself is an event.

Billing the expected loss keeps the mean and needs fewer worlds for the same interval (docs/calibration.md), and no
planner is paid for foreseeing dice. The breach still hurts: isolation takes the resource down, and with it often
the budget of a win goes.
"""

from __future__ import annotations

from cloudrl.dynamics.failures import crash
from cloudrl.jit import kernel
from cloudrl.measurements import TICK_HOURS, breach_cost, breach_hazard
from cloudrl.seeding import uniform
from cloudrl.types import BREACH_INCIDENT, RUNNING


@kernel
def advance(p, w, r, i, draws):  # type: ignore[no-untyped-def]
    """Bill one tick of exposure of resource `i` and draw whether it is breached."""
    hazard = breach_hazard(p, r, r.known_epss + r.hidden_epss, r.exposed, r.credential_days)
    loss = breach_cost(p, w, r)
    w.tick_exposure += hazard * loss
    if r.exposed:
        w.exposure_hours += TICK_HOURS
    if uniform(draws, i, 0) < hazard:
        breach(p, w, r, loss)


@kernel
def breach(p, w, r, loss):  # type: ignore[no-untyped-def]
    """The resource is isolated, its holes are closed, its credentials replaced."""
    w.breaches += 1
    w.tick_breaches += 1
    w.breach_realised += loss
    r.exposed = 0
    r.exposure_seen = 0
    r.credential_days = 0.0
    r.known_count = 0
    r.known_epss = 0.0
    r.known_cvss = 0.0
    r.hidden_count = 0
    r.hidden_epss = 0.0
    r.hidden_cvss = 0.0
    r.ticks_since_analyze = 0
    r.incident = BREACH_INCIDENT
    if r.status == RUNNING:
        crash(w, r, p.breach_isolation_ticks, BREACH_INCIDENT)
