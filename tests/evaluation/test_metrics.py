"""Figures of an episode: against a simulator stepped by hand, against hand-computed cases, and on their page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cloudrl.actions import DISRUPTIVE_OPS, N_OPS, NOOP, Op
from cloudrl.compose import load_scenario
from cloudrl.llm.parse import Code
from cloudrl.policies import scripted
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.simulator import Simulator
from evaluation.metrics import (
    GATES,
    METRICS,
    REJECTED,
    SLO_TARGET,
    Recorder,
    diversity,
    gate_values,
    missed_gates,
    slo_breached,
)
from evaluation.rollout import play_episodes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
SEEDS = np.arange(10_000, 10_006)


@pytest.fixture(scope="module")
def medium() -> Recorder:
    recorder = Recorder()
    play_episodes(scripted.handwritten(), load_scenario("medium", {"horizon.ticks": 100}), SEEDS, on_tick=recorder)
    return recorder


def test_figures_are_those_of_a_simulator_stepped_by_hand(medium: Recorder) -> None:
    sim = Simulator(load_scenario("medium", {"horizon.ticks": 100}), len(SEEDS))
    sim.reset(SEEDS)
    keys, breached, disturbed = sim.state.worlds["key"].copy(), np.zeros(6, int), np.zeros(6, int)
    for tick in range(sim.ticks):
        actions = scripted.handwritten().act(sim.observations, sim.masks, keys, tick)
        for b, action in enumerate(actions):
            slot, op = divmod(int(action), N_OPS)
            if action != sim.noop and DISRUPTIVE_OPS >> op & 1:
                r = sim.state.resources[b, slot]
                disturbed[b] += not r["idle"] and r["status"] != 2
        sim.step(actions)
        w = sim.state.worlds
        breached += w["served"] * (1 - w["slow"]) < 0.99
        assert (medium.actions[:, tick] == w["executed"]).all()
    m = medium.metrics()
    assert (m["slo_breaches"] == breached).all() and breached.any()
    assert (m["disruptions"] == disturbed).all() and disturbed.any()
    assert np.allclose(sum(m[part] for part in BILL_PARTS), m["bill"]) and (m["bill"] == sim.bill()).all()
    assert (m["won"] == sim.won()).all()
    for name in ("crashes", "cascades", "breaches", "exposure_hours", "operations", "max_blast"):
        assert (m[name] == sim.state.worlds[name]).all(), name


def test_operations_are_counted_by_kind(medium: Recorder) -> None:
    ops = medium.ops
    assert ops.shape == (6, N_OPS + 1) and (ops.sum(axis=1) == 100).all()
    assert (ops[:, :NOOP].sum(axis=1) == medium.metrics()["operations"]).all()


def test_diversity() -> None:
    ops = np.zeros((4, N_OPS + 1), int)
    ops[1, Op.PATCH] = 9  # one kind only
    ops[2, :N_OPS] = 3  # all kinds alike
    ops[3, [Op.PATCH, Op.RESTART]] = 5  # two kinds alike
    ops[:, NOOP] = 50  # does not count
    assert diversity(ops) == pytest.approx([0.0, 0.0, 1.0, np.log(2) / np.log(12)])


def test_the_service_level_counts_late_answers() -> None:
    worlds = np.zeros(4, [("served", float), ("slow", float)])
    worlds["served"], worlds["slow"] = [1.0, 0.985, 1.0, 0.995], [0.0, 0.0, 0.02, 0.001]
    assert slo_breached(worlds).tolist() == [False, True, True, False]


def test_gates_are_missed_one_by_one() -> None:
    good = {
        "violations": np.zeros(4), "data_losses": np.zeros(4), "served": np.full(4, 0.995),
        "vetoed": np.zeros(4), "invalid": np.zeros(4), "disruptions": np.array([0, 4, 4, 4]),
        "unnecessary": np.array([0, 0, 2, 4]), "json_valid": np.ones(4),
    }  # fmt: skip
    assert missed_gates(good, 100) == []
    bad = {
        "safety": ("violations", [0, 0, 0, 1]), "data": ("data_losses", [0, 1, 0, 0]),
        "service": ("served", [1.0, 1.0, 1.0, 0.9]), "asking": ("vetoed", [0, 0, 0, 5]),
        "calm": ("unnecessary", [0, 3, 3, 3]), "json": ("json_valid", [1.0, 1.0, 1.0, 0.9]),
    }  # fmt: skip
    assert set(bad) == set(GATES)
    for gate, (metric, values) in bad.items():
        assert missed_gates(good | {metric: np.array(values)}, 100) == [gate]
    assert missed_gates({"served": np.ones(3)}, 100) == []  # what nobody measured is not held against an agent
    assert gate_values(good, 100)["unnecessary_share"].tolist() == [0.0, 0.0, 0.5, 1.0]


def test_without_rules_executed_violations_show_up() -> None:
    recorder = Recorder()
    safety = SafetyConfig(mode=SafetyMode.observe)
    reckless = scripted.constant(Op.RESTART)

    class Unmasked:
        name = "unmasked"

        def act(self, view):  # type: ignore[no-untyped-def]
            return np.full(view.n_worlds, (view.tick % view.n_slots) * N_OPS + reckless.argument)

    play_episodes(Unmasked(), load_scenario("easy"), SEEDS, safety=safety, on_tick=recorder)
    assert (recorder.metrics()["violations"] > 0).all()
    assert "safety" in missed_gates(recorder.metrics(), recorder.sim.ticks)


def test_nothing_played_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was played"):
        Recorder().metrics()


def test_the_page_defines_every_metric_and_gate() -> None:
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \|.*$", PAGE, re.MULTILINE)}
    for name, metric in METRICS.items():
        assert name in rows, f"docs/metrics.md lacks {name}"
        assert f"| {metric.unit} |" in rows[name], f"docs/metrics.md: {name} has another unit"
    for name, gate in GATES.items():
        assert f"| {name} | {gate.text}" in PAGE, f"docs/metrics.md lacks the gate {name}"
    assert f"{REJECTED}<code>" in PAGE
    for code in Code:
        assert code is Code.ok or f"`{code}`" in PAGE, code
    assert f"{100 * SLO_TARGET:g} %" in PAGE
