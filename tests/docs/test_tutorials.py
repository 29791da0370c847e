"""Every tutorial is followed as it stands, and leaves nothing unexplained."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cloudrl.scenarios.library import load_scenario, scenario_hash
from tests.docs.pages import ROOT, blocks, follow, run, write
from tests.docs.tags import tags_of, unexplained

TUTORIALS = ROOT / "docs" / "tutorials"
IN_A_FOLDER = ("train-ppo", "train-grpo", "your-estate", "add-an-agent", "add-a-cloudenv-task")
IN_A_CLONE = ("add-a-rule", "add-an-operation")


def test_every_tutorial_is_followed() -> None:
    pages = {page.stem for page in TUTORIALS.glob("*.md")} - {"index"}
    assert pages == {*IN_A_FOLDER, *IN_A_CLONE}
    for name in pages:
        assert any(
            block.run and not block.title and block.language in ("bash", "python")
            for block in blocks(TUTORIALS / f"{name}.md")
        )


@pytest.mark.parametrize("name", IN_A_FOLDER)
def test_a_tutorial_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    if name == "add-a-cloudenv-task":
        pytest.importorskip("moto")
        pytest.importorskip("openenv")
    follow(TUTORIALS / f"{name}.md", tmp_path)
    if name.startswith("train-"):
        algo = name.removeprefix("train-")
        assert len(tags_of(tmp_path / "runs" / algo)) > 40
        assert len(tags_of(tmp_path / "runs" / "eval")) > 8
        check_card(next((tmp_path / "runs" / algo).iterdir()))
    assert unexplained(tags_of(tmp_path)) == []


def check_card(run: Path) -> None:
    """The model card says what a stranger must know, and its command names this very run."""
    card = (run / "README.md").read_text()
    headings = re.findall(r"^## (.*)$", card, re.MULTILINE)
    assert headings == ["Results", "What it is", "Training", "Data", "Limits", "Play it", "Licence", "Use"]
    assert "±" in card and "| noop |" in card and "| trained, sampled |" in card
    assert scenario_hash(load_scenario("easy")) in card and "warm_start.states=" in card
    assert re.search(rf'suite=easy "agents=\[noop,runbook,\w+:runs/\w+/{run.name}\]"', card)
    pages = re.findall(r"`(\w+\.md)`", card)
    assert len(pages) == 4 and all((ROOT / "docs" / page).exists() for page in pages)


def test_the_tutorials_in_a_clone(tmp_path: Path) -> None:
    """Both change the core. All is written before anything runs, so that the copy is compiled once."""
    for name in ("cloudrl", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in IN_A_CLONE:
        write(TUTORIALS / f"{name}.md", tmp_path, code=tmp_path)
    for name in IN_A_CLONE:
        run(TUTORIALS / f"{name}.md", tmp_path, code=tmp_path)
