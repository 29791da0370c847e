"""The report as markdown: the two tables and the facts, for files that are read in a terminal or a repository."""

from __future__ import annotations

from evaluation.report.summary import Summary
from evaluation.report.tables import gate_cells, gate_headings, score_columns
from evaluation.report.words import lead, number, row_name, title


def markdown(summary: Summary) -> str:
    """report.md."""
    columns = score_columns(summary)
    lines = [f"# {title(summary)}", "", " ".join(lead(summary)), ""]
    lines += _table(
        ["#", "agent", *(c.title for c in columns)],
        [
            [str(row.number), _name(row_name(row), row.clairvoyant), *(_cell(*c.cell(row)) for c in columns)]
            for row in summary.rows
            if row.ok
        ],
    )
    lines += ["", "Brackets: 95 % bootstrap interval over worlds. \N{WHITE DIAMOND} sees the future.", ""]
    lines += [f"- **{column.title}**: {column.hint}" for column in columns]
    lines += [
        "",
        "## Gates",
        "",
        "Beside the score, never averaged into it; mean per episode, * = gate missed.",
        "",
    ]
    headings = gate_headings(summary)
    lines += _table(
        ["agent", *(heading for heading, _ in headings)],
        [
            [row.name, *(f"{cell.text}{' *' if cell.missed else ''}" for cell in gate_cells(summary, row))]
            for row in summary.agents
        ],
    )
    lines += ["", *(f"- **{heading}**: {text}" for heading, text in headings if text)]
    if summary.rank_correlation is not None:
        lines += ["", f"Rank correlation of training reward and {summary.measure}: "
                      f"{number(summary.rank_correlation, 3)}."]  # fmt: skip
    for row in summary.failed:
        lines += ["", f"**{row.name}** (`{row.spec}`) did not finish: {row.error}"]
    suite = summary.results.suite
    lines += [
        "",
        f"Suite {suite.id}, scenario {suite.scenario_hash}, prices {suite.prices_hash}, code {suite.code}, "
        f"safety {suite.safety}, actions {suite.actions}, memory {suite.memory or 'off'}.",
    ]
    return "\n".join(lines) + "\n"


def _name(name: str, clairvoyant: bool) -> str:
    return f"{name} \N{WHITE DIAMOND}" if clairvoyant else name


def _cell(text: str, limits: str) -> str:
    return f"{text} [{limits}]" if limits else text


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]
