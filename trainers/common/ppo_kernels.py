"""The loss of masked PPO and its derivative, in one pass over a minibatch.

Shapes: M samples of a minibatch, S samples of a rollout, A actions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from cloudrl.jit import kernel
from cloudrl.seeding import uniform


class HeadStatistics(NamedTuple):
    """Means over a minibatch, by stable-baselines3's names."""

    policy_gradient_loss: float
    value_loss: float
    entropy_loss: float
    approx_kl: float
    clip_fraction: float


@kernel
def shuffle(stream_key, order):  # type: ignore[no-untyped-def]
    """Fill `order` (S,) int64 with a permutation of 0 .. S-1 that only depends on the key (Fisher-Yates)."""
    for i in range(len(order)):
        order[i] = i
    for i in range(len(order) - 1, 0, -1):
        j = int(uniform(stream_key, i, 0) * (i + 1))
        order[i], order[j] = order[j], order[i]


# Sums may be reordered, which turns the loops over actions into vector instructions: four times faster, and
# still the same number every time. `kernel` is stricter because worlds must agree across machines.
_vectorised = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_LOWEST = np.float32(-3e38)
_TINY = np.float32(-80)  # e^-80 is nothing beside 1, and still a normal number
_LOG2_E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# e^r = 1 + r + r^2 polynomial(r) on |r| <= ln(2) / 2, to one unit in the last place (Moshier, Cephes: expf)
_E5, _E4, _E3 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_E2, _E1, _E0 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)


@_vectorised
def _masked_exp(logits, mask, shifted, weight, power):  # type: ignore[no-untyped-def]
    """Numerators of a masked softmax, weight = mask * exp(shifted) with shifted = logits - best valid logit.

    All arrays (A,); `power` int32 is scratch. Returns the best valid logit.
    """
    power_of_two = power.view(np.float32)
    top = _LOWEST
    for a in range(len(logits)):
        x = logits[a]
        x = x if mask[a] > _ZERO else _LOWEST
        top = x if x > top else top
    for a in range(len(logits)):
        x = logits[a] - top
        x = x if x > _TINY else _TINY
        x = x if x < _ZERO else _ZERO  # an invalid action may be above the best valid one
        shifted[a] = x
        k = np.floor(x * _LOG2_E + _HALF)
        r = x - k * _LN2_HIGH - k * _LN2_LOW
        polynomial = ((((_E5 * r + _E4) * r + _E3) * r + _E2) * r + _E1) * r + _E0
        weight[a] = polynomial * r * r + r + _ONE
        power[a] = (np.int32(k) + np.int32(127)) << np.int32(23)
    for a in range(len(logits)):
        weight[a] = weight[a] * power_of_two[a] * mask[a]
    return top


@_vectorised
def ppo_head(  # type: ignore[no-untyped-def]
    logits,  # (M, A) float32
    values,  # (M,) float32
    rows,  # (M,) int64: where the samples lie in the arrays of the rollout
    masks,  # (S, A) float32, 1 for a valid action and 0 for others
    actions,  # (S,) int64
    old_log_probs,  # (S,) float32
    old_values,  # (S,) float32
    advantages,  # (S,) float32
    returns,  # (S,) float32
    clip_range,
    clip_range_vf,  # infinite: the value loss is not clipped
    ent_coef,
    vf_coef,
    normalize_advantage,
    d_logits,  # (M, A) float32, out: derivative of the loss
    d_values,  # (M,) float32, out
):
    """Clipped surrogate + entropy bonus + value loss (Schulman et al., 2017), derivative included.

        loss = -mean min(r A, clip(r) A) - ent_coef mean H + vf_coef mean (R - v)^2,   r = p(a) / p_old(a)

    With p the softmax over valid actions and g = d loss / d log p(a):
        d loss / d logit_j = g (1[j = a] - p_j) + ent_coef / M p_j (log p_j + H)
    Returns the five numbers of HeadStatistics.
    """
    n_samples, n_actions = logits.shape
    share = 1.0 / n_samples
    mean, scale = 0.0, 1.0
    if normalize_advantage and n_samples > 1:
        for row in rows:
            mean += advantages[row]
        mean *= share
        square = 0.0
        for row in rows:
            square += (advantages[row] - mean) ** 2
        scale = 1.0 / (math.sqrt(square / (n_samples - 1)) + 1e-8)

    shifted = np.empty(n_actions, np.float32)
    weight = np.empty(n_actions, np.float32)
    power = np.empty(n_actions, np.int32)
    policy_loss, value_loss, entropy_sum, kl, n_clipped = 0.0, 0.0, 0.0, 0.0, 0
    for m in range(n_samples):
        row = rows[m]
        action = actions[row]

        # masked log-softmax and its entropy
        top = _masked_exp(logits[m], masks[row], shifted, weight, power)
        total, weighted = _ZERO, _ZERO
        for a in range(n_actions):
            total += weight[a]
            weighted += weight[a] * shifted[a]
        log_total = math.log(total)
        entropy = log_total - np.float64(weighted / total)
        log_prob = np.float64(logits[m, action] - top) - log_total

        # clipped surrogate
        log_ratio = log_prob - old_log_probs[row]
        ratio = math.exp(log_ratio)
        advantage = (advantages[row] - mean) * scale
        plain = advantage * ratio
        clipped = advantage * min(max(ratio, 1.0 - clip_range), 1.0 + clip_range)
        g = np.float32(-plain * share if plain <= clipped else 0.0)

        # derivative with respect to the logits; weight / total is p, shifted - log_total is log p
        inverse_total, bonus = np.float32(1.0 / total), np.float32(ent_coef * share)
        offset = np.float32(entropy - log_total)
        d_row = d_logits[m]
        for a in range(n_actions):
            d_row[a] = weight[a] * inverse_total * (bonus * (shifted[a] + offset) - g)
        d_row[action] += g

        # value loss, clipped around the old value if asked
        moved = np.float64(values[m]) - old_values[row]
        predicted = old_values[row] + min(max(moved, -clip_range_vf), clip_range_vf)
        error = predicted - returns[row]
        d_values[m] = 2.0 * vf_coef * error * share if abs(moved) <= clip_range_vf else 0.0

        policy_loss -= min(plain, clipped)
        value_loss += error * error
        entropy_sum += entropy
        kl += (ratio - 1.0) - log_ratio
        n_clipped += abs(ratio - 1.0) > clip_range
    return policy_loss * share, value_loss * share, -entropy_sum * share, kl * share, n_clipped * share
