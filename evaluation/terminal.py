"""The score table of an evaluation in the terminal. The report (evaluation/report) has the whole story."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evaluation.report.summary import Row, Summary
from evaluation.results import Results
from evaluation.score import regret, tied
from evaluation.statistics import Interval, bootstrap

Timing = Mapping[str, Mapping[str, float]]


def table(summary: Summary, timing: Timing | None = None) -> Table:
    """One row per agent, the best first; ± is half the 95 % interval over worlds."""
    results = summary.results
    seeds = results.seeds
    out = Table(
        title=f"{results.suite.id}: {len(seeds)} worlds, seeds {seeds.min()}-{seeds.max()}; "
        f"± is half the 95 % interval",
        title_justify="left",
        title_style="bold",
    )
    behind = tied_regret(results)
    headings = ["score", "IQM", "ratio"] if summary.measure == "score" else []
    headings += ["regret %"] if behind else []
    headings += ["bill $", "saved $", "wins %", "served %", "unneeded", "ms", "gates missed"]
    out.add_column("agent", no_wrap=True)
    for heading in headings:
        out.add_column(heading, justify="left" if heading == "gates missed" else "right", no_wrap=True)
    for row in summary.rows:
        cells = _cells(row, timing or {})
        out.add_row(_title(row), *(cells.get(h, _plus(behind.get(row.name), 1)) for h in headings))
    return out


def _title(row: Row) -> str:
    if row.runs > 1:
        return escape(f"{row.name} ({row.runs} runs)")
    return escape(row.name + (" (clairvoyant)" if row.clairvoyant else ""))


def _cells(row: Row, timing: Timing) -> dict[str, str]:
    if not row.ok:
        return {"gates missed": "[red]failed[/red]"} | dict.fromkeys(("regret %",), "")
    spent = timing.get(row.name, {}).get("ms_per_decision")
    means = row.means
    return {
        "score": _plus(row.score, 1),
        "IQM": "" if row.iqm is None else f"{row.iqm.mean:.1f}",
        "ratio": "" if row.ratio_of_sums is None else f"{row.ratio_of_sums:.1f}",
        "bill $": _plus(row.bill, 2),
        "saved $": _plus(row.saved, 2),
        "wins %": "" if row.won is None else f"{100 * row.won.mean:.0f}",
        "served %": f"{100 * means['served'].mean:.2f}" if "served" in means else "",
        "unneeded": f"{means['unnecessary'].mean:.1f}" if "unnecessary" in means else "",
        "ms": "" if spent is None else f"{spent:.3g}",
        "gates missed": " ".join(row.missed_gates) or "none",
    }


def _plus(value: Interval | None, digits: int) -> str:
    return "" if value is None else f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"


def tied_regret(results: Results) -> dict[str, Interval]:
    """$ above the oracle in % of the idle bill, by agent, in worlds without a score; empty if there is none."""
    idle, oracle = results.noop, results.oracle
    if idle is None or oracle is None:
        return {}
    tie = tied(idle, oracle)
    if not tie.any():
        return {}
    return {
        name: bootstrap((100.0 * regret(agent["bill"], oracle) / idle)[tie])
        for name, agent in results.played.items()
    }


def notes(results: Results) -> list[str]:
    """What a reader must know about the scores, and what failed."""
    out = []
    if results.oracle is None:
        out.append(f"No scores, savings only: {results.no_oracle}.")
    elif results.noop is not None and (ties := int(tied(results.noop, results.oracle).sum())):
        out.append(
            f"In {ties} of {len(results.seeds)} worlds the oracle saves less than 2 % of the idle bill: they have "
            f"no score, but a regret, in % of the idle bill."
        )
    out += [f"{agent.name} failed: {agent.error}" for agent in results if not agent.ok]
    return out


def show(summary: Summary, timing: Timing | None = None) -> None:
    """Print the table and the notes; 150 columns where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    console.print(table(summary, timing))
    for note in notes(summary.results):
        console.print(escape(note), soft_wrap=True, highlight=False)


def last_figure(summary: Summary, name: str) -> float:
    """Mean score of the agent called `name`, its savings where there is no score; nan if it failed."""
    values = summary.values.get(name)
    return float("nan") if values is None else float(np.mean(values))
