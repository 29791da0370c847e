"""The gymnasium environment: registration, checkers, seeding, masks, infos, copies."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import NameNotFound, ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import envs
from cloudrl import Action, ImmuneMemory, Op, load_scenario
from cloudrl.actions import N_OPS
from cloudrl.observation import N_RESOURCE_FEATURES, N_WORLD_FEATURES
from cloudrl.reward.weights import RewardWeights
from envs.cloudops import CloudOpsEnv

ids = pytest.mark.parametrize("env_id", envs.IDS)


def play(env: gym.Env, steps: int, seed: int = 0) -> list[Any]:
    """Random admissible play: what every step returned, as comparable values."""
    rng = np.random.default_rng(seed)
    mask = env.get_wrapper_attr("action_masks")()
    out = []
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        out.append((obs.tobytes(), reward, terminated, truncated, sorted(info), info["bill"]))
        mask = info["action_mask"]
        if terminated:
            _, info = env.reset()
            mask = info["action_mask"]
    return out


@ids
def test_checkers_pass_without_a_warning(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id, render_mode="ansi").unwrapped)
        sb3_check_env(gym.make(env_id, render_mode="ansi").unwrapped)


@ids
def test_an_episode_ends_at_its_horizon_and_no_time_limit_fires(env_id: str) -> None:
    assert gym.spec(env_id).max_episode_steps is None
    env = gym.make(env_id)
    env.reset(seed=1)
    noop = int(env.action_space.n - 1)  # type: ignore[attr-defined]
    for tick in range(1, env.unwrapped.simulator.ticks + 1):  # type: ignore[attr-defined]
        obs, reward, terminated, truncated, info = env.step(noop)
        assert not truncated and type(terminated) is bool and type(reward) is float
        assert env.observation_space.contains(obs)
        assert terminated == (tick == env.unwrapped.simulator.ticks)  # type: ignore[attr-defined]
    assert type(info["is_success"]) is bool
    figures = info["metrics"]
    assert figures["bill"] == info["bill"] and 0.0 <= figures["served"] <= 1.0
    with pytest.raises(ResetNeeded):
        env.step(noop)


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, envs, envs.cloudops; print([m for m in ('torch', 'stable_baselines3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(NameNotFound, match="CloudOps-Esay"):
        gym.make("CloudOps-Esay-v1")


@pytest.mark.parametrize(
    "options",
    [
        {"scenario": "mediun"},
        {"reward": "blanced"},
        {"safety": "enforced"},
        {"split": "tests"},
        {"render_mode": "human"},
    ],
)
def test_a_wrong_option_names_what_there_is(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"there (is|are) "):
        CloudOpsEnv(**{"scenario": "easy", **options})  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_worlds_and_two_resets_different_ones() -> None:
    first, second = CloudOpsEnv("easy"), CloudOpsEnv("easy")
    a, b = first.reset(seed=3), second.reset(seed=3)
    assert np.array_equal(a[0], b[0]) and a[1]["world_seed"] == b[1]["world_seed"]
    for _ in range(3):  # without a step in between
        a, b = first.reset(), second.reset()
        assert np.array_equal(a[0], b[0])
    worlds = {first.reset()[1]["world_seed"] for _ in range(20)}
    assert len(worlds) >= 19
    assert first.reset(seed=3)[1]["world_seed"] != first.reset(seed=4)[1]["world_seed"]
    assert play(first, 150) != play(second, 150)
    first.reset(seed=8), second.reset(seed=8)
    assert play(first, 150) == play(second, 150)


@pytest.mark.parametrize(
    ("split", "low", "high"), [("train", 0, 10_000), ("validation", 10_000, 20_000), ("test", 20_000, 30_000)]
)
def test_worlds_come_from_the_split(split: str, low: int, high: int) -> None:
    env = CloudOpsEnv("easy", split=split)
    assert all(low <= env.reset()[1]["world_seed"] < high for _ in range(30))


def test_a_world_can_be_picked() -> None:
    env = CloudOpsEnv("easy")
    obs, info = env.reset(options={"world_seed": 12345})
    assert info["world_seed"] == 12345 == env.simulator.state.worlds["seed"][0]
    env.reset()
    assert np.array_equal(obs, env.reset(options={"world_seed": 12345})[0])
    with pytest.raises(ValueError, match="world_sed"):
        env.reset(options={"world_sed": 1})
    with pytest.raises(ValueError, match="negative"):
        env.reset(options={"world_seed": -1})


def test_masks_agree_in_all_ways() -> None:
    env = gym.make("CloudOps-Medium-v1")
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        mask = info["action_mask"]
        method = env.get_wrapper_attr("action_masks")()
        simulator = env.unwrapped.simulator  # type: ignore[attr-defined]
        assert mask.dtype == np.int8 and method.dtype == np.bool_ and mask[-1] == 1
        assert np.array_equal(mask, method) and np.array_equal(method, simulator.masks[0])
        codes = [simulator.verdict(0, a).code for a in range(mask.size)]
        assert np.array_equal(mask == 1, np.array(codes) == 0)
        assert mask[env.action_space.sample(mask)] == 1
        info = env.step(int(rng.choice(np.flatnonzero(mask))))[4]
        assert info["verdict"] == "admissible" and "reason" not in info


def test_a_rejected_action_is_named_and_does_not_run() -> None:
    env = CloudOpsEnv("medium", reward=RewardWeights(rejection_penalty=0.25))
    _, info = env.reset(seed=0)
    blocked = np.flatnonzero(info["action_mask"] == 0)
    verdicts = {int(a): env.simulator.verdict(0, int(a)) for a in blocked}
    names = {v.name for v in verdicts.values()}
    assert names == {"invalid", "vetoed"}
    for action, verdict in verdicts.items():
        env.reset(options={"world_seed": info["world_seed"]})
        _, _, _, _, step = env.step(action)
        assert (step["verdict"], step["rules"], step["reason"]) == (verdict.name, verdict.rules, verdict.reason)
        assert step["executed"] == env.simulator.noop and step["reward/action"] == -0.25
        assert bool(step["rules"]) == (verdict.name == "vetoed") and step["reason"]


@pytest.mark.parametrize("action", [-1, 145, 10**30, np.int64(145), -(10**25)])
def test_an_action_outside_the_space_is_invalid(action: int) -> None:
    env = CloudOpsEnv("medium")
    env.reset(seed=0)
    _, _, _, _, info = env.step(action)
    assert info["verdict"] == "invalid" and "outside" in info["reason"] and info["executed"] == 144


@pytest.mark.parametrize("action", [1.0, "NOOP", None, np.float64(3)])
def test_an_action_that_is_no_number_is_refused(action: Any) -> None:
    env = CloudOpsEnv("easy")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="whole number"):
        env.step(action)


def test_observe_mode_runs_a_vetoed_action_and_says_so() -> None:
    env = CloudOpsEnv("medium", safety="observe")
    env.reset(seed=0)
    vetoed = next(a for a in range(env.simulator.noop) if env.simulator.verdict(0, a).name == "vetoed")
    assert env.action_masks()[vetoed]
    _, _, _, _, info = env.step(vetoed)
    assert info["executed"] == vetoed and info["verdict"] == "vetoed" and info["rules"] and info["reason"]


def test_the_breakdown_sums_to_the_reward_and_the_bill() -> None:
    env = CloudOpsEnv("medium", reward="security")
    _, info = env.reset(seed=5)
    rng, dollars = np.random.default_rng(1), 0.0
    for _ in range(200):
        _, reward, _, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        terms = sum(value for key, value in info.items() if key.startswith("reward/"))
        assert reward == pytest.approx(np.clip(terms, -30, 30), abs=1e-12)
        dollars += sum(value for key, value in info.items() if key.startswith("bill/"))
        assert info["bill"] == pytest.approx(dollars)
    assert env.simulator.reward_weights.security == 3.0


def test_the_core_action_set_masks_the_other_operations() -> None:
    from cloudrl.safety.config import ActionSet, SafetyConfig

    env = CloudOpsEnv("easy", safety=SafetyConfig(actions=ActionSet.core))
    env.reset(seed=0)
    start = Action(Op.RESIZE_UP, 0).index(env.simulator.n_slots)
    assert not env.action_masks()[start]


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("memory", [None, True])
def test_a_copy_in_the_middle_of_an_episode_goes_on_alike(clone: Any, memory: bool | None) -> None:
    env = gym.make("CloudOps-Easy-v1", memory=memory)
    env.reset(seed=2)
    play(env, 40)
    other = clone(env)
    assert play(env, 120) == play(other, 120)  # across the end of the episode
    before = other.unwrapped.simulator.state.worlds.copy()
    play(env, 5)
    assert np.array_equal(before, other.unwrapped.simulator.state.worlds)


def test_returned_arrays_are_copies() -> None:
    env = CloudOpsEnv("easy")
    obs, info = env.reset(seed=0)
    kept, mask = obs.copy(), info["action_mask"].copy()
    for _ in range(10):
        env.step(int(np.flatnonzero(env.action_masks())[0]))
    assert np.array_equal(kept, obs) and np.array_equal(mask, info["action_mask"])


def test_memory_is_shared_or_made() -> None:
    memory = ImmuneMemory()
    env = CloudOpsEnv("easy", memory=memory)
    assert env.simulator.memory is memory
    env.reset(seed=0)
    play(env, 200)
    assert len(memory) > 0 and int(memory.tables.episodes[0]) == 2
    assert CloudOpsEnv("easy").simulator.memory is None


def test_the_direct_kernel_plays_as_the_simulator_does() -> None:
    env = CloudOpsEnv("medium")
    env.reset(seed=9)
    twin = copy.deepcopy(env.simulator)
    rng = np.random.default_rng(3)
    for _ in range(288):
        action = int(rng.integers(env.simulator.n_actions))
        env.step(action)
        twin.step([action])
        assert np.array_equal(env.simulator.observations, twin.observations)
        assert np.array_equal(env.simulator.state.worlds, twin.state.worlds)


def test_the_docstring_names_the_sizes_and_the_keys() -> None:
    text = CloudOpsEnv.__doc__ or ""
    assert f"Box(-10, 10, (N * {N_RESOURCE_FEATURES} + {N_WORLD_FEATURES},), float32)" in text
    assert f"Discrete(N * {N_OPS} + 1)" in text
    assert re.sub(r"\s+", " ", ", ".join(op.name for op in Op if op != Op.NOOP)) in re.sub(r"\s+", " ", text)
    env = CloudOpsEnv("easy", safety="observe")
    env.reset(seed=0)
    assert env.observation_space.shape == (6 * N_RESOURCE_FEATURES + N_WORLD_FEATURES,)
    keys = {key for a in range(96) for key in env.step(a)[4]}
    assert {"rules", "reason", "is_success", "metrics"} <= keys
    assert all(re.sub(r"/.*", "/<", key) in text for key in keys)


def test_the_snippet_of_the_docstring_runs() -> None:
    import doctest

    from envs.cloudops import env as module

    test = doctest.DocTestFinder().find(CloudOpsEnv, "CloudOpsEnv", globs={}, module=module)[0]
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_padding_keeps_the_world() -> None:
    plain, padded = CloudOpsEnv("easy"), CloudOpsEnv(load_scenario("easy"), n_slots=12)
    plain.reset(seed=0), padded.reset(seed=0)
    for _ in range(96):
        a, b = plain.step(plain.simulator.noop), padded.step(padded.simulator.noop)
        assert a[1] == b[1]
    assert not padded.action_masks()[6 * 12 : -1].any()
