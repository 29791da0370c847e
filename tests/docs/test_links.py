"""Every relative link of the pages leads to a file, and its anchor to a heading there. Nothing is fetched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT

CLOUDENV = ROOT / "envs" / "cloudenv"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    CLOUDENV / "README.md",
    *sorted((CLOUDENV / "docs").glob("*.md")),
]
REFERENCE = ROOT / "docs" / "reference"


def prose(page: Path) -> str:
    """The page without its code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda match: match[0].replace("](", "] ("), text)


def anchors(page: Path) -> set[str]:
    """The anchors that a code host makes of a page's headings; a repeated one gets a number."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        name, n = slug, 0
        while name in found:
            n += 1
            name = f"{slug}-{n}"
        found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.is_relative_to(ROOT), f"{page.name}: {target} leaves the repository"
        assert goal.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(goal), f"{page.name}: {target}"


def test_two_clicks_from_the_readme() -> None:
    """README -> a page -> a page: every page of docs/ is found so."""

    def linked(page: Path) -> set[Path]:
        targets = (t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in t)
        return {(page.parent / target).resolve() for target in targets if target.endswith(".md")}

    one = linked(ROOT / "README.md")
    two = one.union(*(linked(page) for page in one))
    lost = sorted(str(page.relative_to(ROOT)) for page in set(PAGES[2:]) - two if page.parent != REFERENCE)
    assert not lost


def test_every_page_has_a_place_in_the_navigation() -> None:
    """And every place a page. mkdocs would only say so in a line of its log."""
    text = re.sub(r"!!python\S*", "", (ROOT / "mkdocs.yml").read_text())
    places: set[str] = set()

    def walk(node: object) -> None:
        if isinstance(node, str):
            places.add(node)
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(child)

    walk(yaml.safe_load(text)["nav"])
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    elsewhere = {"contributing.md", "cloudenv/README.md"}
    elsewhere |= {f"cloudenv/docs/{page.name}" for page in (CLOUDENV / "docs").glob("*.md")}
    tables = {f"results/{page.name}" for page in (ROOT / "docs" / "results").glob("*.md")} - {"results/README.md"}
    made = {"leaderboard.md"}  # scripts/site.py leaves it out where it is not made yet
    assert places - there - elsewhere - made == set()
    assert (there | elsewhere) - places - tables == set(), "add it to nav in mkdocs.yml"
