"""Randomness is a function of (world, purpose, tick, resource, slot): no action and no neighbour shifts it."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cloudrl import ImmuneMemory, Simulator
from cloudrl import seeding as kernels
from cloudrl.jit import kernel
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.types import CRASHED, DELETED, LAG, State
from tests.core.play import WORLDS, play, random_actions, same_state, scenario_of, seed_of
from tests.twin import streams

SEEDS = [seed_of(c, 0) for c in range(12)]


# ---------------------------------------------------------------- the generator itself


@kernel
def fill_uniform(key, purpose, n_ticks, n_resources, n_slots, out):  # type: ignore[no-untyped-def]
    for t in range(n_ticks):
        draws = kernels.stream(key, purpose, t)
        for i in range(n_resources):
            for k in range(n_slots):
                out[t, i, k] = kernels.uniform(draws, i, k)


def uniforms(
    seed: int, purpose: int = kernels.LOAD, ticks: int = 400, resources: int = 25, slots: int = 8
) -> np.ndarray:
    out = np.zeros((ticks, resources, slots))
    fill_uniform(np.uint64(kernels.world_key(seed)), purpose, ticks, resources, slots, out)
    return out


@given(
    seed=st.integers(0, 2**62), purpose=st.integers(1, 9), tick=st.integers(0, 100_000),
    resource=st.integers(0, 4_000), slot=st.integers(0, 31),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_a_draw_equals_the_plain_integers(seed: int, purpose: int, tick: int, resource: int, slot: int) -> None:
    key = streams.key_of_seed(seed)
    assert int(kernels.world_key(seed)) == key
    draws = streams.Luck(key).stream(purpose, tick)
    assert int(kernels.stream(np.uint64(key), purpose, tick)) == draws
    assert kernels.uniform(np.uint64(draws), resource, slot) == streams.uniform(draws, resource, slot)


@pytest.mark.parametrize("key", [0, 1, 7, 2**62 + 1, 2**63 - 1])
def test_plain_integers_are_as_good_as_uint64(key: int) -> None:
    """A signed integer plus an unsigned one is a float in numba: without a cast such calls would be wrong."""
    assert int(kernels.mix(key)) == streams.mix(key)
    assert int(kernels.stream(key, 3, 17)) == streams.Luck(key).stream(3, 17)
    assert kernels.uniform(key, 5, 2) == streams.uniform(key, 5, 2)


@pytest.mark.parametrize("key", [2**63, 2**64 - 1])
def test_large_plain_integers_are_right_or_refused(key: int) -> None:
    assert int(kernels.mix(np.uint64(key))) == streams.mix(key)
    for of_key, expected in (
        (lambda: int(kernels.mix(key)), streams.mix(key)),
        (lambda: int(kernels.stream(key, 3, 17)), streams.Luck(key).stream(3, 17)),
        (lambda: kernels.uniform(key, 5, 2), streams.uniform(key, 5, 2)),
    ):
        with contextlib.suppress(OverflowError):
            assert of_key() == expected


def test_splitmix_matches_the_published_sequence() -> None:
    # first outputs of the reference implementation for the state 1234567
    state, expected = 1234567, (6457827717110365317, 3203168211198807973, 9817491932198370423)
    for value in expected:
        assert streams.mix(state) == value == int(kernels.mix(np.uint64(state)))
        state = (state + streams.GOLDEN) & streams.WORD


@pytest.mark.parametrize("seed", [0, 7, 20_001])
def test_uniforms_are_uniform(seed: int) -> None:
    u = uniforms(seed).ravel()
    assert u.min() >= 0.0 and u.max() < 1.0
    counts = np.bincount((u * 64).astype(int), minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest(u, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_neighbouring_draws_are_not_correlated(axis: int) -> None:
    u = np.moveaxis(uniforms(1), axis, 0) - 0.5
    pairs = (u[1:] * u[:-1]).ravel()
    assert abs(pairs.mean()) < 5 * pairs.std() / np.sqrt(len(pairs))


def test_purposes_and_seeds_are_not_correlated() -> None:
    a = uniforms(1).ravel() - 0.5
    for b in (uniforms(2), uniforms(1, kernels.FAILURE), uniforms(10_001)):
        pairs = a * (b.ravel() - 0.5)
        assert abs(pairs.mean()) < 5 * pairs.std() / np.sqrt(len(pairs))


def test_no_two_draws_of_a_tick_share_a_counter() -> None:
    draws = np.concatenate([uniforms(1, purpose, 300, 25, 32).ravel() for purpose in range(1, 10)])
    assert len(np.unique(draws)) == len(draws)


def test_gaussian_is_standard_normal() -> None:
    u = uniforms(3)
    z = np.array([kernels.gaussian(a, b) for a, b in u[:, :, :2].reshape(-1, 2)])
    assert stats.kstest(z, "norm").pvalue > 1e-4


def test_log_uniform_spans_its_range() -> None:
    x = np.array([kernels.log_uniform(u, 0.5, 8.0) for u in uniforms(4)[:, :, 0].ravel()])
    assert x.min() >= 0.5 and x.max() <= 8.0
    assert stats.kstest(np.log(x / 0.5) / np.log(16.0), "uniform").pvalue > 1e-4


# ---------------------------------------------------------------- actions do not shift luck


@pytest.mark.parametrize("name", WORLDS)
def test_actions_never_shift_load_and_forecast(name: str) -> None:
    scenario = scenario_of(name)
    free = SafetyConfig(SafetyMode.off)  # let the second sequence do all the harm it can
    idle, busy = (Simulator(scenario, len(SEEDS), safety=free) for _ in range(2))
    idle.reset(SEEDS)
    busy.reset(SEEDS)
    rng = np.random.default_rng(1)
    for _ in range(min(100, idle.ticks)):
        idle.step(np.full(len(SEEDS), idle.noop))
        busy.step(rng.integers(0, busy.n_actions, len(SEEDS)))
        for field in (
            "load", "noise", "burst", "burst_ticks", "forecast_now", "forecast_peak", "forecast_soon", "key",
        ):  # fmt: skip
            assert np.array_equal(idle.state.worlds[field], busy.state.worlds[field]), field


@pytest.mark.parametrize("name", WORLDS)
def test_actions_never_shift_drift(name: str) -> None:
    """Arrivals of vulnerabilities, exposure and lost logging fall on the same tick whatever was done before."""
    scenario = scenario_of(
        name, failures__failure_rate=0.0, security__breach_isolation_ticks=0, security__vulnerability_rate=0.05,
        drift__exposure_rate=0.02, drift__decryption_rate=0.02, drift__logging_loss_rate=0.02,
        security__security_clock=0.0,
    )  # fmt: skip
    worlds = [Simulator(scenario, len(SEEDS)) for _ in range(2)]
    for sim in worlds:
        sim.reset(SEEDS)
    rng = np.random.default_rng(2)
    arrivals: list[list[np.ndarray]] = [[], []]
    for _ in range(80):
        for k, sim in enumerate(worlds):
            r = sim.state.resources
            before = r["hidden_count"].copy()
            r["exposed"], r["logging"], r["encrypted"] = 0, 1, 1  # so that every arrival shows
            action = np.full(len(SEEDS), sim.noop)
            if k == 1:  # disturb: everything that does not delete a machine or find vulnerabilities
                slot, op = (
                    rng.integers(0, sim.n_slots, len(SEEDS)),
                    rng.choice([1, 2, 3, 4, 5, 6, 8, 9, 10, 11], len(SEEDS)),
                )
                action = slot * 12 + op
            sim.step(action)
            r = sim.state.resources
            arrivals[k].append(np.stack([r["hidden_count"] - before, r["exposed"], r["logging"]]))
    assert sum(int(a[0].sum()) for a in arrivals[0]) > 0
    # encryption is left out: ENCRYPT may end on the tick of the loss
    assert all(np.array_equal(a, b) for a, b in zip(*arrivals, strict=True))


def test_failures_strike_the_same_resources_whatever_was_done_elsewhere() -> None:
    """Crashes by themselves depend on a resource's own health and load, not on how many draws others used."""
    scenario = scenario_of(
        "medium", failures__failure_rate=0.01, failures__health_leak=0.0, failures__initial_health_low=1.0,
        load__utilisation_low=0.01, load__utilisation_high=0.02,
    )  # fmt: skip
    traces = []
    for act in (False, True):
        sim = Simulator(scenario, len(SEEDS))
        sim.reset(SEEDS)
        crashed = []
        for t in range(100):
            action = np.full(len(SEEDS), sim.noop)
            if act:  # operations that neither occupy nor stop a resource
                action = np.full(len(SEEDS), (t % sim.n_slots) * 12 + (3, 10, 11)[t % 3])
            sim.step(action)
            crashed.append(sim.state.resources["incident"].copy())
        traces.append(np.array(crashed))
    assert (traces[0] == 1).sum() > 50
    assert np.array_equal(traces[0] == 1, traces[1] == 1)


# ---------------------------------------------------------------- neighbours, padding, order


def relevant(state: State, b: int) -> list[np.ndarray]:
    """World `b` without what lies in unused slots."""
    w = state.worlds[b]
    edges = int(state.groups["edge_count"][b].sum())
    return [
        state.worlds[b : b + 1], state.groups[b, : w["n_groups"]], state.resources[b, : w["n_resources"]],
        state.edges[b, :edges],
    ]  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_does_not_depend_on_its_neighbours(name: str) -> None:
    scenario = scenario_of(name)
    together, alone = Simulator(scenario, 5), Simulator(scenario, 1)
    together.reset([11, 10_012, 13, 20_014, 15])
    actions = play(together, 60, noop_share=0.3)
    for b, seed in ((0, 11), (3, 20_014)):
        alone.reset([seed])
        for action in actions[:, b]:
            alone.step([action])
        assert same_state(relevant(alone.state, 0), relevant(together.state, b))
        assert np.array_equal(alone.observations[0], together.observations[b])


def test_a_world_does_not_depend_on_the_order_of_the_batch() -> None:
    scenario = scenario_of("hard")
    forward, backward = Simulator(scenario, 6), Simulator(scenario, 6)
    seeds = np.array([3, 10_004, 20_005, 6, 7, 8])
    forward.reset(seeds)
    backward.reset(seeds[::-1])
    for action in play(forward, 60, noop_share=0.3):
        backward.step(action[::-1])
    assert np.array_equal(forward.observations, backward.observations[::-1])
    assert same_state(forward.state, (a[::-1] for a in backward.state))


@pytest.mark.parametrize("name", WORLDS)
def test_padding_changes_nothing(name: str) -> None:
    scenario = scenario_of(name)
    plain = Simulator(scenario, 3)
    padded = Simulator(scenario, 3, n_slots=plain.n_slots + 9)
    for sim in (plain, padded):
        sim.reset([1, 10_002, 20_003])
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = random_actions(rng.random((3, 2)), plain.masks, noop_share=0.3, stray_share=0.0)
        plain.step(actions)
        padded.step(np.where(actions == plain.noop, padded.noop, actions))
        assert np.array_equal(plain.rewards, padded.rewards)
        assert np.array_equal(plain.masks[:, :-1], padded.masks[:, : plain.noop])
        assert not padded.masks[:, plain.noop : -1].any()
    for b in range(3):
        mine, theirs = relevant(plain.state, b), relevant(padded.state, b)
        theirs[0] = theirs[0].copy()
        theirs[0]["executed"] = mine[0]["executed"]  # a flat index: counts slots
        assert same_state(mine, theirs)


def test_a_slot_remembers_nothing_of_the_world_before() -> None:
    scenario = scenario_of("medium")
    used, fresh = Simulator(scenario, 2), Simulator(scenario, 2)
    used.reset([1, 20_001])
    play(used, 200, noop_share=0.2)
    for sim in (used, fresh):
        sim.reset([20_007, 4])
    for actions in play(used, 50):
        fresh.step(actions)
    assert np.array_equal(used.observations, fresh.observations)
    assert all(same_state(relevant(used.state, b), relevant(fresh.state, b)) for b in range(2))


def test_reset_of_some_worlds_leaves_the_others_alone() -> None:
    sim = Simulator(scenario_of("easy"), 4)
    sim.reset([1, 2, 3, 4])
    play(sim, 20)
    before, seen = sim.snapshot(), sim.observations.copy()
    sim.reset([50, 51], which=[1, 3])
    assert same_state((a[[0, 2]] for a in sim.state), (a[[0, 2]] for a in before))
    assert np.array_equal(sim.observations[[0, 2]], seen[[0, 2]])
    assert sim.state.worlds["seed"].tolist() == [1, 50, 3, 51]
    sim.reset([60, 61], which=[False, False, True, True])
    assert sim.state.worlds["seed"].tolist() == [1, 50, 60, 61]
    sim.reset([70], which=np.array([True, False, False, False]))
    assert sim.state.worlds["seed"].tolist() == [70, 50, 60, 61]
    assert np.flatnonzero(sim.idle_totals(np.array([False, True, False, False]))).tolist() == [1]


def test_the_same_seed_gives_the_same_trace() -> None:
    traces = []
    for _ in range(2):
        sim = Simulator(scenario_of("hard"), 4)
        sim.reset([1, 2, 10_003, 20_004])
        play(sim, 100, seed=5)
        traces.append(sim.snapshot())
    assert same_state(*traces)


# ---------------------------------------------------------------- copies


@pytest.fixture
def sim() -> Simulator:
    sim = Simulator(scenario_of("hard"), 3)
    sim.reset([5, 10_006, 20_007])
    play(sim, 40, seed=3, noop_share=0.4)
    return sim


def test_snapshot_and_restore_are_exact(sim: Simulator) -> None:
    whole, one = sim.snapshot(), sim.snapshot(1)
    seen, masks = sim.observations.copy(), sim.masks.copy()
    first = play(sim, 30, seed=1)
    end = sim.snapshot()
    sim.restore(whole)
    assert same_state(sim.state, whole)
    assert np.array_equal(sim.observations, seen) and np.array_equal(sim.masks, masks)
    for actions in first:
        sim.step(actions)
    assert same_state(sim.state, end)
    sim.restore(one, 2)
    assert np.array_equal(sim.observations[2], seen[1])


def test_restore_rejects_a_snapshot_of_another_size(sim: Simulator) -> None:
    with pytest.raises(ValueError, match="another size"):
        Simulator(scenario_of("easy")).restore(sim.snapshot(0))
    with pytest.raises(ValueError, match="another size"):
        sim.restore(sim.snapshot(), 0)


def test_forks_share_the_luck_of_their_world(sim: Simulator) -> None:
    fork = sim.fork(1, 4)
    assert np.array_equal(fork.observations, np.repeat(sim.observations[1:2], 4, axis=0))
    original = sim.fork(1)
    actions = play(original, 60, seed=2, noop_share=0.3)
    for action in actions:
        fork.step(np.repeat(action, 4))
    for b in range(4):
        assert same_state((a[b : b + 1] for a in fork.state), original.state)


def test_a_fork_leaves_its_world_alone(sim: Simulator) -> None:
    before, seen, masks = sim.snapshot(), sim.observations.copy(), sim.masks.copy()
    fork = sim.fork(0, 3)
    play(fork, 50)
    sim.fork(0, 2, luck="resampled")
    assert same_state(sim.state, before)
    assert np.array_equal(sim.observations, seen) and np.array_equal(sim.masks, masks)


def test_resampled_luck_differs_but_starts_from_what_is_known(sim: Simulator) -> None:
    world = sim.fork(2)
    forks = sim.fork(2, 6, luck="resampled", salt=1)
    assert len(set(forks.state.worlds["key"].tolist())) == 6
    assert np.array_equal(forks.observations, np.repeat(world.observations, 6, axis=0))
    public = ("tick", "served", "changes", "base_cost", "value", "labour", "outage", "load", "forecast_peak")
    for field in public:
        assert (forks.state.worlds[field] == world.state.worlds[field]).all(), field
    for field in (
        "status",
        "size",
        "known_count",
        "known_epss",
        "exposure_seen",
        "encrypted",
        "credential_days",
        "busy_ticks",
    ):
        assert (forks.state.resources[field] == world.state.resources[field]).all(), field
    loads = []
    for _ in range(10):
        forks.step(np.full(6, forks.noop))
        loads.append(forks.state.worlds["load"].copy())
    assert len(np.unique(np.array(loads)[-1])) == 6


def test_resampled_luck_is_reproducible_and_salted(sim: Simulator) -> None:
    a, b, c = (sim.fork(1, 3, luck="resampled", salt=s) for s in (4, 4, 5))
    assert same_state(a.state, b.state)
    assert not np.array_equal(a.state.worlds["key"], c.state.worlds["key"])


def test_resampled_forks_carry_nothing_hidden() -> None:
    """Whatever the truth behind an observation, the forks drawn from it are the same."""
    sim = Simulator(scenario_of("hard"), 1)
    sim.reset([9])
    play(sim, 30, seed=1)
    drawn = []
    for truth in (0, 1):
        r = sim.state.resources
        r["hidden_count"], r["hidden_epss"], r["hidden_cvss"] = 5 * truth, 0.9 * truth, 9.0 * truth
        unseen = (r["exposure_seen"] == 0) & (r["logging"] == 0)
        r["exposed"] = np.where(unseen, truth, r["exposed"])
        r["leak"] = 0.001 * (1 + truth)
        r["repair_ticks"] = np.where(r["status"] == CRASHED, 2 + truth, r["repair_ticks"])
        for field in ("past_health", "past_utilisation", "past_latency"):
            late = np.arange(LAG + 1) < r["lag"][:, :, None]  # measured, and not shown yet
            r[field] = np.where(late, 0.3 + 0.1 * truth, r[field])
        drawn.append(sim.fork(0, 8, luck="resampled", salt=3))
    alive = drawn[0].state.resources["status"] < DELETED
    for field in (
        "hidden_count", "hidden_epss", "hidden_cvss", "exposed", "leak", "repair_ticks", "health",
        "past_health", "past_utilisation", "past_latency",
    ):  # fmt: skip
        a, b = (fork.state.resources[field][alive] for fork in drawn)
        assert np.array_equal(a, b), field


def test_resampled_exposure_is_as_likely_as_it_is() -> None:
    """Nobody has looked: the share at the start, and what has come since. Somebody looked: what has come since."""
    start, rate, ticks = 0.2, 0.004, 30
    scenario = scenario_of(
        "medium", start__initial_exposed=start, drift__exposure_rate=rate, start__initial_logged=0.0,
        security__security_clock=0.0,
    )  # fmt: skip
    sim = Simulator(scenario, 1)
    sim.reset([1])
    analyzed = int(np.flatnonzero(sim.state.resources["kind"][0] == 0)[0])
    for t in range(ticks):
        sim.step([analyzed * 12 if t == 0 else sim.noop])
    sim.state.resources["exposure_seen"] = 0
    assert sim.state.resources["ticks_since_analyze"][0, analyzed] < ticks
    forks = sim.fork(0, 4_000, luck="resampled")
    share = forks.state.resources["exposed"][:, : int(sim.state.worlds["n_resources"][0])].mean(axis=0)
    assert share[analyzed] == pytest.approx(rate * (ticks - 1), abs=0.015)
    assert np.delete(share, analyzed) == pytest.approx(start + rate * ticks, abs=0.03)


def test_peek_tells_what_step_does_and_changes_nothing(sim: Simulator) -> None:
    before = sim.snapshot()
    actions = np.flatnonzero(sim.masks[0])
    rewards, dollars = sim.peek(0, actions)
    assert same_state(sim.state, before)
    for action, reward, cost in list(zip(actions, rewards, dollars, strict=True))[::7]:
        world = sim.fork(0)
        start = world.bill()
        world.step([action])
        assert world.rewards[0] == reward
        assert world.bill()[0] - start[0] == cost


def test_idle_totals_are_the_rewards_of_doing_nothing_to_the_end(sim: Simulator) -> None:
    before = sim.snapshot()
    totals = sim.idle_totals()
    assert same_state(sim.state, before)
    while not sim.done.all():
        sim.step(np.full(3, sim.noop), look=False)
    assert np.array_equal(totals, sim.state.worlds["reward_total"])


def test_a_pickled_simulator_resumes_exactly() -> None:
    sim = Simulator(scenario_of("medium"), 3, memory=ImmuneMemory())
    sim.reset([1, 2, 3])
    play(sim, 50, noop_share=0.2)
    twin = pickle.loads(pickle.dumps(sim))
    for actions in play(sim, 60, seed=8, noop_share=0.2):
        twin.step(actions)
    assert same_state(sim.state, twin.state)
    assert np.array_equal(sim.observations, twin.observations)
    assert all(np.array_equal(a, b) for a, b in zip(sim.memory.tables, twin.memory.tables, strict=True))  # type: ignore[union-attr]


# ---------------------------------------------------------------- bad calls


def test_wrong_worlds_and_seeds_are_refused(sim: Simulator) -> None:
    for call in (
        lambda: sim.reset([-1, 0, 1]),
        lambda: sim.reset([1], which=[3]),
        lambda: sim.reset([1], which=[-1]),
        lambda: sim.reset([1], which=[True]),
        lambda: sim.fork(3),
        lambda: sim.fork(-1),
        lambda: sim.fork(0, luck="good"),
        lambda: sim.snapshot(3),
        lambda: sim.step([0]),
        lambda: Simulator(sim.scenario, 0),
        lambda: Simulator(sim.scenario, 1, n_slots=2),
    ):
        with pytest.raises((ValueError, IndexError)):
            call()
