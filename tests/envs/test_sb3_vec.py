"""The Stable-Baselines3 VecEnv: conventions, seeds, control variate, resume, and life inside sb3-contrib."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

from cloudrl import ImmuneMemory, Simulator, load_scenario
from cloudrl.memory.config import MemoryConfig
from envs.cloudops import CloudOpsEnv, CloudOpsSB3VecEnv, make_sb3_vec
from envs.cloudops.seeds import episode_seeds

BOLD = MemoryConfig(veto_bound=0.05, minimum_evidence=1.0)  # a memory that interferes


def choose(rng: np.random.Generator, masks: np.ndarray) -> np.ndarray:
    return np.array([rng.choice(np.flatnonzero(m)) for m in masks])


def play(env: CloudOpsSB3VecEnv, steps: int, seed: int = 0) -> list[Any]:
    """Random admissible play: what every step returned, as comparable values."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(steps):
        obs, rewards, done, infos = env.step(choose(rng, env.action_masks()))
        ends = [(i["episode"]["r"], i["metrics"]) for i in infos if i]
        out.append((obs.tobytes(), rewards.tobytes(), done.tobytes(), env.action_masks().tobytes(), ends))
    return out


def test_what_a_step_returns() -> None:
    env = make_sb3_vec("easy", 5, seed=3)
    obs = env.reset()
    kept = obs.copy()
    everything = []
    for tick in range(1, 97):
        new, rewards, done, infos = env.step(np.full(5, env.simulator.noop))
        assert new.shape == obs.shape and new.dtype == rewards.dtype == np.float32 and done.dtype == np.bool_
        assert not np.shares_memory(new, env.simulator.observations)
        everything += infos
        assert (tick == 96) == bool(done.all()) == bool(infos[0])
    assert np.array_equal(kept, obs) and len({id(info) for info in everything}) == len(everything)
    for i, info in enumerate(infos):
        assert info["TimeLimit.truncated"] is False and type(info["is_success"]) is bool
        assert info["terminal_observation"].shape == obs[i].shape
        assert not np.array_equal(info["terminal_observation"], new[i])
        figures = info["metrics"]
        assert all(type(value) in (int, float) for value in figures.values())
        assert info["episode"]["l"] == 96
        terms = sum(value for key, value in figures.items() if key.startswith("reward/"))
        assert info["episode"]["r"] == pytest.approx(terms)
        assert figures["bill"] == pytest.approx(sum(v for k, v in figures.items() if k.startswith("bill/")))
        assert {"served", "vetoed", "invalid", "cascades", "breaches", "crashes"} <= set(figures)


def test_it_plays_as_the_single_environment_does() -> None:
    env, single = make_sb3_vec("medium", 3, seed=1), CloudOpsEnv("medium")
    obs = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(2):  # episodes
        world = int(env.simulator.state.worlds["seed"][1])
        alone, info = single.reset(options={"world_seed": world})
        for _ in range(288):
            assert np.array_equal(obs[1], alone)
            assert np.array_equal(env.action_masks()[1], single.action_masks())
            actions = choose(rng, env.action_masks())
            obs, rewards, _, infos = env.step(actions)
            alone, reward, terminated, _, info = single.step(actions[1])
            assert rewards[1] == np.float32(reward)
        assert terminated and np.array_equal(infos[1]["terminal_observation"], alone)
        assert infos[1]["is_success"] == info["is_success"]
        assert {k: v for k, v in infos[1]["metrics"].items() if not k.startswith("reward/")} == info["metrics"]


def test_masks_agree_in_all_ways() -> None:
    env = make_sb3_vec("easy", 4)
    env.reset()
    assert is_masking_supported(env) and not env.has_attr("nonsense")
    for _ in range(20):
        masks = env.action_masks()
        assert masks.dtype == np.bool_ and masks.shape == (4, 73) and masks[:, -1].all()
        assert np.array_equal(masks, env.env_method("action_masks"))
        assert np.array_equal(masks, get_action_masks(env))
        assert np.array_equal(masks[[2, 0]], env.env_method("action_masks", indices=[2, 0]))
        kept = masks.copy()
        env.step(choose(np.random.default_rng(0), masks))
        assert np.array_equal(kept, masks)


def test_rows_differ_and_do_not_depend_on_the_batch() -> None:
    small, large = make_sb3_vec("medium", 2, seed=5), make_sb3_vec("medium", 33, seed=5)
    a, b = small.reset(), large.reset()
    assert len(set(large.simulator.state.worlds["seed"].tolist())) == 33
    rng = np.random.default_rng(0)
    for _ in range(300):
        assert np.array_equal(a, b[:2])
        actions = choose(rng, large.action_masks())
        (a, r, _, _), (b, s, _, _) = small.step(actions[:2]), large.step(actions)
        assert np.array_equal(r, s[:2])


@pytest.mark.parametrize(("split", "low"), [("train", 0), ("validation", 10_000), ("test", 20_000)])
def test_seeds_of_episodes(split: str, low: int) -> None:
    env = make_sb3_vec("easy", 50, seed=11, split=split)
    rounds = []
    for _ in range(20):  # two resets without a step between give different worlds
        env.reset()
        rounds.append(env.simulator.state.worlds["seed"].copy())
    seeds = np.array(rounds)
    assert seeds.min() >= low and seeds.max() < low + 10_000
    assert all(len(set(row)) == 50 for row in seeds.tolist())
    assert len(set(seeds.ravel().tolist())) > 900
    assert [info["world_seed"] for info in env.reset_infos] == seeds[-1].tolist()
    env.seed(11)
    env.reset()
    assert np.array_equal(env.simulator.state.worlds["seed"], seeds[0])
    other = make_sb3_vec("easy", 50, seed=12, split=split)
    other.reset()
    assert (other.simulator.state.worlds["seed"] != seeds[0]).mean() > 0.9


def test_worlds_of_a_reset_can_be_picked() -> None:
    env = make_sb3_vec("easy", 3)
    env.set_options([{"world_seed": s} for s in (7, 10_005, 7)])
    obs = env.reset()
    assert env.simulator.state.worlds["seed"].tolist() == [7, 10_005, 7] and np.array_equal(obs[0], obs[2])
    env.reset()
    assert env.simulator.state.worlds["seed"].tolist() != [7, 10_005, 7]


def test_episode_seeds_are_a_permutation() -> None:
    every = episode_seeds(3, range(1000), [4] * 1000, range(500, 1500))
    assert sorted(every.tolist()) == list(range(500, 1500))
    assert episode_seeds(3, [999], [4], range(500, 1500))[0] == every[999]


def test_the_twin_of_noop_cancels_exactly() -> None:
    env = make_sb3_vec("medium", 8, control_variate="noop", memory=MemoryConfig())
    env.reset()
    noops = np.full(8, env.simulator.noop)
    for tick in range(1, 600):
        _, rewards, done, infos = env.step(noops)
        assert not rewards.any(), tick
        if done.any():
            assert all(info["episode"]["r"] != 0.0 for info in infos)


@pytest.mark.parametrize("stagger", [False, True])
def test_the_control_variate_is_the_difference_to_doing_nothing(stagger: bool) -> None:
    plain = make_sb3_vec("easy", 6, seed=2, stagger=stagger)
    lower = make_sb3_vec("easy", 6, seed=2, stagger=stagger, control_variate="noop", reward_scale=0.5)
    nothing = make_sb3_vec("easy", 6, seed=2, stagger=stagger)
    assert np.array_equal(plain.reset(), lower.reset())
    nothing.reset()
    rng = np.random.default_rng(0)
    for _ in range(250):
        actions = choose(rng, plain.action_masks())
        x, y = plain.step(actions), lower.step(actions)
        z = nothing.step(np.full(6, 72))
        assert np.array_equal(x[0], y[0]) and np.array_equal(x[2], z[2])
        assert y[1] == pytest.approx(0.5 * (x[1] - z[1]), abs=1e-5)
        for a, b in zip(x[3], y[3], strict=True):  # statistics are those of the raw reward
            assert not a or (a["episode"]["r"] == b["episode"]["r"] and a["metrics"] == b["metrics"])


def test_staggered_episodes_end_at_different_times() -> None:
    env = make_sb3_vec("easy", 16, stagger=True)
    obs = env.reset()
    single = CloudOpsEnv("easy")
    ticks = env.simulator.state.worlds["tick"]
    assert len(set(ticks.tolist())) > 8
    for i in range(16):
        alone, _ = single.reset(options={"world_seed": int(env.simulator.state.worlds["seed"][i])})
        for _ in range(int(ticks[i])):
            alone = single.step(72)[0]
        assert np.array_equal(alone, obs[i])
    ends = [int(env.step(np.full(16, 72))[2].sum()) for _ in range(96)]
    assert sum(ends) == 16 and max(ends) < 8


def options(name: str) -> dict[str, Any]:
    return {
        "plain": {},
        "twin": {"control_variate": "noop", "reward_scale": 0.1},
        "forks": {"control_variate": "counterfactual"},
        "memory": {"memory": ImmuneMemory(BOLD)},
        "padded": {"n_slots": 9, "stagger": True},
    }[name]


@pytest.mark.parametrize("name", ["plain", "twin", "forks", "memory", "padded"])
@pytest.mark.parametrize("steps", [0, 50, 130])
def test_resume_continues_the_same_stream(name: str, steps: int, tmp_path: Path) -> None:
    env = make_sb3_vec("easy", 6, seed=4, **options(name))
    env.reset()
    play(env, steps)
    state = env.get_state()
    np.savez(tmp_path / "state.npz", **state)
    ahead = play(env, 200, seed=1)

    fresh = make_sb3_vec("easy", 6, seed=99, **options(name))
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        obs = fresh.set_state(saved)
    assert np.array_equal(obs, state["observations"])
    assert play(fresh, 200, seed=1) == ahead
    assert np.array_equal(fresh.reset(), env.reset())


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("name", ["twin", "memory"])
def test_a_copy_goes_on_alike(clone: Any, name: str) -> None:
    env = make_sb3_vec("easy", 4, **options(name))
    env.reset()
    play(env, 50)
    other = clone(env)
    assert play(env, 120, seed=2) == play(other, 120, seed=2)


def test_a_foreign_state_is_refused_and_nothing_changes() -> None:
    env = make_sb3_vec("easy", 4)
    env.reset()
    before = env.get_state()
    for other in (
        make_sb3_vec("easy", 5),
        make_sb3_vec("easy", 4, n_slots=8),
        make_sb3_vec("medium", 4),
        make_sb3_vec("quiet", 4, n_slots=12),
    ):
        other.reset()
        with pytest.raises(ValueError, match="state"):
            env.set_state(other.get_state())
    with pytest.raises(ValueError, match=r"twin\.worlds"):
        make_sb3_vec("easy", 4, control_variate="noop").set_state(before)
    with pytest.raises(ValueError, match="format"):
        env.set_state({**before, "format": np.array(99)})
    after = env.get_state()
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_the_curriculum_may_change_the_scenario() -> None:
    env = make_sb3_vec("easy", 4, seed=1, n_slots=12, memory=ImmuneMemory(BOLD), control_variate="noop")
    spaces = env.observation_space, env.action_space
    env.reset()
    play(env, 30)
    memory = env.memory
    obs = env.set_scenario("medium")
    assert env.scenario.name == "CloudOps-Medium" and env.memory is memory and obs.shape == (4, *spaces[0].shape)
    assert (env.observation_space, env.action_space) == spaces
    assert (env.simulator.state.worlds["tick"] == 0).all()
    done = [env.step(np.full(4, env.simulator.noop))[2].all() for _ in range(288)]
    assert done.index(True) == 287
    state = env.get_state()
    later = make_sb3_vec("easy", 4, seed=7, n_slots=12, memory=ImmuneMemory(BOLD), control_variate="noop")
    with pytest.raises(ValueError, match="set_scenario"):
        later.set_state(state)
    later.set_scenario(load_scenario("medium"))
    later.set_state(state)
    assert play(later, 40) == play(env, 40)
    with pytest.raises(ValueError, match="n_slots"):
        env.set_scenario("hard")


def test_actions_are_checked() -> None:
    env = make_sb3_vec("easy", 3)
    env.reset()
    with pytest.raises(TypeError, match="whole numbers"):
        env.step(np.zeros(3))
    with pytest.raises(ValueError, match="shape"):
        env.step(np.zeros(4, np.int64))
    env.step(np.array([-1, 9999, 72]))
    assert env.simulator.state.worlds["invalid"].tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="control variate"):
        make_sb3_vec("easy", 3, control_variate="np")


def test_attributes_and_methods() -> None:
    env = make_sb3_vec("easy", 3)
    env.reset()
    assert env.get_attr("render_mode") == [None] * 3 and env.get_attr("split", indices=[0]) == ["train"]
    assert env.env_is_wrapped(Monitor) == [False] * 3
    env.set_attr("reward_scale", 2.0)
    assert env.reward_scale == 2.0
    with pytest.raises(ValueError, match="all environments"):
        env.set_attr("reward_scale", 1.0, indices=0)
    with pytest.raises(AttributeError, match="nonsense"):
        env.env_method("nonsense")
    assert "CloudOps-Easy" in env.env_method("render", indices=1)[0]


def test_wrappers() -> None:
    env = VecNormalize(VecMonitor(make_sb3_vec("easy", 4)), norm_reward=True)
    assert is_masking_supported(env)
    env.reset()
    for _ in range(96):
        obs, _, done, infos = env.step(choose(np.random.default_rng(0), get_action_masks(env)))
    assert done.all() and infos[0]["episode"]["l"] == 96 and "metrics" in infos[0] and np.isfinite(obs).all()


def test_stock_maskable_ppo_learns_and_is_evaluated(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    train = make_sb3_vec("easy", 8, control_variate="noop", reward_scale=0.1)
    watch = VecMonitor(make_sb3_vec("easy", 4, split="validation"))
    model = MaskablePPO("MlpPolicy", train, n_steps=16, batch_size=64, n_epochs=1, seed=0, device="cpu")
    callback = MaskableEvalCallback(watch, n_eval_episodes=4, eval_freq=16, log_path=str(tmp_path), verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Training and eval env are not of the same type")
        model.learn(8 * 16 * 7, callback=callback)
    assert callback.evaluations_timesteps and len(model.ep_info_buffer or ()) == 8
    assert train.simulator.state.worlds["invalid"].sum() == train.simulator.state.worlds["vetoed"].sum() == 0
    mean, _ = evaluate_policy(model, watch, n_eval_episodes=8, deterministic=False)
    assert np.isfinite(mean)


def test_an_unpadded_simulator_is_not_needed_for_the_twin() -> None:
    env = make_sb3_vec(load_scenario("easy"), 2, control_variate="noop", n_slots=10)
    assert isinstance(env.twin, Simulator) and env.twin.n_slots == 10 and env.twin.memory is None
