"""Settings of the group scorer: what a reply earns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from cloudrl.errors import UserError
from cloudrl.ranges import Range, check_ranges

END = "end"


class Reference(Enum):
    """Who plays on after the action that is scored, in the look-ahead.

    noop: nobody. follow_up: nobody, but what an ANALYZE finds is patched if it is worth it (an ANALYZE alone
    changes nothing). runbook: the suite's searched runbook. handwritten: the hand-written one.
    """

    noop = "noop"
    follow_up = "follow_up"
    runbook = "runbook"
    handwritten = "handwritten"


@dataclass
class LookaheadConfig:
    """How far, and under whom, a fork plays on."""

    horizon: int | str = END  # ticks after the action's own; 0 = its own reward only; "end" = of the episode
    reference: Reference = Reference.follow_up
    discount: float = 1.0  # per tick

    def __post_init__(self) -> None:
        if self.horizon != END:
            try:
                self.horizon = int(self.horizon)
            except ValueError:
                raise UserError(
                    f"lookahead.horizon={self.horizon}: must be a number of ticks or '{END}'"
                ) from None
            Range(low=0, whole=True).check("lookahead.horizon", self.horizon)
        Range(low=0, high=1).check("lookahead.discount", self.discount)


@dataclass
class GroupConfig:
    """What a reply earns. An admissible action earns its gain g over NOOP, in units of `scale`, softly bounded:

        ceiling (1 - exp(-g / ceiling)) for a gain, -floor (1 - exp(g / floor)) for a loss

    so NOOP earns 0, small gains count in full, order is kept, and nothing admissible falls below -floor. Each kind
    of rejected reply earns a constant below that.
    """

    lookahead: LookaheadConfig = field(default_factory=LookaheadConfig)
    scale: float = 5.0  # baseline ticks per unit of reward
    floor: float = 1.0
    ceiling: float = 5.0
    vetoed: float = -1.1
    invalid: float = -1.2
    unknown: float = -1.4
    malformed: float = -1.6

    def __post_init__(self) -> None:
        check_ranges("group", self, {name: Range(low=0, low_open=True) for name in ("scale", "floor", "ceiling")})
        names = ("malformed", "unknown", "invalid", "vetoed")
        check_ranges("group", self, dict.fromkeys(names, Range()))
        levels = [*((f"group.{name}", getattr(self, name)) for name in names), ("-group.floor", -self.floor)]
        for (low, a), (high, b) in pairwise(levels):
            if not a < b:
                raise UserError(f"{low}={a}: must lie below {high}={b}")
