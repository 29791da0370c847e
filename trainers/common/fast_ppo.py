"""MaskablePPO with the same algorithm and less overhead.

sb3-contrib's `MaskablePPO` is the reference. What differs is how the same numbers are reached:

1. masks of all worlds are fetched in one call, actions are drawn by a numba kernel;
2. worlds cut off by a time limit are bootstrapped together, not one by one;
3. log-softmax, entropy, ratio, clipping, value loss and their derivatives are one pass over the valid
   actions (`ppo_head`); torch only differentiates the network;
4. Adam is the fused one, and no distribution object validates its arguments.

Draws depend on counters, never on a global generator, and the counters are part of the saved file: the same
seed gives the same weights, and a resumed run goes on where the stream stopped.
A zip saved here loads in the stock class.

Shapes: B worlds, T steps of a rollout, S = T * B samples, M samples of a minibatch, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv

from cloudrl.seeding import mix, stream, world_key
from evaluation.agents.networks import Inputs, action_logits_and_values, policy_inputs, policy_outputs
from evaluation.agents.sampling import sample_masked
from trainers.common.flat_gradients import FlatGradients
from trainers.common.ppo_kernels import HeadStatistics, ppo_head, shuffle

_MINIBATCHES = 100  # purpose of the draws that order minibatches; worlds use small numbers


class Rollout(NamedTuple):
    """A rollout without the time axis: every field has S rows."""

    inputs: Inputs  # what the network reads, on the policy's device
    masks: NDArray[np.float32]  # (S, A)
    actions: NDArray[np.int64]  # (S,)
    old_log_probs: NDArray[np.float32]  # (S,)
    old_values: NDArray[np.float32]  # (S,)
    advantages: NDArray[np.float32]  # (S,)
    returns: NDArray[np.float32]  # (S,)


class FastMaskablePPO(MaskablePPO):
    """`MaskablePPO` for flat observations and discrete actions; arguments as in the stock class."""

    sampler_seed: int
    """Names the streams of this run; saved and restored."""
    sampler_tick: int
    """Vector steps sampled so far; saved and restored."""

    def _setup_model(self) -> None:
        if not isinstance(self.observation_space, spaces.Box) or len(self.observation_space.shape) != 1:
            raise ValueError("FastMaskablePPO needs a flat Box observation; use the stock engine")
        if not isinstance(self.action_space, spaces.Discrete):
            raise ValueError("FastMaskablePPO needs Discrete actions; use the stock engine")
        if issubclass(self.policy_kwargs.get("optimizer_class", th.optim.Adam), th.optim.Adam):
            chosen = self.policy_kwargs.get("optimizer_kwargs") or {"eps": 1e-5}
            self.policy_kwargs = {**self.policy_kwargs, "optimizer_kwargs": {"fused": True, **chosen}}
        super()._setup_model()
        if not hasattr(self, "sampler_seed"):  # a loaded model brings its own
            entropy = np.random.SeedSequence().generate_state(1)[0]
            self.sampler_seed = int(entropy if self.seed is None else self.seed)
            self.sampler_tick = 0

    # ------------------------------------------------------------------------------------------- experience

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Play T steps in B worlds with the current policy; False if the callback stopped the training."""
        assert isinstance(rollout_buffer, MaskableRolloutBuffer) and self._last_obs is not None
        if use_masking and not is_masking_supported(env):
            raise ValueError("Environment does not support action masking. Consider using ActionMasker wrapper")
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        n_envs = env.num_envs
        keys = self._action_keys(n_envs)
        all_valid = np.ones((n_envs, rollout_buffer.mask_dims), np.bool_)
        cut_off: list[tuple[int, int, Any]] = []  # step, world and last observation of truncated episodes
        n_steps = 0
        callback.on_rollout_start()

        while n_steps < n_rollout_steps:
            obs = self._last_obs
            action_masks = np.asarray(env.env_method("action_masks"), np.bool_) if use_masking else all_valid
            actions, log_probs, values = self._draw_actions(obs, action_masks, keys)

            # Stored before the worlds move on: they may reuse the arrays that they handed out.
            rollout_buffer.observations[n_steps] = obs
            rollout_buffer.action_masks[n_steps] = action_masks
            rollout_buffer.episode_starts[n_steps] = self._last_episode_starts
            rollout_buffer.actions[n_steps, :, 0] = actions
            rollout_buffer.log_probs[n_steps] = log_probs
            rollout_buffer.values[n_steps] = values

            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += n_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False

            rollout_buffer.rewards[n_steps] = rewards
            ended = np.flatnonzero(dones)
            if len(ended):
                self._update_info_buffer([infos[i] for i in ended], dones[ended])
                cut_off += [
                    (n_steps, int(i), infos[i]["terminal_observation"])
                    for i in ended
                    if infos[i].get("TimeLimit.truncated") and infos[i].get("terminal_observation") is not None
                ]
            self._last_obs = new_obs  # type: ignore[assignment]
            self._last_episode_starts = dones
            n_steps += 1

        self._bootstrap(rollout_buffer.rewards, cut_off)
        rollout_buffer.pos, rollout_buffer.full = n_rollout_steps, True
        rollout_buffer.compute_returns_and_advantage(last_values=self._values(new_obs), dones=dones)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _draw_actions(
        self, obs: Any, masks: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Actions (B,), their log-probabilities (B,) and the states' values (B,)."""
        with th.no_grad():
            logits, values = action_logits_and_values(self.policy, self._tensor(obs))
        n_envs = len(keys)
        actions, log_probs = np.empty(n_envs, np.int64), np.empty(n_envs, np.float32)
        ticks = np.full(n_envs, self.sampler_tick, np.int64)
        bad = sample_masked(logits.cpu().numpy(), masks, keys, ticks, actions, log_probs)
        if bad >= 0:
            reason = "no valid action" if not masks[bad].any() else "logits that are not finite"
            raise ValueError(f"world {bad} has {reason} at step {self.num_timesteps}")
        self.sampler_tick += 1
        return actions, log_probs, values.cpu().numpy()

    def _bootstrap(self, rewards: NDArray[np.float32], cut_off: list[tuple[int, int, Any]]) -> None:
        """Add the discounted value of the states behind a time limit to the last rewards (T, B)."""
        if cut_off:
            steps, worlds, final_obs = zip(*cut_off)
            values = self._values(np.stack(final_obs)).cpu().numpy()
            rewards[list(steps), list(worlds)] += self.gamma * values

    def _values(self, obs: Any) -> th.Tensor:
        with th.no_grad():
            return action_logits_and_values(self.policy, self._tensor(obs))[1]

    def _tensor(self, obs: Any) -> th.Tensor:
        return th.as_tensor(obs, dtype=th.float32, device=self.device)

    def _action_keys(self, n_envs: int) -> NDArray[np.uint64]:
        """One key per world, (B,)."""
        with np.errstate(over="ignore"):
            run = np.uint64(world_key(self.sampler_seed))
            return np.array([mix(run + np.uint64(1 + i)) for i in range(n_envs)], np.uint64)

    # ------------------------------------------------------------------------------------------------ update

    def train(self) -> None:
        """Several epochs of minibatch steps on the clipped surrogate loss of the last rollout."""
        policy, optimizer = self.policy, self.policy.optimizer
        policy.set_training_mode(True)
        self._update_learning_rate(optimizer)
        clip_range = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        clip_range_vf = np.inf
        if self.clip_range_vf is not None:
            clip_range_vf = self.clip_range_vf(self._current_progress_remaining)  # type: ignore[operator]

        rollout = self._rollout()
        n_samples, n_actions = rollout.masks.shape
        batch_size = self.batch_size or n_samples
        gradients = FlatGradients(policy.parameters())
        d_logits = np.empty((batch_size, n_actions), np.float32)
        d_values = np.empty(batch_size, np.float32)
        order = np.empty(n_samples, np.int64)
        history: list[HeadStatistics] = []
        stop = False

        for epoch in range(self.n_epochs):
            first_of_epoch = len(history)
            self._shuffle(order)
            for start in range(0, n_samples, batch_size):
                rows = order[start : start + batch_size]
                logits, values = policy_outputs(policy, self._pick(rollout.inputs, rows))
                m = len(rows)
                statistics = HeadStatistics(
                    *ppo_head(
                        logits.detach().cpu().numpy(),
                        values.detach().cpu().numpy(),
                        rows,
                        *rollout[1:],
                        clip_range,
                        clip_range_vf,
                        self.ent_coef,
                        self.vf_coef,
                        self.normalize_advantage,
                        d_logits[:m],
                        d_values[:m],
                    )
                )
                history.append(statistics)
                if self.target_kl is not None and statistics.approx_kl > 1.5 * self.target_kl:
                    stop = True
                    if self.verbose >= 1:
                        print(f"Early stopping in epoch {epoch}: approximate KL {statistics.approx_kl:.3f}")
                    break
                gradients.clear()
                th.autograd.backward([logits, values], [self._tensor(d_logits[:m]), self._tensor(d_values[:m])])
                gradients.clip(self.max_grad_norm)
                optimizer.step()
            self._n_updates += 1
            if stop:
                break

        self._log_update(history, history[first_of_epoch:], rollout, clip_range, clip_range_vf)

    def _rollout(self) -> Rollout:
        """The buffer without its time axis; views where possible."""
        buffer = self.rollout_buffer
        n_samples = buffer.buffer_size * buffer.n_envs
        obs = self._tensor(buffer.observations.reshape(n_samples, -1))
        return Rollout(
            policy_inputs(self.policy, obs),
            buffer.action_masks.reshape(n_samples, -1),
            buffer.actions.reshape(n_samples).astype(np.int64),
            buffer.log_probs.reshape(n_samples),
            buffer.values.reshape(n_samples),
            buffer.advantages.reshape(n_samples),
            buffer.returns.reshape(n_samples),
        )

    def _shuffle(self, order: NDArray[np.int64]) -> None:
        """A fresh order of the samples for the coming epoch."""
        with np.errstate(over="ignore"):
            run = np.uint64(world_key(self.sampler_seed))
            shuffle(np.uint64(stream(run, _MINIBATCHES, self._n_updates)), order)

    def _pick(self, inputs: Inputs, rows: NDArray[np.int64]) -> Inputs:
        index = th.as_tensor(rows, device=self.device)
        return tuple(part.index_select(0, index) for part in inputs)

    def _log_update(
        self,
        history: list[HeadStatistics],
        last_epoch: list[HeadStatistics],
        rollout: Rollout,
        clip_range: float,
        clip_range_vf: float,
    ) -> None:
        """The stock class's tags with the stock class's meanings."""
        mean, last = HeadStatistics(*np.mean(history, axis=0)), history[-1]
        record = self.logger.record
        record("train/entropy_loss", mean.entropy_loss)
        record("train/policy_gradient_loss", mean.policy_gradient_loss)
        record("train/value_loss", mean.value_loss)
        record("train/approx_kl", float(np.mean([s.approx_kl for s in last_epoch])))
        record("train/clip_fraction", mean.clip_fraction)
        loss = last.policy_gradient_loss + self.ent_coef * last.entropy_loss + self.vf_coef * last.value_loss
        record("train/loss", loss)
        record("train/explained_variance", explained_variance(rollout.old_values, rollout.returns))
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        record("train/clip_range", clip_range)
        if self.clip_range_vf is not None:
            record("train/clip_range_vf", clip_range_vf)
