"""Search for the best runbook: random lists, then hill climbing from the best few.

Objective: mean over training worlds of (J - J_noop) / J_noop, each capped at +1, so that every world counts alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from cloudrl.policies.runbook import N_PRIORITIES, OFF, SETTING_NAMES, Runbook
from cloudrl.policies.scripted import ScriptedPolicy, from_runbook, noop, play
from cloudrl.reward.bill import bill
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator

# ranges of the thresholds, in the order of Runbook
RANGES = {
    "patch_epss": (0.002, 0.5),
    "severe_epss": (0.05, 1.0),
    "analyze_age": (5.0, 320.0),
    "analyze_idle": (0.0, 1.0),
    "rotate_age": (15.0, 160.0),
    "down_peak": (0.15, 1.0),
    "up_soon": (0.4, 1.2),
    "heal_health": (0.3, 0.95),
    "quiet_load": (0.5, 1.6),
    "encrypt_all": (0.0, 1.0),
    "margin": (0.0, 4.0),
    "downtime_margin": (0.0, 2.0),
}
_LOW = np.array([RANGES[n][0] for n in SETTING_NAMES[N_PRIORITIES:]])
_HIGH = np.array([RANGES[n][1] for n in SETTING_NAMES[N_PRIORITIES:]])
_KEEP = 8


def random_settings(rng: np.random.Generator) -> np.ndarray:
    """A random order of the rules, some of them off, and random thresholds."""
    priorities = rng.permutation(N_PRIORITIES).astype(float)
    priorities[rng.random(N_PRIORITIES) < 0.12] = OFF
    thresholds = _LOW + (_HIGH - _LOW) * rng.random(len(_LOW))
    thresholds[0] = 0.003 * np.exp(5.0 * rng.random())
    return np.concatenate([priorities, thresholds])


def mutate(settings: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Change one to three settings."""
    out = settings.copy()
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.5:
            out[rng.integers(N_PRIORITIES)] = OFF if rng.random() < 0.25 else rng.uniform(-1, N_PRIORITIES)
        else:
            k = rng.integers(len(_LOW))
            step = (_HIGH[k] - _LOW[k]) * rng.normal() * 0.25
            out[N_PRIORITIES + k] = np.clip(out[N_PRIORITIES + k] + step, _LOW[k], _HIGH[k])
    return out


def search(
    scenario: Scenario,
    seconds: float,
    n_worlds: int = 96,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> tuple[Runbook, dict[str, float]]:
    """The best runbook on training worlds 0 .. n_worlds-1 within `seconds` of processor time, and how it did."""
    rng = np.random.default_rng(seed)
    sim = Simulator(scenario, n_worlds)
    sim.reset(np.arange(n_worlds))
    start = sim.snapshot()

    def bills(policy: ScriptedPolicy) -> np.ndarray:
        sim.restore(start)
        return bill(play(sim, policy))

    idle = bills(noop())

    def objective(settings: np.ndarray) -> float:
        j = bills(from_runbook("candidate", Runbook.from_vector(settings)))
        return float(np.minimum(1.0, (j - idle) / idle).mean())

    hand = objective(Runbook().vector())
    pool = [(hand, Runbook().vector())]
    begin, tried = time.process_time(), 0
    while (spent := time.process_time() - begin) < seconds:
        if spent < 0.3 * seconds:
            candidate = random_settings(rng)
        else:
            candidate = mutate(pool[min(int(rng.exponential(1.5)), len(pool) - 1)][1], rng)
        tried += 1
        value = objective(candidate)
        if len(pool) < _KEEP or value < pool[-1][0]:
            pool = sorted([*pool, (value, candidate)], key=lambda item: item[0])[:_KEEP]
            if report is not None and value == pool[0][0]:
                report(f"{spent:6.1f} s  {tried:6d} tried  {100 * value:+.2f} % of the idle bill")
    best = Runbook.from_vector(pool[0][1])
    return best, {"objective": pool[0][0], "handwritten": hand, "tried": tried, "worlds": n_worlds, "seed": seed}
