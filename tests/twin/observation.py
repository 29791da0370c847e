"""What an agent sees of a world, as numbers in the order of cloudrl.observation's names."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import numpy as np

from cloudrl.measurements import TICK_HOURS
from cloudrl.observation import _LOAD_MIN as LOAD_MIN
from cloudrl.observation import LIMIT, N_RESOURCE_FEATURES, STAKE_SCALE, names
from cloudrl.types import CACHE, DATABASE, DELETED, QUEUE, RUNNING, VM
from tests.twin.model import Group, Resource, World, billed_price
from tests.twin.risk import breach_cost, exploit_intensity, mean_epss

KINDS = (VM, DATABASE, CACHE, QUEUE)
N_STATUS = DELETED + 1
POINTERS = 4


@cache
def stakes(n_slots: int) -> np.ndarray:
    """Where the sums of money stand."""
    sums = [k for k, name in enumerate(names(n_slots)) if ".stake_" in name or name == "world.labour_unit"]
    return np.array(sums)


def squeeze(ticks: np.ndarray) -> np.ndarray:
    """Sums of money in baseline infrastructure ticks as features, in single precision from the start."""
    return np.minimum(np.float32(LIMIT), np.float32(STAKE_SCALE) * np.sqrt(np.maximum(np.float32(0.0), ticks)))


def observe(p: SimpleNamespace, w: World, n_slots: int) -> np.ndarray:
    """The whole observation."""
    out: list[float] = []
    to_ticks = 1.0 / (w.base_cost * TICK_HOURS)
    load = max(LOAD_MIN, w.load)
    for group in w.groups:
        free = sum(r.serves for r in group.members)
        pointers = [(edge.target.members[0].index + 1.0) / n_slots for edge in group.edges[:POINTERS]]
        pointers += [0.0] * (POINTERS - len(pointers))
        for r in group.members:
            out += _describe(p, w, group, r, free, load)
            out += _appraise(p, w, group, r, load, to_ticks)
            out += pointers
    out += [0.0] * ((n_slots - len(w.resources)) * N_RESOURCE_FEATURES)
    out += [
        w.tick / p.ticks,
        min(LIMIT, (p.ticks - w.tick) / 288.0),
        min(LIMIT, w.load),
        min(LIMIT, w.load / max(0.1, w.forecast_now)),
        min(LIMIT, w.forecast_soon),
        min(LIMIT, w.forecast_peak),
        w.served,
        w.slow,
        w.cascade,
        w.cascade_blast,
        min(LIMIT, w.changes / p.change_budget),
        w.log_value,
        w.log_breach,
        w.labour_factor * to_ticks,
        w.log_burst,
        w.log_cost,
    ]
    seen = np.array(out, np.float32)
    seen[stakes(n_slots)] = squeeze(seen[stakes(n_slots)])
    return seen


def _describe(p: SimpleNamespace, w: World, group: Group, r: Resource, free: int, load: float) -> list[float]:
    rho, latency = r.past_utilisation[r.lag], r.past_latency[r.lag]
    pending = r.job_start >= 0 and w.tick < r.job_start + p.job_ticks
    ahead = r.job_start - w.tick
    return [
        1.0,
        *(r.kind == kind for kind in KINDS),
        *(r.status == status for status in range(N_STATUS)),
        0.25 * r.busy_ticks,
        r.size / 3.0,
        r.critical,
        r.data_bearing,
        r.multi_az,
        r.idle,
        min(LIMIT, len(group.members) / 3.0),
        min(LIMIT, free / 3.0),
        min(LIMIT, 0.25 * group.dependents),
        min(LIMIT, group.weight),
        r.past_health[r.lag],
        min(2.0, rho),
        min(3.0, rho * (w.forecast_peak / load)),
        min(3.0, rho * (w.forecast_soon / load)),
        min(2.0, 0.25 * (1.0 / math.log(2.0)) * math.log(latency)),
        group.availability,
        min(2.0, 0.5 * r.overload_ticks),
        r.alarm,
        min(LIMIT, 0.25 * r.known_count),
        min(LIMIT, r.known_epss),
        0.1 * r.known_cvss,
        r.exposure_seen,
        r.exposure_base,
        r.encrypted,
        r.logging,
        min(4.0, r.credential_days / 90.0),
        min(4.0, r.ticks_since_analyze / 144.0),
        min(1.0, r.ticks_since_restart / 24.0),
        max(-1.0, min(LIMIT, ahead / 48.0)) if pending else -1.0,
        pending and ahead <= 0,
        r.memory_risk,
    ]


def _appraise(
    p: SimpleNamespace, w: World, group: Group, r: Resource, load: float, to_ticks: float
) -> tuple[float, ...]:
    """What is at stake on this resource until the end, from facts that are seen."""
    if r.status == DELETED:
        return (0.0,) * 9
    left = float(p.ticks - w.tick)
    loss = breach_cost(p, w, r) * to_ticks * left
    epss, seen, age = r.known_epss, r.exposure_seen, r.credential_days
    arrivals = 0.0 if r.kind == QUEUE else p.vulnerability_rate
    suspected = epss + arrivals * r.ticks_since_analyze * mean_epss(p)
    risk = exploit_intensity(p, r, epss, seen, age)
    total = exploit_intensity(p, r, suspected, seen, age)
    price = billed_price(p, r) * TICK_HOURS * to_ticks * left
    if r.kind == DATABASE and r.multi_az:
        down = p.downtime_multi_az
    else:
        down = p.downtime_cache if r.kind == CACHE else p.downtime_vm
    traffic = w.value * TICK_HOURS * to_ticks * load * min(1.0, group.weight)
    return (
        loss * (risk - exploit_intensity(p, r, 0.0, seen, age)),
        loss * (total - risk),
        loss * (total - exploit_intensity(p, r, suspected, seen, 0.0)),
        loss * (total - exploit_intensity(p, r, suspected, False, age)) if seen else 0.0,
        loss * total * (1.0 - 1.0 / p.unencrypted_factor) if r.data_bearing and not r.encrypted else 0.0,
        0.0 if r.logging else loss * total * (1.0 - 1.0 / p.unlogged_factor),
        0.5 * price if r.kind != QUEUE and r.size > 0 and r.status == RUNNING else 0.0,
        price,
        0.0 if group.idle else traffic * (down / len(group.members)),
    )
