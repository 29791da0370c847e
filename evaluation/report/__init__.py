"""The report of an evaluation: report.html, report.md and report.json, from the results in a run's folder."""

from __future__ import annotations

import json
from pathlib import Path

from cloudrl.errors import UserError
from cloudrl.runs import save_json, write_atomic
from evaluation.report.episodes import Episode, episodes
from evaluation.report.markdown import markdown
from evaluation.report.page import page
from evaluation.report.summary import Summary, plain, summarise
from evaluation.results import Results

__all__ = ["Summary", "summarise", "write_report"]


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of the results in `folder` into `out` (default: the same folder). Returns report.html.

    The same results give the same bytes, but for wall times from timing.json. Raises UserError: no results there.
    """
    results = Results.read(folder)
    results_folder = Path(folder) if Path(folder).is_dir() else Path(folder).parent
    target = Path(out or results_folder)
    target.mkdir(parents=True, exist_ok=True)
    summary = summarise(results, _timing(results_folder))
    shown: dict[str, list[Episode]] = {}
    reason = ""
    try:
        shown = episodes(summary)
    except UserError as error:  # the figures stand by themselves
        reason = str(error)
    save_json(target / "report.json", plain(summary))
    write_atomic(target / "report.md", markdown(summary))
    html = target / "report.html"
    write_atomic(html, page(summary, shown, reason))
    return html


def _timing(folder: Path) -> dict[str, dict[str, float]]:
    """Wall times by agent, where they were written down."""
    try:
        found = json.loads((folder / "timing.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
