"""What is left must carry the peak that is forecast for the next two hours."""

from __future__ import annotations

from cloudrl.actions import NO_OPS, RESIZE_DOWN, STOP
from cloudrl.jit import kernel
from cloudrl.measurements import vcpu
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if group.idle:
        return NO_OPS
    ops = NO_OPS
    if around.peak_vcpu > p.capacity_limit * around.others_vcpu:
        ops |= 1 << STOP
    # load is split evenly, so the smallest replica fills first
    if r.size > 0 and around.peak_vcpu / (around.others_free + 1) > p.capacity_limit * vcpu(r.size - 1):
        ops |= 1 << RESIZE_DOWN
    return ops


RULE = Rule(
    id="capacity",
    severity="high",
    reason="utilisation would pass the limit at the forecast peak",
    forbids=forbids,
)
