"""Is a difference between two agents real?

    python -m evaluation.compare <run>                              everybody against the runbook, or --against ...
    python -m evaluation.compare <run> --agents ppo runbook         two agents of one run
    python -m evaluation.compare <run_a> <run_b>                    the agents that both runs played
    python -m evaluation.compare <run_a> <run_b> --agents ppo mpc   ppo of run_a, mpc of run_b
    ... --json                                                      the same for programs

Only the same worlds can be compared: another suite, version or list of seeds is refused. Differences are taken
world by world, so that easy and hard worlds cancel.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

from cloudrl.errors import UserError
from evaluation.command_line import plain_command
from evaluation.results import NOOP, AgentResult, Results
from evaluation.score import scores, tied
from evaluation.statistics import Interval, improvement, paired, worlds_needed

RUNBOOK = "runbook"


@dataclass(frozen=True)
class Comparison:
    """Agent b against agent a on the same worlds. Dollars > 0: b saves them."""

    a: str
    b: str
    worlds: int
    saves: Interval  # $ per world
    wins: Interval  # probability that b has the lower bill in a world, equal bills count half
    score: Interval | None  # points of score that b gains, over worlds that have one
    needed: int | None  # worlds that a difference of this size takes to show

    @property
    def real(self) -> bool:
        """The interval of the difference leaves out 0."""
        return self.saves.low > 0 or self.saves.high < 0

    def sentence(self) -> str:
        """What the figures say, for a person."""
        s, w = self.saves, self.wins
        share = f"{100 * w.mean:.0f} % [{100 * w.low:.0f}, {100 * w.high:.0f}] of {self.worlds} worlds"
        if s.low == s.mean == s.high == 0.0:
            return f"'{self.b}' and '{self.a}' cost the same in every one of {self.worlds} worlds."
        if self.real:
            better, worse = (self.b, self.a) if s.mean > 0 else (self.a, self.b)
            low, high = sorted((abs(s.low), abs(s.high)))
            share = share if s.mean > 0 else _complement(w, self.worlds)
            return (
                f"'{better}' is cheaper than '{worse}': it saves ${abs(s.mean):.2f} [{low:.2f}, {high:.2f}] "
                f"more per world and has the lower bill in {share}."
            )
        more = f" A difference of this size would take some {self.needed:,} worlds to show." if self.needed else ""
        return (
            f"No difference between '{self.b}' and '{self.a}' is shown: '{self.b}' saves ${s.mean:.2f} "
            f"[{s.low:.2f}, {s.high:.2f}] per world, which may be 0, and has the lower bill in {share}.{more}"
        )


def _complement(w: Interval, worlds: int) -> str:
    return f"{100 - 100 * w.mean:.0f} % [{100 - 100 * w.high:.0f}, {100 - 100 * w.low:.0f}] of {worlds} worlds"


def check_comparable(a: Results, b: Results, name_a: str = "the first run", name_b: str = "the second") -> None:
    """Raise UserError, one line, unless both played the same worlds by the same rules."""
    difference = a.suite.difference(b.suite)
    if difference is not None:
        raise UserError(
            f"{name_a} and {name_b} cannot be compared: {difference}; run both on the same suite and version"
        )
    if not np.array_equal(a.seeds, b.seeds):
        raise UserError(
            f"{name_a} and {name_b} cannot be compared: seeds {_range(a.seeds)} and {_range(b.seeds)}; "
            f"play both with the same seeds=..."
        )


def _range(seeds: np.ndarray) -> str:
    return f"{seeds.min()}-{seeds.max()} ({len(seeds)} worlds)" if len(seeds) else "none"


def compare(
    a: AgentResult, b: AgentResult, noop: np.ndarray | None = None, oracle: np.ndarray | None = None
) -> Comparison:
    """Agent b against agent a. `noop`, `oracle`: their bills (B,), for the difference in score; None = unknown."""
    saved = a["bill"] - b["bill"]
    score = None
    if noop is not None and oracle is not None:
        known = ~tied(noop, oracle)
        if known.any():
            score = paired(*(scores(x["bill"], noop, oracle)[known] for x in (b, a)))
    return Comparison(
        title(a), title(b), len(saved), paired(a["bill"], b["bill"]), improvement(-b["bill"], -a["bill"]), score,
        worlds_needed(saved),
    )  # fmt: skip


def title(agent: AgentResult) -> str:
    """The agent's name; of one that saw the future, with the warning."""
    return f"{agent.name} (clairvoyant)" if agent.clairvoyant else agent.name


def within(run: Results, names: Sequence[str] = (), against: str | None = None) -> list[Comparison]:
    """Comparisons within one run: of two agents, or of everybody with `against`. Raises UserError."""
    if names:
        first, second = _two(names)
        chosen = [(run.agent(first), run.agent(second))]
    else:
        reference = run.agent(against or (RUNBOOK if RUNBOOK in run.played else NOOP))
        chosen = [(reference, agent) for agent in run.played.values() if agent is not reference]
        if not chosen:
            raise UserError(f"there is nobody in this run to compare with '{reference.name}'")
    return [compare(a, b, run.noop, run.oracle) for a, b in chosen]


def between(
    a: Results, b: Results, names: Sequence[str] = (), name_a: str = "the first run", name_b: str = "the second"
) -> list[Comparison]:
    """Comparisons of agents of two runs: of two named ones, or of each that both played. Raises UserError."""
    check_comparable(a, b, name_a, name_b)
    if names:
        first, second = _two(names)
        chosen = [(a.agent(first), b.agent(second))]
    else:
        chosen = [(a.played[name], agent) for name, agent in b.played.items() if name in a.played]
        if not chosen:
            raise UserError(f"{name_a} and {name_b} share no agent; name one of each: --agents <a> <b>")
    noop = a.noop if a.noop is not None else b.noop
    oracle = a.oracle if a.oracle is not None else b.oracle
    return [
        replace(compare(x, y, noop, oracle), a=f"{title(x)} of {name_a}", b=f"{title(y)} of {name_b}")
        for x, y in chosen
    ]


def _two(names: Sequence[str]) -> tuple[str, str]:
    if len(names) != 2:
        raise UserError(f"--agents takes two names, not {len(names)}")
    return names[0], names[1]


# ---- the command -----------------------------------------------------------------------------------------------


def table(comparisons: Sequence[Comparison]) -> Table:
    """A rich table, one row per comparison."""
    worlds = comparisons[0].worlds
    out = Table(title=f"World by world, {worlds} worlds", title_justify="left", title_style="bold")
    for heading, side in (("agent", "left"), ("against", "left")):
        out.add_column(heading, justify=side)  # type: ignore[arg-type]
    for heading in ("saves $ [95 %]", "score [95 %]", "lower bill in % [95 %]", "verdict"):
        out.add_column(heading, justify="right")
    for c in comparisons:
        verdict = "cheaper" if c.saves.low > 0 else "dearer" if c.saves.high < 0 else "not shown"
        out.add_row(
            c.b, c.a, _signed(c.saves, 2), "" if c.score is None else _signed(c.score, 1),
            f"{100 * c.wins.mean:.0f} [{100 * c.wins.low:.0f}, {100 * c.wins.high:.0f}]", verdict,
        )  # fmt: skip
    return out


def _signed(i: Interval, digits: int) -> str:
    return f"{i.mean:+.{digits}f} [{i.low:+.{digits}f}, {i.high:+.{digits}f}]"


@plain_command
def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "evaluation.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of an evaluation")
    parser.add_argument("other", nargs="?", help="another one")
    parser.add_argument("--agents", nargs="+", default=[], metavar="NAME", help="which two agents")
    parser.add_argument(
        "--against", metavar="NAME", help="within one run: the agent that others are compared with"
    )
    parser.add_argument("--json", action="store_true", help="print json")
    args = parser.parse_args(argv)
    first = Results.read(args.run)
    if args.other is None:
        found = within(first, args.agents, args.against)
    elif args.against is not None:
        parser.error("--against is for one run; with two, say --agents <of the first> <of the second>")
    else:
        second = Results.read(args.other)
        check_comparable(first, second, args.run, args.other)
        found = between(first, second, args.agents, "A", "B")
    if args.json:
        print(json.dumps([asdict(c) | {"real": c.real, "sentence": c.sentence()} for c in found], indent=2))
        return
    if args.other is not None:
        print(f"A is {args.run}\nB is {args.other}")
    if len(found) > 3:
        console = Console()
        console = console if console.is_terminal else Console(width=130)
        console.print(table(found))
        print(f"Of {len(found)} intervals of 95 % about one in twenty misses by chance.")
    else:
        for c in found:
            print(c.sentence())


if __name__ == "__main__":
    main()
