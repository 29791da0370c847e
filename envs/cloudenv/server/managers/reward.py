"""RewardEngine: recovery is rewarded, regressions and errors are penalised, 0.99 exactly at the ideal."""

from __future__ import annotations

from .diff import CHANGED, EXTRA, MISSING, Difference
from .graph import Graph, Key

SOLVED = 0.99
MOST = 0.95
"""The reward stays at or below it until the diff is empty."""
ERROR_COST, STEP_COST, EXTRA_WEIGHT, RESOURCE_WEIGHT = 0.01, 0.002, 1.0, 3.0


class RewardEngine:
    """Reward in [0, 0.99] of a diff, given the diff at the start.

    0.95 times the weight of what was repaired less the weight of what was newly broken, over the weight of what
    was broken at the start; minus 0.01 for each error and 0.002 for each step.
    """

    def __init__(self, ideal: Graph, start: list[Difference]) -> None:
        self._ideal = ideal.by_key()
        self._start = {_identity(d): self._weight(d) for d in start}
        self._total = sum(self._start.values()) or 1.0

    def reward(self, differences: list[Difference], errors: int, steps: int) -> tuple[float, bool]:
        """(reward, done) of the current diff after so many failed and so many steps in all."""
        if not differences:
            return SOLVED, True
        now = {_identity(d): self._weight(d) for d in differences}
        gone = {d.key for d in differences if d.kind == MISSING}  # a deletion repairs nothing of what it deletes
        repaired = sum(w for (key, prop), w in self._start.items() if (key, prop) not in now and key not in gone)
        broken = sum(w for i, w in now.items() if i not in self._start)
        value = MOST * (repaired - broken) / self._total - ERROR_COST * errors - STEP_COST * steps
        return round(min(max(value, 0.0), MOST), 4), False

    def _weight(self, d: Difference) -> float:
        if d.kind == CHANGED and d.property is not None:
            return self._ideal[d.key].type.by_name[d.property].weight
        return EXTRA_WEIGHT if d.kind == EXTRA else RESOURCE_WEIGHT


def _identity(d: Difference) -> tuple[Key, str | None]:
    return (d.key, d.property)
