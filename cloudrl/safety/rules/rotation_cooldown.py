"""Fresh credentials are left alone."""

from __future__ import annotations

from cloudrl.actions import NO_OPS, ROTATE_CREDS
from cloudrl.jit import kernel
from cloudrl.safety.rule import Rule


@kernel
def forbids(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that this rule forbids on resource `r` now."""
    return 1 << ROTATE_CREDS if r.credential_days < p.rotation_cooldown_days else NO_OPS


RULE = Rule(
    id="rotation_cooldown",
    severity="medium",
    reason="its credentials were rotated less than 15 days ago",
    forbids=forbids,
)
