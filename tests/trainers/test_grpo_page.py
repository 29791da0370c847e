"""docs/grpo.md says what the configs say: every setting with its default, every curve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloudrl.config import CONFIG_DIR, known_keys
from tests.test_readme import spoken
from trainers.llm.config import GRPOConfig, GRPOEvaluation, GRPOSettings, ModelConfig, TRLSettings, WarmStartConfig
from trainers.llm.watch import LAYOUT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "grpo.md"


def section(title: str) -> dict[str, str]:
    """Key and default of each row of the table under a heading."""
    text = PAGE.read_text().split(f"\n### {title}\n")[1].split("\n#")[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*?) \|", text, re.MULTILINE))


def values(file: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((Path(CONFIG_DIR) / file).read_text())
    return loaded


@pytest.mark.parametrize(
    ("group", "schema"), [("grpo", GRPOSettings), ("warm_start", WarmStartConfig), ("trl", TRLSettings)]
)
def test_every_setting_with_its_default(group: str, schema: type) -> None:
    shipped, documented = values("grpo.yaml")[group], section(f"`{group}.`")
    assert set(documented) == set(known_keys(schema)) == set(shipped)
    for key, text in documented.items():
        assert spoken(text) == spoken(shipped[key]), f"docs/grpo.md: {group}.{key} is {shipped[key]}"


def test_every_setting_of_models_and_of_the_run() -> None:
    assert set(section("`model.`")) == set(known_keys(ModelConfig)) - {"lora"}
    for key, value in values("model/tiny.yaml").items():
        assert spoken(section("`model.`")[key]) == spoken(value)
    groups = {
        "scenario", "reward", "safety", "memory", "curriculum", "model", "warm_start", "group", "grpo", "trl",
        "evaluation",
    }  # fmt: skip
    own = {key for key in known_keys(GRPOConfig) if "." not in key} - groups
    assert set(section("Of the run")) == own | {f"evaluation.{key}" for key in known_keys(GRPOEvaluation)}


def test_every_curve_is_explained() -> None:
    tags = {tag for chart in LAYOUT.values() for _, shown in chart.values() for tag in shown}
    text = PAGE.read_text()
    assert not sorted(tag for tag in tags if f"`{tag}`" not in text)
