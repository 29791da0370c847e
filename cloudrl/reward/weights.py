"""Weights of the training reward."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RewardWeights:
    """R = cost R_cost + security R_security + reliability R_reliability - action C_action - failure P_failure.

    Every term is in units of the world's own baseline infrastructure dollars per tick, so weights stay around 1.
    """

    cost: float = 1.0
    security: float = 1.0
    reliability: float = 1.0
    action: float = 1.0
    failure: float = 1.0
    failure_penalty: float = 2.0  # baseline ticks per crash or breach; shaping, not billed
    rejection_penalty: float = 0.05  # baseline ticks per invalid or vetoed action
    clip: float = 30.0  # baseline ticks; R is clipped to +-clip, the breakdown is not
