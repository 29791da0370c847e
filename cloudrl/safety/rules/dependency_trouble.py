"""No second construction site on the same path."""

from __future__ import annotations

from cloudrl.actions import DISRUPTIVE_OPS, NO_OPS, RESIZE_UP
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if group.idle or not around.dependency_unwell:
        return NO_OPS
    return DISRUPTIVE_OPS & ~(1 << RESIZE_UP)


RULE = Rule(
    id="dependency_trouble",
    severity="high",
    reason="a service that it depends on is down or half down",
    forbids=forbids,
)
