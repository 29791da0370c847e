"""What an act is worth by forks, and the training reward that rests on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch as th
from sb3_contrib import MaskablePPO

from cloudrl.actions import ANALYZE, N_OPS
from cloudrl.compose import load_scenario
from cloudrl.config import WarmStart
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.policies.lookahead import FOLLOW_UP, Lookahead
from cloudrl.seeding import VALIDATION_SEEDS
from cloudrl.simulator import Simulator
from envs.cloudops.sb3 import CloudOpsSB3VecEnv
from evaluation.agents.networks import action_logits_and_values
from tests.trainers.short_runs import short_config
from trainers.common import build, warm_start
from trainers.common.validation import TUNING_START


def worlds_somewhere(n: int = 5, ticks: int = 11, name: str = "easy", **options: Any) -> Simulator:
    """Worlds in which a few random things were done."""
    sim = Simulator(load_scenario(name, {"horizon.ticks": 40}), n, **options)
    sim.reset(np.arange(n) + 7)
    rng = np.random.default_rng(0)
    for _ in range(ticks):
        acts = np.argmax(np.where(sim.masks, rng.random(sim.masks.shape), -1), axis=1)
        sim.step(np.where(rng.random(n) < 0.3, acts, sim.noop))
    return sim


def by_hand(sim: Simulator, world: int, action: int, follow_up: bool) -> float:
    """The episode's reward of a fork that acts now, and then does nothing (or patches what ANALYZE found)."""
    fork = sim.fork(world)
    fork.step([action])
    while not fork.done.all():
        tick = int(fork.state.worlds["tick"][0])
        acts = FOLLOW_UP.act(fork.observations, fork.masks, fork.state.worlds["key"], tick)
        fork.step(acts if follow_up else [fork.noop])
    return float(fork.state.worlds["reward_total"][0])


@pytest.mark.parametrize("name", ["easy", "medium"])
def test_worth_is_what_forks_played_by_hand_say(name: str) -> None:
    sim = worlds_somewhere(name=name)
    rng = np.random.default_rng(1)
    candidates = np.array([rng.permutation(np.flatnonzero(m[:-1]))[:6] for m in sim.masks])
    analyze = [next(a for a in np.flatnonzero(m[:-1]) if a % N_OPS == ANALYZE) for m in sim.masks]
    candidates[:, 2] = analyze
    for row in candidates:  # one ANALYZE in a row is measured, in the third place
        row[[i for i in range(6) if i != 2 and row[i] % N_OPS == ANALYZE]] = sim.noop
    before = sim.state.copy()
    worth = Lookahead(sim).worth(candidates)
    for b in range(sim.n_worlds):
        for c, action in enumerate(candidates[b]):
            asks = c == 2
            expected = by_hand(sim, b, int(action), asks) - by_hand(sim, b, sim.noop, asks)
            assert worth[b, c] == pytest.approx(expected, abs=1e-9), (b, action)
    assert (worth[candidates == sim.noop] == 0.0).all()
    assert all(
        np.array_equal(mine[n], theirs[n]) for mine, theirs in zip(sim.state, before) for n in mine.dtype.names
    )


def test_a_second_analyze_in_a_row_is_not_measured() -> None:
    sim = worlds_somewhere()
    asking = np.array([[a for a in np.flatnonzero(m[:-1]) if a % N_OPS == ANALYZE][:2] for m in sim.masks])
    worth = Lookahead(sim).worth(asking)
    assert np.isfinite(worth[:, 0]).all() and np.isnan(worth[:, 1]).all()


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_counterfactual_rewards_sum_to_what_the_episode_gained(scale: float) -> None:
    """Telescoping: the sum over an episode is its reward less that of the same world left alone."""
    scenario = load_scenario("easy", {"horizon.ticks": 40})
    env = CloudOpsSB3VecEnv(scenario, 6, 3, control_variate="counterfactual", memory=False, reward_scale=scale)
    env.reset()
    rng = np.random.default_rng(2)
    seeds = env.simulator.state.worlds["seed"].copy()
    alone = Simulator(scenario, 6)
    alone.reset(seeds)
    total = np.zeros(6)
    for _ in range(scenario.horizon.ticks):
        masks = env.action_masks()
        acts = np.argmax(np.where(masks, rng.random(masks.shape), -1), axis=1)
        acts = np.where(rng.random(6) < 0.15, acts, env.simulator.noop)
        gained = env._advance(acts).copy()  # float64, before the cast to float32
        assert (np.abs(gained) < 59.9).all(), "a clip was hit: take other seeds"
        total += gained
        alone.step(np.full(6, alone.noop))
    expected = env.simulator.state.worlds["reward_total"] - alone.state.worlds["reward_total"]
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(total, expected, atol=1e-9, rtol=0)


def test_forks_write_no_memory() -> None:
    memory = ImmuneMemory()
    sim = worlds_somewhere(memory=memory)
    before = [table.copy() for table in memory.tables]
    noop_and_more = np.column_stack([np.argmax(sim.masks, axis=1), np.full(sim.n_worlds, sim.noop)])
    Lookahead(sim).worth(noop_and_more)
    sim.idle_totals()
    fork = sim.fork(0, 3)
    for _ in range(20):
        fork.step(np.argmax(fork.masks, axis=1))
    assert all(np.array_equal(a, b) for a, b in zip(before, memory.tables, strict=True))


@pytest.mark.parametrize("k", [2, 7, 8])
def test_candidates_are_admissible_and_distinct(k: int) -> None:
    rng = np.random.default_rng(0)
    masks = rng.random((200, 25)) < 0.4
    masks[:, -1] = True
    masks[0, :-1] = False  # nothing but NOOP
    masks[1, 1:-1], masks[1, 0] = False, True  # one action
    logits = rng.normal(size=masks.shape).astype(np.float32)
    candidates = warm_start._candidates(logits, masks, k, rng)
    assert candidates.shape == (200, k)
    for row, mask in zip(candidates, masks):
        acts = row[row < 24]
        assert mask[row].all() and len(set(acts)) == len(acts)
        available = int(mask[:-1].sum())
        assert len(acts) == min(available, k) or available < k
    assert (candidates[0] == 24).all() and set(candidates[1]) == {0, 24}


def test_behaviour_is_admissible_and_waits_at_first() -> None:
    rng = np.random.default_rng(0)
    masks = rng.random((4000, 9)) < 0.5
    masks[:, -1] = True
    logits = np.zeros(masks.shape, np.float32)
    shares = []
    for done in (0.0, 0.5):
        acts = warm_start._behave(logits, masks, done, rng)
        assert masks[np.arange(len(masks)), acts].all()
        shares.append((acts == 8).mean())
    assert shares[0] > 0.6 > 0.35 > shares[1]


def test_the_actor_learns_the_worth_of_actions(tmp_path: Any) -> None:
    config = short_config(tmp_path, "warm_start.states=1200")
    worlds = build.make_worlds(config, config.scenario, None)
    losses = []
    for seed in (0, 0):
        model = build.make_model(config, worlds)
        sim = Simulator(config.scenario, 8)
        facts: list[dict[str, float]] = []
        warm_start.warm_start(model, sim, config.warm_start, seed, lambda n, f, facts=facts: facts.append(f))
        losses.append([f["warm_start/loss"] for f in facts if f["warm_start/loss"]])
    assert losses[0] == losses[1]  # the same seed, the same labels and weights
    assert np.mean(losses[0][-20:]) < 0.8 * np.mean(losses[0][:20])


@pytest.mark.parametrize("policy", ["set", "mlp"])
def test_noop_is_shifted_by_as_much_as_asked(policy: str, tmp_path: Any) -> None:
    config = short_config(tmp_path, f"ppo.policy={policy}")
    worlds = build.make_worlds(config, config.scenario, None)
    model = build.make_model(config, worlds)
    obs = th.as_tensor(worlds.reset())
    with th.no_grad():
        before = action_logits_and_values(model.policy, obs)[0]
        build.shift_noop(model, 1.5)
        after = action_logits_and_values(model.policy, obs)[0]
    np.testing.assert_allclose((after - before)[:, -1], 1.5, atol=1e-5)
    assert th.equal(after[:, :-1], before[:, :-1])


def test_no_state_means_no_warm_start() -> None:
    settings = WarmStart(states=0)
    policy = th.nn.Linear(1, 1)
    model = cast(MaskablePPO, SimpleNamespace(policy=policy))
    weight = policy.weight.clone()
    warm_start.warm_start(model, Simulator(load_scenario("easy"), 2), settings, 0)
    assert th.equal(policy.weight, weight)


def test_worlds_of_the_table_are_not_those_of_tuning() -> None:
    config_worlds = 5_000
    assert VALIDATION_SEEDS.start + config_worlds <= TUNING_START < VALIDATION_SEEDS.stop
