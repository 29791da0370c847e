"""The model card tells runs apart: the suite itself, a changed one, a person's own estate, another reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudrl.compose import compose
from cloudrl.runs import create_run
from trainers.common.card import Card, licence, markdown

CHANGED = "This run changed the scenario"
ABOUT = Card("a network", ("much",), "| noop |", "It was chosen", ("it is small",), "ppo", "ppo.md", licence())


@pytest.mark.parametrize(
    ("arguments", "said", "unsaid"),
    [
        (["scenario=quiet"], ["suite=quiet", "reward: balanced", "`scenario=quiet`"], [CHANGED, "Curriculum"]),
        (["scenario=easy", "scenario.horizon.ticks=12"], ["suite=easy", "12 ticks (1 h)", CHANGED], []),
        (
            ["scenario=estate", "scenario.path=online_boutique"],
            ["suite=online_boutique", "in the shape of `online_boutique`", "room for 16 resources"],
            [CHANGED],
        ),
        (
            ["scenario=stress-zone-loss", "reward=cost", "memory=off"],
            ["suite=stress-zone-loss", "reward: cost 2", "immune memory while training: off"],
            [CHANGED, "balanced"],
        ),
        (["+curriculum=easy"], ["Curriculum: calm, easy."], []),
    ],
)
def test_a_card(arguments: list[str], said: list[str], unsaid: list[str], tmp_path: Path) -> None:
    config = compose("ppo", [*arguments, f"runs_dir={tmp_path}"])
    text = markdown(ABOUT, config, create_run("ppo", config, arguments), config.scenario)
    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []


def test_weights_of_another_model_keep_its_licence() -> None:
    assert "`Qwen/Qwen3-0.6B`, whose licence binds them" in licence("Qwen/Qwen3-0.6B")
    assert "whose licence" not in licence()
