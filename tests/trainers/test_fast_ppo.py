"""The fast engine against sb3-contrib's: the same loss, the same update, the same file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.distributions import MaskableCategorical
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecMonitor

from evaluation.agents.networks import SetPolicy
from evaluation.agents.sampling import sample_masked
from tests.trainers.toy_env import ToyVecEnv
from trainers.common.fast_ppo import FastMaskablePPO
from trainers.common.flat_gradients import FlatGradients
from trainers.common.ppo_kernels import HeadStatistics, ppo_head, shuffle

th.set_num_threads(1)
POLICIES = ["mlp", "set", "edges"]


def make_model(cls: type[MaskablePPO], kind: str = "mlp", seed: int | None = 3, **kwargs: Any) -> Any:
    env = ToyVecEnv(seed=1)
    arguments: dict[str, Any] = {
        "n_steps": 16,
        "batch_size": 32,
        "n_epochs": 3,
        "ent_coef": 0.01,
        "device": "cpu",
    }
    policy_kwargs: dict[str, Any] = {"net_arch": [16]}
    if kind != "mlp":
        policy_kwargs = {**env.set_policy_kwargs, "width": 8, "use_dependencies": kind == "edges"}
    arguments.update(kwargs)
    policy: Any = "MlpPolicy" if kind == "mlp" else SetPolicy
    return cls(policy, VecMonitor(env), seed=seed, policy_kwargs=policy_kwargs, **arguments)


def weights(model: MaskablePPO) -> np.ndarray:
    return th.cat([p.detach().flatten() for p in model.policy.parameters()]).numpy()


def reference_loss(
    data: dict[str, Any], logits: th.Tensor, values: th.Tensor, dtype: th.dtype
) -> tuple[th.Tensor, HeadStatistics]:
    """The loss as sb3-contrib's `train` writes it."""

    def t(name: str) -> th.Tensor:
        return th.as_tensor(data[name][data["rows"]]).to(dtype)

    distribution = MaskableCategorical(logits=logits)
    distribution.apply_masking(th.as_tensor(data["masks"][data["rows"]]))
    log_prob = distribution.log_prob(th.as_tensor(data["actions"][data["rows"]]))
    advantages = t("advantages")
    if data["normalize"] and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = th.exp(log_prob - t("old_log_probs"))
    clip, clip_vf = data["clip_range"], data["clip_range_vf"]
    clipped = advantages * th.clamp(ratio, 1 - clip, 1 + clip)
    policy_loss = -th.min(advantages * ratio, clipped).mean()
    predicted = values
    if np.isfinite(clip_vf):
        predicted = t("old_values") + th.clamp(values - t("old_values"), -clip_vf, clip_vf)
    value_loss = th.nn.functional.mse_loss(t("returns"), predicted)
    entropy_loss = -distribution.entropy().mean()
    log_ratio = log_prob - t("old_log_probs")
    statistics = HeadStatistics(
        policy_loss.item(),
        value_loss.item(),
        entropy_loss.item(),
        ((th.exp(log_ratio) - 1) - log_ratio).mean().item(),
        (th.abs(ratio - 1) > clip).double().mean().item(),
    )
    return policy_loss + data["ent_coef"] * entropy_loss + data["vf_coef"] * value_loss, statistics


def head_case(
    seed: int, m: int, n_actions: int, valid: float, clip_range_vf: float, normalize: bool
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = m + 5
    logits = (rng.standard_normal((m, n_actions)) * rng.uniform(0.1, 4)).astype(np.float32)
    values = rng.standard_normal(m).astype(np.float32)
    masks = rng.random((size, n_actions)) < valid
    actions = rng.integers(0, n_actions, size)
    masks[np.arange(size), actions] = True

    def normal(scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(size) * scale).astype(np.float32)

    data: dict[str, Any] = {
        "rows": rng.permutation(size)[:m],
        "masks": masks.astype(np.float32),
        "actions": actions,
        "old_log_probs": normal(),
        "old_values": normal(),
        "advantages": normal(5),
        "returns": normal(),
        "clip_range": 0.2,
        "clip_range_vf": clip_range_vf,
        "ent_coef": 0.02,
        "vf_coef": 0.5,
        "normalize": normalize,
    }
    # old probabilities near the new ones, as in training
    kept = th.where(th.as_tensor(masks[data["rows"]]), th.as_tensor(logits), -1e8).log_softmax(1)
    new = kept[th.arange(m), th.as_tensor(actions[data["rows"]])].numpy()
    data["old_log_probs"][data["rows"]] = new + normal(0.3)[:m]
    return data, logits, values


def run_head(data: dict[str, Any], logits: np.ndarray, values: np.ndarray) -> tuple[Any, Any, HeadStatistics]:
    d_logits, d_values = np.full_like(logits, np.nan), np.full_like(values, np.nan)
    return d_logits, d_values, HeadStatistics(*ppo_head(logits, values, *data.values(), d_logits, d_values))


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """Error of a mean over m rows against the reference in float64.

    A row of the loss has the size of its advantage, about 1. Where a gradient cancels to less, float32 keeps its
    rounding of 1, so none counts as smaller than that.
    """
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1.0 / np.sqrt(len(b))))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    m=st.integers(1, 40),
    n_actions=st.integers(2, 150),
    valid=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    clip_range_vf=st.sampled_from([np.inf, 0.2, 2.0]),
    normalize=st.booleans(),
)
def test_head_is_the_derivative_of_the_stock_loss(
    seed: int, m: int, n_actions: int, valid: float, clip_range_vf: float, normalize: bool
) -> None:
    data, logits, values = head_case(seed, m, n_actions, valid, clip_range_vf, normalize)
    d_logits, d_values, statistics = run_head(data, logits, values)
    # Double precision: float32 itself is off by about 1e-7 times the size of a log-probability.
    x = th.tensor(logits, dtype=th.float64, requires_grad=True)
    v = th.tensor(values, dtype=th.float64, requires_grad=True)
    loss, expected = reference_loss(data, x, v, th.float64)
    loss.backward()
    assert x.grad is not None and v.grad is not None
    assert relative(d_logits, x.grad.numpy()) < 1e-6
    assert relative(d_values, v.grad.numpy()) < 1e-6
    np.testing.assert_allclose(statistics, expected, rtol=1e-5, atol=1e-6)
    assert not d_logits[data["masks"][data["rows"]] == 0].any()


def test_head_equals_the_stock_loss_in_float32() -> None:
    data, logits, values = head_case(0, 256, 145, 0.4, np.inf, True)
    d_logits, d_values, _ = run_head(data, logits, values)
    x, v = th.tensor(logits, requires_grad=True), th.tensor(values, requires_grad=True)
    reference_loss(data, x, v, th.float32)[0].backward()
    assert x.grad is not None and v.grad is not None
    assert relative(d_logits, x.grad.numpy()) < 1e-6
    assert relative(d_values, v.grad.numpy()) < 1e-6


def test_head_survives_extreme_logits() -> None:
    data, logits, values = head_case(0, 8, 20, 0.5, np.inf, False)
    d_logits, _, statistics = run_head(data, logits * 1e4, values)
    assert np.isfinite(d_logits).all() and np.isfinite(statistics.entropy_loss)


def test_sampler_follows_the_masked_softmax() -> None:
    n, logits = 40_000, np.array([0.0, 1.0, 5.0, -1.0], np.float32)
    masks = np.tile(np.array([True, True, False, True]), (n, 1))
    actions, log_probs = np.empty(n, np.int64), np.empty(n, np.float32)
    keys, ticks = np.arange(n).astype(np.uint64), np.zeros(n, np.int64)
    assert sample_masked(np.tile(logits, (n, 1)), masks, keys, ticks, actions, log_probs) == -1
    p = np.exp(logits) * masks[0]
    p /= p.sum()
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / n, p, atol=0.01)
    np.testing.assert_allclose(log_probs, np.log(p[actions]), rtol=1e-5)


@pytest.mark.parametrize("spoil", ["mask", "nan"])
def test_sampler_reports_a_row_that_has_no_answer(spoil: str) -> None:
    logits, masks = np.zeros((3, 4), np.float32), np.ones((3, 4), bool)
    if spoil == "mask":
        masks[1] = False
    else:
        logits[1, 2] = np.nan
    out = np.empty(3, np.int64), np.empty(3, np.float32)
    assert sample_masked(logits, masks, np.zeros(3, np.uint64), np.zeros(3, np.int64), *out) == 1


def test_shuffle_is_a_permutation() -> None:
    first, second = np.empty(100, np.int64), np.empty(100, np.int64)
    shuffle(np.uint64(5), first)
    shuffle(np.uint64(6), second)
    assert sorted(first) == list(range(100)) and (first != second).any()


def test_flat_gradients_clip_like_torch() -> None:
    net = th.nn.Sequential(th.nn.Linear(5, 4), th.nn.Linear(4, 3))
    gradients = FlatGradients(net.parameters())
    for max_norm in (0.1, 100.0):
        gradients.clear()
        net(th.randn(8, 5)).square().sum().backward()
        expected = copy.deepcopy(net)
        for p, q in zip(expected.parameters(), net.parameters()):
            assert q.grad is not None
            p.grad = q.grad.clone()
        th.nn.utils.clip_grad_norm_(expected.parameters(), max_norm)
        gradients.clip(max_norm)
        for p, q in zip(expected.parameters(), net.parameters()):
            assert q.grad is not None
            th.testing.assert_close(q.grad, p.grad)


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize(
    "options",
    [{}, {"clip_range_vf": 0.2}, {"target_kl": 0.003}, {"normalize_advantage": False}, {"batch_size": 50}],
)
def test_train_equals_stock_train(kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"learning_rate": 1e-3, **options}
    fast, stock = make_model(FastMaskablePPO, kind, **options), make_model(MaskablePPO, kind, **options)
    stock.policy.load_state_dict(fast.policy.state_dict())
    logs = []
    for model in (fast, stock):
        model.set_logger(configure(None, []))
    fast._setup_learn(128)
    assert fast.collect_rollouts(fast.env, _Nothing().init(fast), fast.rollout_buffer, fast.n_steps)
    stock.rollout_buffer = copy.deepcopy(fast.rollout_buffer)
    size, n_envs = fast.n_steps * fast.n_envs, fast.n_envs

    # The stock buffer goes through its samples world by world, the fast one step by step.
    orders = [np.random.default_rng(e).permutation(size) for e in range(fast.n_epochs)]
    fast_orders, stock_orders = iter(orders), iter(orders)
    monkeypatch.setattr(fast, "_shuffle", lambda order: np.copyto(order, next(fast_orders)))

    def stock_permutation(n: int) -> np.ndarray:
        assert n == size
        step, world = np.divmod(next(stock_orders), n_envs)
        return world * fast.n_steps + step

    monkeypatch.setattr(np.random, "permutation", stock_permutation)
    for model in (fast, stock):
        model.train()
        logs.append(dict(model.logger.name_to_value))
    assert logs[0].keys() == logs[1].keys()
    for tag, value in logs[1].items():
        assert logs[0][tag] == pytest.approx(value, rel=2e-4, abs=2e-6), tag
    assert fast._n_updates == stock._n_updates
    np.testing.assert_allclose(weights(fast), weights(stock), rtol=0, atol=2e-5)


class _Nothing(BaseCallback):
    def init(self, model: MaskablePPO) -> _Nothing:
        self.init_callback(model)
        return self

    def _on_step(self) -> bool:
        return True


def test_rollout_holds_what_the_stock_class_would_store() -> None:
    model = make_model(FastMaskablePPO)
    model._setup_learn(128)
    terminal: list[tuple[int, int, np.ndarray]] = []
    rewards = []

    class Record(_Nothing):
        def _on_step(self) -> bool:
            rewards.append(self.locals["rewards"].copy())
            for i, info in enumerate(self.locals["infos"]):
                if info.get("TimeLimit.truncated"):
                    terminal.append((len(rewards) - 1, i, info["terminal_observation"]))
            return True

    model.collect_rollouts(model.env, Record().init(model), model.rollout_buffer, model.n_steps)
    buffer = model.rollout_buffer
    assert terminal
    expected = np.array(rewards, np.float32)
    for step, world, obs in terminal:
        value = model.policy.predict_values(th.as_tensor(obs[None])).item()
        expected[step, world] += model.gamma * value
    np.testing.assert_allclose(buffer.rewards, expected, atol=1e-5)

    obs = th.as_tensor(buffer.observations.reshape(-1, buffer.observations.shape[-1]))
    actions, masks = buffer.actions.reshape(-1), buffer.action_masks.reshape(len(obs), -1)
    assert masks[np.arange(len(obs)), actions].all()
    with th.no_grad():
        values, log_probs, _ = model.policy.evaluate_actions(obs, th.as_tensor(actions), masks)
    np.testing.assert_allclose(buffer.values.reshape(-1), values.flatten(), atol=1e-5)
    np.testing.assert_allclose(buffer.log_probs.reshape(-1), log_probs, atol=1e-5)


def test_callbacks_and_episode_statistics() -> None:
    calls = []

    class Count(_Nothing):
        def _on_rollout_start(self) -> None:
            calls.append("start")

        def _on_step(self) -> bool:
            calls.append("step")
            wanted = {
                "rewards",
                "dones",
                "infos",
                "actions",
                "values",
                "log_probs",
                "new_obs",
                "action_masks",
            }
            assert wanted <= self.locals.keys()
            return len(calls) < 30

        def _on_rollout_end(self) -> None:
            calls.append("end")

    model = make_model(FastMaskablePPO)
    model.learn(10_000, callback=Count())
    assert calls[:18] == ["start", *["step"] * 16, "end"] and len(calls) == 30  # stopped by the callback
    assert model.num_timesteps == 27 * 8
    assert {"r", "l", "t"} <= model.ep_info_buffer[0].keys()


@pytest.mark.parametrize("kind", POLICIES)
def test_zip_loads_in_the_stock_class(kind: str, tmp_path: Path) -> None:
    model = make_model(FastMaskablePPO, kind)
    model.learn(256)
    model.save(tmp_path / "model")
    stock = MaskablePPO.load(tmp_path / "model", env=ToyVecEnv(), device="cpu")
    env = ToyVecEnv(seed=9)
    obs, masks = env.reset(), env.action_masks()
    expected, _ = model.predict(obs, deterministic=True, action_masks=masks)
    actual, _ = stock.predict(obs, deterministic=True, action_masks=masks)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(weights(stock), weights(model))
    stock.learn(128)


@pytest.mark.parametrize("kind", POLICIES)
def test_same_seed_same_weights(kind: str) -> None:
    results = []
    for noise in (0, 1):
        model = make_model(FastMaskablePPO, kind, seed=3)
        np.random.seed(noise)  # noqa: NPY002 - nothing may depend on the global generators
        th.manual_seed(noise)
        results.append(weights(model.learn(384)))
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != weights(make_model(FastMaskablePPO, kind, seed=4).learn(384))).any()


def test_resume_goes_on_where_the_run_stopped(tmp_path: Path) -> None:
    whole = make_model(FastMaskablePPO)
    whole.learn(384)

    first = make_model(FastMaskablePPO)
    first.learn(128)
    first.save(tmp_path / "model")
    resumed = FastMaskablePPO.load(tmp_path / "model", env=first.env, device="cpu", force_reset=False)
    assert (resumed.sampler_seed, resumed.sampler_tick) == (first.sampler_seed, first.sampler_tick)
    resumed.learn(256, reset_num_timesteps=False)
    np.testing.assert_array_equal(weights(resumed), weights(whole))


def test_a_world_without_valid_action_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(FastMaskablePPO)
    monkeypatch.setattr(ToyVecEnv, "action_masks", lambda self: np.zeros((self.num_envs, 49), bool))
    with pytest.raises(ValueError, match="world 0 has no valid action at step 0"):
        model.learn(64)


def test_it_learns() -> None:
    model = make_model(FastMaskablePPO, "set", learning_rate=3e-3, n_steps=64, batch_size=128, gamma=0.5)
    model.learn(512)
    before = np.mean([e["r"] for e in model.ep_info_buffer])
    model.learn(20_000, reset_num_timesteps=False)
    assert np.mean([e["r"] for e in model.ep_info_buffer]) > before + 1
