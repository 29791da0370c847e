"""GRPO without sampling: the gradient of the expected reward over all actions of a state.

    J(s) = sum_a pi(a|s) (r(s, a) - r_malformed)

Whatever is no action is worth r_malformed, so probability that leaks into other text is paid for. Entropy is
that of the action, not of a token. The update is TRL's; only the loss differs, and what a row of the batch
is: a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from trl.trainer.utils import split_tensor_dict

from cloudrl.actions import N_OPS
from evaluation.agents.lm_sampling import pad_left
from trainers.llm.engine import StepGRPOTrainer
from trainers.llm.groups import ExactBatch
from trainers.llm.meter import Meter
from trainers.llm.trie import Trie, action_logps


class ExactGRPOTrainer(StepGRPOTrainer):
    """The exact estimator in TRL's training loop.

    Args:
        exact: gives states and the rewards of all their actions.
        tries: of all actions; they take turns.
        floor: reward of a reply that is no action.
        forced_coef: weight of the loss on tokens that follow with necessity.
        draws: in every world the likeliest of so many sampled actions is played.
    """

    def __init__(
        self,
        *,
        exact: Callable[[Any, int], ExactBatch],
        tries: list[Trie],
        floor: float,
        forced_coef: float,
        draws: int,
        meter: Meter,
        **kwargs: Any,
    ) -> None:
        self.exact, self.tries, self.floor, self.forced_coef = exact, tries, floor, forced_coef
        self.draws = draws
        self.meter = meter
        self.action_entropy_coef = 0.0
        self._states: ExactBatch | None = None
        self._chosen: list[np.ndarray] = []
        super().__init__(**kwargs)

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        if not self.model.training:
            return super()._prepare_inputs(generation_batch)
        slices = self.args.steps_per_generation
        if self._step % slices == 0 or self._buffered_inputs is None:
            n = len(generation_batch) // self.num_generations
            self._states, self._chosen = self.exact(self, n), []
            ids, mask = pad_left(self._states.prompt_ids, self._tokenizer.pad_token_id)
            device = self.accelerator.device
            batch = {
                "prompt_ids": ids.to(device),
                "prompt_mask": mask.to(device),
                "rewards": th.from_numpy(self._states.rewards).float().to(device),
                "admissible": th.from_numpy(self._states.admissible).to(device),
            }
            self.state.num_input_tokens_seen += int(mask.sum())
            self._metrics["train"]["num_tokens"] = [self.state.num_input_tokens_seen]
            self._buffered_inputs = split_tensor_dict(batch, slices)
        return self._buffered_inputs[self._step % slices]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> th.Tensor:
        trie = self.tries[self.state.global_step % len(self.tries)]
        logps, forced = action_logps(
            model, trie, inputs["prompt_ids"], inputs["prompt_mask"], self.temperature, self.mask_dtype,
            self.accelerator.autocast,
        )  # fmt: skip
        p, rewards = logps.exp(), inputs["rewards"]
        expected = (p * (rewards - self.floor)).sum(1).mean()
        entropy = -(p * logps).sum(1).mean()
        spelled = forced.sum(1).mean() if forced.size(1) else logps.new_zeros(())
        loss = -expected - self.action_entropy_coef * entropy - self.forced_coef * spelled
        self._record(p.detach(), rewards, inputs["admissible"], entropy.detach(), forced.detach())
        self._walk(p.detach())
        return loss / self.current_gradient_accumulation_steps

    def _record(
        self, p: th.Tensor, rewards: th.Tensor, admissible: th.Tensor, entropy: th.Tensor, forced: th.Tensor
    ) -> None:
        mean = (p * (rewards - self.floor)).sum(1) + self.floor
        variance = (p * (rewards - mean[:, None]) ** 2).sum(1) + (1 - p.sum(1)) * (self.floor - mean) ** 2
        figures = {
            "reward": mean.mean(),
            "reward_std": variance.clamp(min=0).sqrt().mean(),
            "entropy": entropy,
            "rewards/score/mean": mean.mean(),
        }
        for name, value in figures.items():
            self._metrics["train"][name].append(self.accelerator.gather(value).mean().item())
        self.meter.add("llm/admissible", float((p * admissible).sum(1).mean()))
        spelled = float(forced.exp().mean()) if forced.size(1) else 1.0
        self.meter.add("llm/action_entropy", float(entropy))
        self.meter.add("llm/action_mass", float(p.sum(1).mean()))
        self.meter.add("llm/forced", spelled)
        self.meter.add("baseline/noop_wins", float(p[:, -1].mean()))

    def _walk(self, p: th.Tensor) -> None:
        """Play an action in every world, once all micro-batches of the step are through."""
        assert self._states is not None
        p = p.cpu().clamp(min=1e-12)
        drawn = th.multinomial(p, self.draws, replacement=True)
        likeliest = p.gather(1, drawn).argmax(1, keepdim=True)
        self._chosen.append(drawn.gather(1, likeliest)[:, 0].numpy())
        if len(self._chosen) == self.args.steps_per_generation:
            actions = np.concatenate(self._chosen)
            noop = self._states.rewards.shape[1] - 1
            self.meter.chosen(np.where(actions == noop, N_OPS, actions % N_OPS))
            self._states.advance(actions)
