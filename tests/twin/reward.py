"""The training reward of a tick and the bill so far."""

from __future__ import annotations

from cloudrl.measurements import TICK_HOURS
from cloudrl.reward.weights import RewardWeights
from cloudrl.types import ADMISSIBLE
from tests.twin.model import World


def reward(weights: RewardWeights, w: World) -> None:
    """Five terms in units of the world's baseline infrastructure dollars per tick, and their clipped sum."""
    unit = w.base_cost * TICK_HOURS
    rejection = 0.0 if w.verdict == ADMISSIBLE else weights.rejection_penalty
    w.reward_cost = weights.cost * (1.0 - w.tick_infrastructure / unit)
    w.reward_security = -weights.security * (w.tick_exposure / unit)
    w.reward_reliability = -weights.reliability * (w.tick_outage / unit)
    w.reward_action = -weights.action * (w.tick_labour / unit + rejection)
    w.reward_failure = -weights.failure * (weights.failure_penalty * (w.tick_crashes + w.tick_breaches))
    total = w.reward_cost + w.reward_security + w.reward_reliability + w.reward_action + w.reward_failure
    w.reward = max(-weights.clip, min(weights.clip, total))
    w.reward_total += w.reward


def bill(w: World) -> float:
    """$ so far."""
    return w.infrastructure + w.outage + w.exposure + w.labour
