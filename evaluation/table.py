"""The score table: agents side by side on the same worlds, in the terminal, as markdown and as json."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from evaluation.rollout import Episodes
from evaluation.statistics import Interval, bootstrap, paired

Row = dict[str, Any]


def rows(results: dict[str, Episodes]) -> list[Row]:
    """One row per agent with intervals; savings are against `noop`, which must be among them."""
    idle = results["noop"]
    return [
        {
            "agent": name,
            "worlds": len(e.seeds),
            "reward": bootstrap(e.reward),
            "win_rate": bootstrap(e.won),
            "bill": bootstrap(e.bill),
            "savings": paired(idle.bill, e.bill),
            "violations": bootstrap(e.violations),
            "cascades": bootstrap(e.cascades),
            "breaches": bootstrap(e.breaches),
            "served": bootstrap(e.served),
            "operations": bootstrap(e.operations),
            **{part: bootstrap(values) for part, values in e.parts.items()},
        }
        for name, e in results.items()
    ]


_COLUMNS = (
    ("reward", "reward", 1),
    ("win_rate", "wins %", 0),
    ("bill", "bill $", 2),
    ("savings", "saved $", 2),
    ("violations", "violations", 2),
    ("cascades", "cascades", 2),
)


def difference(results: dict[str, Episodes], policy: str, against: str) -> Row:
    """A policy against another row, world by world: dollars saved and reward gained, with intervals."""
    own, other = results[policy], results[against]
    return {
        "policy": policy,
        "against": against,
        "saves": list(paired(other.bill, own.bill)),
        "reward": list(paired(own.reward, other.reward)),
    }


def gained(row: Row) -> str:
    """Cells of a difference in markdown: who, against whom, dollars, reward."""
    (saved, low, high), (gain, least, most) = row["saves"], row["reward"]
    return (
        f"| {row['policy']} | {row['against']} | {saved:+.2f} [{low:+.2f}, {high:+.2f}] "
        f"| {gain:+.1f} [{least:+.1f}, {most:+.1f}] |"
    )


def _cell(key: str, value: Interval, digits: int) -> str:
    factor = 100.0 if key == "win_rate" else 1.0
    return f"{factor * value.mean:.{digits}f} ± {factor * value.half_width:.{digits}f}"


def terminal(table_rows: list[Row], title: str) -> Table:
    """A rich table; ± is half the 95 % interval."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("agent", no_wrap=True)
    for _, heading, _ in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in table_rows:
        style = "bold" if row["agent"].startswith(("trained", "ppo")) else None
        table.add_row(row["agent"], *(_cell(k, row[k], d) for k, _, d in _COLUMNS), style=style)
    return table


def show(table_rows: list[Row], title: str) -> None:
    """Print the table; 100 columns where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(terminal(table_rows, title))


def markdown(table_rows: list[Row]) -> str:
    """The same table in markdown."""
    lines = ["| agent | " + " | ".join(h for _, h, _ in _COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    lines += [
        f"| {r['agent']} | " + " | ".join(_cell(k, r[k], d) for k, _, d in _COLUMNS) + " |" for r in table_rows
    ]
    return "\n".join(lines) + "\n"


def plain(table_rows: list[Row]) -> list[Row]:
    """Intervals as lists [mean, low, high], for json."""
    return [{k: list(v) if isinstance(v, Interval) else v for k, v in row.items()} for row in table_rows]
