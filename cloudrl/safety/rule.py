"""What a safety rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Surroundings(NamedTuple):
    """What a rule may look at besides the resource itself: true status, health and load, never hidden facts."""

    others_free: int  # other replicas that run and are not busy
    others_vcpu: float  # their capacity
    others_troubled: int  # other replicas that are crashed, or run but are busy
    peak_vcpu: float  # capacity that the group needs at the forecast peak, with margin
    dependency_unwell: bool  # a hard dependency is down, or half down
    antibody: int  # ops that the immune memory forbids here


SEVERITIES = ("medium", "high", "critical")


@dataclass(frozen=True)
class Rule:
    """A named rule. `forbids(p, w, group, around, r)` is a kernel that returns the bit set of forbidden ops."""

    id: str
    severity: str  # one of SEVERITIES
    reason: str  # one sentence for a person
    forbids: Callable[..., Any]
