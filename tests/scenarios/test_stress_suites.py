"""The stress suites: what each punishes, and that the habits of every suite hold for them too.

The gates on degenerate policies run over all suites in tests/test_economics.py, gymnasium's checker in tests/envs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import envs
from cloudrl import Simulator
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.scenarios.library import CONFIG_DIR, SUITES, load_scenario, scenario_hash, shape_names, topology
from cloudrl.scenarios.ranges import check_scenario
from cloudrl.seeding import TEST_SEEDS
from evaluation.stress import LESSONS, Lesson, measure_lesson
from tests.core.play import FULL, random_actions, seed_of
from tests.core.test_parity import compare

STRESS = sorted(name for name in SUITES if name.startswith("stress-"))
DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_file_is_a_suite_with_its_id_and_version() -> None:
    assert sorted(path.stem for path in (CONFIG_DIR / "scenario").glob("stress-*.yaml")) == STRESS
    for name in STRESS:
        scenario = load_scenario(name)
        assert SUITES[name] == f"{scenario.name}-v{scenario.version}" and SUITES[name] in envs.IDS
        assert scenario.name.lower() == "cloudops-stress-" + name.removeprefix("stress-").replace("-", "")
        check_scenario("scenario", scenario)


@pytest.mark.parametrize("name", STRESS)
def test_test_shapes_are_kept_apart(name: str) -> None:
    t = load_scenario(name).topology
    assert t.test and not set(t.test) & {*t.train, *t.validation}
    for shape in shape_names(load_scenario(name)):
        resources = sum(int(s.get("replicas", 1)) for s in topology(shape).values())
        assert resources <= load_scenario(name).slots
        assert name != "stress-topology-shift" or resources == 50


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: f"{lesson.scenario}: {lesson.habit}")
def test_the_habit_that_a_suite_is_made_against_costs_money_there(lesson: Lesson) -> None:
    """On validation worlds; the 95 % interval of the paired difference lies above 0."""
    cost = measure_lesson(lesson, 200 if FULL else 60)
    assert cost.habit.low > 0, f"{lesson.habit}: $ {cost.habit}"
    assert cost.right < cost.idle, "to play right beats doing nothing"


def test_every_suite_has_its_lesson() -> None:
    assert {lesson.scenario for lesson in LESSONS} == set(STRESS)


def test_alarms_that_mean_nothing_cost_nothing_where_there_are_none() -> None:
    """Acting on alarms is bad because they are false: without the flood the same policy loses next to nothing."""
    lesson = next(lesson for lesson in LESSONS if lesson.scenario == "stress-alert-flood")
    flood = measure_lesson(lesson, 30)
    assert flood.habit.mean > 0
    quiet = load_scenario("stress-alert-flood")
    quiet.events = []
    assert measure_lesson(lesson, 30, scenario=quiet).habit.mean < 0.1 * flood.habit.mean


@pytest.mark.parametrize("name", STRESS)
def test_kernels_equal_twin(name: str) -> None:
    ticks = 25 if name == "stress-topology-shift" else 70
    compare(name, ticks, n_twins=1, batches=(1, 3), safety=SafetyConfig())


@pytest.mark.parametrize("name", STRESS)
def test_in_enforce_nothing_unsafe_runs_and_no_world_breaks(name: str) -> None:
    sim = Simulator(load_scenario(name), 16, safety=SafetyConfig(SafetyMode.enforce))
    sim.reset([seed_of(chain, 0) for chain in range(16)])
    rng = np.random.default_rng(3)
    for _ in range(sim.ticks):
        actions = random_actions(rng.random((16, 2)), sim.masks, 0.5, 0.2)
        judged = [sim.verdict(b, int(a)).name for b, a in enumerate(actions)]
        sim.step(actions)
        executed = sim.state.worlds["executed"]
        for b, verdict in enumerate(judged):
            assert executed[b] == (actions[b] if verdict == "admissible" else sim.noop)
        assert np.isfinite(sim.observations).all() and np.abs(sim.observations).max() <= 10.0
        assert sim.masks[:, -1].all()
    w = sim.state.worlds
    assert (w["violations"] == 0).all() and (w["data_losses"] == 0).all()
    assert sim.done.all() and np.isfinite(sim.bill()).all()


@pytest.mark.parametrize("name", STRESS)
def test_every_event_of_a_suite_happens_within_the_day(name: str) -> None:
    scenario = load_scenario(name)
    sim = Simulator(scenario, 50)
    sim.reset(np.arange(TEST_SEEDS.start, TEST_SEEDS.start + 50))
    start = sim.state.worlds["event_start"][:, : len(scenario.events)]
    assert (start >= 12).all() and (start < scenario.horizon.ticks - 12).all(), "not at once, not too late"
    assert bool(scenario.events) == (name not in ("stress-cost-crunch", "stress-topology-shift"))


def test_the_page_has_the_figures_of_these_constants() -> None:
    page = (DOCS / "suites.md").read_text()
    for name in STRESS:
        assert SUITES[name] in page and f"`{name}`" in page
        assert scenario_hash(load_scenario(name)) in page, f"{name}: run python scripts/calibrate.py --only stress"
    for lesson in LESSONS:
        assert lesson.habit in page, f"{lesson.scenario}: run python scripts/calibrate.py --only stress"
