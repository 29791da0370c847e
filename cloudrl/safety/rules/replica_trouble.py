"""One replica at a time."""

from __future__ import annotations

from cloudrl.actions import DISRUPTIVE_OPS, NO_OPS, RESIZE_UP
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if group.idle or around.others_troubled == 0:
        return NO_OPS
    return DISRUPTIVE_OPS & ~(1 << RESIZE_UP)


RULE = Rule(
    id="replica_trouble",
    severity="high",
    reason="another replica of the service is down or busy",
    forbids=forbids,
)
