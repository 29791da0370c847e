"""A restart that did not help will not help again."""

from __future__ import annotations

from cloudrl.actions import NO_OPS, RESTART
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    return 1 << RESTART if r.ticks_since_restart < p.restart_cooldown_ticks else NO_OPS


RULE = Rule(
    id="restart_loop",
    severity="medium",
    reason="it was restarted less than an hour ago",
    forbids=forbids,
)
