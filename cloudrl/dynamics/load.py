"""Traffic that enters from outside, in units of its mean.

load(t) = profile(t) exp(e_t) burst,   e_t = a e_{t-1} + N(0, s^2),   bursts arrive as a Poisson process.

The profile (cloudrl/scenarios/profile.py) is a table over the ticks of its period: row 0 is the load, row 1 the
highest load within the forecast horizon of the capacity rule.
"""

from __future__ import annotations

import math

from cloudrl.jit import kernel
from cloudrl.seeding import LOAD, gaussian, stream, uniform

SOON_TICKS = 6  # "soon" in observations: half an hour


@kernel
def advance(p, w, profile):  # type: ignore[no-untyped-def]
    """Draw this tick's outside traffic into w.load; keep what was forecast for it."""
    draws = stream(w.key, LOAD, w.tick)
    w.noise = p.noise_persistence * w.noise + p.noise_sd * gaussian(uniform(draws, 0, 0), uniform(draws, 0, 1))
    if w.burst_ticks > 0:
        w.burst_ticks -= 1
        if w.burst_ticks == 0:
            w.burst = 1.0
    elif uniform(draws, 0, 2) < p.bursts_per_tick * w.burst_factor:
        length = (p.burst_ticks_max - p.burst_ticks_min) * uniform(draws, 0, 3)
        w.burst_ticks = p.burst_ticks_min + int(math.floor(length))
        w.burst = p.burst_low + (p.burst_high - p.burst_low) * uniform(draws, 0, 4)
    w.forecast_now = profile[0, profile_index(w, profile, 0)]
    w.load = w.forecast_now * math.exp(w.noise) * w.burst


@kernel
def look_ahead(w, profile):  # type: ignore[no-untyped-def]
    """Store what the forecast says at the start of the coming tick."""
    w.forecast_peak = profile[1, profile_index(w, profile, 0)]
    w.forecast_soon = profile[0, profile_index(w, profile, SOON_TICKS)]


@kernel
def profile_index(w, profile, ahead):  # type: ignore[no-untyped-def]
    """Column of the profile table for the tick `ahead` of now."""
    return int(w.tick + int(w.phase) + ahead) % profile.shape[1]
