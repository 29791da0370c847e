"""The set network's symmetries, and agents whose answers do not depend on the batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from evaluation.agents.networks import SetPolicy, action_logits_and_values
from evaluation.agents.policy_agent import PolicyAgent, save_policy
from evaluation.agents.set_ops import live_pool, neighbour_mean
from tests.trainers.toy_env import ToyVecEnv

th.set_num_threads(1)
NAMES = {"resource": ["present", "urgency"], "world": ["time_left"]}
POLICIES = ["mlp", "set", "edges"]


def make_policy(kind: str = "set", n_slots: int = 12, seed: int = 0, **kwargs: Any) -> MaskableActorCriticPolicy:
    env = ToyVecEnv(1, n_slots)
    th.manual_seed(seed)
    if kind == "mlp":
        policy = MaskableActorCriticPolicy(
            env.observation_space, env.action_space, lambda _: 1e-3, net_arch=[32, 16]
        )
    else:
        arguments = {**env.set_policy_kwargs, "use_dependencies": kind == "edges", **kwargs}
        policy = SetPolicy(env.observation_space, env.action_space, lambda _: 1e-3, **arguments)
    with th.no_grad():
        for p in policy.parameters():  # the small initial heads would hide differences
            p.add_(th.randn_like(p) * 0.1)
    return policy


def worlds(n: int, n_slots: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations, masks and keys of n worlds in the middle of their episodes."""
    env = ToyVecEnv(n, n_slots, seed=seed)
    env.reset()
    for _ in range(5):
        env.step(np.full(n, n_slots * env.n_ops))
    return env._obs(), env.action_masks(), np.random.default_rng(seed).integers(0, 2**63, n).astype(np.uint64)


def outputs(policy: MaskableActorCriticPolicy, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with th.no_grad():
        logits, values = action_logits_and_values(policy, th.from_numpy(obs))
    return logits.numpy(), values.numpy()


@pytest.mark.parametrize("kind", POLICIES)
def test_outputs_are_those_of_the_policy_class(kind: str) -> None:
    policy, (obs, _, _) = make_policy(kind), worlds(7)
    logits, values = outputs(policy, obs)
    with th.no_grad():
        distribution = policy.get_distribution(th.from_numpy(obs)).distribution
        expected = policy.predict_values(th.from_numpy(obs)).flatten()
    np.testing.assert_allclose(
        logits - np.logaddexp.reduce(logits, 1, keepdims=True), distribution.logits, atol=1e-5
    )
    np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["set", "edges"])
def test_reordered_resources_reorder_the_logits(kind: str) -> None:
    n, n_slots = 9, 12
    policy, (obs, _, _) = make_policy(kind), worlds(n)
    env = ToyVecEnv(1, n_slots)
    order = np.random.default_rng(1).permutation(n_slots)
    table = obs[:, :-3].reshape(n, n_slots, -1)[:, order].copy()
    first = env.resource_features - 4
    new_slot = np.argsort(order)
    slots = np.rint(table[..., first:] * n_slots).astype(int)  # slot + 1 of each dependency
    table[..., first:] = np.where(slots > 0, (new_slot[slots - 1] + 1) / n_slots, 0)
    moved = np.concatenate([table.reshape(n, -1), obs[:, -3:]], 1).astype(np.float32)

    (logits, values), (moved_logits, moved_values) = outputs(policy, obs), outputs(policy, moved)
    ops = logits[:, :-1].reshape(n, n_slots, -1)[:, order].reshape(n, -1)
    np.testing.assert_allclose(moved_logits[:, :-1], ops, atol=1e-5)
    np.testing.assert_allclose(moved_logits[:, -1], logits[:, -1], atol=1e-5)
    np.testing.assert_allclose(moved_values, values, atol=1e-5)


@pytest.mark.parametrize("kind", ["set", "edges"])
def test_padding_changes_nothing(kind: str) -> None:
    n, small, large = 9, 12, 30
    policy, (obs, _, _) = make_policy(kind, small), worlds(n)
    table = obs[:, :-3].reshape(n, small, -1)
    padded = np.zeros((n, large, table.shape[2]), np.float32)
    padded[:, :small] = table
    padded[:, :small, -4:] *= small / large  # a slot's number is told relative to N
    wide = np.concatenate([padded.reshape(n, -1), obs[:, -3:]], 1)

    (logits, values), (wide_logits, wide_values) = outputs(policy, obs), outputs(policy, wide)
    np.testing.assert_allclose(wide_logits[:, : logits.shape[1] - 1], logits[:, :-1], atol=1e-5)
    np.testing.assert_allclose(wide_logits[:, -1], logits[:, -1], atol=1e-5)
    np.testing.assert_allclose(wide_values, values, atol=1e-5)


def test_dependencies_are_read_only_when_asked() -> None:
    obs = worlds(9)[0]
    changed = obs.copy()
    changed[:, :-3].reshape(9, 12, -1)[..., -4:] = 1
    for kind in ("set", "edges"):
        policy = make_policy(kind)
        same = np.array_equal(outputs(policy, obs)[0], outputs(policy, changed)[0])
        assert same == (kind == "set")


def test_impossible_dependencies_are_harmless() -> None:
    obs = worlds(9)[0]
    obs[:, :-3].reshape(9, 12, -1)[..., -4:] = 1e9
    assert np.isfinite(outputs(make_policy("edges"), obs)[0]).all()


def test_trained_at_12_runs_at_30() -> None:
    small, large = make_policy(n_slots=12), make_policy(n_slots=30, seed=1)
    large.load_state_dict(small.state_dict())
    obs, masks, keys = worlds(5, 30)
    np.testing.assert_array_equal(outputs(small, obs)[0], outputs(large, obs)[0])
    actions = PolicyAgent(small).choose(obs, masks, keys, 0)
    assert masks[np.arange(5), actions].all()


def test_noop_bias_is_the_initial_noop_logit() -> None:
    env = ToyVecEnv(4, 4)
    arguments = env.set_policy_kwargs
    policy = SetPolicy(env.observation_space, env.action_space, lambda _: 1e-3, noop_bias=3.0, **arguments)
    logits, _ = outputs(policy, env.reset())
    np.testing.assert_allclose(logits[:, -1], 3.0, atol=0.3)
    np.testing.assert_allclose(logits[:, :-1], 0.0, atol=0.3)


def test_layout_that_does_not_fit_is_refused() -> None:
    env = ToyVecEnv(1, 4)
    arguments = {**env.set_policy_kwargs, "world_features": 4}
    with pytest.raises(ValueError, match="do not fit"):
        SetPolicy(env.observation_space, env.action_space, lambda _: 1e-3, **arguments)


def _to_other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make set_ops take the path of other devices."""
    monkeypatch.setattr(th.Tensor, "device", property(lambda self: th.device("meta")))


@pytest.mark.parametrize("op", ["pool", "neighbours"])
def test_kernels_equal_the_torch_operations(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    th.manual_seed(0)
    encodings = th.randn(6, 5, 8).relu_()
    live = (th.rand(6, 5) < 0.7).float()
    live[0] = 0
    neighbours = th.randint(-1, 5, (6, 5, 4), dtype=th.int32)
    results = []
    for other in (False, True):
        x = encodings.clone().requires_grad_()
        with monkeypatch.context() as patch:
            if other:
                _to_other_device(patch)
            out = th.cat(live_pool(x, live), 1) if op == "pool" else neighbour_mean(x, neighbours)
        weight = th.linspace(-1, 1, out.numel()).view_as(out)
        (out * weight).sum().backward()
        assert x.grad is not None
        # where an encoding is 0 the derivative of the maximum is not unique, and relu stops it anyway
        results.append((out.detach(), x.grad * (encodings > 0)))
    th.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_choices_do_not_depend_on_the_batch(kind: str, deterministic: bool) -> None:
    n = 600
    agent = PolicyAgent(make_policy(kind), deterministic=deterministic)
    obs, masks, keys = worlds(n)
    ticks = np.arange(n) % 7
    together = agent.choose(obs, masks, keys, ticks)
    assert masks[np.arange(n), together].all()
    order = np.random.default_rng(0).permutation(n)
    np.testing.assert_array_equal(
        agent.choose(obs[order], masks[order], keys[order], ticks[order]), together[order]
    )
    for i in range(0, n, 97):
        alone = slice(i, i + 1)
        assert agent.choose(obs[alone], masks[alone], keys[alone], int(ticks[i])) == together[i]


@pytest.mark.parametrize("kind", POLICIES)
def test_logits_are_bit_identical_alone_and_among_others(kind: str) -> None:
    n = 256
    agent = PolicyAgent(make_policy(kind))
    obs = worlds(n)[0]
    together = agent._logits(obs)
    order = np.random.default_rng(0).permutation(n)
    np.testing.assert_array_equal(agent._logits(obs[order]), together[order])
    np.testing.assert_array_equal(agent._logits(obs[31:32])[0], together[31])
    np.testing.assert_array_equal(agent._logits(obs[100:177]), together[100:177])


def test_sampled_choices_change_with_tick_and_key() -> None:
    agent = PolicyAgent(make_policy(), deterministic=False)
    obs, masks, keys = worlds(200)
    first = agent.choose(obs, masks, keys, 0)
    assert (first != agent.choose(obs, masks, keys, 1)).any()
    assert (first != agent.choose(obs, masks, keys + np.uint64(1), 0)).any()
    np.testing.assert_array_equal(first, agent.choose(obs, masks, keys, np.zeros(200, int)))


def test_noop_offset_shifts_deterministic_choices() -> None:
    policy, (obs, masks, keys) = make_policy(), worlds(50)
    noop = masks.shape[1] - 1
    assert (PolicyAgent(policy, noop_offset=100.0).choose(obs, masks, keys, 0) == noop).all()
    never = PolicyAgent(policy, noop_offset=-100.0).choose(obs, masks, keys, 0)
    assert ((never != noop) | (masks[:, :-1].sum(1) == 0)).all()


def test_world_without_valid_action_is_an_error() -> None:
    obs, masks, keys = worlds(300)
    masks[290] = False
    for deterministic in (True, False):
        with pytest.raises(ValueError, match="world 290"):
            PolicyAgent(make_policy(), deterministic=deterministic).choose(obs, masks, keys, 0)


@pytest.mark.parametrize("kind", POLICIES)
def test_saved_policy_acts_the_same(kind: str, tmp_path: Path) -> None:
    policy, (obs, masks, keys) = make_policy(kind), worlds(300)
    save_policy(policy, tmp_path / "p", observation_version=2, feature_names=NAMES, notes={"steps": 10})
    before = th.random.get_rng_state()
    agent = PolicyAgent.load(tmp_path / "p", observation_version=2, feature_names=NAMES, deterministic=False)
    assert th.equal(th.random.get_rng_state(), before)
    expected = PolicyAgent(policy, deterministic=False)
    np.testing.assert_array_equal(agent._logits(obs[:256]), expected._logits(obs[:256]))
    np.testing.assert_array_equal(agent.choose(obs, masks, keys, 3), expected.choose(obs, masks, keys, 3))
    assert agent.description["notes"] == {"steps": 10}
    assert sorted(p.name for p in (tmp_path / "p").iterdir()) == ["model.safetensors", "policy.json"]


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "policy.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / "policy.json").unlink(), "no such file"),
        (lambda p: (p / "model.safetensors").unlink(), "no such file"),
        (lambda p: (p / "policy.json").write_text("{"), "not JSON"),
        (lambda p: (p / "policy.json").write_bytes(b"\xff\xfe"), "not JSON"),
        (lambda p: (p / "policy.json").write_text("[1]"), "not a policy"),
        (lambda p: (p / "model.safetensors").write_bytes(b"junk"), "not the weights"),
        (lambda p: _edit(p, format="other"), "not a policy"),
        (lambda p: _edit(p, format_version=9), "format version 9"),
        (lambda p: _edit(p, architecture="transformer"), "unknown architecture"),
        (lambda p: _edit(p, arguments={"width": 3}), "do not fit"),
        (lambda p: _edit(p, n_actions=7), "do not fit"),
        (lambda p: _edit(p, observation_version=1), "observation version 1, this is version 2"),
        (lambda p: _edit(p, feature_names={}), "other features"),
    ],
)
def test_damaged_policy_is_one_clear_line(damage: Any, message: str, tmp_path: Path) -> None:
    save_policy(make_policy(), tmp_path, observation_version=2, feature_names=NAMES)
    damage(tmp_path)
    with pytest.raises(ValueError, match=message) as error:
        PolicyAgent.load(tmp_path, observation_version=2, feature_names=NAMES)
    assert "\n" not in str(error.value)


def test_only_known_policies_are_saved(tmp_path: Path) -> None:
    class Other(MaskableActorCriticPolicy):
        pass

    policy = Other(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), lambda _: 1e-3)
    with pytest.raises(ValueError, match="only SetPolicy"):
        save_policy(policy, tmp_path, observation_version=1, feature_names={})
    assert not list(tmp_path.glob("*.json"))
