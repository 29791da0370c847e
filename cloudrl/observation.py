"""State to numbers: what an agent sees. Hidden vulnerabilities, unseen exposure and future draws are not in here.

Layout, flat float32: `n_slots` blocks of RESOURCE_FEATURES, then WORLD_FEATURES. Stakes are dollars at stake until
the end of the episode, in units of the world's baseline infrastructure dollars per tick, under a square root (it
can be inverted, and spreads small sums); everything in them is public or seen.
"""

from __future__ import annotations

import math

import numpy as np

from cloudrl.actions import RESTART
from cloudrl.jit import kernel
from cloudrl.measurements import (
    TICK_HOURS,
    billed_price,
    breach_cost,
    downtime,
    exploit_intensity,
    mean_epss,
    serves,
    vulnerability_rate,
)
from cloudrl.types import DELETED, QUEUE, RUNNING

OBSERVATION_VERSION = 2

RESOURCE_FEATURES = (
    "present",
    "vm",
    "database",
    "cache",
    "queue",
    "running",
    "stopped",
    "crashed",
    "deleted",
    "busy",  # ticks left / 4
    "size",  # log2 vCPU / 3
    "critical",
    "data_bearing",
    "multi_az",
    "idle",
    "replicas",  # of its group / 3
    "replicas_free",  # running and not busy / 3
    "dependents",  # groups that call it / 4
    "weight",  # share of the world's traffic that needs it
    "health",
    "utilisation",
    "utilisation_peak",  # projected to the forecast peak of the next two hours
    "utilisation_soon",  # ... to the next half hour
    "latency",  # log2 of response / service time, / 4
    # the next two come from the load balancer, not from the resource's sensors: they are never late
    "availability",  # of its group
    "overloaded",  # ticks above utilisation 1, / 2
    "alarm",
    "known_count",  # / 4
    "known_epss",
    "known_cvss",  # / 10
    "exposure_seen",
    "exposure_base",
    "encrypted",
    "logging",
    "credential_age",  # days / 90
    "since_analyze",  # ticks / 144
    "since_restart",  # ticks / 24, at most 1
    "job_ahead",  # ticks until its job starts / 48: the schedule is known; -1 = none or over
    "job_running",
    "memory_risk",
    # stakes until the end
    "stake_vulnerabilities",  # what PATCH would save
    "stake_unknown",  # what an ANALYZE and PATCH of the average unknown would save
    "stake_credentials",  # ROTATE_CREDS
    "stake_exposure",  # RESTRICT_ACCESS
    "stake_encryption",  # ENCRYPT
    "stake_logging",  # ENABLE_LOGGING
    "stake_half",  # half its price: RESIZE_DOWN
    "stake_price",  # its price now: STOP, DELETE
    "stake_downtime",  # value lost by a disruptive operation on it now
    # not numbers but pointers: (slot of the first replica + 1) / n_slots, 0 = none
    "dependency_0",
    "dependency_1",
    "dependency_2",
    "dependency_3",
)

WORLD_FEATURES = (
    "time_passed",
    "time_left",  # ticks / 288
    "load",
    "load_over_forecast",  # of the tick just played
    "forecast_soon",
    "forecast_peak",
    "served",
    "slow",
    "cascade",
    "cascade_blast",
    "changes",  # change budget used
    "value",  # log of $ value per $ infrastructure, / 4
    "breach_factor",  # log
    "labour_unit",  # one dollar of labour in the unit of the stakes
    "burst_factor",  # log
    "base_cost",  # $ / hour, log
)

N_RESOURCE_FEATURES = len(RESOURCE_FEATURES)
N_WORLD_FEATURES = len(WORLD_FEATURES)
RESOURCE_COLUMN = {name: k for k, name in enumerate(RESOURCE_FEATURES)}
WORLD_COLUMN = {name: k for k, name in enumerate(WORLD_FEATURES)}
DEPENDENCY_COLUMNS = tuple(RESOURCE_COLUMN[f"dependency_{k}"] for k in range(4))

_F, _D = N_RESOURCE_FEATURES, DEPENDENCY_COLUMNS[0]
STAKE_SCALE = 0.25
LIMIT = 10.0
_LOAD_MIN = 0.3
_LIMIT, _STAKE_SCALE, _ZERO = np.float32(LIMIT), np.float32(STAKE_SCALE), np.float32(0.0)
_INV_LOG2 = 1.0 / math.log(2.0)


def size(n_slots: int) -> int:
    """Length of the observation of a world with `n_slots` slots."""
    return n_slots * N_RESOURCE_FEATURES + N_WORLD_FEATURES


def stake_to_ticks(feature: float) -> float:
    """A stake feature back in baseline infrastructure ticks."""
    return (feature / STAKE_SCALE) ** 2


@kernel
def stake(ticks):  # type: ignore[no-untyped-def]
    """Feature for an amount in baseline infrastructure ticks, in single precision: nine roots per resource."""
    return min(_LIMIT, _STAKE_SCALE * math.sqrt(max(_ZERO, np.float32(ticks))))


@kernel
def observe(p, w, groups, resources, edges, out):  # type: ignore[no-untyped-def]
    """Write the observation of one world into `out` (float32, length `size(n_slots)`)."""
    n_slots = resources.shape[0]
    left = float(p.ticks - w.tick)
    to_ticks = 1.0 / (w.base_cost * TICK_HOURS)  # dollars to baseline ticks
    load = max(_LOAD_MIN, w.load)
    peak, soon = w.forecast_peak / load, w.forecast_soon / load
    for g in range(w.n_groups):
        group = groups[g]
        free = 0
        for i in range(group.first, group.first + group.count):
            if serves(resources[i]):
                free += 1
        for i in range(group.first, group.first + group.count):
            r = resources[i]
            o = out[i * _F : (i + 1) * _F]
            _describe(r, group, free, w.tick, p.job_ticks, o)
            rho = r.past_utilisation[r.lag]
            o[19] = r.past_health[r.lag]
            o[20] = min(2.0, rho)
            o[21] = min(3.0, rho * peak)
            o[22] = min(3.0, rho * soon)
            latency = r.past_latency[r.lag]
            o[23] = min(2.0, 0.25 * _INV_LOG2 * math.log(latency)) if latency > 1.0 else 0.0
            _appraise(p, w, group, r, left, to_ticks, load, o)
            shown = min(4, group.edge_count)
            for k in range(4):
                o[_D + k] = 0.0
            for k in range(shown):
                o[_D + k] = (groups[edges[group.edge_first + k].target].first + 1.0) / n_slots
    for j in range(w.n_resources * _F, n_slots * _F):
        out[j] = 0.0
    o = out[n_slots * _F :]
    o[0] = w.tick / p.ticks
    o[1] = min(LIMIT, left / 288.0)
    o[2] = min(LIMIT, w.load)
    o[3] = min(LIMIT, w.load / max(0.1, w.forecast_now))
    o[4] = min(LIMIT, w.forecast_soon)
    o[5] = min(LIMIT, w.forecast_peak)
    o[6] = w.served
    o[7] = w.slow
    o[8] = w.cascade
    o[9] = w.cascade_blast
    o[10] = min(LIMIT, w.changes / p.change_budget)
    o[11] = w.log_value
    o[12] = w.log_breach
    o[13] = stake(w.labour_factor * to_ticks)
    o[14] = w.log_burst
    o[15] = w.log_cost


@kernel
def _describe(r, group, free, tick, job_ticks, o):  # type: ignore[no-untyped-def]
    """What the resource is and how it stands."""
    for k in range(9):
        o[k] = 0.0
    o[0] = 1.0
    o[1 + r.kind] = 1.0
    o[5 + r.status] = 1.0
    o[9] = 0.25 * r.busy_ticks
    o[10] = r.size / 3.0
    o[11] = r.critical
    o[12] = r.data_bearing
    o[13] = r.multi_az
    o[14] = r.idle
    o[15] = min(LIMIT, group.count / 3.0)
    o[16] = min(LIMIT, free / 3.0)
    o[17] = min(LIMIT, 0.25 * group.dependents)
    o[18] = min(LIMIT, group.weight)
    o[24] = group.availability
    o[25] = min(2.0, 0.5 * r.overload_ticks)
    o[26] = r.alarm
    o[27] = min(LIMIT, 0.25 * r.known_count)
    o[28] = min(LIMIT, r.known_epss)
    o[29] = 0.1 * r.known_cvss
    o[30] = r.exposure_seen
    o[31] = r.exposure_base
    o[32] = r.encrypted
    o[33] = r.logging
    o[34] = min(4.0, r.credential_days / 90.0)
    o[35] = min(4.0, r.ticks_since_analyze / 144.0)
    o[36] = min(1.0, r.ticks_since_restart / 24.0)
    ahead = float(r.job_start - tick)
    pending = r.job_start >= 0 and tick < r.job_start + job_ticks
    o[37] = max(-1.0, min(LIMIT, ahead / 48.0)) if pending else -1.0
    o[38] = 1.0 if pending and ahead <= 0.0 else 0.0
    o[39] = r.memory_risk


@kernel
def _appraise(p, w, group, r, left, to_ticks, load, o):  # type: ignore[no-untyped-def]
    """Dollars at stake on this resource, from seen facts and public constants."""
    if r.status >= DELETED:
        for k in range(40, 49):
            o[k] = 0.0
        return
    seen, age, epss = r.exposure_seen, r.credential_days, r.known_epss
    loss = breach_cost(p, w, r) * to_ticks * left
    unknown = vulnerability_rate(p, r) * r.ticks_since_analyze * mean_epss(p)
    risk = exploit_intensity(p, r, epss, seen, age)
    total = exploit_intensity(p, r, epss + unknown, seen, age)
    o[40] = stake(loss * (risk - exploit_intensity(p, r, 0.0, seen, age)))
    o[41] = stake(loss * (total - risk))
    o[42] = stake(loss * (total - exploit_intensity(p, r, epss + unknown, seen, 0.0)))
    o[43] = stake(loss * (total - exploit_intensity(p, r, epss + unknown, 0, age))) if seen else 0.0
    o[44] = stake(loss * total * (1.0 - 1.0 / p.unencrypted_factor)) if r.data_bearing and not r.encrypted else 0.0
    o[45] = stake(loss * total * (1.0 - 1.0 / p.unlogged_factor)) if not r.logging else 0.0
    price = billed_price(p, r) * TICK_HOURS * to_ticks * left
    o[46] = stake(0.5 * price) if r.kind != QUEUE and r.size > 0 and r.status == RUNNING else 0.0
    o[47] = stake(price)
    down = downtime(p, r, RESTART, 1) / group.count
    o[48] = 0.0 if group.idle else stake(w.value * TICK_HOURS * to_ticks * load * min(1.0, group.weight) * down)


def names(n_slots: int) -> list[str]:
    """A name for every number of the observation: "r3.health", "world.load"."""
    of_resources = [f"r{i}.{f}" for i in range(n_slots) for f in RESOURCE_FEATURES]
    return of_resources + [f"world.{f}" for f in WORLD_FEATURES]


def bounds(n_slots: int) -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of the observation space."""
    high = np.full(size(n_slots), LIMIT, np.float32)
    return -high, high
