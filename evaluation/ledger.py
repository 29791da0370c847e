"""The counterfactual ledger: what each decision of an episode earned or lost, in dollars.

    python -m evaluation.ledger suite=medium agent=runbook seed=20003
    python -m evaluation.ledger suite=medium agent=runbook seed=20000-20049     totals over many worlds
    python -m evaluation.ledger run=runs/eval/<time> agent=runbook seed=20003   of what was played there

The worth of a decision is the bill of the same world with NOOP in its place and all later decisions as they were,
minus the real bill (evaluation/counterfactual.py; docs/ledger.md says what it can and cannot tell).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from hydra.core.config_store import ConfigStore
from rich.console import Console
from rich.table import Table

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.cli import command
from cloudrl.config import SCHEMAS
from cloudrl.errors import UserError
from cloudrl.ranges import Range
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.runs import save_json
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.names import resource_names
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.entry import Context
from evaluation.agents.registry import build, find
from evaluation.counterfactual import worths
from evaluation.metrics import Recorder
from evaluation.replay import rules_of
from evaluation.results import Results
from evaluation.rollout import play_episodes
from evaluation.suites import find_scenario, find_seeds

TICKS_PER_HOUR = 12


@dataclass(frozen=True)
class Entry:
    """One decision."""

    tick: int
    op: str
    resource: str
    dollars: float  # saved by it; < 0: lost
    parts: dict[str, float]  # the same by part of the bill
    lost: int  # later actions that would not have been possible without it
    disruptive: bool  # it took capacity away from something that served
    unnecessary: bool  # ... and without it the world had been no worse off

    @property
    def time(self) -> str:
        """Hours and minutes since the start."""
        return f"{self.tick // TICKS_PER_HOUR:02d}:{self.tick % TICKS_PER_HOUR * 5:02d}"


@dataclass(frozen=True)
class Ledger:
    """All decisions of one episode."""

    seed: int
    entries: list[Entry]
    bill: float  # $
    idle_bill: float  # $ of the same world if nothing is done

    @property
    def saved(self) -> float:
        """$ against doing nothing: not the sum of the entries, see `together`."""
        return self.idle_bill - self.bill

    @property
    def together(self) -> float:
        """What the entries leave unexplained: decisions that only pay together, or do each other's work."""
        return self.saved - sum(entry.dollars for entry in self.entries)


@dataclass(frozen=True)
class OpTotal:
    """All decisions for one operation, over all episodes."""

    op: str
    count: int
    net: float
    earned: float  # sum of those that saved
    burned: float  # sum of those that lost, < 0
    paid: int  # how many saved
    disruptive: int
    unnecessary: int


def ledgers(
    scenario: Scenario, seeds: np.ndarray, actions: np.ndarray, safety: SafetyConfig | None = None
) -> list[Ledger]:
    """One ledger per world, of the executed flat actions (B, T) in the worlds of `seeds` (B,)."""
    sim = Simulator(scenario, len(seeds), safety=safety)
    sim.reset(seeds)
    shapes = sim.state.worlds["template"].copy()
    names = resource_names(scenario)
    found = worths(sim, actions)
    sim.reset(seeds)
    idle = worths(sim, np.full_like(actions, sim.noop)).bill

    def entries(b: int) -> Iterator[Entry]:
        for t in np.flatnonzero(actions[b] != sim.noop):
            slot, op = divmod(int(actions[b, t]), N_OPS)
            yield Entry(
                tick=int(t), op=OP_NAMES[op], resource=names[shapes[b]][slot],
                dollars=float(found.dollars[b, t]),
                parts={part: float(value) for part, value in zip(BILL_PARTS, found.parts[b, t])},
                lost=int(found.lost[b, t]), disruptive=bool(found.disrupted[b, t]),
                unnecessary=bool(found.unnecessary[b, t]),
            )  # fmt: skip

    return [
        Ledger(int(seed), list(entries(b)), float(found.bill[b]), float(idle[b])) for b, seed in enumerate(seeds)
    ]


def totals(found: Sequence[Ledger]) -> list[OpTotal]:
    """By operation, the one that earned most first."""
    out = []
    for op in OP_NAMES:
        mine = [entry for ledger in found for entry in ledger.entries if entry.op == op]
        if mine:
            dollars = np.array([entry.dollars for entry in mine])
            out.append(
                OpTotal(
                    op, len(mine), float(dollars.sum()), float(dollars[dollars > 0].sum()),
                    float(dollars[dollars < 0].sum()), int((dollars > 0).sum()),
                    sum(entry.disruptive for entry in mine), sum(entry.unnecessary for entry in mine),
                )
            )  # fmt: skip
    return sorted(out, key=lambda total: -total.net)


# ---- the command -----------------------------------------------------------------------------------------------


@dataclass
class LedgerConfig:
    """`python -m evaluation.ledger`."""

    suite: str = "medium"
    agent: str = "runbook"
    seed: str = "20000"
    run: str | None = None
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    lines: int = 25
    out: str | None = None

    def __post_init__(self) -> None:
        Range(low=0, whole=True).check("lines", self.lines)


SCHEMAS["ledger"] = LedgerConfig
ConfigStore.instance().store(name="ledger_schema", node=LedgerConfig, provider="cloudrl")


@command("ledger")
def main(config: LedgerConfig) -> float:
    """Print the ledger. Returns the dollars saved against doing nothing, mean over worlds."""
    scenario, seeds, actions, safety, bills = _played(config)
    found = ledgers(scenario, seeds, actions, safety)
    for ledger, bill in zip(found, bills if bills is not None else ()):
        if ledger.bill != bill:
            raise UserError(
                f"the replay of world {ledger.seed} costs ${ledger.bill:.4f}, {config.run} says ${bill:.4f}: "
                f"another version of the simulator made it; leave out run=... to play '{config.agent}' again"
            )
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    if len(found) == 1 and found[0].entries:
        console.print(entry_table(found[0], config.lines, f"{config.agent} in world {found[0].seed}"))
    if any(ledger.entries for ledger in found):
        console.print(total_table(found))
    for line in sentences(found):
        print(line)
    if config.out is not None:
        save_json(config.out, [asdict(ledger) | {"saved": ledger.saved} for ledger in found])
        print(f"written to {config.out}")
    return float(np.mean([ledger.saved for ledger in found]))


Played = tuple[Scenario, np.ndarray, np.ndarray, SafetyConfig, np.ndarray | None]
"""Scenario, seeds (B,), executed actions (B, T), safety, and the bills (B,) that a replay must give."""


def _played(config: LedgerConfig) -> Played:
    """From a run, or by playing."""
    if config.run is not None:
        return _from_run(config.run, config.agent, config.seed)
    scenario = find_scenario(config.suite)
    seeds = find_seeds(config.seed, scenario)
    context = Context(scenario, actions=config.safety.actions)
    entries = find([config.agent], context)
    if len(entries) != 1:
        raise UserError(f"agent={config.agent}: is {len(entries)} agents; name one")
    recorder = Recorder()
    play_episodes(build(entries[0], context), scenario, seeds, safety=config.safety, on_tick=recorder)
    return scenario, seeds, recorder.actions, config.safety, None


def _from_run(run: str, name: str, seed: str) -> Played:
    results = Results.read(run)
    scenario, safety = rules_of(results.suite)
    agent = results.agent(name)
    if agent.actions is None:
        raise UserError(f"{run}: has no actions.npz; leave out run=... to play '{name}' again")
    wanted = find_seeds(seed, scenario)
    missing = np.setdiff1d(wanted, results.seeds)
    if len(missing):
        raise UserError(
            f"seed={missing[0]}: not among the worlds of {run}, which played {results.seeds[0]} and on"
        )
    rows = np.searchsorted(results.seeds, wanted)
    return scenario, wanted, agent.actions[rows], safety, agent["bill"][rows]


def entry_table(ledger: Ledger, lines: int, title: str) -> Table:
    """The decisions that changed most, in the order of time; lines = 0: all."""
    ranked = sorted(ledger.entries, key=lambda e: -abs(e.dollars))
    shown = sorted(ranked[: lines or None], key=lambda e: e.tick)
    of = "" if len(shown) == len(ledger.entries) else f"; {len(shown)} of {len(ledger.entries)} decisions"
    out = Table(title=f"{title}: $ that each decision saved{of}", title_justify="left", title_style="bold")
    for heading in ("time", "operation", "resource"):
        out.add_column(heading, no_wrap=True)
    for heading in ("saved $", "infra", *BILL_PARTS[1:]):
        out.add_column(heading, justify="right", no_wrap=True)
    out.add_column("", no_wrap=True)
    for e in shown:
        marks = ["unnecessary"] if e.unnecessary else []
        marks += [f"{e.lost} later need it"] if e.lost else []
        style = "bold" if e.dollars > 0 else "dim"
        out.add_row(
            e.time, e.op, e.resource, f"[{style}]{e.dollars:+.2f}[/{style}]",
            *(f"{value:+.2f}" if abs(value) >= 0.005 else "" for value in e.parts.values()), ", ".join(marks),
        )  # fmt: skip
    return out


def total_table(found: Sequence[Ledger]) -> Table:
    """By operation, mean per episode where there are several."""
    n = len(found)
    heading = "By operation" if n == 1 else f"By operation, mean of {n} episodes"
    out = Table(title=heading, title_justify="left", title_style="bold")
    out.add_column("operation", no_wrap=True)
    for heading in ("count", "net $", "earned $", "burned $", "that paid", "disruptive", "unnecessary"):
        out.add_column(heading, justify="right", no_wrap=True)
    digits = 0 if n == 1 else 2
    for t in totals(found):
        out.add_row(
            t.op, f"{t.count / n:.{digits}f}", *(f"{x / n:+.2f}" for x in (t.net, t.earned, t.burned)),
            f"{100 * t.paid / t.count:.0f} %", *(f"{x / n:.{digits}f}" for x in (t.disruptive, t.unnecessary)),
        )  # fmt: skip
    return out


def sentences(found: Sequence[Ledger]) -> list[str]:
    """The balance in words."""
    bill, idle = (float(np.mean([getattr(x, name) for x in found])) for name in ("bill", "idle_bill"))
    alone = float(np.mean([sum(e.dollars for e in x.entries) for x in found]))
    together = float(np.mean([x.together for x in found]))
    mean = "" if len(found) == 1 else f", mean of {len(found)} episodes"
    out = [f"Bill ${bill:.2f}, ${idle:.2f} if nothing is done: {_money(idle - bill)} saved{mean}."]
    if any(x.entries for x in found):
        out.append(
            f"Each decision for itself: {_money(alone)} in all. The other {_money(together)} are what decisions "
            f"do together: one that makes another possible counts twice, two that do the same count for nothing."
        )
    return out


def _money(dollars: float) -> str:
    return f"{'-' if dollars < 0 else '+'}${abs(dollars):.2f}"


if __name__ == "__main__":
    main()
