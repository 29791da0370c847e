"""When a curriculum goes on to its next stage, or back. Pure bookkeeping: both trainers use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol


class Stage(Protocol):
    """What the bookkeeping needs to know of a stage (cloudrl.config.StageConfig)."""

    name: str
    promote_win_rate: float | None
    promote_score: float | None
    demote_win_rate: float | None

    def step_cap(self, total_timesteps: float) -> int: ...


@dataclass
class CurriculumState:
    """Where training stands; saved with every checkpoint."""

    stage: int = 0
    since: int = 0  # environment steps at which the stage began
    demotions: int = 0


class Curriculum:
    """Promotion by measured validation results or at the step cap; demotion when a stage proves too hard."""

    MAX_DEMOTIONS = 3
    """A run that falls back more often would walk in circles."""

    def __init__(
        self, stages: Sequence[Stage], total_timesteps: int, state: CurriculumState | None = None
    ) -> None:
        self.stages = stages
        self.total = total_timesteps
        self.state = state or CurriculumState()

    @property
    def stage(self) -> int:
        return self.state.stage

    @property
    def is_last(self) -> bool:
        return self.state.stage >= len(self.stages) - 1

    def at_steps(self, steps: int) -> str | None:
        """Go on if the stage's step cap is reached. Returns why the stage changed, or None."""
        if self.is_last or steps - self.state.since < self.stages[self.stage].step_cap(self.total):
            return None
        return self._enter(self.stage + 1, steps, "step cap")

    def at_validation(self, steps: int, win_rate: float, score: float | None = None) -> str | None:
        """Go on or back by a validation: sampled win rate (share) and score. Returns why, or None."""
        stage = self.stages[self.stage] if self.stages else None
        if stage is None:
            return None
        demote = stage.demote_win_rate
        may_fall = self.stage > 0 and self.state.demotions < self.MAX_DEMOTIONS
        if demote is not None and win_rate < demote and may_fall:
            self.state.demotions += 1
            return self._enter(self.stage - 1, steps, f"win rate {win_rate:.2f} below {demote}")
        wanted = [(stage.promote_win_rate, win_rate, "win rate"), (stage.promote_score, score, "score")]
        asked = [(bound, value, name) for bound, value, name in wanted if bound is not None]
        if self.is_last or not asked or not all(v is not None and v >= b for b, v, _ in asked):
            return None
        return self._enter(self.stage + 1, steps, ", ".join(f"{name} {value:.2f}" for _, value, name in asked))

    def _enter(self, stage: int, steps: int, why: str) -> str:
        self.state.stage, self.state.since = stage, steps
        return why

    def save(self) -> dict[str, Any]:
        return asdict(self.state)
