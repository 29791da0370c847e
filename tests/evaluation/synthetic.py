"""Results of evaluations that never took place, and small ones that did."""

from __future__ import annotations

import numpy as np

from cloudrl.actions import N_OPS
from cloudrl.policies import scripted
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.simulator import Simulator
from evaluation.counterfactual import unnecessary
from evaluation.metrics import Recorder
from evaluation.results import AgentResult, Results, Suite
from evaluation.rollout import play_episodes
from evaluation.suites import facts, find_scenario

SUITE = Suite("CloudOps-Made-Up", 1, "made-up", "s" * 12, "p" * 12, "c" * 12, 288, 12)


def agent(name: str, bill: np.ndarray, **others: object) -> AgentResult:
    """An agent with these bills in dollars, (B,)."""
    worlds = len(bill)
    metrics: dict[str, np.ndarray] = {
        "bill": np.asarray(bill, float),
        "reward": -np.asarray(bill, float),
        **{part: np.asarray(bill, float) / len(BILL_PARTS) for part in BILL_PARTS},
        "won": (np.arange(worlds) % 2).astype(np.int64),
        "served": np.full(worlds, 0.995),
        "cascades": np.arange(worlds) % 3,
    }
    metrics.update(others.pop("metrics", {}))  # type: ignore[call-overload]
    ops = np.zeros((worlds, N_OPS + 1), np.int64)
    ops[:, -1] = 288
    return AgentResult(name, name, metrics=metrics, ops=ops, **others)  # type: ignore[arg-type]


def results(agents: list[AgentResult], oracle: np.ndarray | None = None, **others: object) -> Results:
    """A run of these agents in worlds 10000 and on."""
    worlds = len(next(a for a in agents if a.ok)["bill"])
    return Results(
        others.pop("suite", SUITE),  # type: ignore[arg-type]
        10_000 + np.arange(worlds),
        {a.name: a for a in agents},
        "validation",
        oracle,
        "" if oracle is not None else "nobody has searched these worlds",
        **others,  # type: ignore[arg-type]
    )


def noop_bills(worlds: int = 40) -> np.ndarray:
    """What doing nothing costs, $."""
    return 100.0 + 20.0 * np.random.default_rng(1).normal(size=worlds)


def usual(worlds: int = 40) -> Results:
    """noop, a runbook half-way to the oracle, something ruinous, an oracle, and one that failed."""
    noop = noop_bills(worlds)
    noise = 4.0 * np.random.default_rng(2).normal(size=worlds)
    return results(
        [
            agent("noop", noop),
            agent("runbook", noop - 20 + noise),
            agent("ruin", noop * 4),
            agent("oracle", noop - 40, clairvoyant=True),
            AgentResult("broken", "python:mine:Broken", error="no class Broken <script>alert(1)</script>"),
        ],
        noop - 40,
    )


def played(suite: str = "easy", worlds: int = 6) -> Results:
    """Three scripted policies, really played."""
    scenario = find_scenario(suite)
    seeds = 10_000 + np.arange(worlds)
    agents = {}
    for policy in (scripted.noop(), scripted.handwritten(), scripted.random()):
        recorder = Recorder()
        play_episodes(policy, scenario, seeds, on_tick=recorder)
        sim = Simulator(scenario, worlds)
        sim.reset(seeds)
        metrics = recorder.metrics() | {"unnecessary": unnecessary(sim, recorder.actions)}
        agents[policy.name] = AgentResult(
            policy.name, policy.name, metrics=metrics, ops=recorder.ops, actions=recorder.actions
        )
    return Results(facts(scenario, suite), seeds, agents, "validation", None, "nobody has searched these worlds")
