"""Sampling short completions from a causal language model, the prompt computed once per state.

G completions of one prompt share its keys and values: the prompt goes through the network once, its cache is
repeated G times, and only the new tokens are computed for each completion.

Shapes: N prompts, G completions of each, P tokens of the longest prompt, C of the longest completion, V
tokens known.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch as th
from transformers import DynamicCache

Tokens = Sequence[int]


def pad_left(sequences: Sequence[Tokens], pad: int, width: int = 0) -> tuple[th.Tensor, th.Tensor]:
    """(ids, mask), both (N, max(P, width)) int64, padded on the left."""
    width = max([width, *(len(s) for s in sequences)])
    ids = th.full((len(sequences), width), pad)
    mask = th.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        if len(sequence):
            ids[row, width - len(sequence) :] = th.as_tensor(sequence)
            mask[row, width - len(sequence) :] = 1
    return ids, mask


def positions(mask: th.Tensor) -> th.Tensor:
    """Position of every token (N, P); padding counts for nothing."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def last_tokens(mask: th.Tensor) -> th.Tensor:
    """How many tokens every prompt has, (N, 1)."""
    return mask.sum(1, keepdim=True)


def cache_name(model: Any) -> str:
    """What the model calls its cache: it was renamed within transformers 5."""
    names = inspect.signature(type(model).forward).parameters
    return "cache" if "cache" in names else "past_key_values"


class Completions(NamedTuple):
    """Sampled completions, those of one prompt next to each other."""

    ids: list[list[int]]  # (N n,), end token included
    logps: list[float]  # (N n,) log-probability of each as a whole, at the temperature it was drawn with


def draw(logits: th.Tensor, temperature: float, uniforms: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """One token per row and its log-probability, (R,) each: the first whose cumulative probability passes the
    row's uniform number.

    `temperature` 0 takes the likeliest token. A token of probability 0 is never drawn.
    """
    logs = th.log_softmax(logits.float() / (temperature or 1.0), -1)
    if temperature == 0:
        tokens = logits.argmax(-1)
    else:
        total = logs.exp().cumsum(-1, dtype=th.float64)
        threshold = uniforms.to(total.device, th.float64)[:, None] * total[:, -1:]
        tokens = th.searchsorted(total, threshold, right=True)[:, 0].clamp(max=logits.size(-1) - 1)
    return tokens, logs.gather(1, tokens[:, None])[:, 0]


@th.no_grad()
def sample(
    model: Any,
    prompt_ids: th.Tensor,
    prompt_mask: th.Tensor,
    *,
    n: int,
    max_tokens: int,
    eos: Collection[int],
    pad: int,
    temperature: float = 1.0,
    uniforms: th.Tensor | None = None,
) -> Completions:
    """`n` completions of each prompt.

    A completion ends with its end token, or after `max_tokens`.

    Args:
        model: a causal language model of transformers, not wrapped.
        prompt_ids, prompt_mask: (N, P), padded on the left.
        uniforms: (N * n, max_tokens) in [0, 1), one per token to draw; default: of torch's global generator.
    """
    device, rows = prompt_ids.device, len(prompt_ids) * n
    if uniforms is None:
        uniforms = th.rand(rows, max_tokens, dtype=th.float64)
    ends = th.tensor(sorted(eos), device=device)
    cache, name = DynamicCache(config=model.config), cache_name(model)
    padded = not bool(prompt_mask.all())
    place = positions(prompt_mask)
    out = model(
        input_ids=prompt_ids, attention_mask=prompt_mask if padded else None, position_ids=place,
        use_cache=True, logits_to_keep=1, **{name: cache},
    )  # fmt: skip
    if n > 1:
        cache.batch_repeat_interleave(n)
    mask = prompt_mask.repeat_interleave(n, 0)
    place = place[:, -1:].repeat_interleave(n, 0)
    logits = out.logits[:, -1].repeat_interleave(n, 0)
    done = th.zeros(rows, dtype=th.bool, device=device)
    logps = th.zeros(rows, device=device)
    drawn: list[th.Tensor] = []
    for step in range(max_tokens):
        token, logp = draw(logits, temperature, uniforms[:, step])
        token = token.masked_fill(done, pad)
        logps = logps + logp.masked_fill(done, 0.0)
        drawn.append(token)
        done = done | th.isin(token, ends)
        if step + 1 == max_tokens or bool(done.all()):
            break
        mask, place = th.cat([mask, mask.new_ones(rows, 1)], 1), place + 1
        out = model(
            input_ids=token[:, None], attention_mask=mask if padded else None, position_ids=place,
            use_cache=True, **{name: cache},
        )  # fmt: skip
        logits = out.logits[:, -1]
    return Completions([_until_end(row, eos) for row in th.stack(drawn, 1).tolist()], logps.tolist())


def _until_end(tokens: list[int], eos: Collection[int]) -> list[int]:
    for k, token in enumerate(tokens):
        if token in eos:
            return tokens[: k + 1]
    return tokens
