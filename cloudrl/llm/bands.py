"""What an agent sees, in bands: the numbers of the observation that decide something, each in one word.

A need says what a cure would gain until the end of the episode: the stake that the observation states, less
labour, less the traffic that the cure would interrupt now, in baseline ticks. Like the observation it knows seen
facts and public constants, nothing else. It does not ask the mask: a need may be vetoed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cloudrl.jit import kernel
from cloudrl.memory.signature import HEALTH_BANDS
from cloudrl.observation import N_RESOURCE_FEATURES, N_WORLD_FEATURES, RESOURCE_COLUMN, STAKE_SCALE, WORLD_COLUMN

GAIN_BANDS = ("", "low", "mid", "high")
GAIN_EDGES = (0.0, 2.0, 8.0)
"""Baseline ticks: nothing to gain, a little, the price of a tick or two of the whole estate, much."""


class Fact(NamedTuple):
    """One fact and the words for its bands; "" is what goes without saying."""

    name: str
    bands: tuple[str, ...]


NEEDS = ("patch", "analyze", "rotate", "restrict", "encrypt", "log", "shrink", "stop", "delete")
RESOURCE_FACTS = (
    Fact("kind", ("vm", "db", "cache", "queue")),
    Fact("role", ("", "idle", "data", "critical")),  # the last that applies
    Fact("state", ("", "busy", "stopped", "down", "gone")),
    Fact("health", ("low", "mid", "")),
    Fact("load", ("", "low", "mid", "high", "full")),  # at the forecast peak; "" = carries none
    Fact("job", ("", "later", "soon", "now")),
    Fact("risk", ("", "mid", "high")),  # that the immune memory sees in touching it
    *(Fact(need, GAIN_BANDS) for need in NEEDS),
)
WORLD_FACTS = (
    Fact("time", ("early", "mid", "late")),
    Fact("load", ("low", "mid", "high")),
    Fact("trend", ("falling", "", "rising")),
    Fact("served", ("low", "mid", "")),
    Fact("cascade", ("", "cascade")),
    Fact("changes", ("", "some", "spent")),
)
FACT = {fact.name: k for k, fact in enumerate(RESOURCE_FACTS)}
N_FACTS, N_WORLD_FACTS = len(RESOURCE_FACTS), len(WORLD_FACTS)

PEAK_EDGES = (0.15, 0.39, 0.75)  # small enough to shrink; may be shrunk; soon too much
_SHRINKABLE = 0.386  # twice as much, with a tenth on top, is the limit of the capacity rule
_JOB_SOON, _JOB_NOW = 24.0, 4.0  # ticks
_STOP_SAVES = 0.9  # storage is still paid
_TIME_EDGES, _LOAD_EDGES, _TREND_EDGES = (1 / 3, 2 / 3), (0.8, 1.15), (0.95, 1.05)
_SERVED_EDGES, _CHANGES_EDGES, _RISK_EDGES = (0.9, 0.99), (0.5, 1.0), (0.1, 0.3)


_F, _G = N_RESOURCE_FEATURES, N_WORLD_FEATURES
_C, _W = RESOURCE_COLUMN, WORLD_COLUMN
_PRESENT, _VM, _DATABASE, _CACHE, _QUEUE = _C["present"], _C["vm"], _C["database"], _C["cache"], _C["queue"]
_RUNNING, _STOPPED, _CRASHED, _DELETED = _C["running"], _C["stopped"], _C["crashed"], _C["deleted"]
_BUSY, _IDLE, _DATA, _CRITICAL = _C["busy"], _C["idle"], _C["data_bearing"], _C["critical"]
_HEALTH, _PEAK, _JOB, _RISK = _C["health"], _C["utilisation_peak"], _C["job_ahead"], _C["memory_risk"]
_S_PATCH, _S_ANALYZE, _S_ROTATE = _C["stake_vulnerabilities"], _C["stake_unknown"], _C["stake_credentials"]
_S_RESTRICT, _S_ENCRYPT, _S_LOG = _C["stake_exposure"], _C["stake_encryption"], _C["stake_logging"]
_S_HALF, _S_PRICE, _S_DOWN = _C["stake_half"], _C["stake_price"], _C["stake_downtime"]
_W_PASSED, _W_LEFT, _W_LOAD, _W_SOON = _W["time_passed"], _W["time_left"], _W["load"], _W["forecast_soon"]
_W_SERVED, _W_CASCADE, _W_CHANGES, _W_LABOUR = _W["served"], _W["cascade"], _W["changes"], _W["labour_unit"]
_N_PATCH = FACT["patch"]


def labour_of(p: Any) -> np.ndarray:
    """(9,) dollars of labour per need, before the world's factor, from the scenario's record.

    An ANALYZE is worth nothing without the PATCH that follows, so it has the labour of both.
    """
    names = ("patch", "analyze", "rotate", "restrict", "encrypt", "logging", "resize", "stop_start", "delete")
    labour = np.array([float(p[f"labour_{name}"]) for name in names])
    labour[1] += labour[0]
    return labour


def bands(observations: np.ndarray, labour: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the band of every fact: resources (B, N, N_FACTS), -1 in empty slots; worlds (B, N_WORLD_FACTS)."""
    n_slots = (observations.shape[1] - _G) // _F
    resources = np.empty((len(observations), n_slots, N_FACTS), np.int8)
    worlds = np.empty((len(observations), N_WORLD_FACTS), np.int8)
    _bands(np.ascontiguousarray(observations), labour, resources, worlds)
    return resources, worlds


def split(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observations (B, D) as resources (B, N, F) and worlds (B, G): views."""
    cut = observations.shape[1] - _G
    return observations[:, :cut].reshape(len(observations), -1, _F), observations[:, cut:]


@kernel
def _bands(observations, labour, resources, worlds):  # type: ignore[no-untyped-def]
    n_slots = resources.shape[1]
    for b in range(observations.shape[0]):
        w = observations[b, n_slots * _F :]
        _world_bands(w, worlds[b])
        for i in range(n_slots):
            _resource_bands(observations[b, i * _F : (i + 1) * _F], w, labour, resources[b, i])


@kernel
def _world_bands(w, out):  # type: ignore[no-untyped-def]
    out[0] = _reached(w[_W_PASSED], _TIME_EDGES)
    out[1] = _reached(w[_W_LOAD], _LOAD_EDGES)
    out[2] = _reached(w[_W_SOON] / max(0.1, w[_W_LOAD]), _TREND_EDGES)
    out[3] = _reached(w[_W_SERVED], _SERVED_EDGES)
    out[4] = 1 if w[_W_CASCADE] > 0.0 else 0
    out[5] = _passed(w[_W_CHANGES], _CHANGES_EDGES)


@kernel
def _resource_bands(o, w, labour, out):  # type: ignore[no-untyped-def]
    if o[_PRESENT] == 0.0:
        out[:] = -1
        return
    out[:] = 0
    out[0] = 1 if o[_DATABASE] > 0.0 else (2 if o[_CACHE] > 0.0 else (3 if o[_QUEUE] > 0.0 else 0))
    out[3] = len(HEALTH_BANDS)
    if o[_DELETED] > 0.0:
        out[2] = 4
        return
    idle, running = o[_IDLE] > 0.0, o[_RUNNING] > 0.0
    out[1] = 3 if o[_CRITICAL] > 0.0 else (2 if o[_DATA] > 0.0 else (1 if idle else 0))
    if o[_CRASHED] > 0.0:
        out[2] = 3
    elif o[_STOPPED] > 0.0 and o[_BUSY] == 0.0:
        out[2] = 2
    elif o[_BUSY] > 0.0:
        out[2] = 1
    out[3] = _reached(o[_HEALTH], HEALTH_BANDS)
    if running and not idle:
        out[4] = 1 + _reached(o[_PEAK], PEAK_EDGES)
    ahead, job = 48.0 * o[_JOB], o[_JOB] > -1.0
    if job:
        out[5] = 1 + (1 if ahead <= _JOB_SOON else 0) + (1 if ahead <= _JOB_NOW else 0)
    out[6] = _reached(o[_RISK], _RISK_EDGES)
    if o[_BUSY] > 0.0:  # nothing can be done with it now
        return
    gains = _gains(o, w, labour, idle, running, job, ahead)
    for k in range(len(gains)):
        out[_N_PATCH + k] = _passed(gains[k], GAIN_EDGES)


@kernel
def _gains(o, w, labour, idle, running, job, ahead):  # type: ignore[no-untyped-def]
    """Baseline ticks that each of NEEDS would gain; 0 for what makes no sense in the state it is in."""
    dollar, down, price = _ticks(w[_W_LABOUR]), _ticks(o[_S_DOWN]), _ticks(o[_S_PRICE])
    stop = delete = shrink = 0.0
    if idle and o[_CRITICAL] == 0.0:
        left = max(1.0, 288.0 * w[_W_LEFT])
        if running and (o[_VM] > 0.0 or o[_DATABASE] > 0.0):
            resting = min(1.0, max(0.0, ahead / left)) if job else 1.0
            labours = 2.0 if job else 1.0  # before its job it has to be started again
            stop = _STOP_SAVES * price * resting - labours * labour[7] * dollar
        if not job and o[_DATA] == 0.0:
            delete = price - labour[8] * dollar
    elif not idle and o[_PEAK] < _SHRINKABLE:
        shrink = _ticks(o[_S_HALF]) - labour[6] * dollar - down
    cut_over = 0.0 if o[_QUEUE] > 0.0 else down
    patch = analyze = encrypt = 0.0
    if running:
        patch = _ticks(o[_S_PATCH]) - labour[0] * dollar - down
        analyze = _ticks(o[_S_ANALYZE]) - labour[1] * dollar
        encrypt = _ticks(o[_S_ENCRYPT]) - labour[4] * dollar - cut_over
    return (
        patch,
        analyze,
        _ticks(o[_S_ROTATE]) - labour[2] * dollar,
        _ticks(o[_S_RESTRICT]) - labour[3] * dollar,
        encrypt,
        _ticks(o[_S_LOG]) - labour[5] * dollar,
        shrink,
        stop if stop >= delete else 0.0,
        delete if delete > stop else 0.0,
    )


@kernel
def _ticks(stake):  # type: ignore[no-untyped-def]
    """A stake feature in baseline ticks."""
    return (stake / STAKE_SCALE) ** 2


@kernel
def _reached(value, edges):  # type: ignore[no-untyped-def]
    """How many of the edges `value` has reached."""
    n = 0
    for edge in edges:
        if value >= edge:
            n += 1
    return n


@kernel
def _passed(value, edges):  # type: ignore[no-untyped-def]
    """How many of the edges `value` has passed: zero passes none."""
    n = 0
    for edge in edges:
        if value > edge:
            n += 1
    return n
