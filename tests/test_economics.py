"""The suites are fair: thoughtless play earns nothing, a runbook earns, and reward and bill agree.

Everything is deterministic: validation seeds, scripted policies. Every day 60 worlds per suite are played, with
CLOUDRL_FULL=1 the 200 of docs/calibration.md. Sixty worlds measure less exactly, so there a limit on savings may
be missed by two standard errors of the paired difference: a change that breaks a gate clearly is caught at once,
one that breaks it by a hair in the full run. The rank correlation and "doing nothing loses" get no margin: both
have room.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import yaml

from cloudrl.actions import OP_NAMES
from cloudrl.policies.scripted import RUNBOOKS_FILE, baselines
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.safety.rules import RULES
from cloudrl.scenarios.library import SUITES, load_scenario, scenario_hash
from cloudrl.seeding import VALIDATION_SEEDS
from evaluation.economics import DEGENERATE, QUIET, Gate, Suite, gates, measure, rank_correlation, ranks
from tests.core.play import FULL

N_WORLDS, ERRORS = (200, 0.0) if FULL else (60, 2.0)
DOCS = Path(__file__).resolve().parents[1] / "docs"


@functools.cache
def suite_of(name: str) -> Suite:
    return measure(load_scenario(name), N_WORLDS)


def missed(name: str, *words: str) -> list[Gate]:
    """The gates of a suite whose text holds one of the words, and that are not met."""
    chosen = [gate for gate in gates(suite_of(name), ERRORS) if any(word in gate.text for word in words)]
    assert chosen
    return [gate for gate in chosen if not gate.met]


@pytest.mark.parametrize("name", SUITES)
def test_thoughtless_play_earns_at_most_a_twentieth(name: str) -> None:
    assert missed(name, "at most 1/20") == []


@pytest.mark.parametrize("name", sorted(set(SUITES) - {"quiet"}))
def test_random_play_earns_less_than_a_tenth_of_the_runbook(name: str) -> None:
    assert missed(name, "random play") == []


@pytest.mark.parametrize("name", sorted(set(SUITES) - {"quiet"}))
def test_doing_nothing_loses_to_the_runbooks(name: str) -> None:
    assert missed(name, "doing nothing loses") == []


def test_on_the_quiet_day_nobody_beats_doing_nothing() -> None:
    assert missed("quiet", "no policy beats") == []


@pytest.mark.parametrize("name", SUITES)
def test_reward_and_bill_rank_alike(name: str) -> None:
    assert missed(name, "rank correlation") == []


@pytest.mark.parametrize("name", sorted(set(SUITES) - {"quiet"}))
def test_no_objective_alone_is_the_best_policy(name: str) -> None:
    """Cost, security and reliability must all count, or the suite measures one of them."""
    suite = suite_of(name)
    whole = suite.savings("runbook").mean()
    for part in ("cost-only", "security-only", "reliability-only"):
        assert suite.savings(part).mean() < whole, part


@pytest.mark.parametrize("name", SUITES)
def test_what_is_measured(name: str) -> None:
    """All policies meet the same worlds to their end, nothing unsafe runs, the parts add up to the bill."""
    suite = suite_of(name)
    assert list(suite.worlds) == [policy.name for policy in baselines(suite.name)]
    assert set(DEGENERATE) <= set(suite.worlds)
    for policy, worlds in suite.worlds.items():
        assert worlds["seed"].tolist() == list(range(VALIDATION_SEEDS.start, VALIDATION_SEEDS.start + N_WORLDS))
        assert (worlds["tick"] == suite.scenario.horizon.ticks).all()
        assert (worlds["violations"] == 0).all() and (worlds["data_losses"] == 0).all(), policy
        assert np.allclose(sum(worlds[part] for part in BILL_PARTS), suite.bills[policy])
    assert (suite.worlds["noop"]["operations"] == 0).all()
    assert suite.quiet == (name == "quiet") and load_scenario("quiet").name == QUIET


@pytest.mark.parametrize("name", SUITES)
def test_the_searched_runbook_is_of_these_constants(name: str) -> None:
    scenario = load_scenario(name)
    cure = "run: python scripts/search_runbook.py " + " ".join(SUITES)
    assert RUNBOOKS_FILE.exists(), f"{RUNBOOKS_FILE.name} is missing; {cure}"
    found = yaml.safe_load(RUNBOOKS_FILE.read_text()).get(scenario.name)
    assert found is not None, f"{RUNBOOKS_FILE.name} has no runbook for {scenario.name}; {cure}"
    assert found["scenario_hash"] == scenario_hash(scenario), (
        f"{scenario.name} has changed since the search; {cure}"
    )


def test_the_gates_catch_a_planted_unfairness() -> None:
    """If stopping everything saved half of what the best policy saves, the gate would say so, at any size."""
    suite = suite_of("medium")
    easy_money = suite.worlds["noop"].copy()
    easy_money["outage"] -= 0.5 * suite.savings(suite.best)
    rigged = Suite(suite.scenario, {**suite.worlds, "stop-all": easy_money})
    assert rigged.share("stop-all") == pytest.approx(0.5)
    failed = [gate.text for gate in gates(rigged, ERRORS) if not gate.met]
    assert any(text.startswith("stop-all") for text in failed)


def test_rank_correlation_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 8, 15).astype(float), rng.normal(size=15)
        assert rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
        assert ranks(a) == pytest.approx(stats.rankdata(a) - 1)


def test_the_page_on_the_simulator_names_every_rule_and_operation() -> None:
    page = (DOCS / "simulator.md").read_text()
    for rule in RULES:
        row = next((line for line in page.splitlines() if line.startswith(f"| `{rule.id}` |")), "")
        assert rule.severity in row and rule.reason in row, (
            f"docs/simulator.md: rule {rule.id} is not as in the code"
        )
    for name in OP_NAMES:
        assert f"\n| {name} |" in page, f"docs/simulator.md: the table of operations lacks {name}"
