"""Reward and bill: two ledgers of the same tick, never mixed."""

from __future__ import annotations

from dataclasses import asdict, fields

import numpy as np
import pytest
import yaml

from cloudrl import Simulator
from cloudrl.actions import N_OPS, Op
from cloudrl.measurements import TICK_HOURS
from cloudrl.reward.bill import BILL_PARTS, bill, bill_parts, served_share, won
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.reward.weights import RewardWeights
from cloudrl.scenarios.library import CONFIG_DIR
from cloudrl.types import RUNNING
from tests.core.play import WORLDS, play, random_actions, scenario_of, seed_of

PRESETS = sorted(path.stem for path in (CONFIG_DIR / "reward").glob("*.yaml"))


def preset(name: str) -> RewardWeights:
    """The weights of configs/reward/<name>.yaml."""
    values: dict[str, float] = {}
    data = yaml.safe_load((CONFIG_DIR / "reward" / f"{name}.yaml").read_text())
    for parent in data.pop("defaults", []):
        if parent != "_self_":
            values |= asdict(preset(parent))
    return RewardWeights(**(values | data))


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("weights", PRESETS)
def test_the_breakdown_sums_to_the_reward_exactly(name: str, weights: str) -> None:
    w = preset(weights)
    sim = Simulator(scenario_of(name), 8, reward=w)
    sim.reset([seed_of(b, b) for b in range(8)])
    rng, total, clipped = np.random.default_rng(0), np.zeros(8), 0
    for _ in range(60):
        sim.step(random_actions(rng.random((8, 2)), sim.masks, 0.3))
        s = sim.state.worlds
        r = s[f"reward_{TERM_NAMES[0]}"].copy()
        for term in TERM_NAMES[1:]:  # in the order of the formula: float addition is not associative
            r += s[f"reward_{term}"]
        assert np.array_equal(np.clip(r, -w.clip, w.clip), sim.rewards)
        assert np.array_equal(s["reward"], sim.rewards)
        clipped += int((np.abs(r) > w.clip).sum())
        total += sim.rewards
    assert np.array_equal(total, sim.state.worlds["reward_total"])


def test_terms_are_the_parts_of_the_bill_in_baseline_ticks() -> None:
    """A dollar weighs the same in every term."""
    sim = Simulator(scenario_of("medium"), 8)
    sim.reset(np.arange(8))
    play(sim, 30, noop_share=0.3)
    s, weights = sim.state.worlds, sim.reward_weights
    unit = s["base_cost"] * TICK_HOURS
    np.testing.assert_allclose(s["reward_cost"], 1.0 - s["tick_infrastructure"] / unit)
    np.testing.assert_allclose(s["reward_security"], -s["tick_exposure"] / unit)
    np.testing.assert_allclose(s["reward_reliability"], -s["tick_outage"] / unit)
    rejected = np.where(s["verdict"] > 0, weights.rejection_penalty, 0.0)
    np.testing.assert_allclose(s["reward_action"], -s["tick_labour"] / unit - rejected)
    np.testing.assert_allclose(
        s["reward_failure"], -weights.failure_penalty * (s["tick_crashes"] + s["tick_breaches"])
    )


def test_doing_nothing_in_a_world_without_trouble_earns_nothing() -> None:
    calm = {f"security__{k}": 0.0 for k in ("security_clock", "vulnerability_rate")}
    sim = Simulator(scenario_of("quiet", **calm), 4)
    sim.reset(np.arange(4))
    for _ in range(20):
        sim.step(np.full(4, sim.noop))
        assert np.allclose(sim.rewards, sim.state.worlds["reward_reliability"], atol=1e-12)


def test_the_reward_is_clipped_and_the_breakdown_is_not() -> None:
    tight = RewardWeights(clip=0.01)
    sim, free = Simulator(scenario_of("hard"), 16, reward=tight), Simulator(scenario_of("hard"), 16)
    for s in (sim, free):
        s.reset(np.arange(16))
    for _ in range(20):
        sim.step(np.full(16, sim.noop))
        free.step(np.full(16, free.noop))
        assert (np.abs(sim.rewards) <= 0.01).all()
        for term in TERM_NAMES:
            assert np.array_equal(sim.state.worlds[f"reward_{term}"], free.state.worlds[f"reward_{term}"])
    assert (np.abs(free.rewards) > 0.01).any()


@pytest.mark.parametrize(
    "field", [f.name for f in fields(RewardWeights) if f.name not in ("clip", "rejection_penalty")]
)
def test_every_weight_moves_its_term_alone(field: str) -> None:
    plain, heavy = RewardWeights(), RewardWeights(**{field: 3.0 * getattr(RewardWeights(), field)})
    term = "failure" if field == "failure_penalty" else field
    sims = [Simulator(scenario_of("hard"), 32, reward=w) for w in (plain, heavy)]
    moved = 0
    for s in sims:
        s.reset(np.arange(32))
    for t in range(40):
        action = np.full(32, (t % 10) * N_OPS + (Op.ANALYZE if t < 20 else Op.RESIZE_DOWN))
        for s in sims:
            s.step(action)
        a, b = (s.state.worlds for s in sims)
        for name in TERM_NAMES:
            if name == term:
                np.testing.assert_allclose(b[f"reward_{name}"], 3.0 * a[f"reward_{name}"], atol=1e-12)
                moved += int((a[f"reward_{name}"] != 0).sum())
            else:
                assert np.array_equal(a[f"reward_{name}"], b[f"reward_{name}"])
    assert moved > 0


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_complete_and_named_after_what_they_prefer(name: str) -> None:
    weights, balanced = preset(name), preset("balanced")
    assert asdict(balanced) == asdict(RewardWeights())
    if name != "balanced":
        assert getattr(weights, name) > getattr(balanced, name)


def test_weights_do_not_touch_the_bill() -> None:
    sims = [Simulator(scenario_of("medium"), 4, reward=preset(name)) for name in PRESETS]
    for sim in sims:
        sim.reset([1, 2, 3, 4])
    for actions in play(sims[0], 40):
        for sim in sims[1:]:
            sim.step(actions)
    assert all(np.array_equal(sims[0].bill(), sim.bill()) for sim in sims[1:])


# ---------------------------------------------------------------- the bill


@pytest.mark.parametrize("name", WORLDS)
def test_the_bill_is_the_sum_of_its_ticks(name: str) -> None:
    sim = Simulator(scenario_of(name), 6)
    sim.reset([seed_of(b, b) for b in range(6)])
    sums = {part: np.zeros(6) for part in BILL_PARTS}
    rng = np.random.default_rng(3)
    for _ in range(70):
        sim.step(random_actions(rng.random((6, 2)), sim.masks, 0.4))
        for part in BILL_PARTS:
            tick = sim.state.worlds[f"tick_{part}"]
            assert (tick >= 0.0).all()
            sums[part] += tick
    assert all(np.array_equal(sums[part], value) for part, value in bill_parts(sim.state.worlds).items())
    total = np.zeros(6)
    for part in BILL_PARTS:
        total += sums[part]
    assert np.array_equal(sim.bill(), total) and np.array_equal(bill(sim.state.worlds), total)


def test_an_untouched_world_is_billed_its_baseline() -> None:
    sim = Simulator(scenario_of("quiet"), 4)
    sim.reset(np.arange(4))
    for _ in range(12):
        sim.step(np.full(4, sim.noop))
    w = sim.state.worlds
    running = (sim.state.resources["status"] <= RUNNING).any()
    assert running
    np.testing.assert_allclose(w["infrastructure"], w["base_cost"] * 12 * TICK_HOURS, rtol=1e-12)
    assert (w["labour"] == 0.0).all()


@pytest.mark.parametrize("op", [op for op in Op if op not in (Op.NOOP, Op.START)])
def test_an_operation_costs_its_labour_once(op: Op) -> None:
    name = {"ROTATE_CREDS": "rotate", "RESIZE_DOWN": "resize", "RESIZE_UP": "resize", "STOP": "stop_start",
            "ENABLE_LOGGING": "logging", "RESTRICT_ACCESS": "restrict"}.get(op.name, op.name.lower())  # fmt: skip
    sim = Simulator(scenario_of("medium"), 1)
    sim.reset([0])
    sim.state.resources["credential_days"] = 100.0
    sim.state.resources["size"] = 1
    sim.state.resources["idle"] = 1
    sim.state.resources["critical"] = sim.state.resources["data_bearing"] = 0
    sim.state.groups["idle"] = 1  # nothing in use: nothing is vetoed
    sim.state.resources["job_start"] = -1
    sim.look()
    sim.step([int(op)])
    w = sim.state.worlds[0]
    assert w["verdict"] == 0
    assert w["labour"] == sim.params[0][f"labour_{name}"] * w["labour_factor"] > 0.0
    sim.step([sim.noop])
    assert sim.state.worlds[0]["labour"] == w["labour"] and sim.state.worlds[0]["tick_labour"] == 0.0


# ---------------------------------------------------------------- the win


def winner() -> Simulator:
    """A world that counts as won."""
    sim = Simulator(scenario_of("easy"), 1)
    sim.reset([0])
    sim.step([sim.noop])
    w, base = sim.state.worlds, sim.state.worlds["base_cost"] * TICK_HOURS
    w["traffic"], w["served_traffic"], w["exposure"], w["outage"], w["labour"] = 1.0, 1.0, 0.0, 0.0, 0.0
    w["infrastructure"] = base
    assert sim.won()[0]
    return sim


def test_each_condition_of_the_win_counts_by_itself() -> None:
    p, base = winner().params[0], winner().state.worlds["base_cost"][0] * TICK_HOURS
    limits = {
        "served_traffic": (p["win_served"], -1e-9),
        "exposure": (p["win_breach_loss"] * base, 1e-9 * base),
        "infrastructure": (p["win_bill"] * base, 1e-9 * base),
    }
    for field, (limit, beyond) in limits.items():
        sim = winner()
        if field == "exposure":  # leave room in the bill, so that the breach loss alone decides
            sim.state.worlds["infrastructure"] = 0.0
        sim.state.worlds[field] = limit
        assert sim.won()[0], field
        sim.state.worlds[field] = limit + beyond
        assert not sim.won()[0], field
    for field in ("data_losses", "violations"):
        sim = winner()
        sim.state.worlds[field] = 1
        assert not sim.won()[0], field


@pytest.mark.parametrize("part", BILL_PARTS)
def test_every_part_of_the_bill_counts_against_its_budget(part: str) -> None:
    sim = winner()
    w, p = sim.state.worlds, sim.params[0]
    w["infrastructure"] = 0.0
    w[part] = (p["win_bill"] + 0.01) * w["base_cost"] * TICK_HOURS
    assert not won(sim.params, w)[0]


def test_breaches_and_vetoes_alone_do_not_lose_the_win() -> None:
    sim = winner()
    w = sim.state.worlds
    w["breaches"], w["vetoed"], w["invalid"], w["breach_realised"] = 3, 5, 5, 1e6
    assert sim.won()[0]


def test_served_share_of_a_world_without_traffic_is_one() -> None:
    sim = winner()
    sim.state.worlds["traffic"] = sim.state.worlds["served_traffic"] = 0.0
    assert served_share(sim.state.worlds)[0] == 1.0
