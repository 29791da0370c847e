"""A machine with a scheduled job is neither deleted nor, when the job is near, stopped."""

from __future__ import annotations

from cloudrl.actions import DELETE, NO_OPS, STOP
from cloudrl.jit import kernel
from cloudrl.measurements import job_pending
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if not job_pending(p, w, r):
        return NO_OPS
    if w.tick > r.job_start - p.job_guard_ticks:
        return 1 << DELETE | 1 << STOP
    return 1 << DELETE


RULE = Rule(
    id="scheduled_job",
    severity="high",
    reason="its scheduled job is still ahead or running",
    forbids=forbids,
)
