"""Choosing one valid action per world from a row of logits.

A draw depends on the world's key and the tick and on nothing else: not on how often a generator was
used before, and not on which worlds share the batch.
"""

from __future__ import annotations

import math

import numpy as np

from cloudrl.jit import kernel
from cloudrl.seeding import POLICY, stream, uniform


@kernel
def sample_masked(logits, masks, keys, ticks, actions, log_probs):  # type: ignore[no-untyped-def]
    """Draw from the softmax over the valid actions, by inverting its distribution function.

    logits (B, A) float32, masks (B, A) bool, keys (B,) uint64, ticks (B,) int64;
    writes actions (B,) int64 and log_probs (B,) float32.
    Returns the first row with no valid action or with a logit that is not finite, else -1.
    """
    n_worlds, n_actions = logits.shape
    valid = np.empty(n_actions, np.int64)
    weight = np.empty(n_actions, np.float32)
    for b in range(n_worlds):
        n = 0
        top = np.float32(-np.inf)
        for a in range(n_actions):
            if masks[b, a]:
                valid[n] = a
                weight[n] = logits[b, a]
                top = max(top, logits[b, a])
                n += 1
        total = 0.0
        for i in range(n):
            weight[i] = np.exp(weight[i] - top)
            total += weight[i]
        if n == 0 or not math.isfinite(total):
            return b
        threshold = uniform(stream(keys[b], POLICY, ticks[b]), 0, 0) * total
        choice, reached = 0, np.float64(weight[0])
        while reached <= threshold and choice < n - 1:
            choice += 1
            reached += weight[choice]
        actions[b] = valid[choice]
        log_probs[b] = logits[b, valid[choice]] - top - math.log(total)
    return -1


@kernel
def argmax_masked(logits, masks, noop_offset, actions):  # type: ignore[no-untyped-def]
    """The best valid action; the lowest index among equals. `noop_offset` is added to NOOP, the last index.

    logits (B, A) float32, masks (B, A) bool; writes actions (B,) int64.
    Returns the first row with no valid action or with nothing but NaN, else -1.
    """
    n_worlds, n_actions = logits.shape
    for b in range(n_worlds):
        best, best_logit = -1, -np.inf
        for a in range(n_actions):
            if masks[b, a]:
                logit = np.float64(logits[b, a])
                if a == n_actions - 1:
                    logit += noop_offset
                if logit > best_logit:
                    best, best_logit = a, logit
        if best < 0:
            return b
        actions[b] = best
    return -1
