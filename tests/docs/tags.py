"""The tags of TensorBoard that runs wrote, and those that the pages explain."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from tests.docs.pages import ROOT

PAGES = [ROOT / "docs" / name for name in ("tensorboard.md", "ppo.md", "grpo.md")]


def tags_of(folder: Path) -> set[str]:
    """Every tag in the event files below `folder`: scalars, texts, pictures, histograms and the plugins' own."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    found: set[str] = set()
    for file in folder.rglob("events.out.tfevents.*"):
        for event in LegacyEventFileLoader(str(file)).Load():
            found |= {value.tag for value in event.summary.value}
    return found


def explained() -> set[str]:
    """Tags that have a row in a table of the pages. `*` and `...` at the end of one stand for anything."""
    rows = (re.match(r"\|([^|]*)\|", line) for page in PAGES for line in page.read_text().splitlines())
    cells = " ".join(row[1] for row in rows if row)
    return set(re.findall(r"`([^`]+)`", cells))


def unexplained(tags: set[str]) -> list[str]:
    """The tags among `tags` that no page explains."""
    patterns = {re.sub(r"\.\.\.$", "*", tag) for tag in explained()}
    return sorted(tag for tag in tags if not any(fnmatchcase(tag, pattern) for pattern in patterns))
