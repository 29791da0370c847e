"""Hooks of mkdocs: pages that do not lie in docs/, and links that leave docs/.

CONTRIBUTING.md and the pages of CloudEnv stay where people look for them and become pages of the site. A link to a
file that is no page, such as a config, has no place on the site: it becomes the file's path.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "cloudenv/README.md": ROOT / "envs" / "cloudenv" / "README.md",
    **{f"cloudenv/docs/{p.name}": p for p in sorted((ROOT / "envs" / "cloudenv" / "docs").glob("*.md"))},
}
"""Place on the site -> file of the repository."""

MADE = {"leaderboard.md"}
"""Pages that scripts write, after hours: a checkout may be without them."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Leave out of the navigation what is not made yet."""
    missing = [name for name in MADE if not (ROOT / "docs" / name).exists()]

    def kept(node: Any) -> Any:
        if isinstance(node, dict):
            return {title: kept(child) for title, child in node.items()}
        if isinstance(node, list):
            return [kept(child) for child in node if child not in missing]
        return node

    config.nav = kept(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages from elsewhere join those of docs/."""
    for uri, path in ELSEWHERE.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as they are right on a code host, made right on the site."""
    source = Path(str(page.file.abs_src_path))
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda match: relink(match, source, page.file.src_uri), part)
        for part in parts
    )


def relink(match: re.Match[str], source: Path, uri: str) -> str:
    """One link of the page `uri`, whose file is `source`."""
    image, text, target = match.groups()
    path, _, anchor = target.partition("#")
    if not path or "://" in target or image:
        return match[0]
    file = Path(os.path.normpath(source.parent / path))
    place = place_of(file)
    if place is None:
        return text if "`" in text else f"`{file.relative_to(ROOT)}`" if text == path else f"{text} (`{path}`)"
    here = os.path.relpath(place, os.path.dirname(uri) or ".")
    return f"[{text}]({here}{'#' + anchor if anchor else ''})"


def place_of(file: Path) -> str | None:
    """Where a file of the repository is on the site, relative to its root; None if it is no page."""
    for uri, path in ELSEWHERE.items():
        if path == file:
            return uri
    if file == ROOT / "README.md":
        return "index.md"
    if file.is_relative_to(ROOT / "docs") and file.suffix in {".md", ".png", ".svg", ".json"}:
        return file.relative_to(ROOT / "docs").as_posix()
    return None
