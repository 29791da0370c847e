"""The safety layer: one set of rules gives mask, verdict and what is really executed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudrl import Simulator, engine
from cloudrl.actions import CORE_OPS, N_OPS, START, Op
from cloudrl.jit import kernel
from cloudrl.safety.config import ActionSet, SafetyConfig, SafetyMode
from cloudrl.seeding import POLICY, stream, uniform
from cloudrl.types import ADMISSIBLE, DELETED, INVALID, STOPPED, VETOED
from tests.core.play import FULL, WORLDS, play, scenario_of, seed_of

SHARED = {name: Simulator(scenario_of(name), 4) for name in WORLDS}
"""One simulator per scenario, so that hypothesis does not build one per example."""

fast = settings(max_examples=30 if FULL else 8, deadline=None, suppress_health_check=list(HealthCheck))


def started(name: str, seed: int, ticks: int, noop_share: float = 0.3) -> Simulator:
    """Four worlds somewhere in an episode."""
    sim = SHARED[name]
    sim.reset([seed_of(seed + b, b) for b in range(4)])
    play(sim, ticks, seed, noop_share)
    return sim


played = {"name": st.sampled_from(WORLDS), "seed": st.integers(0, 3_000), "ticks": st.integers(0, 90)}

# ---------------------------------------------------------------- mask and verdict


@fast
@given(**played)
def test_mask_and_verdict_agree_on_every_action(name: str, seed: int, ticks: int) -> None:
    sim = started(name, seed, ticks)
    for b in range(sim.n_worlds):
        for action in range(sim.n_actions):
            verdict = sim.verdict(b, action)
            assert sim.masks[b, action] == (verdict.code == ADMISSIBLE)
            assert (verdict.code == VETOED) == bool(verdict.rules)
            assert (verdict.code == ADMISSIBLE) == (verdict.reason == "")


@fast
@given(**played)
def test_noop_is_always_allowed_so_no_mask_row_is_empty(name: str, seed: int, ticks: int) -> None:
    sim = started(name, seed, ticks, noop_share=0.1)
    assert sim.masks[:, sim.noop].all()
    assert all(sim.verdict(b, sim.noop).code == ADMISSIBLE for b in range(sim.n_worlds))


def test_noop_is_left_when_everything_is_deleted() -> None:
    sim = Simulator(scenario_of("easy"))
    sim.reset([0])
    sim.state.resources["status"] = DELETED
    sim.look()
    assert sim.masks[0].tolist() == [False] * sim.noop + [True]
    sim.step([sim.noop])
    assert np.isfinite(sim.observations).all() and np.isfinite(sim.rewards).all()


@fast
@given(**played)
def test_what_is_asked_for_is_judged_as_the_verdict_said(name: str, seed: int, ticks: int) -> None:
    sim = started(name, seed, ticks)
    actions = np.random.default_rng(seed).integers(0, sim.n_actions, sim.n_worlds)
    verdicts = [sim.verdict(b, int(a)).code for b, a in enumerate(actions)]
    sim.step(actions)
    assert sim.state.worlds["verdict"].tolist() == verdicts
    executed = [a if v == ADMISSIBLE else sim.noop for a, v in zip(actions, verdicts, strict=True)]
    assert sim.state.worlds["executed"].tolist() == executed


@pytest.mark.parametrize("action", [-1, -13, 10_000])
def test_actions_outside_the_space_are_invalid(action: int) -> None:
    sim = Simulator(scenario_of("easy"))
    sim.reset([0])
    assert sim.verdict(0, action).code == INVALID
    sim.step([action])
    w = sim.state.worlds[0]
    assert (w["verdict"], w["invalid"], w["executed"], w["violations"]) == (INVALID, 1, sim.noop, 0)


def test_an_invalid_verdict_says_why() -> None:
    sim = Simulator(scenario_of("easy"))
    sim.reset([0])
    r = sim.state.resources[0, 0]
    r["status"] = STOPPED
    sim.look()
    assert sim.verdict(0, Op.PATCH).reason == f"PATCH makes no sense here: it is stopped, size {r['size']}"
    r["busy_ticks"], r["busy_op"] = 2, Op.START
    sim.look()
    assert sim.verdict(0, Op.START).reason == "START makes no sense here: busy with START for 2 more ticks"


def test_core_actions_mask_the_four_extra_operations() -> None:
    core = Simulator(scenario_of("medium"), 3, safety=SafetyConfig(actions=ActionSet.core))
    full = Simulator(scenario_of("medium"), 3)
    for sim in (core, full):
        sim.reset([1, 2, 3])
    extra = (CORE_OPS >> (np.arange(core.noop) % N_OPS)) & 1 == 0
    for _ in range(50):
        assert not core.masks[:, :-1][:, extra].any()
        assert np.array_equal(core.masks[:, :-1][:, ~extra], full.masks[:, :-1][:, ~extra])
        core.step(np.full(3, core.noop))
        full.step(np.full(3, core.noop))


# ---------------------------------------------------------------- the mask is no fault detector


@fast
@given(**played)
def test_the_mask_tells_nothing_hidden(name: str, seed: int, ticks: int) -> None:
    sim = started(name, seed, ticks)
    masks, rng = sim.masks.copy(), np.random.default_rng(seed)
    r, shape = sim.state.resources, sim.state.resources.shape
    r["hidden_count"] = rng.integers(0, 9, shape)
    r["hidden_epss"] = rng.random(shape)
    r["hidden_cvss"] = 10.0 * rng.random(shape)
    r["exposed"] = np.where(r["exposure_seen"] == 0, rng.integers(0, 2, shape), r["exposed"])
    r["leak"] = rng.random(shape)
    r["repair_ticks"] = rng.integers(1, 50, shape)
    sim.state.worlds["key"] = rng.integers(0, 2**62, sim.n_worlds)
    sim.state.worlds["burst_ticks"] = rng.integers(0, 20, sim.n_worlds)
    sim.look()
    assert np.array_equal(sim.masks, masks)


@fast
@given(**played)
def test_the_mask_does_not_tell_what_is_useful(name: str, seed: int, ticks: int) -> None:
    """A clean machine may be patched, a healthy one restarted, an encrypted one encrypted: legal, and wrong."""
    sim = started(name, seed, ticks)
    masks, r = sim.masks.copy(), sim.state.resources
    for fields in (
        {"known_count": 0, "known_epss": 0.0, "known_cvss": 0.0, "health": 1.0, "encrypted": 1, "logging": 1,
         "exposed": 0, "exposure_seen": 0, "ticks_since_analyze": 0},
        {"known_count": 3, "known_epss": 0.9, "known_cvss": 9.0, "health": 0.2, "encrypted": 0, "logging": 0,
         "exposed": 1, "exposure_seen": 1, "ticks_since_analyze": 5_000},
    ):  # fmt: skip
        for field, value in fields.items():
            r[field] = value
        sim.look()
        assert np.array_equal(sim.masks, masks)


# ---------------------------------------------------------------- millions of steps


@kernel
def pick(mask, key, tick, lawless):  # type: ignore[no-untyped-def]
    """A random action: from the mask, or, `lawless`, any."""
    draws = stream(key, POLICY, tick)
    if uniform(draws, 0, 0) < lawless:
        return int(uniform(draws, 0, 1) * (mask.shape[0] + 4)) - 2
    n = 0
    for a in range(mask.shape[0]):
        n += mask[a]
    k = int(uniform(draws, 0, 2) * n)
    for a in range(mask.shape[0]):
        if mask[a]:
            if k == 0:
                return a
            k -= 1
    return mask.shape[0] - 1


@kernel
def broken_by(rules, w, groups, resources, edges, slot, op, antibodies, scratch):  # type: ignore[no-untyped-def]
    """1 if an operation breaks a rule or makes no sense, judged anew from the state before it runs."""
    r = resources[slot]
    if r.status >= DELETED or r.busy_ticks > 0 or (op == START and r.status != STOPPED):
        return 1
    engine.broken_rules(rules.params[0], w, groups, resources, edges, antibodies, slot, scratch)
    for k in range(scratch.shape[0]):
        if (scratch[k] >> op) & 1:
            return 1
    return 0


@kernel
def walk(rules, tables, state, ticks, lawless, scratch, masks, observations, rewards, actions, judged, counts):  # type: ignore[no-untyped-def]
    """Random play. counts: executed operations, those that broke a rule, verdicts INVALID, VETOED, empty masks."""
    noop = state.resources.shape[1] * N_OPS
    for _ in range(ticks):
        for b in range(state.worlds.shape[0]):
            w = state.worlds[b]
            actions[b] = pick(masks[b], w.key, w.tick, lawless)
            a = actions[b]
            judged[b] = 0
            if 0 <= a < noop:
                judged[b] = broken_by(
                    rules, w, state.groups[b], state.resources[b], state.edges[b],
                    a // N_OPS, a % N_OPS, scratch.antibodies, scratch.rules,
                )  # fmt: skip
        engine.step_batch(rules, tables, state, actions, scratch, rewards, observations, masks, True)
        for b in range(state.worlds.shape[0]):
            w = state.worlds[b]
            if w.executed != noop:
                counts[0] += 1
                counts[1] += judged[b]
            counts[2] += w.verdict == INVALID
            counts[3] += w.verdict == VETOED
            counts[4] += not masks[b].any()


def run(name: str, steps: int, lawless: float, safety: SafetyConfig) -> tuple[np.ndarray, Simulator]:
    """At least `steps` random steps over fresh worlds."""
    n = 64 if steps < 100_000 else 256
    sim = Simulator(scenario_of(name), n, safety=safety)
    counts, done = np.zeros(5, np.int64), 0
    while done < steps:
        first = done // sim.ticks
        sim.reset([seed_of(b, first) for b in range(n)])
        walk(
            sim.rules, sim.tables, sim.state, sim.ticks, lawless, sim.scratch, sim.masks, sim.observations,
            sim.rewards, np.zeros(n, np.int64), np.zeros(n, np.int64), counts,
        )  # fmt: skip
        done += n * sim.ticks
        for field, k in (("invalid", 2), ("vetoed", 3)):
            assert sim.state.worlds[field].sum() <= counts[k]
    return counts, sim


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("lawless", [0.0, 0.5])
def test_in_enforce_no_executed_operation_breaks_a_rule(name: str, lawless: float) -> None:
    counts, sim = run(name, 6_000, lawless, SafetyConfig())
    assert counts[0] > 1_000
    assert counts[1] == 0
    assert (sim.state.worlds["violations"] == 0).all()
    assert (counts[2:4] > 0).all() if lawless else (counts[2:4] == 0).all()
    assert counts[4] == 0


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="CLOUDRL_FULL=1 runs it")
@pytest.mark.parametrize("name", WORLDS)
def test_in_enforce_no_executed_operation_breaks_a_rule_at_full_size(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.perf_counter()
    total = np.zeros(5, np.int64)
    for lawless in (0.0, 0.5):
        counts, _ = run(name, 1_000_000, lawless, SafetyConfig())
        total += counts
        assert counts[1] == 0 and counts[4] == 0
    with capsys.disabled():
        print(
            f"\nsafety {name}: 2,000,000 random steps, {total[0]} operations executed, {total[2]} invalid and "
            f"{total[3]} vetoed ones asked for, {total[1]} rules broken, {time.perf_counter() - start:.0f} s"
        )


def test_observe_executes_vetoed_operations_and_counts_them() -> None:
    counts, sim = run("medium", 6_000, 0.5, SafetyConfig(SafetyMode.observe))
    assert counts[1] == counts[3] > 0  # every vetoed one ran, nothing impossible did
    w = sim.state.worlds
    assert np.array_equal(w["violations"], w["vetoed"]) and w["violations"].sum() > 0


def test_observe_masks_only_what_is_impossible() -> None:
    sim = Simulator(scenario_of("easy"), 1, safety=SafetyConfig(SafetyMode.observe))
    sim.reset([0])
    r = sim.state.resources[0]
    data = int(np.flatnonzero(r["data_bearing"])[0])
    action = data * N_OPS + Op.DELETE
    verdict = sim.verdict(0, action)
    assert sim.masks[0, action] and verdict.code == VETOED and "delete_protected" in verdict.rules
    sim.step([action])
    w = sim.state.worlds[0]
    assert r["status"][data] == DELETED
    assert (w["violations"], w["data_losses"], w["executed"], w["verdict"]) == (1, 1, action, VETOED)


def test_enforce_turns_a_vetoed_operation_into_noop_and_flags_it() -> None:
    sim = Simulator(scenario_of("easy"), 2)
    sim.reset([0, 0])
    data = int(np.flatnonzero(sim.state.resources["data_bearing"][0])[0])
    sim.step([data * N_OPS + Op.DELETE, sim.noop])
    a, b = sim.state.worlds
    assert (a["verdict"], a["vetoed"], a["executed"]) == (VETOED, 1, sim.noop)
    assert (a["violations"], a["data_losses"]) == (0, 0)
    assert np.array_equal(sim.state.resources[0], sim.state.resources[1])
    assert sim.rewards[0] == sim.rewards[1] - sim.reward_weights.action * sim.reward_weights.rejection_penalty
    assert b["vetoed"] == 0


def test_off_forbids_and_counts_nothing() -> None:
    counts, sim = run("medium", 6_000, 0.5, SafetyConfig(SafetyMode.off))
    assert counts[3] == 0
    w = sim.state.worlds
    assert w["violations"].sum() == w["vetoed"].sum() == 0
    assert (sim.state.resources["forbidden"] == 0).all()
    assert w["data_losses"].sum() > 0  # what the rules were there for
