"""TRL's GRPOTrainer on a live stream of states, with the prompt of a group computed once.

TRL keeps its loss, advantages, optimiser, schedules, logs, PEFT, accelerate and vLLM. What is overridden:

`_generate_and_score_completions`  rows do not come from a dataset (whose states would lag behind the policy) but
    from worlds that stand where the policy has led them; groups without variance are drawn again.
`_generate_single_turn`  the prompt of a group goes through the network once (evaluation/agents/lm_sampling.py).
`_get_per_token_logps_and_entropies`  ... and once more for the update (trainers/llm/packing.py).
`_prepare_inputs`  micro-batches keep groups whole: TRL shuffles rows, and packing lives from groups.

tests/trainers/test_grpo_equality.py compares each with the method it replaces. They are private methods of
TRL: it is pinned to the minor version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch as th
from datasets import IterableDataset
from trl import GRPOConfig, GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.utils import split_tensor_dict

from evaluation.agents.lm_sampling import Completions, pad_left, sample
from trainers.llm.packing import packed_logps, regroup


class Batch(NamedTuple):
    """Scored groups that TRL is to learn from, K = N * G rows, those of one state next to each other."""

    prompts: list[Any]  # (N,) text or messages, for TRL's logs
    prompt_ids: list[list[int]]  # (N,)
    completion_ids: list[list[int]]  # (K,)
    rewards: list[float]  # (K,) what the scorer says
    surprises: list[float]  # (K,) -log pi of admissible actions, else 0: their mean is the entropy


Source = Callable[["StepGRPOTrainer", int], Batch]
"""Gives scored groups for so many states, sampled with the trainer's present model."""


def no_data() -> IterableDataset:
    """TRL asks for a dataset; its rows are never looked at."""

    def rows() -> Any:
        while True:
            yield {"prompt": "-"}

    return IterableDataset.from_generator(rows)


def score(*, measured_score: list[float], **_: Any) -> list[float]:
    """TRL's first reward function: rewards were measured when the group was drawn."""
    return measured_score


def surprise(*, measured_surprise: list[float], **_: Any) -> list[float]:
    """The second one, whose weight is the entropy coefficient: maximum-entropy RL as a reward.

    Unlike the entropy of tokens, it does not pay for text that is no action.
    """
    return measured_surprise


class StepGRPOTrainer(GRPOTrainer):
    """GRPO whose states come from `source` at the moment they are needed.

    Args:
        source: draws, samples and scores the groups of a step; None leaves TRL's rows alone (for tests).
        shared: compute the prompt of a group once; False: TRL's own methods.
    """

    _buffered_inputs: Any  # TRL's: the slices of a step

    def __init__(self, *, source: Source | None, shared: bool, args: GRPOConfig, **kwargs: Any) -> None:
        self.source = source
        self.shared = shared and not args.use_vllm
        self._batch: Batch | None = None
        if source is not None:
            kwargs["rollout_func"] = _hand_over
            kwargs.setdefault("train_dataset", no_data())
            functions: list[Any] = [score, surprise]
            kwargs.setdefault("reward_funcs", functions)
        super().__init__(args=args, **kwargs)

    # ------------------------------------------------------------------ states
    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if self.source is None or not self.model.training:
            return super()._generate_and_score_completions(inputs)
        n = self.num_generations
        self._batch = self.source(self, len(inputs) // n)
        rows = [{"prompt": prompt} for prompt in self._batch.prompts for _ in range(n)]
        try:
            return super()._generate_and_score_completions(rows)
        finally:
            self._batch = None

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        if self.source is None or not self.model.training:
            return super()._prepare_inputs(generation_batch)
        slices = self.args.steps_per_generation
        if self._step % (slices * self.num_iterations) == 0 or self._buffered_inputs is None:
            scored = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs = split_tensor_dict(scored, slices)
        return self._buffered_inputs[self._step % slices]

    # ------------------------------------------------------------------ the model
    def completions(self, prompt_ids: list[list[int]], n: int) -> Completions:
        """`n` sampled completions of each prompt."""
        repeated = [ids for ids in prompt_ids for _ in range(n)]
        completion_ids, logps = self._generate_single_turn(repeated, None, {}, n)
        if logps is None:
            return Completions(completion_ids, self._logps_of(repeated, completion_ids))
        return Completions(completion_ids, [sum(row) for row in logps])

    def _logps_of(self, prompt_ids: list[list[int]], completion_ids: list[list[int]]) -> list[float]:
        """Log-probabilities of whole completions, where sampling did not tell them."""
        pad = self._tokenizer.pad_token_id
        prompts, prompt_mask = pad_left(prompt_ids, pad)
        longest = max(map(len, completion_ids))
        rows = [ids + [pad] * (longest - len(ids)) for ids in completion_ids]
        mask = th.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in completion_ids])
        device = self.accelerator.device
        with th.no_grad():
            logps, _, _ = self._get_per_token_logps_and_entropies(
                self.model, th.cat([prompts, th.tensor(rows)], 1).to(device),
                th.cat([prompt_mask, mask], 1).to(device), longest, self.args.per_device_train_batch_size,
            )  # fmt: skip
        total: list[float] = (logps.cpu() * mask).sum(1).tolist()
        return total

    def _generate_single_turn(
        self,
        prompt_ids: Any,
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        if not self.shared or images is not None:
            return super()._generate_single_turn(
                prompt_ids, images, multimodal_fields, num_generations, has_tool_images
            )
        ids, mask = pad_left(prompt_ids[::num_generations], self._tokenizer.pad_token_id)
        unwrapped = unwrap_model_for_generation(
            self.model_wrapped, self.accelerator, gather_deepspeed3_params=self.args.ds3_gather_for_generation,
            generation_kwargs=self.generation_kwargs,
        )  # fmt: skip
        whole = self._dist.summon_full_params(self.model_wrapped, recurse=False)
        with unwrapped as model, whole, self.accelerator.autocast():
            training = model.training
            model.eval()
            drawn = sample(
                model, ids.to(self.accelerator.device), mask.to(self.accelerator.device),
                n=num_generations, max_tokens=self.max_completion_length, eos=self.eos_token_ids,
                pad=self._tokenizer.pad_token_id, temperature=self.temperature,
            )  # fmt: skip
            model.train(training)
        return drawn.ids, [[logp] for logp in drawn.logps]

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: th.Tensor, attention_mask: th.Tensor, logits_to_keep: int,
        batch_size: int | None = None, compute_entropy: bool = False, compute_aux_loss: bool = False,
        **kwargs: Any,
    ) -> tuple[th.Tensor, th.Tensor | None, th.Tensor | None]:  # fmt: skip
        if not self.shared or compute_aux_loss or any(value is not None for value in kwargs.values()):
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, compute_aux_loss,
                **kwargs,
            )  # fmt: skip
        groups = regroup(input_ids, attention_mask, logits_to_keep)
        logps, entropies = packed_logps(
            model, groups, self.temperature, self.mask_dtype, self.accelerator.autocast, compute_entropy
        )
        logps = logps.flatten(0, 1)[groups.rows]
        return logps, None if entropies is None else entropies.flatten(0, 1)[groups.rows], None

    @property
    def mask_dtype(self) -> th.dtype:
        """What the model computes in."""
        if self.accelerator.mixed_precision == "bf16":
            return th.bfloat16
        return self.accelerator.unwrap_model(self.model).dtype


def _hand_over(prompts: list[Any], trainer: StepGRPOTrainer) -> dict[str, Any]:
    """TRL's rollout function: what `_generate_and_score_completions` has drawn already."""
    batch, n = trainer._batch, trainer.num_generations
    assert batch is not None
    return {
        "prompt_ids": [ids for ids in batch.prompt_ids for _ in range(n)],
        "completion_ids": batch.completion_ids,
        "logprobs": None,
        "measured_score": batch.rewards,
        "measured_surprise": batch.surprises,
    }
