"""What is impossible: operations that make no sense in the resource's state.

Not what is useless: that is to be learned.
"""

from __future__ import annotations

from cloudrl.actions import (
    ALL_OPS,
    ANALYZE,
    ENCRYPT,
    PATCH,
    RESIZE_DOWN,
    RESIZE_UP,
    RESTART,
    START,
    STOP,
)
from cloudrl.jit import kernel
from cloudrl.types import CACHE, CRASHED, DELETED, MAX_SIZE, QUEUE, RUNNING, STOPPED

_NEED_RUNNING = 1 << ANALYZE | 1 << PATCH | 1 << ENCRYPT | 1 << RESIZE_DOWN | 1 << RESIZE_UP | 1 << STOP
_UNMANAGED = 1 << PATCH | 1 << RESTART | 1 << RESIZE_DOWN | 1 << RESIZE_UP  # a queue is a managed service


@kernel
def impossible(r, allowed_ops):  # type: ignore[no-untyped-def]
    """Bit set of the ops that cannot be done on `r` now. `allowed_ops`: the action set in use."""
    if r.status >= DELETED or r.busy_ticks > 0:
        return ALL_OPS
    ops = ALL_OPS & ~allowed_ops
    if r.status != RUNNING:
        ops |= _NEED_RUNNING
    if r.status != STOPPED:
        ops |= 1 << START
    if r.status != RUNNING and r.status != CRASHED:
        ops |= 1 << RESTART
    if r.kind == QUEUE:
        ops |= _UNMANAGED
    if r.kind >= CACHE:
        ops |= 1 << STOP
    if r.size <= 0:
        ops |= 1 << RESIZE_DOWN
    if r.size >= MAX_SIZE:
        ops |= 1 << RESIZE_UP
    return ops
