"""The two reductions of the set network: pool the live resources, average over dependencies.

On a CPU both run as numba kernels with hand-written derivatives: torch makes some ten passes over the
encodings for what is one pass here. On other devices the same is said in torch operations.

Shapes: S states, N slots, H features, K dependencies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th

from cloudrl.jit import kernel


@kernel
def _pool_forward(encodings, live, pooled, argmax, inverse_count):  # type: ignore[no-untyped-def]
    n_states, n_slots, width = encodings.shape
    for s in range(n_states):
        mean, top, where = pooled[0, s], pooled[1, s], argmax[s]
        mean[:] = 0
        top[:] = 0
        where[:] = -1
        count = 0
        for i in range(n_slots):
            if live[s, i] == 0:
                continue
            count += 1
            row = encodings[s, i]
            # Three loops, not one: each of them becomes vector instructions.
            for k in range(width):
                mean[k] += row[k]
            for k in range(width):
                where[k] = np.int32(i) if row[k] > top[k] else where[k]
            for k in range(width):
                top[k] = max(row[k], top[k])
        inverse_count[s] = 1.0 / max(count, 1)
        for k in range(width):
            mean[k] *= inverse_count[s]


@kernel
def _pool_backward(d_mean, d_top, live, argmax, inverse_count, d_encodings):  # type: ignore[no-untyped-def]
    n_states, n_slots, width = d_encodings.shape
    for s in range(n_states):
        row = d_mean[s]
        for i in range(n_slots):
            share = inverse_count[s] if live[s, i] != 0 else inverse_count[s] * 0
            out = d_encodings[s, i]
            for k in range(width):
                out[k] = share * row[k]
        for k in range(width):
            if argmax[s, k] >= 0:
                d_encodings[s, argmax[s, k], k] += d_top[s, k]


class _LivePool(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, encodings: th.Tensor, live: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        n_states, _, width = encodings.shape
        pooled = encodings.new_empty(2, n_states, width)
        argmax = np.empty((n_states, width), np.int32)
        inverse_count = encodings.new_empty(n_states)
        _pool_forward(encodings.detach().numpy(), live.numpy(), pooled.numpy(), argmax, inverse_count.numpy())
        ctx.saved = live, argmax, inverse_count
        ctx.shape = encodings.shape
        return pooled[0], pooled[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        d_mean, d_top = grads
        live, argmax, inverse_count = ctx.saved
        d_encodings = d_mean.new_empty(ctx.shape)
        _pool_backward(
            d_mean.contiguous().numpy(),
            d_top.contiguous().numpy(),
            live.numpy(),
            argmax,
            inverse_count.numpy(),
            d_encodings.numpy(),
        )
        return d_encodings, None


def live_pool(encodings: th.Tensor, live: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Mean and maximum over the live slots, each (S, H); zeros where no slot is live.

    :param encodings: (S, N, H), not negative (the maximum starts from 0)
    :param live: (S, N) float, 1 for a live slot and 0 for padding
    """
    if encodings.device.type == "cpu":
        return _LivePool.apply(encodings.contiguous(), live.contiguous())
    kept = encodings * live[..., None]
    return kept.sum(1) / live.sum(1, keepdim=True).clamp(min=1), kept.amax(1)


@kernel
def _neighbours_forward(encodings, neighbours, averages):  # type: ignore[no-untyped-def]
    n_states, n_slots, width = encodings.shape
    for s in range(n_states):
        for i in range(n_slots):
            out = averages[s, i]
            out[:] = 0
            count = 0
            for j in neighbours[s, i]:
                if j >= 0:
                    count += 1
                    row = encodings[s, j]
                    for k in range(width):
                        out[k] += row[k]
            if count > 1:
                for k in range(width):
                    out[k] /= count


@kernel
def _neighbours_backward(d_averages, neighbours, d_encodings):  # type: ignore[no-untyped-def]
    n_states, n_slots, width = d_encodings.shape
    d_encodings[:] = 0
    for s in range(n_states):
        for i in range(n_slots):
            count = 0
            for j in neighbours[s, i]:
                count += j >= 0
            row = d_averages[s, i]
            for j in neighbours[s, i]:
                if j >= 0:
                    out = d_encodings[s, j]
                    for k in range(width):
                        out[k] += row[k] / count


class _NeighbourMean(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, encodings: th.Tensor, neighbours: th.Tensor) -> th.Tensor:
        averages = th.empty_like(encodings)
        _neighbours_forward(encodings.detach().numpy(), neighbours.numpy(), averages.numpy())
        ctx.neighbours = neighbours
        return averages

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        d_encodings = th.empty_like(grads[0])
        _neighbours_backward(grads[0].contiguous().numpy(), ctx.neighbours.numpy(), d_encodings.numpy())
        return d_encodings, None


def neighbour_mean(encodings: th.Tensor, neighbours: th.Tensor) -> th.Tensor:
    """Average of the encodings of each slot's dependencies, (S, N, H); zeros where it has none.

    :param encodings: (S, N, H)
    :param neighbours: (S, N, K) int32, the slots depended on, -1 for none
    """
    if encodings.device.type == "cpu":
        return _NeighbourMean.apply(encodings.contiguous(), neighbours.contiguous())
    n_states, n_slots, width = encodings.shape
    index = neighbours.clamp(min=0).long().reshape(n_states, -1, 1).expand(-1, -1, width)
    picked = encodings.gather(1, index).view(n_states, n_slots, -1, width)
    known = (neighbours >= 0).to(encodings.dtype)[..., None]
    return (picked * known).sum(2) / known.sum(2).clamp(min=1)
