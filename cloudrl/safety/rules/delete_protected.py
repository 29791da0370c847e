"""Data and critical resources are never deleted."""

from __future__ import annotations

from cloudrl.actions import DELETE, NO_OPS
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    return 1 << DELETE if r.data_bearing or r.critical else NO_OPS


RULE = Rule(
    id="delete_protected",
    severity="critical",
    reason="it holds data or is critical, and a deletion cannot be undone",
    forbids=forbids,
)
