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
_BURST_SIZES = 16  # that `believe` weighs


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


@kernel
def believe(p, w, surge, u_burst, u_size, u_rest):  # type: ignore[no-untyped-def]
    """Split the load over the forecast, which is seen, into noise and a burst, which are not: a draw by Bayes.

    `surge` is a factor on it that is known. Before any look at the load, the noise is N(0, s^2 / (1 - a^2)), and a
    burst runs for as large a share of the time as bursts arrive and last.
    """
    excess = math.log(w.load / (w.forecast_now * surge)) if w.load > 0.0 and w.forecast_now > 0.0 else 0.0
    sd = max(1e-9, p.noise_sd / math.sqrt(max(1e-9, 1.0 - p.noise_persistence**2)))
    rate = p.bursts_per_tick * w.burst_factor * 0.5 * (p.burst_ticks_min + p.burst_ticks_max)
    share = rate / (1.0 + rate)
    step = (p.burst_high - p.burst_low) / _BURST_SIZES
    calm = (1.0 - share) * math.exp(-0.5 * (excess / sd) ** 2)
    total = calm
    for k in range(_BURST_SIZES):
        z = (excess - math.log(p.burst_low + (k + 0.5) * step)) / sd
        total += share / _BURST_SIZES * math.exp(-0.5 * z * z)
    w.burst = 1.0
    w.burst_ticks = 0
    if share > 0.0 and (u_burst * total >= calm if total > 0.0 else excess > 0.0):
        w.burst_ticks = 1 + int(p.burst_ticks_max * u_rest)
        w.burst = p.burst_high
        left = u_size * (total - calm)
        for k in range(_BURST_SIZES):
            size = p.burst_low + (k + 0.5) * step
            z = (excess - math.log(size)) / sd
            left -= share / _BURST_SIZES * math.exp(-0.5 * z * z)
            if left < 0.0:
                w.burst = size
                break
    w.noise = excess - math.log(w.burst)
