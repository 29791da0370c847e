"""Shared prompts give TRL's numbers: log-probabilities, entropies, gradients, samples; the trie those of each."""

from __future__ import annotations

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from pathlib import Path
from typing import Any

import pytest
import torch as th
from datasets import Dataset
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3NextConfig,
)
from trl import GRPOConfig

from evaluation.agents.lm_sampling import draw, pad_left, sample
from evaluation.agents.tiny_lm import action_tokens, make_tokenizer
from trainers.llm.architecture import why_not_packed
from trainers.llm.engine import StepGRPOTrainer
from trainers.llm.packing import regroup
from trainers.llm.trie import Trie, action_logps

MODELS = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 8}),
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
}
GROUP, PROMPT, COMPLETION = 4, 11, 6


@pytest.fixture(autouse=True)
def one_thread() -> None:
    th.set_num_threads(1)


def small(kind: str, vocabulary: int) -> Any:
    config, model, more = MODELS[kind]
    th.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    made = model(config(vocab_size=vocabulary, max_position_embeddings=256, **sizes, **heads, **more))
    with th.no_grad():  # random weights are almost uniform: make choices matter
        for weight in made.parameters():
            weight *= 3.0 if weight.dim() > 1 else 1.0
    return made


def trainer_of(model: Any, tmp_path: Path, **options: Any) -> StepGRPOTrainer:
    arguments = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=GROUP, num_generations=GROUP, max_steps=1,
        max_completion_length=COMPLETION, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        shuffle_dataset=False, **options,
    )  # fmt: skip
    return StepGRPOTrainer(
        source=None, shared=True, args=arguments, model=model, reward_funcs=lambda **_: [0.0],
        train_dataset=Dataset.from_dict({"prompt": ["-"]}), processing_class=make_tokenizer(6),
    )  # fmt: skip


def rows(vocabulary: int, states: int = 3) -> tuple[th.Tensor, th.Tensor]:
    """TRL's rows in no order: prompts of different length, padded left, completions padded right."""
    generator = th.Generator().manual_seed(1)

    def number(low: int, high: int) -> int:
        return int(th.randint(low, high + 1, (1,), generator=generator))

    ids = th.zeros(states * GROUP, PROMPT + COMPLETION, dtype=th.long)
    mask = th.zeros_like(ids)
    for row in range(len(ids)):
        if row % GROUP == 0:
            p = number(3, PROMPT)
            prompt = th.randint(4, vocabulary, (p,), generator=generator)
        c = number(1, COMPLETION)
        ids[row, PROMPT - p : PROMPT] = prompt
        ids[row, PROMPT : PROMPT + c] = th.randint(4, vocabulary, (c,), generator=generator)
        mask[row, PROMPT - p : PROMPT + c] = 1
    order = th.randperm(len(ids), generator=generator)
    return ids[order], mask[order]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kind", MODELS)
def test_log_probabilities_entropies_and_gradients_are_those_of_trl(
    kind: str, temperature: float, tmp_path: Path
) -> None:
    model = small(kind, 300)
    trainer = trainer_of(model, tmp_path, temperature=temperature)
    stock: Any = super(StepGRPOTrainer, trainer)
    ids, mask = rows(300)
    real = mask[:, PROMPT:]
    weights = th.randn(2, len(ids), COMPLETION, generator=th.Generator().manual_seed(2)) * real
    found = []
    for method in (stock, trainer):
        trainer.model.zero_grad()
        logps, entropies, _ = method._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, COMPLETION, compute_entropy=True
        )
        ((logps * weights[0]) + (entropies * weights[1])).sum().backward()
        gradient = th.cat([p.grad.flatten() for p in trainer.model.parameters()])
        found.append((logps.detach() * real, entropies.detach() * real, gradient))
    (logps, entropies, gradient), (own_logps, own_entropies, own_gradient) = found
    assert logps.min() < -3.0  # something was compared
    th.testing.assert_close(own_logps, logps, atol=1e-5, rtol=1e-5)
    th.testing.assert_close(own_entropies, entropies, atol=1e-5, rtol=1e-5)
    assert (own_gradient - gradient).norm() <= 1e-5 * gradient.norm()


def test_a_group_does_not_see_its_other_completions(tmp_path: Path) -> None:
    """The check above would miss a leak that both sides share: change one completion, the others stay."""
    trainer = trainer_of(small("qwen3", 300), tmp_path)
    ids, mask = rows(300, states=1)
    with th.no_grad():
        before = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, COMPLETION)[0]
        ids[0, PROMPT] = 7 if ids[0, PROMPT] != 7 else 8
        after = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, COMPLETION)[0]
    th.testing.assert_close(after[1:], before[1:], atol=2e-6, rtol=0)
    assert (after[0] - before[0]).abs().max() > 1e-3


def test_rows_are_regrouped_and_found_again() -> None:
    ids, mask = rows(50)
    groups = regroup(ids, mask, COMPLETION)
    assert groups.completion_ids.shape == (3, GROUP, COMPLETION)
    flat = groups.completion_ids.flatten(0, 1)[groups.rows]
    assert th.equal(flat * mask[:, PROMPT:], ids[:, PROMPT:] * mask[:, PROMPT:])
    prompts = groups.prompt_ids.repeat_interleave(GROUP, 0)[groups.rows]
    assert th.equal(prompts, ids[:, :PROMPT])
    unequal = regroup(ids[:-1], mask[:-1], COMPLETION)  # a group that lacks a row
    assert unequal.completion_mask.sum() == mask[:-1, PROMPT:].sum()


@pytest.mark.parametrize("kind", MODELS)
def test_samples_follow_the_distribution_that_is_scored(kind: str, tmp_path: Path) -> None:
    """Frequencies of tokens, sampled with a shared prompt, against their probabilities; prompts of two lengths."""
    model = small(kind, 40).eval()
    prompts = [[5, 9, 7, 22, 4], [6, 30]]
    ids, mask = pad_left(prompts, 0)
    n = 4000
    th.manual_seed(3)
    drawn = sample(model, ids, mask, n=n, max_tokens=2, eos=[1], pad=0, temperature=0.7).ids
    for k, prompt in enumerate(prompts):
        mine = drawn[k * n : (k + 1) * n]
        with th.no_grad():
            first = th.softmax(model(th.tensor([prompt])).logits[0, -1] / 0.7, -1)
        counts = th.bincount(th.tensor([c[0] for c in mine]), minlength=40) / n
        assert (counts - first).abs().max() < 0.03
        top = int(first[2:].argmax()) + 2  # not the end token
        with th.no_grad():
            second = th.softmax(model(th.tensor([[*prompt, top]])).logits[0, -1] / 0.7, -1)
        follow = [c[1] for c in mine if c[0] == top]
        counts = th.bincount(th.tensor(follow), minlength=40) / len(follow)
        assert (counts - second).abs().max() < 4 * (0.25 / len(follow)) ** 0.5


def test_greedy_samples_are_those_of_generate() -> None:
    model = small("qwen2", 60).eval()
    prompts = [[5, 9, 7, 22, 4], [6, 30], [11]]
    ids, mask = pad_left(prompts, 0)
    own = sample(model, ids, mask, n=1, max_tokens=5, eos=[1], pad=0, temperature=0).ids
    for prompt, mine in zip(prompts, own, strict=True):
        out = model.generate(
            th.tensor([prompt]), max_new_tokens=5, do_sample=False, eos_token_id=1, pad_token_id=0
        )
        assert out[0, len(prompt) :].tolist() == mine


def test_a_completion_ends_at_any_end_token_and_nothing_follows() -> None:
    model = small("qwen3", 30).eval()
    ids, mask = pad_left([[5, 6, 7]], 0)
    for completion in sample(model, ids, mask, n=200, max_tokens=8, eos=[3, 4], pad=0).ids:
        assert all(token not in (3, 4) for token in completion[:-1])
        assert len(completion) == 8 or completion[-1] in (3, 4)


def test_draw_takes_the_token_whose_interval_holds_the_number() -> None:
    logits = th.log(th.tensor([[0.5, 0.0, 0.25, 0.25]])).expand(6, -1)
    uniforms = th.tensor([0.0, 0.49, 0.51, 0.74, 0.76, 1.0 - 1e-12], dtype=th.float64)
    tokens, logps = draw(logits, 1.0, uniforms)
    assert tokens.tolist() == [0, 0, 2, 2, 3, 3]
    th.testing.assert_close(logps.exp(), th.tensor([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]))
    assert draw(logits, 0.0, uniforms)[0].tolist() == [0] * 6


@pytest.mark.parametrize("shared", [True, False])
def test_completions_come_with_their_log_probability(shared: bool, tmp_path: Path) -> None:
    """As a whole, at the temperature they were drawn with, from either path: against a plain forward pass."""
    trainer = trainer_of(small("qwen2", len(make_tokenizer(6))), tmp_path, temperature=0.8)
    trainer.shared = shared
    prompts = [[5, 9, 7, 22, 4], [6, 30]]
    drawn = trainer.completions(prompts, GROUP)
    assert len(drawn.ids) == len(drawn.logps) == 2 * GROUP
    for k, (ids, logp) in enumerate(zip(drawn.ids, drawn.logps, strict=True)):
        prompt = prompts[k // GROUP]
        with th.no_grad():
            logs = th.log_softmax(trainer.model(th.tensor([prompt + ids])).logits[0] / 0.8, -1)
        expected = sum(float(logs[len(prompt) - 1 + j, token]) for j, token in enumerate(ids))
        assert logp == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kind", MODELS)
def test_the_trie_gives_every_action_its_probability(kind: str, temperature: float) -> None:
    """Against one plain forward pass per action; with all forced tokens and with choices only."""
    tokenizer = make_tokenizer(3)
    sequences = action_tokens(tokenizer, 3)
    model = small(kind, len(tokenizer))
    prompts = [[5, 9, 7, 22, 4], [6, 30]]
    ids, mask = pad_left(prompts, 0)
    whole = Trie(sequences, None)
    with th.no_grad():
        logps, forced = action_logps(model, whole, ids, mask, temperature, th.float32)
        few, _ = action_logps(model, Trie(sequences, [0, 5]), ids, mask, temperature, th.float32)
    th.testing.assert_close(few, logps, atol=1e-5, rtol=1e-5)
    index = {(int(a), int(t)) for a, t in zip(whole.forced_at, whole.forced_token, strict=True)}
    assert len(index) == forced.size(1) == len(sequences)  # one end token each
    for k, prompt in enumerate(prompts):
        for action, sequence in enumerate(sequences):
            with th.no_grad():
                out = model(th.tensor([[*prompt, *sequence]])).logits[0]
            each = th.log_softmax(out / temperature, -1)
            start = len(prompt) - 1
            total = sum(float(each[start + j, token]) for j, token in enumerate(sequence[:-1]))
            assert abs(total - float(logps[k, action])) < 1e-4


def test_linear_attention_is_not_packed() -> None:
    class Fake:
        def __init__(self, config: Any) -> None:
            self.config = config

    hybrid = Fake(Qwen3NextConfig(num_hidden_layers=2))
    assert "not among the architectures" in str(why_not_packed(hybrid))
    sliding = Fake(
        Qwen2Config(use_sliding_window=True, sliding_window=8, max_window_layers=0, num_hidden_layers=2)
    )
    assert "sliding" in str(why_not_packed(sliding))
    flash = small("qwen2", 30)
    flash.config._attn_implementation = "flash_attention_2"
    assert "no mask" in str(why_not_packed(flash))
    assert why_not_packed(small("llama", 30)) is None
