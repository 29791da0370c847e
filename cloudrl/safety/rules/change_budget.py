"""Disruptive changes on serving machines are rationed."""

from __future__ import annotations

from cloudrl.actions import DISRUPTIVE_OPS, NO_OPS
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    if group.idle or w.changes <= p.change_budget:
        return NO_OPS
    return DISRUPTIVE_OPS


RULE = Rule(
    id="change_budget",
    severity="medium",
    reason="too many disruptive changes in a short time",
    forbids=forbids,
)
