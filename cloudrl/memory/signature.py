"""Signatures: the situations that the immune memory tells apart."""

from __future__ import annotations

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.jit import kernel
from cloudrl.types import INCIDENT_NAMES, KIND_NAMES

# (kind, health band, load band, dependents band, exposure), and what happened there: an op or an incident
N_CONTEXTS = 4 * 3 * 3 * 3 * 2
EVENT_NAMES = OP_NAMES[:N_OPS] + INCIDENT_NAMES[1:]
N_EVENTS = len(EVENT_NAMES)
HEALTH_BANDS = (0.5, 0.8)
LOAD_BANDS = (0.4, 0.8)
_HEALTH = ("health < 0.5", "health 0.5-0.8", "health > 0.8")
_LOAD = ("load < 0.4", "load 0.4-0.8", "load > 0.8")
_DEPENDENTS = ("no dependents", "one dependent", "several dependents")


@kernel
def band(value, limits):  # type: ignore[no-untyped-def]
    """0, 1 or 2: below, between or above the two limits."""
    return 0 if value < limits[0] else (1 if value < limits[1] else 2)


@kernel
def context(group, r):  # type: ignore[no-untyped-def]
    """Index of the situation of resource `r`, 0 .. N_CONTEXTS-1. Seen facts only: late metrics as shown."""
    health = band(r.past_health[r.lag], HEALTH_BANDS)
    load = band(r.past_utilisation[r.lag], LOAD_BANDS)
    dependents = min(2, group.dependents)
    return (((r.kind * 3 + health) * 3 + load) * 3 + dependents) * 2 + (1 if r.exposure_seen else 0)


def describe(index: int) -> str:
    """A signature (context * N_EVENTS + event) in words."""
    context_index, event = divmod(index, N_EVENTS)
    rest, exposed = divmod(context_index, 2)
    rest, dependents = divmod(rest, 3)
    rest, load = divmod(rest, 3)
    kind, health = divmod(rest, 3)
    parts = [KIND_NAMES[kind], _HEALTH[health], _LOAD[load], _DEPENDENTS[dependents]]
    return f"{EVENT_NAMES[event]} on {', '.join(parts)}{', exposed' if exposed else ''}"
