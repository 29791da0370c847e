"""Nothing that serves traffic is deleted."""

from __future__ import annotations

from cloudrl.actions import DELETE, NO_OPS
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    return NO_OPS if group.idle else 1 << DELETE


RULE = Rule(
    id="delete_in_use",
    severity="critical",
    reason="other services or users send traffic to it",
    forbids=forbids,
)
