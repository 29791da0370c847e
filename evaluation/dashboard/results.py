"""Evaluations on the page: read with care, joined where they may be compared, as tables and pictures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from cloudrl.errors import UserError
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.records import find_runs, run_folder

if TYPE_CHECKING:  # these take half a second to import: the first page does without them
    from evaluation.compare import Comparison
    from evaluation.report.summary import Row, Summary
    from evaluation.results import Results


def evaluations(folders: Folders) -> list[tuple[str, str]]:
    """(label, name) of all evaluations that have results, newest first."""
    return [(r.label.removeprefix("eval · "), r.name) for r in find_runs(folders, ["eval"])]


def read(folders: Folders, name: str) -> Results:
    """The results of an evaluation. Raises UserError: outside, gone, damaged, of another version."""
    from evaluation.results import FILE

    file = folders.inside(run_folder(folders, name) / FILE)
    try:
        facts = file.stat()
        return _read(file, facts.st_mtime_ns, facts.st_size)
    except OSError:
        raise UserError(f"{name}: no results here ({FILE} is missing); run the evaluation again") from None
    except UserError as error:
        raise UserError(str(error).replace(f"{folders.runs}/", "")) from None


@functools.lru_cache(maxsize=16)
def _read(file: Path, modified: int, size: int) -> Results:
    from evaluation.results import Results

    return Results.read(file)


def join(runs: Sequence[tuple[str, Results]]) -> Results:
    """All agents of several runs of the same worlds, as one run. Raises UserError when they are not the same.

    An agent that several runs played stands there once; one that has the name of another but acts otherwise is
    called after its run.
    """
    from evaluation.compare import check_comparable

    (first_name, first), *others = runs
    agents = dict(first.agents)
    for name, results in others:
        check_comparable(first, results, first_name, name)
        for agent in results:
            known = agents.get(agent.name)
            if known is None or (agent.ok and not known.ok):
                agents[agent.name] = agent
            elif agent.ok and agent.identity != known.identity:
                title = f"{agent.name}, {name.rpartition('/')[2]}"
                agents[title] = replace(agent, name=title)
    oracle = next((r.oracle for _, r in runs if r.oracle is not None), None)
    return replace(first, agents=agents, oracle=oracle, no_oracle="" if oracle is not None else first.no_oracle)


# ---- html ------------------------------------------------------------------------------------------------------


def summary_html(summary: Summary) -> str:
    """What the figures say, and the table of scores with its intervals."""
    from evaluation.report.words import lead, title

    return (
        f'<div class="crl"><h3>{escape(title(summary))}</h3><p class="lead">{escape(" ".join(lead(summary)))}</p>'
        f"{score_table(summary)}</div>"
    )


def score_table(summary: Summary) -> str:
    """One row per agent, best first: figure, and below it its 95 % interval."""
    from evaluation.report.tables import score_columns

    columns = score_columns(summary)
    head = "".join(f'<th scope="col" title="{escape(c.hint, quote=True)}">{escape(c.title)}</th>' for c in columns)
    body = []
    for row in summary.rows:
        if row.ok:
            cells = "".join(_cell(*column.cell(row)) for column in columns)
        else:
            cells = f'<td class="left error" colspan="{len(columns)}">did not finish: {escape(row.error)}</td>'
        body.append(f"<tr{_row_class(summary, row)}>{_row_head(row)}{cells}</tr>")
    return (
        '<p class="small soft">Mean and 95 % interval over worlds; best first.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Scores"><table aria-label="Scores">'
        f'<thead><tr><th scope="col">agent</th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def _cell(text: str, limits: str) -> str:
    return f"<td>{escape(text)}{f'<span class=ci>{escape(limits)}</span>' if limits else ''}</td>"


def _row_head(row: Row) -> str:
    from evaluation.report.words import row_name

    return f'<th scope="row"><span class="n">{row.number or ""}</span>{escape(row_name(row))}</th>'


def _row_class(summary: Summary, row: Row) -> str:
    names = [("best", row is summary.best), ("see", row.clairvoyant), ("group", row.runs > 1)]
    css = " ".join(name for name, holds in names if holds)
    return f' class="{css}"' if css else ""


def pictures_html(summary: Summary) -> str:
    """Performance profiles, and the bill by part."""
    from evaluation.report import charts
    from evaluation.report.words import measure_name

    what = "reach a score" if measure_name(summary) == "score" else "save that many dollars"
    return (
        f'<div class="crl"><h3>Performance profiles</h3>{charts.profiles(summary)}'
        f"<figcaption>Percent of the worlds that {what}, with its 95 % band: the further up and to the right, the "
        f"better. In grey all other agents.</figcaption><h3>Bill by part</h3>{charts.bills(summary)}"
        "<figcaption>Mean dollars per episode.</figcaption></div>"
    )


def verdicts_html(comparisons: Sequence[Comparison]) -> str:
    """Is the difference real? One sentence per comparison."""
    if not comparisons:
        return ""
    items = "".join(f'<li class="{"real" if c.real else "soft"}">{escape(c.sentence())}</li>' for c in comparisons)
    chance = (
        f'<p class="small soft">Of {len(comparisons)} intervals of 95 % about one in twenty misses by chance.</p>'
        if len(comparisons) > 3
        else ""
    )
    return (
        '<div class="crl"><h3>Is the difference real?</h3>'
        f'<ul class="plainlist verdicts">{items}</ul>{chance}</div>'
    )


def report_html(name: str) -> str:
    """The whole report in a frame, and a link to it alone."""
    address = "report/" + escape(name, quote=True)
    return (
        f'<div class="crl"><p><a href="{address}" target="_blank" rel="noopener">Open the whole report in its own '
        f'tab</a></p><iframe src="{address}" title="Report of {escape(name, quote=True)}" loading="lazy"></iframe>'
        "</div>"
    )
