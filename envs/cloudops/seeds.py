"""Which world an environment of a batch plays in which episode: a counter-based choice, nothing is consumed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np

from cloudrl.seeding import mix

_BITS = (1 << 64) - 1


def episode_seeds(seed: int, envs: Iterable[int], episodes: Iterable[int], split: range) -> np.ndarray:
    """World seed of each (environment, episode), inside `split`.

    It depends on nothing else, so never on the batch size. For one episode number, environments play different
    worlds (as long as the split has enough).
    """
    out = []
    for env, episode in zip(envs, episodes, strict=True):
        factor, offset = _permutation(seed, int(episode), len(split))
        out.append(split[(factor * int(env) + offset) % len(split)])
    return np.array(out, np.int64)


@functools.lru_cache(maxsize=4096)
def _permutation(seed: int, episode: int, n: int) -> tuple[int, int]:
    """(factor, offset) of a permutation of 0..n-1: env -> (factor env + offset) mod n."""
    key = int(mix(np.uint64(int(mix(np.uint64(seed & _BITS))) ^ (episode & _BITS))))
    offset = key % n
    factor = 1 + int(mix(np.uint64(key))) % n
    while math.gcd(factor, n) != 1:
        factor += 1
    return factor, offset
