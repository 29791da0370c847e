"""What the operations cost, how long they take, and what they do."""

from __future__ import annotations

from types import SimpleNamespace

from cloudrl.actions import DISRUPTIVE_OPS, N_OPS, Op
from cloudrl.seeding import OPERATION
from cloudrl.types import CACHE, CRASHED, DATABASE, DELETED, RUNNING, STOPPED, VM
from tests.twin.model import Resource, World
from tests.twin.streams import uniform

ANALYZE, PATCH, ENCRYPT, ROTATE_CREDS, RESTART = Op.ANALYZE, Op.PATCH, Op.ENCRYPT, Op.ROTATE_CREDS, Op.RESTART
RESIZE_DOWN, RESIZE_UP, STOP, START, DELETE = Op.RESIZE_DOWN, Op.RESIZE_UP, Op.STOP, Op.START, Op.DELETE
ENABLE_LOGGING, RESTRICT_ACCESS = Op.ENABLE_LOGGING, Op.RESTRICT_ACCESS
DISRUPTIVE = frozenset(op for op in range(N_OPS) if DISRUPTIVE_OPS >> op & 1)
LABOUR = {
    ANALYZE: "analyze", PATCH: "patch", ENCRYPT: "encrypt", ROTATE_CREDS: "rotate", RESTART: "restart",
    RESIZE_DOWN: "resize", RESIZE_UP: "resize", STOP: "stop_start", START: "stop_start", DELETE: "delete",
    ENABLE_LOGGING: "logging", RESTRICT_ACCESS: "restrict",
}  # fmt: skip


def duration(p: SimpleNamespace, r: Resource, op: int) -> int:
    """Ticks that an operation keeps the resource busy."""
    if op == ENCRYPT:
        return {VM: p.encrypt_vm_ticks, DATABASE: p.encrypt_database_ticks, CACHE: p.encrypt_cache_ticks}.get(
            r.kind, 0
        )
    if op == START:
        return p.start_database_ticks if r.kind == DATABASE else p.start_vm_ticks
    return 1


def downtime(p: SimpleNamespace, r: Resource) -> float:
    """Part of this tick in which the operation in progress takes the resource away."""
    if r.busy_op in (ANALYZE, START) or (r.busy_op == ENCRYPT and r.busy_ticks > 1):
        return 0.0
    if r.kind == DATABASE and r.multi_az:
        return p.downtime_multi_az
    if r.kind == CACHE and r.busy_op != ENCRYPT:
        return p.downtime_cache
    return p.downtime_vm


def begin(p: SimpleNamespace, w: World, r: Resource, op: int) -> None:
    """Start an operation that has been judged."""
    w.tick_labour = getattr(p, "labour_" + LABOUR[Op(op)]) * w.labour_factor
    w.operations += 1
    if op in DISRUPTIVE and not r.idle and r.status != CRASHED:
        w.changes += 1.0
        w.disruptions += 1
    if op == ROTATE_CREDS:
        r.credential_days = 0.0
        r.hold = uniform(w.luck.stream(OPERATION, w.tick), r.index, 0) < p.rotation_break
    elif op == ENABLE_LOGGING:
        r.logging = True
        r.exposure_seen = r.exposed
    elif op == RESTRICT_ACCESS:
        r.exposed = r.exposure_seen = False
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
            finish(r)


def advance(r: Resource) -> None:
    """One tick of the operation in progress."""
    if r.busy_ticks > 0:
        r.busy_ticks -= 1
        if r.busy_ticks == 0:
            finish(r)


def finish(r: Resource) -> None:
    """The operation is done."""
    op = r.busy_op
    if op == ANALYZE:
        r.known_count += r.hidden_count
        r.known_epss += r.hidden_epss
        r.known_cvss = max(r.known_cvss, r.hidden_cvss)
        r.hidden_count, r.hidden_epss, r.hidden_cvss = 0, 0.0, 0.0
        r.ticks_since_analyze = 0
        r.exposure_seen = r.exposed
    elif op == PATCH:
        r.known_count, r.known_epss, r.known_cvss = 0, 0.0, 0.0
        r.health = 1.0
    elif op == ENCRYPT:
        r.encrypted = True
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
    if r.kind == CACHE and op in (PATCH, RESTART, ENCRYPT, RESIZE_DOWN, RESIZE_UP):
        r.warmth = 0.0
