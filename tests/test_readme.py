"""The documentation is true: its Python runs, its tables hold the settings there are. (Links: tests/docs.)"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloudrl.config import CONFIG_DIR, EvaluationConfig, PPOConfig, PPOSettings, StageConfig, WarmStart, known_keys
from trainers.common.logs import LAYOUT

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MARK = "<!-- tested -->\n"
"""Before a Python block of a page in docs/ that runs as it stands. In README.md all do."""

PPO_PAGE = ROOT / "docs" / "ppo.md"


def blocks(page: Path) -> list[str]:
    """Python blocks of a page that must run."""
    mark = "" if page.name == "README.md" else re.escape(MARK)
    return re.findall(mark + r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_python_of_the_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as a reader would paste them, in a folder with an estate of the reader's own."""
    estates = Path(CONFIG_DIR) / "estates"
    shutil.copy(estates / "example.yaml", tmp_path / "my.yaml")
    shutil.copy(estates / "traffic_example.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in blocks(page):
        exec(compile(code, str(page), "exec"), names)


def test_the_readme_has_python() -> None:
    assert len(blocks(ROOT / "README.md")) == 1


def section(title: str) -> dict[str, str]:
    """Key and default of each row of the table under a heading of docs/ppo.md."""
    text = PPO_PAGE.read_text().split(f"\n### {title}\n")[1].split("\n#")[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*?) \|", text, re.MULTILINE))


def spoken(value: Any) -> Any:
    """A default as the page writes it, made comparable."""
    text = str(value).strip("[]").replace(",", "") if isinstance(value, list) else str(value)
    words = [word.replace(",", "") for word in re.sub(r"\.0\b", "", text).split()]
    try:
        return [float(word) for word in words]
    except ValueError:
        return {"None": "null", "True": "true", "False": "false"}.get(text, text)


@pytest.mark.parametrize(
    ("title", "schema", "group"),
    [("`ppo.`", PPOSettings, "ppo"), ("`warm_start.`", WarmStart, "warm_start")],
    ids=["ppo", "warm_start"],
)
def test_the_page_has_every_setting_with_its_default(title: str, schema: type, group: str) -> None:
    values = yaml.safe_load((Path(CONFIG_DIR) / "ppo.yaml").read_text())[group]
    documented = section(title)
    assert set(documented) == set(known_keys(schema))
    for key, text in documented.items():
        assert spoken(text) == spoken(values[key]), f"docs/ppo.md: {group}.{key} is {values[key]}"


def test_the_page_has_every_setting_of_the_run_and_of_stages() -> None:
    groups = {"scenario", "reward", "safety", "memory", "curriculum", "warm_start", "ppo", "evaluation"}
    own = {key for key in known_keys(PPOConfig) if "." not in key} - groups
    assert set(section("Of the run")) == own | {f"evaluation.{key}" for key in known_keys(EvaluationConfig)}
    assert set(section("`curriculum.`")) == set(known_keys(StageConfig))


def test_the_page_explains_every_curve() -> None:
    text = PPO_PAGE.read_text()
    tags = {tag for chart in LAYOUT.values() for _, shown in chart.values() for tag in shown}
    missing = sorted(tag for tag in tags if f"`{tag}`" not in text)
    assert not missing
