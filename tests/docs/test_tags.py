"""Every tag that the default GRPO run writes is explained: the tutorial trains with the other estimator."""

from __future__ import annotations

from pathlib import Path

from tests.docs.tags import tags_of, unexplained
from tests.trainers.grpo_runs import arguments
from trainers.grpo import main


def test_tags_of_the_exact_estimator(tmp_path: Path) -> None:
    main(arguments(tmp_path))
    tags = tags_of(tmp_path)
    assert "llm/action_mass" in tags and "warm_start/loss" in tags
    assert unexplained(tags) == []


def test_a_tag_without_a_row_is_noticed() -> None:
    tags = {"train/loss", "llm/op/patch", "train/no_such_tag", "eval"}
    assert unexplained(tags) == ["eval", "train/no_such_tag"]
