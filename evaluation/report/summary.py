"""The figures of a report: one row per agent, and one per group of training runs, from the results of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cloudrl.actions import OP_NAMES
from cloudrl.reward.bill import BILL_PARTS
from evaluation.economics import rank_correlation
from evaluation.metrics import METRICS, REJECTED, missed_gates
from evaluation.results import AgentResult, Results
from evaluation.score import ratio_of_sums, scores, tied
from evaluation.statistics import (
    Interval,
    bootstrap,
    improvement,
    iqm,
    mean,
    pass_power,
    spread,
    stratified,
    worst_tenth,
)

RUNBOOK = "runbook"


@dataclass
class Row:
    """One agent, or the training runs of one agent together. Fields are None where nothing is known.

    `measure` is what quantiles are taken of: the score, or dollars saved where there is no score.
    """

    name: str
    spec: str = ""
    number: int = 0  # rank in the table, from 1
    clairvoyant: bool = False
    error: str = ""
    runs: int = 1  # training runs, or attempts, that the row holds
    member: bool = False  # one of the runs of such a row
    measure: str = "score"
    score: Interval | None = None
    iqm: Interval | None = None
    worst_tenth: Interval | None = None
    ratio_of_sums: float | None = None
    spread: tuple[float, float] | None = None  # of the measure's mean among training runs
    bill: Interval | None = None
    saved: Interval | None = None
    regret: Interval | None = None  # $ above the oracle, all worlds
    tie_regret: Interval | None = None  # in % of the idle bill, over the worlds without a score
    won: Interval | None = None
    beats_runbook: Interval | None = None
    reward: Interval | None = None
    parts: dict[str, float] = field(default_factory=dict)  # mean $
    means: dict[str, Interval] = field(default_factory=dict)  # of every other figure
    ops: dict[str, float] = field(default_factory=dict)  # mean count per episode
    missed_gates: list[str] = field(default_factory=list)
    pass_power: dict[int, float] = field(default_factory=dict)  # by k; passing = the bill is at most the runbook's
    ms_per_decision: float | None = None  # wall time; not in report.json, which is the same every time

    @property
    def ok(self) -> bool:
        return not self.error


@dataclass
class Summary:
    """All rows, best first: clairvoyant ones on top, those without figures at the end."""

    results: Results
    rows: list[Row]
    measure: str  # "score" or "saved"
    values: dict[str, np.ndarray]  # the measure of each agent that played, (B,), worlds without a score left out
    ties: int  # worlds in which doing nothing and the oracle nearly tie: they have no score
    rank_correlation: float | None  # of mean reward and mean measure

    @property
    def agents(self) -> list[Row]:
        """Rows of single agents that played."""
        return [row for row in self.rows if row.ok and row.runs == 1]

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if not row.ok]

    @property
    def best(self) -> Row | None:
        """The best agent that does not see the future; of several training runs all, not the luckiest one."""
        return next((row for row in self.rows if row.ok and not row.clairvoyant and not row.member), None)


def summarise(results: Results, timing: Mapping[str, Mapping[str, float]] | None = None) -> Summary:
    """Every figure of the report, the same for the same results; `timing` by agent, as in timing.json."""
    noop, oracle = results.noop, results.oracle
    known = noop is not None and oracle is not None
    scored = ~tied(noop, oracle) if known else np.zeros(len(results.seeds), bool)  # type: ignore[arg-type]
    measure = "score" if scored.any() else "saved"
    maker = _Maker(results, measure, scored)
    groups = _groups(results)
    members = {member.name for group in groups.values() for member in group}
    rows = [maker.agent(agent, agent.name in members) for agent in results]
    rows += [maker.group(name, group) for name, group in groups.items()]
    rows.sort(key=lambda row: (not row.ok, not row.clairvoyant, -_centre(row), row.name, row.runs))
    for number, row in enumerate((r for r in rows if r.ok), 1):
        row.number = number
    for row in rows:
        row.ms_per_decision = (timing or {}).get(row.name, {}).get("ms_per_decision")
    played = [row for row in rows if row.ok and row.runs == 1]
    agreement = None
    if len(played) > 2:
        found = rank_correlation(
            np.array([_mean(r.reward) for r in played]), np.array([_centre(r) for r in played])
        )
        agreement = found if np.isfinite(found) else None
    return Summary(results, rows, measure, maker.values, int((~scored).sum()) if known else 0, agreement)


def _groups(results: Results) -> dict[str, list[AgentResult]]:
    """Agents that are runs of the same thing, where there are several."""
    found: dict[str, list[AgentResult]] = {}
    for agent in results.played.values():
        if agent.group:
            found.setdefault(agent.group, []).append(agent)
    return {name: members for name, members in found.items() if len(members) > 1}


def _mean(interval: Interval | None) -> float:
    return float("nan") if interval is None else interval.mean


def _centre(row: Row) -> float:
    """What rows are ordered by."""
    for interval, sign in ((row.score, 1), (row.saved, 1), (row.bill, -1)):
        if interval is not None:
            return sign * interval.mean
    return -np.inf


class _Maker:
    """Makes rows; remembers the measure of each agent."""

    def __init__(self, results: Results, measure: str, scored: np.ndarray) -> None:
        self.results = results
        self.measure = measure
        self.scored = scored
        self.values: dict[str, np.ndarray] = {}
        runbook = results.agents.get(RUNBOOK)
        self.runbook = runbook["bill"] if runbook is not None and runbook.ok else None

    def agent(self, agent: AgentResult, member: bool) -> Row:
        row = Row(agent.name, agent.spec, clairvoyant=agent.clairvoyant, error=agent.error, measure=self.measure)
        row.member = member
        if not agent.ok:
            return row
        self._fill(row, [agent])
        value = self._measured(agent["bill"])
        if value is not None:
            self.values[agent.name] = value
        return row

    def group(self, name: str, members: list[AgentResult]) -> Row:
        spec = ", ".join(m.name for m in members)
        clairvoyant = any(m.clairvoyant for m in members)
        row = Row(name, spec, clairvoyant=clairvoyant, runs=len(members), measure=self.measure)
        self._fill(row, members)
        measured = [self._measured(m["bill"]) for m in members]
        if measured[0] is not None:
            row.spread = spread(np.stack([m for m in measured if m is not None]))
        if self.runbook is not None and all("json_valid" in m for m in members):
            passed = np.stack([m["bill"] <= self.runbook for m in members])
            row.pass_power = {k: pass_power(passed, k) for k in range(1, len(members) + 1)}
        return row

    def _measured(self, bill: np.ndarray) -> np.ndarray | None:
        noop, oracle = self.results.noop, self.results.oracle
        if noop is None:
            return None
        if self.measure == "score" and oracle is not None:
            return scores(bill, noop, oracle)[self.scored]
        return noop - bill

    def _fill(self, row: Row, members: list[AgentResult]) -> None:
        """Figures of one agent, or of several training runs on the same worlds."""
        noop, oracle = self.results.noop, self.results.oracle

        def over(values: list[np.ndarray], estimator: Any = mean) -> Interval:
            return stratified(np.stack(values).astype(float), estimator)

        def all_of(metric: str) -> list[np.ndarray]:
            return [member[metric] for member in members]

        bills = all_of("bill")
        row.bill, row.reward, row.won = over(bills), over(all_of("reward")), over(all_of("won"))
        row.parts = {part: float(np.mean(all_of(part))) for part in BILL_PARTS}
        if noop is not None:
            row.saved = over([noop - bill for bill in bills])
            values = [v for v in map(self._measured, bills) if v is not None]
            row.iqm, row.worst_tenth = over(values, iqm), over(values, worst_tenth)
            if self.measure == "score":
                row.score = over(values)
        if oracle is not None:
            row.regret = over([bill - oracle for bill in bills])
            if noop is not None and not self.scored.all():
                behind = [(100.0 * (bill - oracle) / noop)[~self.scored] for bill in bills]
                row.tie_regret = over(behind)
            if noop is not None and self.measure == "score":
                row.ratio_of_sums = float(np.mean([ratio_of_sums(bill, noop, oracle) for bill in bills]))
        if self.runbook is not None and row.name != RUNBOOK:
            runbook = self.runbook
            beaten = [(bill < runbook) + 0.5 * (bill == runbook) for bill in bills]
            row.beats_runbook = over(beaten) if len(members) > 1 else improvement(-bills[0], -runbook)
        shared = [name for name in members[0].metrics if all(name in m for m in members)]
        known = [name for name in shared if name in METRICS or name.startswith(REJECTED)]
        row.means = {name: bootstrap(np.mean(all_of(name), axis=0)) for name in known if _complete(all_of(name))}
        row.missed_gates = missed_gates(
            {name: np.mean(all_of(name), axis=0) for name in shared}, self.results.suite.ticks
        )
        counts = [member.ops for member in members if member.ops is not None]
        if len(counts) == len(members):
            row.ops = dict(zip(OP_NAMES, np.mean(counts, axis=(0, 1)).tolist()))


def _complete(values: list[np.ndarray]) -> bool:
    return not np.isnan(np.asarray(values, float)).any()


def plain(summary: Summary) -> dict[str, Any]:
    """The summary for json: intervals are [mean, low, high]."""
    results = summary.results
    return {
        "suite": vars(results.suite),
        "split": results.split,
        "worlds": len(results.seeds),
        "seeds": [int(results.seeds.min()), int(results.seeds.max())],
        "measure": summary.measure,
        "worlds_without_score": summary.ties,
        "no_oracle": results.no_oracle,
        "oracle_bill": None if results.oracle is None else list(bootstrap(results.oracle)),
        "rank_correlation_of_reward_and_measure": summary.rank_correlation,
        "rows": [_plain_row(row) for row in summary.rows],
    }


def _plain_row(row: Row) -> dict[str, Any]:
    if not row.ok:
        return {"name": row.name, "spec": row.spec, "error": row.error}

    def simple(value: Any) -> Any:
        if isinstance(value, tuple):
            return list(value)
        if isinstance(value, dict):
            return {str(k): simple(v) for k, v in value.items()}
        return value

    return {key: simple(value) for key, value in vars(row).items() if key != "ms_per_decision"}
