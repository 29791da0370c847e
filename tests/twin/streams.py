"""SplitMix64 as a counter-based generator, on Python integers."""

from __future__ import annotations

import math

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
UNIT = 2.0**-53


def mix(z: int) -> int:
    """One output of SplitMix64 for the state `z`."""
    z = (z + GOLDEN) & WORD
    z = ((z ^ (z >> 30)) * MIX_1) & WORD
    z = ((z ^ (z >> 27)) * MIX_2) & WORD
    return z ^ (z >> 31)


def key_of_seed(seed: int) -> int:
    """Key of the world with this seed."""
    return mix(mix(seed) ^ MIX_2)


def uniform(stream: int, resource: int, slot: int) -> float:
    """Uniform in [0, 1): 53 bits of the mixed counter."""
    z = (stream + (resource * 32 + slot + 1) * GOLDEN) & WORD
    z = ((z ^ (z >> 30)) * MIX_1) & WORD
    z = ((z ^ (z >> 27)) * MIX_2) & WORD
    return ((z ^ (z >> 31)) >> 11) * UNIT


def gaussian(u1: float, u2: float) -> float:
    """Box-Muller."""
    return math.sqrt(-2.0 * math.log(u1 + 1e-300)) * math.cos(2.0 * math.pi * u2)


def log_uniform(u: float, low: float, high: float) -> float:
    """Log-uniform between `low` and `high`."""
    return low * math.exp(u * math.log(high / low))


class Luck:
    """All future draws of a world."""

    def __init__(self, key: int) -> None:
        self.key = key
        self._base: dict[int, int] = {}

    def stream(self, purpose: int, tick: int) -> int:
        """Key of the draws for one purpose at one tick."""
        base = self._base.get(purpose)
        if base is None:
            base = self._base[purpose] = mix((self.key + purpose * MIX_1) & WORD)
        return (base + (tick << 24) * GOLDEN) & WORD
