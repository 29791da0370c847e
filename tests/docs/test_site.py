"""The documentation builds as a site without a warning, and the site asks nobody for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, environment


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site).with_suffix("").as_posix() for page in site.rglob("*.html")}
    wanted = {page.with_name(re.sub("^README$", "index", page.stem)).as_posix() for page in pages}
    assert wanted - built == set()
    assert {"contributing", "cloudenv/index"} <= built


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are the site's own. (Links to follow are another thing.)"""
    asked = re.compile(
        r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\s\">]+)", re.I
    )
    found = {address for page in site.rglob("*.html") for address in asked.findall(page.read_text())}
    found |= {
        address
        for style in site.rglob("*.css")
        for address in re.findall(r"url\([\"']?((?:https?:)?//[^)\"']+)", style.read_text())
    }
    assert not found


def test_the_reference_has_docstrings(site: Path) -> None:
    """Names of the code appear with their signatures and words, not as empty headings."""
    text = (site / "reference" / "simulator.html").read_text()
    for name in ("cloudrl.Simulator", "cloudrl.Simulator.fork", "cloudrl.load_scenario"):
        assert f'id="{name}"' in text
    assert "what each of" in text.lower()  # from the docstring of Simulator.peek


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    """In the built pages, where mkdocs' own check does not look: pages from elsewhere, and raw html."""
    wrong = []
    for page in site.rglob("*.html"):
        for target in re.findall(r"<a\b[^>]*?href=\"?([^\s\">]+)", page.read_text()):
            path = target.partition("#")[0].partition("?")[0]
            if page.name == "404.html" or not path or ":" in path or path.startswith("/"):
                continue
            if not (page.parent / path).exists():
                wrong.append(f"{page.relative_to(site)}: {target}")
    assert not wrong
