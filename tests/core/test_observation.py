"""What an agent sees, over every scenario: bounded, finite, alive, and nothing hidden."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cloudrl import Simulator
from cloudrl.actions import N_OPS, Op
from cloudrl.measurements import CREDENTIAL_LIMIT_DAYS, TICKS_PER_DAY
from cloudrl.observation import (
    DEPENDENCY_COLUMNS,
    N_RESOURCE_FEATURES,
    N_WORLD_FEATURES,
    RESOURCE_COLUMN,
    RESOURCE_FEATURES,
    WORLD_COLUMN,
    WORLD_FEATURES,
    bounds,
    names,
    size,
    stake_to_ticks,
)
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.types import DELETED, LAG, QUEUE, VM
from tests.core.play import WORLDS, play, random_actions, scenario_of, seed_of


def blocks(sim: Simulator) -> np.ndarray:
    """(B, N, features) of the resources."""
    end = sim.n_slots * N_RESOURCE_FEATURES
    return sim.observations[:, :end].reshape(sim.n_worlds, sim.n_slots, N_RESOURCE_FEATURES)


def seen(sim: Simulator, name: str) -> np.ndarray:
    """(B, N) of one feature."""
    return blocks(sim)[:, :, RESOURCE_COLUMN[name]]


def walk(name: str, n_worlds: int = 48, ticks: int = 100) -> Iterator[Simulator]:
    """Random play with and without rules, from several seeds: everything that can happen should."""
    for mode in (SafetyMode.enforce, SafetyMode.observe):
        sim = Simulator(scenario_of(name), n_worlds, safety=SafetyConfig(mode))
        sim.reset([seed_of(b, b) for b in range(n_worlds)])
        yield sim
        rng, shares = np.random.default_rng(0), np.resize([0.2, 0.7, 0.97], n_worlds)
        for _ in range(ticks):
            sim.step(random_actions(rng.random((n_worlds, 2)), sim.masks, shares))
            yield sim


# ---------------------------------------------------------------- habits of every suite


@pytest.mark.parametrize("name", WORLDS)
def test_observations_stay_within_their_bounds(name: str) -> None:
    for sim in walk(name):
        low, high = bounds(sim.n_slots)
        assert sim.observations.dtype == low.dtype == np.float32
        assert np.isfinite(sim.observations).all()
        assert (sim.observations >= low).all() and (sim.observations <= high).all()
        assert np.isfinite(sim.rewards).all()


def test_observations_of_a_very_long_episode_stay_within_their_bounds() -> None:
    sim = Simulator(scenario_of("medium", horizon__ticks=288 * 14))
    sim.reset([0])
    low, high = bounds(sim.n_slots)
    assert (sim.observations >= low).all() and (sim.observations <= high).all()


def constant_by_design(sim: Simulator) -> set[str]:
    """Features that this scenario's constants and shapes leave no room to move. Everything else must move."""
    p, stakes, head = sim.params[0], sim.scenario.stakes, sim.blueprints.heads
    shape = [sim.blueprints.resources[t, :n] for t, n in enumerate(head["n_resources"])]
    plans = np.concatenate(shape)
    groups = np.concatenate([sim.blueprints.groups[t, :n] for t, n in enumerate(head["n_groups"])])
    fixed = {"memory_risk"}  # no memory in these tests
    fixed |= {f for f in ("critical", "data_bearing", "multi_az", "idle") if len(np.unique(plans[f])) == 1}
    fixed |= {f for k, f in enumerate(("vm", "database", "cache", "queue")) if not (plans["kind"] == k).any()}
    fixed |= {f"dependency_{k}" for k in range(4) if groups["edge_count"].max() <= k}
    if (head["n_resources"] == sim.n_slots).all():
        fixed |= {"present"}
    jobs = np.where(plans["job"] >= 0, plans["job"], p["job_probability"])
    if not jobs[(plans["idle"] == 1) & (plans["kind"] == VM)].any():
        fixed |= {"job_ahead", "job_running"}
    if p["initial_logged"] == 1 and p["logging_loss_rate"] == 0:
        fixed |= {"logging", "stake_logging"}
    if p["initial_encrypted"] == 1 and p["decryption_rate"] == 0:
        fixed |= {"encrypted", "stake_encryption"}
    if p["initial_exposed"] == p["exposure_rate"] == 0:
        fixed |= {"exposure_seen", "stake_exposure"}
    if p["initial_vulnerabilities"] == p["vulnerability_rate"] == 0:
        fixed |= {"known_count", "known_epss", "known_cvss", "stake_vulnerabilities", "stake_unknown"}
    if p["initial_credential_days"] + p["security_clock"] * p["ticks"] / TICKS_PER_DAY <= CREDENTIAL_LIMIT_DAYS:
        fixed |= {"stake_credentials"}
    if p["initial_health_low"] == 1 and p["health_leak"] == 0:
        fixed |= {"health"}
    for feature, stake in (
        ("value", "value"),
        ("breach_factor", "breach_factor"),
        ("burst_factor", "burst_factor"),
    ):
        if getattr(stakes, f"{stake}_low") == getattr(stakes, f"{stake}_high"):
            fixed |= {f"world.{feature}"}
    if len(shape) == 1 and ((plans["size"] >= 0) | (plans["kind"] == QUEUE)).all():
        fixed |= {"world.base_cost"}
        if stakes.labour_factor_low == stakes.labour_factor_high:
            fixed |= {"world.labour_unit"}
    return fixed


@pytest.mark.parametrize("name", WORLDS)
def test_no_feature_is_constant_over_worlds_and_play(name: str) -> None:
    """A column that never moves teaches nothing: it is a bug, or a scenario without the thing it shows."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for sim in walk(name):
        features = {f: seen(sim, f) for f in RESOURCE_FEATURES}
        of_world = sim.observations[:, -N_WORLD_FEATURES:]
        features |= {f"world.{f}": of_world[:, k] for k, f in enumerate(WORLD_FEATURES)}
        present = seen(sim, "present") > 0
        for f, values in features.items():
            if f in RESOURCE_FEATURES and f != "present":
                values = values[present]
            low[f] = min(low.get(f, np.inf), float(values.min()))
            high[f] = max(high.get(f, -np.inf), float(values.max()))
    assert {f for f in low if low[f] == high[f]} == constant_by_design(sim)


@pytest.mark.parametrize("name", WORLDS)
def test_copies_share_no_memory(name: str) -> None:
    sim = Simulator(scenario_of(name), 2)
    sim.reset([0, 1])
    copies = [sim.fork(0), sim.fork(0, luck="resampled")]
    kept = [sim.snapshot()]
    for other in copies:
        assert not np.shares_memory(sim.observations, other.observations)
        assert not np.shares_memory(sim.masks, other.masks)
        assert not any(np.shares_memory(a, b) for a, b in zip(sim.state, other.state, strict=True))
    assert not any(np.shares_memory(a, b) for a, b in zip(sim.state, kept[0], strict=True))


@pytest.mark.parametrize("name", WORLDS)
def test_names_have_the_length_of_the_observation(name: str) -> None:
    sim = Simulator(scenario_of(name))
    labels = names(sim.n_slots)
    assert len(labels) == len(set(labels)) == size(sim.n_slots) == sim.observations.shape[1]
    assert labels[0] == "r0.present" and labels[-N_WORLD_FEATURES] == "world.time_passed"


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_hidden_is_seen(name: str) -> None:
    sim = Simulator(scenario_of(name), 6)
    sim.reset([seed_of(b, b) for b in range(6)])
    rng = np.random.default_rng(1)
    for ticks in (0, 1, 40):
        play(sim, ticks, noop_share=0.3)
        before = sim.observations.copy()
        r, shape = sim.state.resources, sim.state.resources.shape
        saved = sim.snapshot()
        r["hidden_count"] = rng.integers(0, 9, shape)
        r["hidden_epss"], r["hidden_cvss"] = rng.random(shape), 10.0 * rng.random(shape)
        r["exposed"] = np.where(r["exposure_seen"] == 0, rng.integers(0, 2, shape), r["exposed"])
        r["leak"] = rng.random(shape)
        r["repair_ticks"] = rng.integers(1, 50, shape)
        r["incident"] = rng.integers(0, 4, shape)
        late = np.arange(LAG + 1) < r["lag"][:, :, None]  # measured, and not shown yet
        for field in ("past_health", "past_utilisation", "past_latency"):
            r[field] = np.where(late, rng.random((*shape, LAG + 1)), r[field])
        r["health"] = np.where(r["lag"] > 0, rng.random(shape), r["health"])
        w = sim.state.worlds
        w["key"] = rng.integers(0, 2**62, 6)
        w["noise"], w["burst"], w["burst_ticks"] = rng.random(6), rng.random(6), rng.integers(0, 20, 6)
        w["exposure"], w["tick_exposure"], w["reward"] = rng.random(6), rng.random(6), rng.random(6)
        sim.look()
        assert np.array_equal(sim.observations, before)
        sim.restore(saved)


# ---------------------------------------------------------------- single features


def test_empty_slots_are_zero_and_present_ones_say_so() -> None:
    sim = Simulator(scenario_of("easy"), 2, n_slots=9)
    sim.reset([0, 1])
    play(sim, 10)
    n = int(sim.state.worlds["n_resources"][0])
    assert (seen(sim, "present")[:, :n] == 1.0).all()
    assert not blocks(sim)[:, n:].any()


@pytest.mark.parametrize("name", WORLDS)
def test_one_hot_features_are_one_hot(name: str) -> None:
    for sim in walk(name, n_worlds=12, ticks=60):
        present = seen(sim, "present")
        for members in (("vm", "database", "cache", "queue"), ("running", "stopped", "crashed", "deleted")):
            assert np.array_equal(sum(seen(sim, m) for m in members), present)


@pytest.mark.parametrize("name", WORLDS)
def test_pointers_lead_to_the_first_replica_of_the_dependency(name: str) -> None:
    sim = Simulator(scenario_of(name), 6)
    sim.reset([seed_of(b, b) for b in range(6)])
    s = sim.state
    for b in range(6):
        for i in range(s.worlds["n_resources"][b]):
            g = s.groups[b, s.resources[b, i]["group"]]
            edges = s.edges[b, g["edge_first"] : g["edge_first"] + g["edge_count"]][: len(DEPENDENCY_COLUMNS)]
            expected = [int(s.groups[b, e["target"]]["first"]) for e in edges]
            found = blocks(sim)[b, i, list(DEPENDENCY_COLUMNS)] * sim.n_slots - 1.0
            assert np.rint(found[found > -0.5]).astype(int).tolist() == expected


def test_analyze_shows_what_was_hidden_and_patch_removes_the_known() -> None:
    sim = Simulator(scenario_of("easy", security__vulnerability_rate=0.0, security__security_clock=0.0), 1)
    sim.reset([0])
    r = sim.state.resources[0, 0]
    r["hidden_count"], r["hidden_epss"], r["hidden_cvss"] = 2, 0.25, 7.0
    sim.look()
    assert not any(seen(sim, f)[0, 0] for f in ("known_count", "known_epss", "known_cvss"))
    sim.step([Op.ANALYZE])
    shown = [float(seen(sim, f)[0, 0]) for f in ("known_count", "known_epss", "known_cvss")]
    assert shown == pytest.approx([0.5, 0.25, 0.7])
    r["hidden_count"], r["hidden_epss"] = 1, 0.5
    sim.step([Op.PATCH])
    assert sim.masks is not None and seen(sim, "known_epss")[0, 0] == 0.0
    assert (r["hidden_count"], r["hidden_epss"]) == (1, 0.5)  # PATCH clears known vulnerabilities only


def test_exposure_is_unseen_until_somebody_looks_or_logs() -> None:
    for reveal in (Op.ANALYZE, Op.ENABLE_LOGGING):
        sim = Simulator(scenario_of("easy", security__security_clock=0.0), 1)
        sim.reset([0])
        r = sim.state.resources[0, 0]
        r["logging"], r["exposed"], r["exposure_seen"] = 0, 1, 0
        sim.step([sim.noop])
        assert seen(sim, "exposure_seen")[0, 0] == 0.0
        sim.step([int(reveal)])
        assert seen(sim, "exposure_seen")[0, 0] == 1.0
        sim.step([int(Op.RESTRICT_ACCESS)])
        assert seen(sim, "exposure_seen")[0, 0] == 0.0 and r["exposed"] == 0


def test_late_sensors_show_the_past() -> None:
    sim = Simulator(scenario_of("hard"), 8)
    sim.reset(np.arange(8))
    lag = sim.state.resources["lag"]
    assert set(np.unique(lag[:, : sim.state.worlds["n_resources"].min()])) == set(
        range(sim.params[0]["lag_ticks_max"] + 1)
    )
    history = [sim.state.resources["health"].copy()]
    for _ in range(12):
        sim.step(np.full(8, sim.noop))
        history.append(sim.state.resources["health"].copy())
    for k in range(LAG + 1):
        where = (lag == k) & (sim.state.resources["status"] < DELETED)
        assert np.array_equal(seen(sim, "health")[where], history[-1 - k][where].astype(np.float32))


def test_false_alarms_have_their_rate_and_true_ones_are_never_missing() -> None:
    sim = Simulator(scenario_of("quiet", sensors__false_alarm_rate=0.1), 64)
    sim.reset(np.arange(64))
    raised = []
    for _ in range(20):
        sim.step(np.full(64, sim.noop))
        raised.append(seen(sim, "alarm").mean())
    assert np.mean(raised) == pytest.approx(0.1, abs=0.01)
    sim.state.resources["health"] = 0.2
    sim.step(np.full(64, sim.noop))
    n = sim.state.worlds["n_resources"]
    assert all((seen(sim, "alarm")[b, : n[b]] == 1.0).all() for b in range(64))


@pytest.mark.parametrize("name", WORLDS)
def test_stakes_of_what_is_in_order_are_zero(name: str) -> None:
    sim = Simulator(scenario_of(name), 4)
    sim.reset([seed_of(b, b) for b in range(4)])
    r = sim.state.resources
    r["known_epss"], r["exposure_seen"], r["encrypted"], r["logging"] = 0.0, 0, 1, 1
    r["credential_days"], r["ticks_since_analyze"] = 0.0, 0
    sim.look()
    for cure in ("vulnerabilities", "unknown", "credentials", "exposure", "encryption", "logging"):
        assert not seen(sim, f"stake_{cure}").any(), cure
    r["known_epss"], r["exposure_seen"], r["credential_days"], r["ticks_since_analyze"] = 0.5, 1, 400.0, 200
    r["encrypted"], r["logging"], r["data_bearing"] = 0, 0, 1
    sim.look()
    present = seen(sim, "present") > 0
    for cure in ("vulnerabilities", "credentials", "exposure", "encryption", "logging", "price"):
        assert (seen(sim, f"stake_{cure}")[present] > 0.0).all(), cure


def test_managed_queues_have_no_stake_in_vulnerabilities() -> None:
    sim = Simulator(scenario_of("medium"), 6)
    sim.reset(np.arange(6))
    queue = sim.state.resources["kind"] == QUEUE
    for _ in range(40):
        play(sim, 1)
        for stake in ("vulnerabilities", "unknown"):
            assert not seen(sim, f"stake_{stake}")[queue].any()
    forks = sim.fork(0, 32, luck="resampled")
    kinds = forks.state.resources["kind"]
    assert not forks.state.resources["hidden_count"][kinds == QUEUE].any()
    assert forks.state.resources["hidden_count"][kinds != QUEUE].any()


def test_the_price_stake_is_dollars_until_the_end_in_baseline_ticks() -> None:
    sim = Simulator(scenario_of("medium"), 4)
    sim.reset(np.arange(4))
    play(sim, 10)
    w = sim.state.worlds
    for b in range(4):
        n = int(w["n_resources"][b])
        running = [i for i in range(n) if sim.state.resources["status"][b, i] in (0, 2)]
        total = sum(stake_to_ticks(float(seen(sim, "stake_price")[b, i])) for i in running)
        price = sum(
            r["unit_price"] * (1.0 if r["kind"] == 3 else 2.0 ** r["size"])
            for r in sim.state.resources[b, running]
        )  # fmt: skip
        assert total == pytest.approx(price / w["base_cost"][b] * (sim.ticks - w["tick"][b]), rel=1e-4)


def test_time_is_told() -> None:
    sim = Simulator(scenario_of("easy"), 1)
    sim.reset([0])
    start = len(sim.observations[0]) - N_WORLD_FEATURES
    for t in range(sim.ticks):
        passed, left = sim.observations[0, start : start + 2]
        assert passed == pytest.approx(t / sim.ticks) and left == pytest.approx((sim.ticks - t) / 288)
        assert not sim.done[0]
        sim.step([sim.noop])
    assert sim.done[0] and sim.observations[0, start + 1] == 0.0


def test_load_over_forecast_compares_the_tick_just_played_with_what_was_forecast_for_it() -> None:
    calm = scenario_of("medium", load__noise_sd=0.0, load__bursts_per_tick=0.0)
    for scenario in (calm, scenario_of("medium")):
        sim = Simulator(scenario, 4)
        sim.reset(np.arange(4))
        for _ in range(30):
            ratio = sim.observations[:, WORLD_COLUMN["load_over_forecast"] - N_WORLD_FEATURES]
            w = sim.state.worlds
            surprise = np.exp(w["noise"]) * w["burst"]
            np.testing.assert_allclose(ratio, surprise, rtol=1e-6)
            sim.step(np.full(4, sim.noop))


def test_the_change_budget_is_shown_as_the_part_that_is_used() -> None:
    for budget in (1.0, 4.0):
        sim = Simulator(scenario_of("medium", safety_limits__change_budget=budget), 1)
        sim.reset([0])
        for used in (0.0, budget, 2.0 * budget):
            sim.state.worlds["changes"] = used
            sim.look()
            assert sim.observations[0, WORLD_COLUMN["changes"] - N_WORLD_FEATURES] == pytest.approx(used / budget)


def test_the_schedule_of_jobs_is_shown_however_far_ahead_and_stays_in_resampled_forks() -> None:
    sim = Simulator(scenario_of("medium", jobs__job_probability=1.0), 32)
    sim.reset(np.arange(32))
    for _ in range(3):
        start, now = sim.state.resources["job_start"], sim.state.worlds["tick"][:, None]
        ahead = np.where((start > now) & (seen(sim, "present") > 0), start - now, 0)
        assert ahead.max() > 100
        np.testing.assert_allclose(48.0 * seen(sim, "job_ahead")[ahead > 0], ahead[ahead > 0], rtol=1e-5)
        assert np.array_equal(sim.fork(3, 2, luck="resampled").state.resources["job_start"][1], start[3])
        play(sim, 20)


def test_a_busy_resource_shows_how_long() -> None:
    sim = Simulator(scenario_of("medium"), 1)
    sim.reset([0])
    slot = int(
        np.flatnonzero(
            sim.masks[0, :-1].reshape(-1, N_OPS)[:, Op.ENCRYPT] & (sim.state.resources["kind"][0] == 1)
        )[0]
    )
    sim.step([slot * N_OPS + Op.ENCRYPT])
    ticks = sim.params[0]["encrypt_database_ticks"] - 1
    assert seen(sim, "busy")[0, slot] == 0.25 * ticks
    assert not sim.masks[0, :-1].reshape(-1, N_OPS)[slot].any()
