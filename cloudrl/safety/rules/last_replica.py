"""A service keeps a healthy replica; a critical one is not stopped."""

from __future__ import annotations

from cloudrl.actions import NO_OPS, STOP
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if group.idle:
        return NO_OPS
    return 1 << STOP if r.critical or around.others_free < 1 else NO_OPS


RULE = Rule(
    id="last_replica",
    severity="critical",
    reason="it is critical or the last healthy replica of its service",
    forbids=forbids,
)
