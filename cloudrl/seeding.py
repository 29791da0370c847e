"""Counter-based random streams.

A draw is a pure function of (world key, purpose, tick, resource, slot). Nothing is consumed, so an
agent's action never shifts what happens later, the result never depends on which worlds sit beside,
and two forks of a world share their future luck.

Keys are uint64. Every function casts them, because numba would turn the sum of a signed and an unsigned integer
into a float: so plain integers from Python are as good, or refused with an OverflowError from 2**63 on.

The mixer is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
"""

from __future__ import annotations

import math

import numpy as np

from cloudrl.jit import kernel

# One purpose, one family of draws: a change in how often one is used leaves the others alone.
WORLD, LOAD, FAILURE, SECURITY, DRIFT, OPERATION, SENSOR, BELIEF, POLICY, EVENT_DRAWS = range(1, 11)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TICK_BITS, _RESOURCE_BITS = np.uint64(24), np.uint64(5)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2**-53


@kernel
def mix(z):  # type: ignore[no-untyped-def]
    """SplitMix64: one uint64 in, one well-mixed uint64 out."""
    z = np.uint64(z) + _GOLDEN
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@kernel
def stream(world_key, purpose, tick):  # type: ignore[no-untyped-def]
    """Key of all draws for one purpose at one tick."""
    return mix(np.uint64(world_key) + np.uint64(purpose) * _MIX_1) + (np.uint64(tick) << _TICK_BITS) * _GOLDEN


@kernel
def uniform(stream_key, resource, slot):  # type: ignore[no-untyped-def]
    """Uniform in [0, 1). `slot` < 32; slots of one resource never meet those of another."""
    counter = (np.uint64(resource) << _RESOURCE_BITS) + np.uint64(slot)
    return np.float64(mix(np.uint64(stream_key) + counter * _GOLDEN) >> _11) * _TO_UNIT


@kernel
def gaussian(u1, u2):  # type: ignore[no-untyped-def]
    """Standard normal from two uniforms (Box-Muller)."""
    return math.sqrt(-2.0 * math.log(u1 + 1e-300)) * math.cos(6.283185307179586 * u2)


@kernel
def world_key(seed):  # type: ignore[no-untyped-def]
    """Key of the world with this seed."""
    return mix(mix(np.uint64(seed)) ^ _MIX_2)


@kernel
def log_uniform(u, low, high):  # type: ignore[no-untyped-def]
    """Log-uniform in [low, high] from one uniform."""
    return low * math.exp(u * math.log(high / low))


# Seeds a suite may use. Nobody trains on validation or test worlds.
TRAIN_SEEDS = range(0, 10_000)
VALIDATION_SEEDS = range(10_000, 20_000)
TEST_SEEDS = range(20_000, 30_000)
