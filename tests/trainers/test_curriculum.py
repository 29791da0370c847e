"""When a curriculum goes on, goes back, or stays: pure bookkeeping."""

from __future__ import annotations

from cloudrl.config import StageConfig
from cloudrl.curriculum import Curriculum, CurriculumState

TOTAL = 1000


def stages() -> list[StageConfig]:
    return [
        StageConfig(name="one", max_fraction=0.2, promote_win_rate=0.25),
        StageConfig(name="two", max_steps=300, promote_win_rate=0.5, promote_score=40.0, demote_win_rate=0.1),
        StageConfig(name="three", demote_win_rate=0.05),
    ]


def test_without_stages_nothing_happens() -> None:
    curriculum = Curriculum([], TOTAL)
    assert curriculum.at_steps(10**9) is None and curriculum.at_validation(10**9, 1.0, 100.0) is None
    assert curriculum.stage == 0 and curriculum.is_last


def test_a_win_rate_promotes_at_the_bound() -> None:
    curriculum = Curriculum(stages(), TOTAL)
    assert curriculum.at_validation(10, 0.249) is None
    why = curriculum.at_validation(20, 0.25)
    assert why is not None and "win rate" in why
    assert curriculum.state == CurriculumState(stage=1, since=20)


def test_every_bound_that_is_asked_for_must_hold() -> None:
    curriculum = Curriculum(stages(), TOTAL, CurriculumState(stage=1))
    assert curriculum.at_validation(1, 0.9, None) is None  # no score was measured
    assert curriculum.at_validation(1, 0.9, 39.0) is None
    assert curriculum.at_validation(1, 0.4, 41.0) is None
    assert curriculum.at_validation(1, 0.5, 40.0) == "win rate 0.50, score 40.00"
    assert curriculum.is_last


def test_the_step_cap_counts_from_the_beginning_of_the_stage() -> None:
    curriculum = Curriculum(stages(), TOTAL)
    assert curriculum.at_steps(199) is None
    assert curriculum.at_steps(203) == "step cap" and curriculum.state.since == 203
    assert curriculum.at_steps(502) is None
    assert curriculum.at_steps(503) == "step cap" and curriculum.stage == 2
    assert curriculum.at_steps(10**9) is None  # the last stage has no end


def test_a_stage_that_proves_too_hard_is_left_but_not_for_ever() -> None:
    curriculum = Curriculum(stages(), TOTAL, CurriculumState(stage=2, since=5))
    assert curriculum.at_validation(50, 0.05) is None  # the bound itself is enough to stay
    assert curriculum.at_validation(60, 0.04) == "win rate 0.04 below 0.05"
    assert curriculum.state == CurriculumState(stage=1, since=60, demotions=1)
    assert curriculum.at_validation(70, 0.0) is not None and curriculum.stage == 0
    assert curriculum.at_validation(80, 0.0) is None and curriculum.stage == 0  # there is no easier one
    curriculum.state.stage = 2
    assert curriculum.at_validation(90, 0.0) is not None and curriculum.state.demotions == 3
    assert curriculum.at_validation(99, 0.0) is None and curriculum.stage == 1


def test_the_state_is_the_caller_s() -> None:
    """Saved with every checkpoint: a curriculum that goes on from it stands where the other one stood."""
    state = CurriculumState()
    first = Curriculum(stages(), TOTAL, state)
    first.at_steps(250)
    assert state.stage == 1
    second = Curriculum(stages(), TOTAL, CurriculumState(**first.save()))
    assert (second.at_steps(549), second.at_steps(550)) == (None, "step cap")
