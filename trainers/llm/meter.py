"""What is counted while a model trains, beside TRL's own figures: JSON, verdicts, diversity, and the two baselines
that unmask a collapse, the best constant action and NOOP.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.llm.parse import NO_ACTION, Code
from cloudrl.reward.terms import TERM_NAMES
from envs.group import ActionValues, GroupResult, Level

_STATES = 64
"""Batches of states over which the best constant action is known."""


class Meter:
    """Means since they were last read."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.constants: list[list[float]] = []  # rewards of every action, mean over a few states each
        self._played = np.zeros(N_OPS + 1)

    def add(self, name: str, value: float, weight: float = 1.0) -> None:
        entry = self._sums[name]
        entry[0] += weight * value
        entry[1] += weight

    def group(self, result: GroupResult) -> None:
        """Sampled replies to K states."""
        codes = result.codes
        self.add("llm/json_valid", float((codes == Code.ok).mean()))
        for code in Code:
            if code is not Code.ok:
                self.add(f"llm/{code}", float((codes == code).mean()))
        for level, name in ((Level.VETOED, "safety/veto_rate"), (Level.INVALID, "safety/invalid_rate")):
            self.add(name, float((result.levels == level).mean()))
        self.add("llm/admissible", float(result.allowed.mean()))
        self.add("baseline/noop_wins", float(result.noop_wins.mean()))
        distinct = [len(set(row[row != NO_ACTION].tolist())) for row in result.actions]
        self.add("llm/distinct_actions", float(np.mean(distinct)))
        known = result.actions[result.actions != NO_ACTION]
        self._played += np.bincount(
            np.where(known == result.noop_action, N_OPS, known % N_OPS), minlength=N_OPS + 1
        )
        if result.allowed.any():
            for term in TERM_NAMES:
                part = result.breakdown[f"reward/{term}"][result.allowed]
                self.add(f"group/{term}", float(part.mean()))
            self.add("group/lookahead", float(result.breakdown["lookahead"][result.allowed].mean()))
            self.add("group/gain", float(result.gains[result.allowed].mean()))

    def values(self, values: ActionValues) -> None:
        """Rewards of every action in K states."""
        self.constants = [*self.constants, values.rewards.mean(0).tolist()][-_STATES:]
        self.add("baseline/noop_is_best", float(values.noop_wins().mean()))
        self.add("baseline/best_action", values.best())
        self.add("baseline/random_valid", values.random_valid())

    def chosen(self, ops: np.ndarray) -> None:
        """Operations (M,) that were played; N_OPS is NOOP."""
        self._played += np.bincount(ops, minlength=N_OPS + 1)

    def read(self) -> dict[str, float]:
        """The means, and forget them."""
        out = {name: total / weight for name, (total, weight) in self._sums.items() if weight}
        if self.constants:
            out["baseline/best_constant"] = float(np.mean(self.constants, axis=0).max())
        share = self._played / max(1.0, self._played.sum())
        if share.any():
            out["llm/action_diversity"] = float(np.exp(-(share[share > 0] * np.log(share[share > 0])).sum()))
            out |= {f"llm/op/{OP_NAMES[k].lower()}": float(share[k]) for k in range(N_OPS + 1)}
        self._sums.clear()
        self._played[:] = 0.0
        return out
