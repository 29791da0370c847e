"""Named measurements on a world: small pure functions that dynamics, safety, reward and observation share.

`p` is a record of scenario constants (PARAMS), `w` a world, `r` a resource.
"""

from __future__ import annotations

import math

from cloudrl.actions import (
    ANALYZE,
    DELETE,
    ENABLE_LOGGING,
    ENCRYPT,
    PATCH,
    RESIZE_DOWN,
    RESIZE_UP,
    RESTART,
    RESTRICT_ACCESS,
    ROTATE_CREDS,
    START,
    STOP,
    contains,
)
from cloudrl.jit import kernel
from cloudrl.seeding import gaussian
from cloudrl.types import CACHE, CACHED, DATABASE, DELETED, QUEUE, RUNNING, SOFT, STOPPED, VM

TICK_HOURS = 5.0 / 60.0
TICKS_PER_DAY = 288
UNANALYZED_TICKS = TICKS_PER_DAY  # for so long, at an episode's start, nobody has analysed anything
TICKS_PER_30_DAYS = 8640.0
CREDENTIAL_LIMIT_DAYS = 90.0  # CIS AWS Foundations Benchmark: rotate every 90 days or less
CREDENTIAL_FACTOR_MAX = 4.0
SEVERE_MEAN, SEVERE_SD, SEVERE_MIN, SEVERE_MAX = 0.5, 0.15, 0.1, 0.9
ORDINARY_SCALE, ORDINARY_MAX = 0.01, 0.5
_DOWN = 1 << PATCH | 1 << RESTART | 1 << RESIZE_DOWN | 1 << RESIZE_UP
_ONE_TICK = _DOWN | 1 << ANALYZE


@kernel
def vcpu(size):  # type: ignore[no-untyped-def]
    """Virtual CPUs of a size 0..3."""
    return float(1 << size)


@kernel
def capacity(p, r):  # type: ignore[no-untyped-def]
    """vCPU that can serve: an unhealthy machine loses part of it."""
    return vcpu(r.size) * (1.0 - p.unhealthy_capacity_loss * (1.0 - r.health))


@kernel
def list_price(r):  # type: ignore[no-untyped-def]
    """$ per hour of the resource when it runs."""
    if r.kind == QUEUE:
        return r.unit_price
    return r.unit_price * vcpu(r.size)


@kernel
def billed_price(p, r):  # type: ignore[no-untyped-def]
    """$ per hour that is billed now: stopped machines pay for storage, deleted ones nothing."""
    if r.status >= DELETED:
        return 0.0
    if r.status == STOPPED:
        return list_price(r) * p.stopped_fraction
    return list_price(r)


@kernel
def credential_factor(days):  # type: ignore[no-untyped-def]
    """Growth of the exploit hazard with stale credentials: 1 up to 90 days, 4 at most."""
    return min(CREDENTIAL_FACTOR_MAX, 1.0 + max(0.0, days - CREDENTIAL_LIMIT_DAYS) / CREDENTIAL_LIMIT_DAYS)


@kernel
def exploit_exposure(p, r, exposed):  # type: ignore[no-untyped-def]
    """How reachable a resource is for an attacker: 1 when public."""
    x = 1.0 if exposed else r.exposure_base
    return x * p.stopped_exposure if r.status == STOPPED else x


@kernel
def exploit_intensity(p, r, epss, exposed, credential_days):  # type: ignore[no-untyped-def]
    """Expected exploits per tick: (clock / 8640) x [epss g + c (g - 1) + m exposed]."""
    g = credential_factor(credential_days)
    intensity = epss * g + p.credential_rate * (g - 1.0)
    if exposed:
        intensity += p.misconfiguration_rate
    return (p.security_clock / TICKS_PER_30_DAYS) * exploit_exposure(p, r, exposed) * intensity


@kernel
def breach_hazard(p, r, epss, exposed, credential_days):  # type: ignore[no-untyped-def]
    """Probability of a breach within a tick. `epss`: summed 30-day exploitation probabilities of open holes.

    h = 1 - exp(-(clock / 8640) x [epss g + c (g - 1) + m exposed]), x the exposure, g the credential factor.
    """
    return 1.0 - math.exp(-exploit_intensity(p, r, epss, exposed, credential_days))


@kernel
def breach_cost(p, w, r):  # type: ignore[no-untyped-def]
    """$ lost when this resource is breached: more if data lie there in clear, and if nobody sees it."""
    loss = p.breach_loss * w.breach_factor * 24.0 * w.base_cost
    if r.data_bearing:
        if not r.encrypted:
            loss *= p.unencrypted_factor
    else:
        loss *= p.vm_data_factor
    if not r.logging:
        loss *= p.unlogged_factor
    return loss


@kernel
def duration(p, r, op):  # type: ignore[no-untyped-def]
    """Ticks that an operation keeps the resource busy; 0 = done at once."""
    if contains(_ONE_TICK, op):
        return 1
    if op == ENCRYPT:
        if r.kind == VM:
            return p.encrypt_vm_ticks
        if r.kind == DATABASE:
            return p.encrypt_database_ticks
        if r.kind == CACHE:
            return p.encrypt_cache_ticks
        return 0
    if op == START:
        return p.start_database_ticks if r.kind == DATABASE else p.start_vm_ticks
    return 0


@kernel
def downtime(p, r, op, ticks_left):  # type: ignore[no-untyped-def]
    """Part of this tick in which the running operation makes the resource unavailable.

    ENCRYPT copies in the background and is down only at the cut-over, its last tick.
    """
    if contains(_DOWN, op) or (op == ENCRYPT and ticks_left <= 1):
        if r.kind == DATABASE and r.multi_az:
            return p.downtime_multi_az
        if r.kind == CACHE and op != ENCRYPT:
            return p.downtime_cache
        return p.downtime_vm
    return 0.0


@kernel
def labour(p, op):  # type: ignore[no-untyped-def]
    """$ of labour of an operation, before the world's labour factor."""
    if op == ANALYZE:
        return p.labour_analyze
    if op == PATCH:
        return p.labour_patch
    if op == ENCRYPT:
        return p.labour_encrypt
    if op == ROTATE_CREDS:
        return p.labour_rotate
    if op == RESTART:
        return p.labour_restart
    if op in (RESIZE_DOWN, RESIZE_UP):
        return p.labour_resize
    if op in (STOP, START):
        return p.labour_stop_start
    if op == DELETE:
        return p.labour_delete
    if op == ENABLE_LOGGING:
        return p.labour_logging
    if op == RESTRICT_ACCESS:
        return p.labour_restrict
    return 0.0


@kernel
def job_pending(p, w, r):  # type: ignore[no-untyped-def]
    """True while the resource's scheduled job is ahead or running."""
    return r.job_start >= 0 and w.tick < r.job_start + p.job_ticks


@kernel
def never_analyzed(w, r):  # type: ignore[no-untyped-def]
    """True if nobody has analysed the resource in this episode, and no breach has shown what it was like."""
    return r.ticks_since_analyze >= UNANALYZED_TICKS + w.tick


@kernel
def serves(r):  # type: ignore[no-untyped-def]
    """True if the resource runs and no operation is under way."""
    return r.status == RUNNING and r.busy_ticks == 0


@kernel
def draw_epss(p, u_severe, u1, u2):  # type: ignore[no-untyped-def]
    """Probability of exploitation within 30 days of a new vulnerability: few are dangerous (EPSS, first.org)."""
    z = gaussian(u1, u2)
    if u_severe < p.severe_share:
        return min(SEVERE_MAX, max(SEVERE_MIN, SEVERE_MEAN + SEVERE_SD * z))
    return min(ORDINARY_MAX, ORDINARY_SCALE * z * z)


@kernel
def draw_cvss(p, u_severe, u):  # type: ignore[no-untyped-def]
    """Severity 0..10. High scores are common among harmless holes too: severity alone is a poor guide."""
    if u_severe < p.severe_share:
        return 6.0 + 4.0 * u
    return 2.0 + 8.0 * u


@kernel
def vulnerability_rate(p, r):  # type: ignore[no-untyped-def]
    """Vulnerabilities that turn up per tick. A queue is a managed service: its provider patches it."""
    return 0.0 if r.kind == QUEUE else p.vulnerability_rate


@kernel
def mean_epss(p):  # type: ignore[no-untyped-def]
    """Expected exploitation probability of a vulnerability nobody has looked at."""
    return p.severe_share * SEVERE_MEAN + (1.0 - p.severe_share) * ORDINARY_SCALE


@kernel
def dependency_weight(p, kind):  # type: ignore[no-untyped-def]
    """How much of a caller's availability hangs on a target of this kind, per call."""
    if kind == SOFT:
        return p.soft_weight
    if kind == CACHED:
        return p.cache_weight
    return 1.0
