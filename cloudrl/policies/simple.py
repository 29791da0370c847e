"""Policies that need no thought: nothing, anything that is allowed, one operation over and over."""

from __future__ import annotations

import numpy as np

from cloudrl.actions import N_OPS
from cloudrl.jit import kernel
from cloudrl.seeding import POLICY, stream, uniform


@kernel
def random_action(mask, key, tick, salt):  # type: ignore[no-untyped-def]
    """Uniform over the admissible actions, drawn from the world's key: the same on any batch."""
    n = 0
    for a in range(mask.shape[0]):
        if mask[a]:
            n += 1
    k = int(uniform(stream(key ^ np.uint64(salt), POLICY, tick), 0, 0) * n)
    for a in range(mask.shape[0]):
        if mask[a]:
            if k == 0:
                return a
            k -= 1
    return mask.shape[0] - 1


@kernel
def constant_action(mask, op, tick):  # type: ignore[no-untyped-def]
    """`op` on the next resource that allows it, round-robin; NOOP if none does."""
    n_slots = mask.shape[0] // N_OPS
    for d in range(n_slots):
        i = (tick + d) % n_slots
        if mask[i * N_OPS + op]:
            return i * N_OPS + op
    return mask.shape[0] - 1


@kernel
def round_robin_action(mask, tick):  # type: ignore[no-untyped-def]
    """Every operation in turn, each on the next resource that allows it."""
    return constant_action(mask, tick % N_OPS, tick // N_OPS)
