"""The runbook: a static priority list with thresholds, as an operations team would write it.

At each tick every rule looks at every resource (through the observation only); the due rule with the lowest
priority number acts. Disruptive maintenance waits for a quiet hour unless the resource has replicas. What is an
investment is made only if the stake it saves exceeds `margin` times its labour and the value it interrupts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np

from cloudrl.actions import (
    ANALYZE,
    DELETE,
    ENABLE_LOGGING,
    ENCRYPT,
    N_OPS,
    PATCH,
    RESIZE_DOWN,
    RESIZE_UP,
    RESTART,
    RESTRICT_ACCESS,
    ROTATE_CREDS,
    START,
    STOP,
)
from cloudrl.jit import kernel
from cloudrl.observation import N_RESOURCE_FEATURES, RESOURCE_COLUMN, STAKE_SCALE, WORLD_COLUMN

OFF = 1e9
"""A priority that never acts."""


@dataclass
class Runbook:
    """Priorities (lower acts first, OFF = never) and thresholds. The defaults are the hand-written runbook."""

    # priorities
    restart_crashed: float = 0.0
    restrict: float = 1.0
    patch_severe: float = 1.5
    stop_idle: float = 2.0
    start_for_job: float = 0.5
    delete_idle: float = 2.5
    rotate: float = 3.0
    analyze: float = 4.0
    patch: float = 5.0
    log: float = 6.0
    resize_up: float = 7.0
    resize_down: float = 8.0
    encrypt: float = 9.0
    heal: float = 10.0
    # thresholds
    patch_epss: float = 0.03  # exploitation probability x exposure
    severe_epss: float = 0.3
    analyze_age: float = 60.0  # ticks
    analyze_idle: float = 0.3  # x age on machines without traffic
    rotate_age: float = 90.0  # days
    down_peak: float = 0.25  # utilisation at the forecast peak after halving
    up_soon: float = 0.75  # utilisation in half an hour
    heal_health: float = 0.5
    quiet_load: float = 0.9  # maintenance below this load
    encrypt_all: float = 0.0  # > 0.5: also where no data lives
    margin: float = 1.0  # x labour: the least gain of an investment
    downtime_margin: float = 1.0  # x value interrupted, likewise

    def vector(self) -> np.ndarray:
        """(N_SETTINGS,) float64 for the kernel."""
        return np.array([float(v) for v in asdict(self).values()])

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> Runbook:
        return cls(*(float(v) for v in vector))

    def only(self, *rules: str) -> Runbook:
        """The same runbook with every other rule off."""
        off = {f.name: OFF for f in fields(self)[:N_PRIORITIES] if f.name not in rules}
        return Runbook(**{**asdict(self), **off})


SETTING_NAMES = tuple(f.name for f in fields(Runbook))
N_SETTINGS = len(SETTING_NAMES)
N_PRIORITIES = SETTING_NAMES.index("patch_epss")

COST_RULES = ("stop_idle", "start_for_job", "delete_idle", "resize_down")
SECURITY_RULES = ("restrict", "patch_severe", "rotate", "analyze", "patch", "log", "encrypt")
RELIABILITY_RULES = ("restart_crashed", "resize_up", "heal")

_RESTART_CRASHED, _RESTRICT, _PATCH_SEVERE, _STOP_IDLE = 0, 1, 2, 3
_START_FOR_JOB, _DELETE_IDLE, _ROTATE, _ANALYZE, _PATCH, _LOG = 4, 5, 6, 7, 8, 9
_UP, _DOWN, _ENCRYPT, _HEAL = 10, 11, 12, 13
_PATCH_EPSS, _SEVERE_EPSS, _ANALYZE_AGE, _ANALYZE_IDLE, _ROTATE_AGE = 14, 15, 16, 17, 18
_DOWN_PEAK, _UP_SOON, _HEAL_HEALTH, _QUIET_LOAD = 19, 20, 21, 22
_ENCRYPT_ALL, _MARGIN, _DOWNTIME_MARGIN = 23, 24, 25

_F = N_RESOURCE_FEATURES
_C = RESOURCE_COLUMN
_RUNNING, _STOPPED, _CRASHED = _C["running"], _C["stopped"], _C["crashed"]
_IDLE, _REPLICAS, _DATA = _C["idle"], _C["replicas"], _C["data_bearing"]
_HEALTH, _UTILISATION = _C["health"], _C["utilisation"]
_PEAK, _SOON = _C["utilisation_peak"], _C["utilisation_soon"]
_KNOWN, _EPSS, _SEEN, _BASE = _C["known_count"], _C["known_epss"], _C["exposure_seen"], _C["exposure_base"]
_ENCRYPTED, _LOGGING, _AGE, _SINCE = _C["encrypted"], _C["logging"], _C["credential_age"], _C["since_analyze"]
_AHEAD, _CRITICAL, _QUEUE = _C["job_ahead"], _C["critical"], _C["queue"]
_SV, _SU, _SC = _C["stake_vulnerabilities"], _C["stake_unknown"], _C["stake_credentials"]
_SE, _SL, _SH, _SP, _SD = (
    _C["stake_encryption"], _C["stake_logging"], _C["stake_half"], _C["stake_price"], _C["stake_downtime"],
)  # fmt: skip
_LOAD, _LABOUR_UNIT = WORLD_COLUMN["load"], WORLD_COLUMN["labour_unit"]
# public labour table, $ (base.yaml); scaled by the world's labour factor through the observation
_PATCH_USD, _ENCRYPT_USD, _ANALYZE_USD, _LOG_USD, _CHANGE_USD, _DELETE_USD = 0.5, 1.0, 0.6, 0.1, 0.25, 1.5


@kernel
def _worth(s, o, stake_column, usd, dollar, disruptive):  # type: ignore[no-untyped-def]
    """True if the stake (baseline ticks) exceeds the margins on labour and interrupted value."""
    gain = (o[stake_column] / STAKE_SCALE) ** 2
    cost = s[_MARGIN] * usd * dollar
    if disruptive:
        cost += s[_DOWNTIME_MARGIN] * (o[_SD] / STAKE_SCALE) ** 2
    return gain >= cost


@kernel
def runbook(s, observation, mask, n_slots):  # type: ignore[no-untyped-def]
    """Flat action of the runbook with settings `s` for one observation and mask."""
    load = observation[n_slots * _F + _LOAD]
    dollar = (observation[n_slots * _F + _LABOUR_UNIT] / STAKE_SCALE) ** 2
    best, act = 1e8, n_slots * N_OPS
    for i in range(n_slots):
        o = observation[i * _F : (i + 1) * _F]
        m = mask[i * N_OPS : (i + 1) * N_OPS]
        if o[0] == 0.0:
            continue
        base = i * N_OPS
        idle = o[_IDLE] > 0.5
        quiet = load <= 1.25 if idle or o[_REPLICAS] > 0.5 else load <= s[_QUIET_LOAD]
        job_near = o[_AHEAD] > -1.0 and o[_AHEAD] < 1.0
        if o[_CRASHED] > 0.5 and m[RESTART]:
            q = s[_RESTART_CRASHED] - 0.01 * o[_CRITICAL]
            if q < best:
                best, act = q, base + RESTART
        if o[_SEEN] > 0.5 and m[RESTRICT_ACCESS] and s[_RESTRICT] < best:
            best, act = s[_RESTRICT], base + RESTRICT_ACCESS
        if o[_KNOWN] > 0.0 and m[PATCH]:
            g = o[_EPSS] * (1.0 if o[_SEEN] > 0.5 else (0.5 if o[_BASE] > 0.2 else 0.25))
            q = s[_PATCH_SEVERE] - 0.5 * min(1.0, g)
            if g > s[_SEVERE_EPSS] and q < best:
                best, act = q, base + PATCH
            q = s[_PATCH] - 0.5 * min(1.0, g)
            if g > s[_PATCH_EPSS] and quiet and q < best and _worth(s, o, _SV, _PATCH_USD, dollar, True):
                best, act = q, base + PATCH
        if m[ANALYZE]:
            age = o[_SINCE] * 144.0 * (s[_ANALYZE_IDLE] if idle or o[_QUEUE] > 0.5 else 1.0)
            q = s[_ANALYZE] - 0.2 * o[_BASE] - 0.1 * o[_DATA] - 0.0005 * min(288.0, o[_SINCE] * 144.0)
            if age > s[_ANALYZE_AGE] and q < best and _worth(s, o, _SU, _ANALYZE_USD, dollar, False):
                best, act = q, base + ANALYZE
        if o[_LOGGING] < 0.5 and m[ENABLE_LOGGING] and s[_LOG] < best:  # noqa: SIM102
            if _worth(s, o, _SL, _LOG_USD, dollar, False):
                best, act = s[_LOG], base + ENABLE_LOGGING
        if o[_AGE] * 90.0 > s[_ROTATE_AGE] and m[ROTATE_CREDS] and o[_STOPPED] < 0.5:
            q = s[_ROTATE] - 0.1 * o[_AGE] - 0.1 * o[_DATA]
            if q < best and _worth(s, o, _SC, _CHANGE_USD, dollar, False):
                best, act = q, base + ROTATE_CREDS
        if o[_ENCRYPTED] < 0.5 and m[ENCRYPT] and quiet and s[_ENCRYPT] < best:
            useful = o[_DATA] > 0.5 and _worth(s, o, _SE, _ENCRYPT_USD, dollar, True)
            if useful or s[_ENCRYPT_ALL] > 0.5:
                best, act = s[_ENCRYPT], base + ENCRYPT
        if idle:
            if o[_RUNNING] > 0.5 and m[STOP] and not job_near and s[_STOP_IDLE] < best:  # noqa: SIM102
                if _worth(s, o, _SP, _CHANGE_USD, dollar, False):
                    best, act = s[_STOP_IDLE], base + STOP
            if m[DELETE] and s[_DELETE_IDLE] < best and _worth(s, o, _SP, _DELETE_USD, dollar, False):
                best, act = s[_DELETE_IDLE], base + DELETE
            due = o[_AHEAD] > -1.0 and o[_AHEAD] < 0.09
            if o[_STOPPED] > 0.5 and m[START] and due and s[_START_FOR_JOB] < best:
                best, act = s[_START_FOR_JOB], base + START
        elif o[_RUNNING] > 0.5:
            q = s[_DOWN] - 0.1 * o[_SH]
            if m[RESIZE_DOWN] and o[_PEAK] > 0.0 and 2.0 * o[_PEAK] < s[_DOWN_PEAK] and quiet and q < best:  # noqa: SIM102
                if _worth(s, o, _SH, _CHANGE_USD, dollar, True):
                    best, act = q, base + RESIZE_DOWN
            if m[RESIZE_UP] and max(o[_UTILISATION], o[_SOON]) > s[_UP_SOON] and s[_UP] < best:
                best, act = s[_UP], base + RESIZE_UP
            if m[RESTART] and o[_HEALTH] < s[_HEAL_HEALTH] and quiet and s[_HEAL] < best:
                best, act = s[_HEAL], base + RESTART
        elif o[_STOPPED] > 0.5 and m[START] and max(o[_PEAK], o[_SOON]) > s[_UP_SOON] and s[_UP] < best:
            best, act = s[_UP], base + START
    return act
