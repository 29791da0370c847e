"""The gate of the benchmark: what must hold of every suite before anybody's score on it means something.

Played on the public worlds, which is what they are for: nothing is tuned here. Every day the first 40 (of a stress
suite 20) are played, and a limit on a mean may be missed by two standard errors; with CLOUDRL_FULL=1 all of them
are, and by nothing.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from cloudrl.compose import compose
from cloudrl.observation import N_RESOURCE_FEATURES, RESOURCE_FEATURES, WORLD_FEATURES
from cloudrl.seeding import mix
from cloudrl.simulator import Simulator
from evaluation.economics import DEGENERATE, rank_correlation
from evaluation.results import Results
from evaluation.run import evaluate
from evaluation.score import regret, scores, tied
from evaluation.suites import find_scenario, find_seeds, suite_names
from tests.core.play import FULL, random_actions
from tests.evaluation.test_run_checkpoint import random_policy

MAIN = ("easy", "medium", "hard")
SCRIPTED = "agents=[constants,baselines]"


@functools.cache
def played(suite: str, agents: str = SCRIPTED, few: int = 0) -> Results:
    """All agents on a suite's public worlds (on the first `few` of them every day), nothing from a cache."""
    seeds = find_seeds("public", find_scenario(suite))
    last = seeds[-1] if FULL else seeds[(few or (40 if suite in MAIN else 20)) - 1]
    overrides = [f"suite={suite}", agents, f"seeds={seeds[0]}-{last}", "cache=false", "ledger=false", "workers=1"]
    return evaluate(compose("eval", overrides))[0]


def slack(values: np.ndarray) -> float:
    """By how much a mean may miss a limit: fewer worlds measure less exactly."""
    return 0.0 if FULL else 2.0 * float(np.std(values, ddof=1) / np.sqrt(len(values)))


def score_of(results: Results, name: str) -> np.ndarray:
    """Scores of an agent in the worlds that have one."""
    assert results.oracle is not None and results.noop is not None, results.no_oracle
    values = scores(results.agents[name]["bill"], results.noop, results.oracle)
    return values[~np.isnan(values)]


def has_oracle(suite: str) -> None:
    results = played(suite)
    assert results.oracle is not None, f"{suite}: {results.no_oracle}; run: python scripts/build_oracle.py {suite}"


@pytest.mark.parametrize("suite", suite_names())
def test_thoughtless_play_scores_at_most_five(suite: str) -> None:
    """Where the oracle ties with doing nothing, thoughtless play cannot gain more than that tie."""
    has_oracle(suite)
    results = played(suite)
    assert results.noop is not None and results.oracle is not None
    tie = tied(results.noop, results.oracle)
    for name in DEGENERATE:
        values = score_of(results, name)
        if len(values) > 1:
            assert values.mean() <= 5.0 + slack(values), name
        if tie.any():
            gained = (100.0 * (results.noop - results.agents[name]["bill"]) / results.noop)[tie]
            assert gained.max() <= 2.0, name  # less than the tie itself


@pytest.mark.parametrize("suite", suite_names())
def test_the_oracle_is_below_every_agent(suite: str) -> None:
    """In at least 99 % of the worlds no scripted agent has a lower bill than the oracle's own search found."""
    has_oracle(suite)
    results = played(suite)
    assert results.oracle is not None
    lowest = np.min([agent["bill"] for agent in results if not agent.clairvoyant], axis=0)
    beaten = regret(lowest, results.oracle) < -1e-9
    assert beaten.mean() <= 0.01, f"seeds {results.seeds[beaten].tolist()}"


@pytest.mark.parametrize("suite", MAIN)
def test_there_is_something_to_win(suite: str) -> None:
    has_oracle(suite)
    results = played(suite)
    assert results.noop is not None and results.oracle is not None
    assert 1.0 - results.oracle.mean() / results.noop.mean() > 0.20


def test_the_searched_runbook_lies_in_the_middle_of_medium() -> None:
    """A list of rules earns a good part of what can be earned, and leaves a good part to others."""
    has_oracle("medium")
    values = score_of(played("medium"), "runbook")
    assert 40.0 - slack(values) <= values.mean() <= 70.0 + slack(values)
    assert score_of(played("medium"), "handwritten").mean() < values.mean()


@pytest.mark.parametrize("suite", suite_names())
def test_reward_and_score_rank_alike(suite: str) -> None:
    """By dollars saved where most worlds have no score, as on the quiet day."""
    results = played(suite)
    assert results.noop is not None
    agents = list(results)
    if results.oracle is not None and 2 * len(score_of(results, "noop")) > len(results.seeds):
        judged = [score_of(results, agent.name).mean() for agent in agents]
    else:
        judged = [float((results.noop - agent["bill"]).mean()) for agent in agents]
    assert rank_correlation(np.array([agent["reward"].mean() for agent in agents]), np.array(judged)) >= 0.8


def test_random_weights_score_below_the_runbook(tmp_path: Path) -> None:
    for kind in ("ppo", "ppo-best"):
        folder = random_policy(tmp_path / kind, n_slots=12)
        results = played("medium", f"agents=[runbook,'{kind}:{folder}']", few=10)
        policy = list(results)[-1]
        assert policy.name.startswith(kind) and policy.ok, policy.error
        assert results.agents["runbook"]["bill"].mean() < policy["bill"].mean()


@pytest.mark.full
@pytest.mark.skipif(not FULL, reason="minutes per suite: run by make test-full")
def test_planners_stand_between_the_runbook_and_the_oracle() -> None:
    """oracle < MPC < searched runbook < doing nothing, in dollars, on 40 public worlds of Medium."""
    seeds = "seeds=20000-20039"
    results, _ = evaluate(
        compose("eval", ["suite=medium", "agents=[runbook,greedy,mpc]", seeds, "cache=false", "ledger=false"])
    )
    assert results.oracle is not None and results.noop is not None
    mean = {name: float(agent["bill"].mean()) for name, agent in results.agents.items()}
    assert results.oracle.mean() < mean["mpc"] < mean["runbook"] < mean["noop"]
    assert score_of(results, "mpc").mean() > score_of(results, "runbook").mean()
    for name in ("mpc", "greedy"):
        assert (results.agents[name]["bill"] >= results.oracle - 1e-9).mean() >= 0.99


# ---------------------------------------------------------------- nothing seen tells the future
@pytest.mark.parametrize("suite", suite_names())
def test_what_is_seen_does_not_depend_on_the_luck_to_come(suite: str) -> None:
    """Another key for all future draws, in the middle of episodes: not one number or mask bit changes."""
    sim = Simulator(find_scenario(suite), 24)
    sim.reset(10_000 + np.arange(24))
    rng = np.random.default_rng(0)
    for tick in range(60):
        sim.step(random_actions(rng.random((24, 2)), sim.masks, 0.8))
        if tick % 15 == 0:
            observations, masks, keys = sim.observations.copy(), sim.masks.copy(), sim.state.worlds["key"].copy()
            sim.state.worlds["key"] = [mix(key) for key in keys]
            sim.look()
            assert np.array_equal(sim.observations, observations) and np.array_equal(sim.masks, masks)
            sim.state.worlds["key"] = keys
            sim.look()


@pytest.mark.parametrize("suite", suite_names())
def test_no_observed_number_equals_a_future_event(suite: str) -> None:
    """Neither a crash nor a breach nor a burst of the next tick, the one after, or within the next hour.

    If a number did, it would tell apart the ticks before the event from all others: the share of pairs (before an
    event, elsewhere) that it puts in the same order, its ROC area, would be 0 or 1.
    """
    n_worlds = 64
    sim = Simulator(find_scenario(suite), n_worlds)
    sim.reset(10_000 + np.arange(n_worlds))
    ticks = sim.ticks if FULL else min(sim.ticks, 144)
    seen, crashed, breached, burst = [], [], [], []
    for _ in range(ticks):
        seen.append(sim.observations.copy())
        sim.step(np.full(n_worlds, sim.noop), look=True)
        crashed.append(sim.state.resources["status"] == 2)
        breached.append(sim.state.worlds["tick_breaches"] > 0)
        burst.append(sim.state.worlds["burst_ticks"] > 0)
    observations = np.array(seen)
    end = sim.n_slots * N_RESOURCE_FEATURES
    of_resources = observations[:, :, :end].reshape(ticks, n_worlds, sim.n_slots, N_RESOURCE_FEATURES)
    falls = np.array(crashed)
    falls[1:] &= ~falls[:-1]
    present = of_resources[..., 0] > 0
    begins = np.array(burst)
    begins[1:] &= ~begins[:-1]
    checked = 0
    for name, event, numbers, valid in (
        ("crash", falls, of_resources, present),
        ("breach", np.array(breached), observations[:, :, end:], np.ones((ticks, n_worlds), bool)),
        ("burst", begins, observations[:, :, end:], np.ones((ticks, n_worlds), bool)),
    ):
        labels = RESOURCE_FEATURES if numbers.shape[-1] == N_RESOURCE_FEATURES else WORLD_FEATURES
        for delay in (1, 2, 12):  # ticks from what is seen to what happens; the observation of a tick is its start
            ahead = event[delay - 1 :]
            before, ok = numbers[: len(ahead)], valid[: len(ahead)]
            yes, no = before[ok & ahead], before[ok & ~ahead]
            if len(yes) < 8:
                continue
            checked += 1
            for column, label in enumerate(labels):
                area = roc_area(yes[:, column], no[:, column])
                assert 0.001 < area < 0.999, f"{label} tells a {name} {delay} ticks ahead"
    if suite in MAIN:
        assert checked >= 3


def roc_area(yes: np.ndarray, no: np.ndarray) -> float:
    """Probability that a number of `yes` is above one of `no`; equal counts half."""
    no = np.sort(no)
    below, not_above = np.searchsorted(no, yes, "left"), np.searchsorted(no, yes, "right")
    return float((below + not_above).mean() / 2.0 / len(no))


def test_the_roc_area_notices_a_leak() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=1000)
    assert roc_area(np.full(20, 9.0), noise) == 1.0 and roc_area(np.full(20, -9.0), noise) == 0.0
    assert roc_area(np.zeros(20), np.zeros(1000)) == 0.5
    assert 0.2 < roc_area(rng.normal(size=50), noise) < 0.8
