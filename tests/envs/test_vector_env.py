"""The gymnasium VectorEnv: the same, bit for bit, as single environments side by side."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import envs
from envs.cloudops import CloudOpsVectorEnv


def assert_same(a: Any, b: Any, path: str = "") -> None:
    if isinstance(a, dict):
        assert isinstance(b, dict) and set(a) == set(b), (path, set(a) ^ set(b))
        for key in a:
            assert_same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, (path, a.dtype, b.dtype, a.shape, b.shape)
        if a.dtype == object:
            for x, y in zip(a, b, strict=True):
                assert_same(x, y, path)
        else:
            assert np.array_equal(a, b), path
    else:
        assert a == b, path


def choose(rng: np.random.Generator, masks: np.ndarray) -> np.ndarray:
    """Mostly admissible actions, some rejected ones."""
    n = masks.shape[1]
    return np.array([rng.choice(np.flatnonzero(m)) if rng.random() < 0.7 else rng.integers(n) for m in masks])


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("CloudOps-Easy-v1", {}),
        ("CloudOps-Easy-v1", {"safety": "observe", "reward": "cost", "split": "validation"}),
        ("CloudOps-Medium-v1", {"safety": "off"}),
        ("CloudOps-Hard-v1", {"n_slots": 30}),
        ("CloudOps-Stress-Quiet-v1", {}),
    ],
)
def test_it_equals_single_environments(env_id: str, options: dict[str, Any]) -> None:
    n = 3
    native = gym.make_vec(env_id, num_envs=n, **options)
    assert isinstance(native, CloudOpsVectorEnv)
    make = lambda: gym.make(env_id, **options)  # noqa: E731
    single = SyncVectorEnv([make] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    assert native.single_observation_space == single.single_observation_space
    assert native.action_space == single.action_space
    rng = np.random.default_rng(0)
    for seed in (5, None, [1, None, 7]):  # the second reset comes in the middle of an episode
        x, y = native.reset(seed=seed), single.reset(seed=seed)
        assert_same(x[0], y[0]), assert_same(x[1], y[1])
        masks = x[1]["action_mask"]
        for _ in range(native.simulator.ticks + 3 if seed == 5 else 3):
            actions = choose(rng, masks)
            for mine, theirs in zip(x := native.step(actions), single.step(actions), strict=True):
                assert_same(mine, theirs)
            masks = x[4]["action_mask"]


def test_environments_that_end_at_different_times() -> None:
    native = CloudOpsVectorEnv(4, "easy")
    single = SyncVectorEnv([lambda: gym.make("CloudOps-Easy-v1")] * 4, autoreset_mode=AutoresetMode.SAME_STEP)
    native.reset(seed=0), single.reset(seed=0)
    rng = np.random.default_rng(0)
    masks = native.action_masks()
    for t in range(210):
        if t in (30, 61):
            some = np.array([True, False, t == 30, False])
            a, b = native.reset(options={"reset_mask": some}), single.reset(options={"reset_mask": some})
            assert_same(a[0], b[0]), assert_same(a[1], b[1])
            masks = native.action_masks()
        actions = choose(rng, masks)
        for mine, theirs in zip(x := native.step(actions), single.step(actions), strict=True):
            assert_same(mine, theirs)
        masks = x[4]["action_mask"]


def test_final_observation_and_final_info() -> None:
    vec = CloudOpsVectorEnv(5, "easy")
    vec.reset(seed=0)
    for _ in range(96):
        obs, _, terminated, truncated, infos = vec.step(np.full(5, vec.simulator.noop))
    assert terminated.all() and not truncated.any()
    assert infos["_final_obs"].all() and all(final.dtype == np.float32 for final in infos["final_obs"])
    left = vec.single_observation_space.shape[0] - 15  # type: ignore[index]
    assert all(final[left] == 0.0 for final in infos["final_obs"]) and (obs[:, left] > 0.0).all()
    assert infos["final_info"]["is_success"].dtype == np.bool_
    assert infos["final_info"]["metrics"]["bill"].shape == (5,)
    assert np.array_equal(infos["action_mask"] == 1, vec.action_masks())


def test_record_episode_statistics() -> None:
    vec = RecordEpisodeStatistics(gym.make_vec("CloudOps-Easy-v1", num_envs=4))
    _, infos = vec.reset(seed=0)
    total = np.zeros(4)
    for _ in range(96):
        _, rewards, _, _, infos = vec.step(np.full(4, 72))
        total += rewards
    assert infos["episode"]["l"].tolist() == [96] * 4
    assert infos["episode"]["r"] == pytest.approx(total)


def test_rows_do_not_depend_on_the_batch() -> None:
    small, large = CloudOpsVectorEnv(2, "medium"), CloudOpsVectorEnv(9, "medium")
    a, b = small.reset(seed=3)[0], large.reset(seed=3)[0]
    rng = np.random.default_rng(0)
    for _ in range(300):
        assert np.array_equal(a, b[:2])
        actions = choose(rng, large.action_masks())
        a, b = small.step(actions[:2])[0], large.step(actions)[0]


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_a_copy_goes_on_alike(clone: Any) -> None:
    vec = CloudOpsVectorEnv(3, "easy")
    vec.reset(seed=0)
    noops = np.full(3, vec.simulator.noop)
    for _ in range(50):
        vec.step(noops)
    other = clone(vec)
    for _ in range(100):
        a, b = vec.step(noops), other.step(noops)
        assert_same(a[0], b[0]), assert_same(a[1], b[1])


def test_bad_use_is_named() -> None:
    vec = CloudOpsVectorEnv(3, "easy")
    with pytest.raises(gym.error.ResetNeeded):
        vec.step(np.zeros(3, np.int64))
    vec.reset(seed=0)
    with pytest.raises(TypeError, match="whole numbers"):
        vec.step(np.zeros(3))
    with pytest.raises(ValueError, match="shape"):
        vec.step(np.zeros(4, np.int64))
    with pytest.raises(ValueError, match="2 seeds for 3"):
        vec.reset(seed=[1, 2])
    _, _, _, _, infos = vec.step(np.array([-1, 10**9, vec.simulator.noop]))
    assert infos["verdict"].tolist() == ["invalid", "invalid", "admissible"]
    assert vec.render() is None


def test_render_gives_one_text_per_world() -> None:
    vec = gym.make_vec("CloudOps-Easy-v1", num_envs=2, render_mode="ansi")
    vec.reset(seed=0)
    texts = vec.render()
    assert isinstance(texts, tuple) and len(texts) == 2 and "CloudOps-Easy" in texts[0]


def test_every_id_has_a_vector_entry_point() -> None:
    for env_id in envs.IDS:
        assert isinstance(gym.make_vec(env_id, num_envs=2), CloudOpsVectorEnv)
