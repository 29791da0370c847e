"""The score table of an evaluation in the terminal. The report (evaluation/report) has the whole story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evaluation.metrics import missed_gates
from evaluation.results import AgentResult, Results
from evaluation.score import ratio_of_sums, regret, scores, tied
from evaluation.statistics import Interval, bootstrap, iqm


@dataclass(frozen=True)
class Standing:
    """How one agent stands against doing nothing and the oracle.

    `score`, `middle` (interquartile mean) and `ratio` are None where there is no oracle, or where it ties with
    doing nothing in every world. `regret`: in % of the idle bill, over the tied worlds; None without any.
    """

    bill: Interval
    saved: Interval  # $ against doing nothing
    score: Interval | None = None
    middle: float | None = None
    ratio: float | None = None
    regret: Interval | None = None


def standing(results: Results, agent: AgentResult) -> Standing:
    """Raises ValueError if doing nothing was not played."""
    idle, bills = results.noop, agent["bill"]
    if idle is None:
        raise ValueError("doing nothing was not played")
    base = Standing(bootstrap(bills), bootstrap(idle - bills))
    if results.oracle is None:
        return base
    values, tie = scores(bills, idle, results.oracle), tied(idle, results.oracle)
    known = values[~tie]
    behind = 100.0 * (regret(bills, results.oracle) / idle)[tie]
    return Standing(
        base.bill,
        base.saved,
        bootstrap(known) if len(known) else None,
        float(iqm(known)) if len(known) else None,
        ratio_of_sums(bills, idle, results.oracle) if len(known) else None,
        bootstrap(behind) if len(behind) else None,
    )


def last_score(results: Results) -> float:
    """Mean score of the last agent that finished, its savings where there is no score: what a sweep optimises."""
    agent = list(results.played.values())[-1]
    it = standing(results, agent)
    return (it.score or it.saved).mean


def table(results: Results, timing: Mapping[str, Mapping[str, float]] | None = None) -> Table:
    """One row per agent, in the order asked for; ± is half the 95 % interval over worlds."""
    first, last, n = results.seeds[0], results.seeds[-1], len(results.seeds)
    out = Table(
        title=f"{results.suite.id}: {n} worlds, seeds {first}-{last}; ± is half the 95 % interval",
        title_justify="left", title_style="bold",
    )  # fmt: skip
    ranked = results.oracle is not None and not tied(results.noop, results.oracle).all()  # type: ignore[arg-type]
    some_tie = results.oracle is not None and tied(results.noop, results.oracle).any()  # type: ignore[arg-type]
    out.add_column("agent", no_wrap=True)
    headings = (["score", "IQM", "ratio"] if ranked else []) + (["regret %"] if some_tie else [])
    headings += ["bill $", "saved $", "wins %", "served %", "unneeded", "ms", "gates missed"]
    for heading in headings:
        out.add_column(heading, justify="left" if heading == "gates missed" else "right", no_wrap=True)
    for agent in results:
        name = escape(agent.name + (" (clairvoyant)" if agent.clairvoyant else ""))
        if not agent.ok:
            out.add_row(name, *([""] * (len(headings) - 1)), "[red]failed[/red]")
            continue
        it, cells = standing(results, agent), []
        if ranked:
            cells += [_plus(it.score, 1), f"{it.middle:.1f}", f"{it.ratio:.1f}"]
        if some_tie:
            cells.append(_plus(it.regret, 1))
        unneeded = f"{np.mean(agent['unnecessary']):.1f}" if "unnecessary" in agent else ""
        spent = (timing or {}).get(agent.name, {}).get("ms_per_decision")
        cells += [
            _plus(it.bill, 2), _plus(it.saved, 2), f"{100 * np.mean(agent['won']):.0f}",
            f"{100 * np.mean(agent['served']):.2f}", unneeded, "" if spent is None else f"{spent:.3g}",
            " ".join(missed_gates(agent.metrics, results.suite.ticks)) or "none",
        ]  # fmt: skip
        out.add_row(name, *cells)
    return out


def _plus(value: Interval | None, digits: int) -> str:
    return "" if value is None else f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"


def notes(results: Results) -> list[str]:
    """What a reader must know about the scores, and what failed."""
    out = []
    if results.oracle is None:
        out.append(f"No scores, savings only: {results.no_oracle}.")
    else:
        ties = int(tied(results.noop, results.oracle).sum())  # type: ignore[arg-type]
        if ties:
            out.append(
                f"In {ties} of {len(results.seeds)} worlds the oracle saves less than 2 % of the idle bill: they "
                f"have no score, but a regret, in % of the idle bill."
            )
    out += [f"{agent.name} failed: {agent.error}" for agent in results if not agent.ok]
    return out


def show(results: Results, timing: Mapping[str, Mapping[str, float]] | None = None) -> None:
    """Print the table and the notes; 140 columns where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(table(results, timing))
    for note in notes(results):
        console.print(escape(note), soft_wrap=True, highlight=False)
