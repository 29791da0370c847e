"""The two tables of a report, as rows of cells: the score, and the gates beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evaluation.metrics import GATES, METRICS
from evaluation.report.summary import Row, Summary
from evaluation.report.words import NONE, interval, number
from evaluation.statistics import Interval


@dataclass(frozen=True)
class Column:
    """A heading, what it means, and the cell of a row: (text, interval as text or "")."""

    title: str
    hint: str
    cell: Callable[[Row], tuple[str, str]]


Cell = Callable[[Row], tuple[str, str]]


def _interval(pick: Callable[[Row], Interval | None], digits: int, factor: float = 1.0) -> Cell:
    return lambda row: interval(pick(row), digits, factor)


def _middle(pick: Callable[[Row], Interval | None], digits: int) -> Cell:
    """The estimate alone."""
    return lambda row: (interval(pick(row), digits)[0], "")


def score_columns(summary: Summary) -> list[Column]:
    """Columns of the first table. Without an oracle there is no score, and quantiles are of dollars saved."""
    scored = summary.measure == "score"
    digits = 1 if scored else 2
    of = "score" if scored else "dollars saved"
    columns = [
        Column("bill $", "mean per episode", _interval(lambda r: r.bill, 2)),
        Column("saved $", "against doing nothing, in the same world", _interval(lambda r: r.saved, 2)),
        Column(
            "IQM",
            f"interquartile mean of {of}: without the best and the worst quarter of the worlds",
            _interval(lambda r: r.iqm, digits),
        ),
        Column(
            "worst tenth", f"mean {of} of the worst tenth of the worlds", _middle(lambda r: r.worst_tenth, digits)
        ),
    ]
    if scored:
        hint = "0 = do nothing, 100 = oracle; mean over worlds, each clipped at ±100"
        columns.insert(0, Column("score", hint, _interval(lambda r: r.score, 1)))
        hint = "100 x dollars saved in all worlds / dollars that the oracle saves in all worlds"
        columns.append(Column("ratio of sums", hint, lambda r: (number(r.ratio_of_sums, 1), "")))
    if summary.results.oracle is not None:
        columns.append(Column("regret $", "above the oracle's bill", _middle(lambda r: r.regret, 2)))
    if summary.ties:
        hint = f"above the oracle in % of the idle bill, in the {summary.ties} worlds without a score"
        columns.append(Column("regret in ties %", hint, _interval(lambda r: r.tie_regret, 1)))
    columns += [
        Column("wins %", "worlds served, safe and in budget", _interval(lambda r: r.won, 0, 100.0)),
        Column(
            "beats runbook %",
            "worlds with a lower bill than the searched runbook; equal bills count half",
            _interval(lambda r: r.beats_runbook, 0, 100.0),
        ),
        Column("reward", "training reward of an episode, in baseline ticks", _middle(lambda r: r.reward, 1)),
    ]
    if any(row.spread for row in summary.rows):
        hint = f"lowest and highest mean of {of} among training runs or attempts"
        columns.append(Column("among runs", hint, lambda r: _spread(r, digits)))
    if any(row.pass_power for row in summary.rows):
        columns.append(Column("pass^k %", "all of k attempts at a world cost at most the runbook's bill", _passes))
    return columns


def _spread(row: Row, digits: int) -> tuple[str, str]:
    if row.spread is None:
        return NONE, ""
    return f"{number(row.spread[0], digits)} to {number(row.spread[1], digits)}", ""


def _passes(row: Row) -> tuple[str, str]:
    if not row.pass_power:
        return NONE, ""
    return ", ".join(f"k={k}: {100 * share:.0f}" for k, share in row.pass_power.items()), ""


@dataclass(frozen=True)
class GateCell:
    """A figure of the second table, and whether it misses its gate (None: it has none, or no figure)."""

    text: str
    missed: bool | None = None


_GATE_COLUMNS: tuple[tuple[str, str, str, int, float], ...] = (
    # heading, figure, gate that it decides, digits, factor
    ("served %", "served", "service", 2, 100.0),
    ("late ticks", "slo_breaches", "", 1, 1.0),
    ("data lost", "data_losses", "data", 2, 1.0),
    ("rules broken", "violations", "safety", 2, 1.0),
    ("vetoed", "vetoed", "asking", 2, 1.0),
    ("invalid", "invalid", "asking", 2, 1.0),
    ("disruptions", "disruptions", "", 1, 1.0),
    ("unneeded", "unnecessary", "calm", 1, 1.0),
    ("cascades", "cascades", "", 2, 1.0),
    ("crashes", "crashes", "", 2, 1.0),
    ("exposed hours", "exposure_hours", "", 1, 1.0),
    ("breaches", "breaches", "", 2, 1.0),
    ("valid JSON %", "json_valid", "json", 1, 100.0),
)


def gate_headings(summary: Summary) -> list[tuple[str, str]]:
    """(heading, what it means and what the gate asks for) of the figures that at least one agent has."""
    out = []
    for heading, figure, gate, _, _ in _GATE_COLUMNS:
        if any(figure in row.means for row in summary.agents):
            text = METRICS[figure].text
            out.append((heading, f"{text}. Gate: {GATES[gate].text}" if gate else text))
    if _timed(summary):
        out.append(("ms per decision", "wall time, one decision in one world"))
    return out


def _timed(summary: Summary) -> bool:
    return any(row.ms_per_decision is not None for row in summary.agents)


def gate_cells(summary: Summary, row: Row) -> list[GateCell]:
    """The row's figures under `gate_headings`."""
    out = []
    for _, figure, gate, digits, factor in _GATE_COLUMNS:
        if not any(figure in other.means for other in summary.agents):
            continue
        if figure not in row.means:
            out.append(GateCell(NONE))
        else:
            text = number(factor * row.means[figure].mean, digits)
            out.append(GateCell(text, gate in row.missed_gates if gate else None))
    if _timed(summary):
        spent = row.ms_per_decision
        out.append(GateCell(NONE if spent is None else f"{spent:.2g}" if spent < 100 else number(spent, 0)))
    return out
