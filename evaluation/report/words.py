"""Figures as text, for the page and for markdown."""

from __future__ import annotations

from evaluation.report.summary import Row, Summary
from evaluation.statistics import Interval

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"

GATE_NAMES = {
    "violations": "rule violations",
    "data_losses": "data losses",
    "served": "traffic served %",
    "rejections": "rejected requests %",
    "unnecessary_share": "unnecessary disruptions %",
    "json_valid": "valid replies %",
}


def number(value: float | None, digits: int = 1) -> str:
    """3.0, or a dash for nothing."""
    if value is None or value != value:
        return NONE
    text = f"{value:,.{digits}f}"
    return text.replace("-", MINUS) if float(text.replace(",", "")) != 0 else text.removeprefix("-")


def money(dollars: float, plus: bool = False) -> str:
    """-$2.35, $2.35, or +$2.35 where the sign is the point."""
    text = number(abs(dollars), 2)
    sign = MINUS if dollars < 0 and text != number(0.0, 2) else "+" if plus else ""
    return f"{sign}${text}"


def interval(value: Interval | None, digits: int = 1, factor: float = 1.0) -> tuple[str, str]:
    """(estimate, interval) as text."""
    if value is None:
        return NONE, ""
    low, high = number(factor * value.low, digits), number(factor * value.high, digits)
    return number(factor * value.mean, digits), f"{low} to {high}"


def title(summary: Summary) -> str:
    results = summary.results
    split = f" {results.split}" if results.split in ("public", "validation") else ""
    agents = len([row for row in summary.rows if row.runs == 1])
    return f"{results.suite.id}: {agents} agents in {len(results.seeds)}{split} worlds"


def lead(summary: Summary) -> list[str]:
    """What the figures say, in a few sentences."""
    out: list[str] = []
    best = summary.best
    if best is not None:
        if best.score is not None:
            middle, limits = interval(best.score)
            out.append(f"Best of those that do not see the future: {best.name}, score {middle} [{limits}].")
        elif best.saved is not None:
            middle, limits = interval(best.saved, 2)
            out.append(f"Best of those that do not see the future: {best.name}, which saves ${middle} [{limits}].")
    noop = summary.results.noop
    if noop is not None:
        out.append(f"Doing nothing costs ${noop.mean():,.2f} per episode.")
    if summary.results.oracle is not None:
        out.append(f"The oracle, which sees the future, costs ${summary.results.oracle.mean():,.2f}.")
    elif summary.results.no_oracle:
        out.append(f"No scores, since no oracle is known: {summary.results.no_oracle.rstrip('.')}.")
    if summary.ties:
        worlds = len(summary.results.seeds)
        where = f"all {worlds}" if summary.ties == worlds else f"{summary.ties} of {worlds}"
        out.append(
            f"In {where} worlds the oracle saves less than 2 % of what doing nothing costs: they have no score, "
            f"only a regret."
        )
    if summary.failed:
        names = ", ".join(row.name for row in summary.failed)
        out.append(f"{len(summary.failed)} did not finish: {names}.")
    return out


def measure_name(summary: Summary) -> str:
    return "score" if summary.measure == "score" else "dollars saved"


def row_name(row: Row) -> str:
    if row.runs == 1:
        return row.name
    return f"{row.name} ({row.runs} {'attempts' if row.pass_power else 'training runs'})"
