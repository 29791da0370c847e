"""What the operations do: at once when they begin, or when their last tick is over."""

from __future__ import annotations

from cloudrl.actions import (
    ANALYZE,
    DELETE,
    DISRUPTIVE_OPS,
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
from cloudrl.measurements import duration, labour
from cloudrl.seeding import OPERATION, stream, uniform
from cloudrl.types import CACHE, CRASHED, DELETED, RUNNING, STOPPED

_EMPTY_A_CACHE = 1 << PATCH | 1 << RESTART | 1 << ENCRYPT | 1 << RESIZE_DOWN | 1 << RESIZE_UP


@kernel
def begin(p, w, r, i, op):  # type: ignore[no-untyped-def]
    """Start operation `op` (not NOOP) on resource `i`. The caller has judged it."""
    w.tick_labour = labour(p, op) * w.labour_factor
    w.operations += 1
    if contains(DISRUPTIVE_OPS, op) and not r.idle and r.status != CRASHED:  # a crashed one cannot be disrupted
        w.changes += 1.0
        w.disruptions += 1
    if op == ROTATE_CREDS:
        r.credential_days = 0.0
        if uniform(stream(w.key, OPERATION, w.tick), i, 0) < p.rotation_break:
            r.hold = 1
    elif op == ENABLE_LOGGING:
        r.logging = 1
        r.exposure_seen = r.exposed
    elif op == RESTRICT_ACCESS:
        r.exposed = 0
        r.exposure_seen = 0
    elif op == STOP:
        r.status = STOPPED
    elif op == DELETE:
        w.data_losses += r.data_bearing
        r.status = DELETED
    else:
        if op == RESTART:
            r.status = RUNNING
            r.ticks_since_restart = 0
        r.busy_op = op
        r.busy_ticks = duration(p, r, op)
        if r.busy_ticks == 0:
            finish(r, op)


@kernel
def advance(r):  # type: ignore[no-untyped-def]
    """One tick of the operation in progress."""
    if r.busy_ticks > 0:
        r.busy_ticks -= 1
        if r.busy_ticks == 0:
            finish(r, r.busy_op)


@kernel
def finish(r, op):  # type: ignore[no-untyped-def]
    """The operation is done."""
    if op == ANALYZE:
        r.known_count += r.hidden_count
        r.known_epss += r.hidden_epss
        r.known_cvss = max(r.known_cvss, r.hidden_cvss)
        r.hidden_count = 0
        r.hidden_epss = 0.0
        r.hidden_cvss = 0.0
        r.ticks_since_analyze = 0
        r.exposure_seen = r.exposed
    elif op == PATCH:
        r.known_count = 0
        r.known_epss = 0.0
        r.known_cvss = 0.0
        r.health = 1.0
    elif op == ENCRYPT:
        r.encrypted = 1
    elif op == RESTART:
        r.health = 1.0
        r.overload_ticks = 0
    elif op == RESIZE_DOWN:
        r.size -= 1
    elif op == RESIZE_UP:
        r.size += 1
    elif op == START:
        r.status = RUNNING
        r.health = 1.0
    if r.kind == CACHE and contains(_EMPTY_A_CACHE, op):
        r.warmth = 0.0
