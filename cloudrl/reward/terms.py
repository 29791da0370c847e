"""The training reward R: five pure terms of one tick and their weighted sum.

R = w_c R_cost + w_s R_security + w_r R_reliability - w_a C_action - w_f P_failure

Each term is in units of D = the world's baseline infrastructure dollars per tick, so that a dollar weighs the same
in every term: terms squeezed to [0, 1] rank agents almost at random against the bill.
"""

from __future__ import annotations

from cloudrl.jit import kernel
from cloudrl.measurements import TICK_HOURS
from cloudrl.types import ADMISSIBLE

TERM_NAMES = ("cost", "security", "reliability", "action", "failure")


@kernel
def cost(w, unit):  # type: ignore[no-untyped-def]
    """1 - infrastructure: what is saved against the first state."""
    return 1.0 - w.tick_infrastructure / unit


@kernel
def security(w, unit):  # type: ignore[no-untyped-def]
    """Expected breach loss."""
    return -w.tick_exposure / unit


@kernel
def reliability(w, unit):  # type: ignore[no-untyped-def]
    """Outage and late answers."""
    return -w.tick_outage / unit


@kernel
def action(weights, w, unit):  # type: ignore[no-untyped-def]
    """Labour, and a little for a rejected action."""
    rejected = weights.rejection_penalty if w.verdict != ADMISSIBLE else 0.0
    return w.tick_labour / unit + rejected


@kernel
def failure(weights, w):  # type: ignore[no-untyped-def]
    """Crashes and breaches of this tick: shaping, not in the bill."""
    return weights.failure_penalty * (w.tick_crashes + w.tick_breaches)


@kernel
def reward(weights, w):  # type: ignore[no-untyped-def]
    """Write the weighted terms and their sum into the world; the sum alone is clipped."""
    unit = w.base_cost * TICK_HOURS
    w.reward_cost = weights.cost * cost(w, unit)
    w.reward_security = weights.security * security(w, unit)
    w.reward_reliability = weights.reliability * reliability(w, unit)
    w.reward_action = -weights.action * action(weights, w, unit)
    w.reward_failure = -weights.failure * failure(weights, w)
    total = w.reward_cost + w.reward_security + w.reward_reliability + w.reward_action + w.reward_failure
    w.reward = max(-weights.clip, min(weights.clip, total))
    w.reward_total += w.reward
