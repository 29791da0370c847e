"""Log-probabilities of many completions of one prompt from one forward pass over prompt + G completions.

TRL runs the prompt once per completion: G (P + C) tokens. Here the completions of a prompt lie behind it in
one row, P + G C tokens, and a block mask keeps them apart:

    row:       prompt | completion 1 | completion 2 | ...
    sees:      itself | prompt and itself | prompt and itself | ...
    position:  0..p-1 | p..p+c-1     | p..p+c-1     | ...

The numbers are those of the separate rows, up to rounding. The forward pass goes through the model as it is
handed over, wrapped by DDP or PEFT or not.

Shapes: N prompts, G completions, P and C their padded lengths, L = P + G C, B = N G rows of TRL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch as th

from evaluation.agents.lm_sampling import positions


class Groups(NamedTuple):
    """Completions by prompt. Groups may differ in size: what is missing has mask 0."""

    prompt_ids: th.Tensor  # (N, P)
    prompt_mask: th.Tensor  # (N, P), padding on the left
    completion_ids: th.Tensor  # (N, G, C)
    completion_mask: th.Tensor  # (N, G, C), padding on the right
    rows: th.Tensor  # (B,): where TRL's row b lies in the flat (N * G) order


def regroup(input_ids: th.Tensor, attention_mask: th.Tensor, completion_length: int) -> Groups:
    """Rows of TRL (B, P + C), in any order, by their prompt."""
    n_rows, prompt_length = len(input_ids), input_ids.size(1) - completion_length
    prompts = th.cat([input_ids[:, :prompt_length], attention_mask[:, :prompt_length]], 1)
    unique, group = th.unique(prompts, dim=0, return_inverse=True)
    sizes = th.bincount(group, minlength=len(unique))
    order = th.argsort(group, stable=True)
    starts = sizes.cumsum(0) - sizes
    place = th.empty_like(group)
    place[order] = th.arange(n_rows, device=group.device) - starts[group[order]]
    width = int(sizes.max())
    rows = group * width + place
    shape = (len(unique) * width, completion_length)
    completion_ids = input_ids.new_zeros(shape)
    completion_mask = attention_mask.new_zeros(shape)
    completion_ids[rows] = input_ids[:, prompt_length:]
    completion_mask[rows] = attention_mask[:, prompt_length:]
    return Groups(
        unique[:, :prompt_length],
        unique[:, prompt_length:],
        completion_ids.view(-1, width, completion_length),
        completion_mask.view(-1, width, completion_length),
        rows,
    )


def additive(allowed: th.Tensor, dtype: th.dtype) -> th.Tensor:
    """An attention mask (N, 1, L, L) that is added to the scores: 0 where a token may look."""
    return th.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, th.finfo(dtype).min)[
        :, None
    ]


def block_mask(groups: Groups) -> th.Tensor:
    """(N, L, L) bool: who may look at whom."""
    n, g, c = groups.completion_ids.shape
    p, device = groups.prompt_ids.size(1), groups.prompt_ids.device
    index = th.arange(p + g * c, device=device)
    segment = th.cat([th.zeros(p, dtype=th.long, device=device), 1 + th.arange(g * c, device=device) // c])
    earlier = index[None, :] <= index[:, None]
    kin = (segment[None, :] == 0) | (segment[None, :] == segment[:, None])
    real = th.cat([groups.prompt_mask, groups.completion_mask.reshape(n, -1)], 1).bool()
    itself = th.eye(len(index), dtype=th.bool, device=device)  # a row that sees nothing would be NaN
    return ((earlier & kin)[None] & real[:, None, :]) | itself


def packed_logps(
    model: Any,
    groups: Groups,
    temperature: float,
    dtype: th.dtype,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    entropy: bool = False,
) -> tuple[th.Tensor, th.Tensor | None]:
    """(log-probabilities, entropies or None), both (N, G, C) float32 and differentiable.

    Values at padding mean nothing. `dtype` is that of the attention mask: what the model computes in.
    """
    n, g, c = groups.completion_ids.shape
    p, device = groups.prompt_ids.size(1), groups.prompt_ids.device
    ids = th.cat([groups.prompt_ids, groups.completion_ids.reshape(n, -1)], 1)
    begin = groups.prompt_mask.sum(1)[:, None, None]
    behind = (begin + th.arange(c, device=device)).expand(n, g, c).reshape(n, -1)
    place = th.cat([positions(groups.prompt_mask), behind], 1)
    # The last token of the prompt predicts the first one of every completion.
    inner = p + th.arange(g * c, device=device).view(g, c)[:, :-1]
    keep = th.cat([th.tensor([p - 1], device=device), inner.reshape(-1)])
    with autocast():
        logits = model(
            input_ids=ids, position_ids=place, attention_mask=additive(block_mask(groups), dtype),
            use_cache=False, logits_to_keep=keep,
        ).logits  # fmt: skip
    logs = th.log_softmax(logits.float() / temperature, -1)
    first = logs[:, :1, None, :].expand(n, g, 1, -1) if c else logs[:, :0]
    logs = th.cat([first, logs[:, 1:].view(n, g, c - 1, -1)], 2)
    logps = logs.gather(-1, groups.completion_ids[..., None])[..., 0]
    return logps, -(logs.exp() * logs).sum(-1) if entropy else None
