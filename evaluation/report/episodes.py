"""What happened in an agent's median and in its worst world, tick by tick, from a replay of what it did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.errors import UserError
from cloudrl.reward.bill import BILL_PARTS, bill
from cloudrl.scenarios.names import resource_names
from cloudrl.simulator import Simulator
from evaluation.counterfactual import worths
from evaluation.replay import rules_of
from evaluation.report.summary import Summary

MEDIAN, WORST = "median", "worst"


@dataclass(frozen=True)
class Decision:
    """One action of an episode."""

    tick: int
    op: str
    resource: str
    dollars: float  # that it saved: bill of the twin without it minus the bill
    unnecessary: bool  # it disturbed traffic, and the twin was no worse off

    @property
    def text(self) -> str:
        return f"{self.op} {self.resource}"


@dataclass(frozen=True)
class Episode:
    """One episode of T ticks."""

    which: str  # MEDIAN or WORST
    seed: int
    load: np.ndarray  # (T,) outside traffic, mean 1
    served: np.ndarray  # (T,) share of it, in time
    dollars: dict[str, np.ndarray]  # $ of each tick by part, (T,)
    cascade: np.ndarray  # (T,) bool
    crashes: np.ndarray  # (T,) resources that crashed
    breaches: np.ndarray  # (T,) breaches that were drawn
    decisions: list[Decision]
    bill: float


def pick(summary: Summary, name: str) -> dict[str, int]:
    """Rows of the median and the worst world of an agent: by score, then dollars saved, then the bill."""
    results = summary.results
    bills, noop, oracle = results.agents[name]["bill"], results.noop, results.oracle
    saved = noop - bills if noop is not None else -bills
    first = saved
    if summary.measure == "score" and noop is not None and oracle is not None:
        first = np.where(noop > oracle, saved / np.maximum(noop - oracle, 1e-9), np.inf)  # unclipped, so no ties
    order = np.lexsort((-bills, saved, first))
    return {MEDIAN: int(order[(len(order) - 1) // 2]), WORST: int(order[0])}


def episodes(summary: Summary) -> dict[str, list[Episode]]:
    """Median and worst episode of every agent whose actions are known, replayed.

    Raises UserError: the scenario is not the one that was played, or a replay does not give the results' bill.
    """
    results = summary.results
    chosen = [
        (row.name, which, world)
        for row in summary.agents
        if results.agents[row.name].actions is not None
        for which, world in pick(summary, row.name).items()
    ]
    if not chosen:
        return {}
    scenario, safety = rules_of(results.suite)
    seeds = results.seeds[[world for _, _, world in chosen]]
    actions = np.stack([_actions(summary, name, world) for name, _, world in chosen])
    sim = Simulator(scenario, len(chosen), safety=safety)
    played = _Played(sim, seeds, actions)
    for k, (name, _, world) in enumerate(chosen):
        if played.bills[k] != results.agents[name]["bill"][world]:
            raise UserError(
                f"the replay of '{name}' in world {seeds[k]} costs ${played.bills[k]:.4f}, the results say "
                f"${results.agents[name]['bill'][world]:.4f}: they were made by another version of the simulator; "
                f"run the evaluation again"
            )
    names = resource_names(scenario)
    sim.reset(seeds)
    shapes = sim.state.worlds["template"].copy()
    found = worths(sim, actions)
    out: dict[str, list[Episode]] = {}
    for k, (name, which, _) in enumerate(chosen):
        decisions = [
            Decision(
                int(t), OP_NAMES[actions[k, t] % N_OPS], names[shapes[k]][actions[k, t] // N_OPS],
                float(found.dollars[k, t]), bool(found.unnecessary[k, t]),
            )
            for t in np.flatnonzero(actions[k] != sim.noop)
        ]  # fmt: skip
        out.setdefault(name, []).append(played.episode(k, which, int(seeds[k]), decisions))
    return out


def _actions(summary: Summary, name: str, world: int) -> np.ndarray:
    actions = summary.results.agents[name].actions
    assert actions is not None
    return actions[world]


class _Played:
    """Episodes of B worlds under given actions (B, T), written down tick by tick."""

    def __init__(self, sim: Simulator, seeds: np.ndarray, actions: np.ndarray) -> None:
        sim.reset(seeds)
        fields = ("load", "served", "slow", "cascade", "tick_crashes", "tick_breaches")
        self.log: dict[str, list[np.ndarray]] = {
            name: [] for name in (*fields, *(f"tick_{part}" for part in BILL_PARTS))
        }
        for t in range(sim.ticks):
            sim.step(actions[:, t])
            for name, column in self.log.items():
                column.append(sim.state.worlds[name].copy())
        self.bills = bill(sim.state.worlds)

    def column(self, name: str, k: int) -> np.ndarray:
        return np.array([values[k] for values in self.log[name]])

    def episode(self, k: int, which: str, seed: int, decisions: list[Decision]) -> Episode:
        return Episode(
            which, seed, self.column("load", k), self.column("served", k) * (1.0 - self.column("slow", k)),
            {part: self.column(f"tick_{part}", k) for part in BILL_PARTS},
            self.column("cascade", k) > 0, self.column("tick_crashes", k), self.column("tick_breaches", k),
            decisions, float(self.bills[k]),
        )  # fmt: skip
