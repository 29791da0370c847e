"""What failed before in the same situation (learned)."""

from __future__ import annotations

from cloudrl.actions import DISRUPTIVE_OPS
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    return around.antibody & DISRUPTIVE_OPS


RULE = Rule(
    id="antibody",
    severity="medium",
    reason="the immune memory saw cascades or breaches follow this op in this situation",
    forbids=forbids,
)
