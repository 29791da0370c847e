"""During an outage nothing is changed that does not help."""

from __future__ import annotations

from cloudrl.actions import DISRUPTIVE_OPS, NO_OPS, RESIZE_UP
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if group.idle or (not w.cascade and w.served >= p.recovery_only_served):
        return NO_OPS
    return DISRUPTIVE_OPS & ~(1 << RESIZE_UP)


RULE = Rule(
    id="recovery_only",
    severity="high",
    reason="an outage or cascade is under way: recovery comes first",
    forbids=forbids,
)
