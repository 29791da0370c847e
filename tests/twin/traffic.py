"""Load from outside, its way through the dependencies, and cascades."""

from __future__ import annotations

import math
from types import SimpleNamespace

from cloudrl.dynamics.cascade import IMPAIRED, UNNOTICED
from cloudrl.dynamics.flow import DROP_FROM, DROP_MAX, IDLE_UTILISATION, UTILISATION_CAP
from cloudrl.dynamics.load import SOON_TICKS
from cloudrl.seeding import LOAD
from cloudrl.types import CACHED, RUNNING
from tests.twin import events
from tests.twin.generator import dependency_weight
from tests.twin.model import Edge, Group, Resource, World
from tests.twin.operations import downtime
from tests.twin.streams import gaussian, uniform


class Profile:
    """The load that is expected at each tick of its period, and the highest within the forecast horizon."""

    def __init__(self, load: list[float], peak: list[float]) -> None:
        self.load, self.peak, self.period = load, peak, len(load)

    def forecast(self, w: World) -> None:
        """What is known at the start of the coming tick."""
        now = (w.tick + int(w.phase)) % self.period
        w.forecast_peak = self.peak[now]
        w.forecast_soon = self.load[(now + SOON_TICKS) % self.period]


def arrive(p: SimpleNamespace, w: World, profile: Profile) -> None:
    """This tick's traffic from outside."""
    draws = w.luck.stream(LOAD, w.tick)
    shock = gaussian(uniform(draws, 0, 0), uniform(draws, 0, 1))
    w.noise = p.noise_persistence * w.noise + p.noise_sd * shock
    if w.burst_ticks > 0:
        w.burst_ticks -= 1
        if w.burst_ticks == 0:
            w.burst = 1.0
    elif uniform(draws, 0, 2) < p.bursts_per_tick * w.burst_factor:
        spread = p.burst_ticks_max - p.burst_ticks_min
        w.burst_ticks = p.burst_ticks_min + math.floor(spread * uniform(draws, 0, 3))
        w.burst = p.burst_low + (p.burst_high - p.burst_low) * uniform(draws, 0, 4)
    w.forecast_now = profile.load[(w.tick + int(w.phase)) % profile.period]
    w.load = w.forecast_now * math.exp(w.noise) * w.burst * events.load_factor(w)


def flow(p: SimpleNamespace, w: World) -> None:
    """Who is up; then load and queueing front to back, availability back to front."""
    for r in w.resources:
        r.serving = _serving(p, r)
        r.hold = False
    lost = 1.0 - w.served
    retries = min(p.retry_cap, 1.0 + lost + lost * lost + lost * lost * lost)
    for group in w.groups:
        group.load = group.entry_share * w.load * retries
    for group in w.groups:
        if group.idle:
            _serve_idle(group)
            continue
        _serve(p, group)
        for edge in group.edges:
            calls = group.load * group.capability * edge.calls
            if edge.cache is not None:
                calls *= 1.0 - p.cache_hit * edge.cache.warmth * edge.cache.serving
            edge.target.load += calls
    w.served = w.slow = 0.0
    for group in reversed(w.groups):
        available, in_time = group.capability, 1.0 - group.slow_self
        for edge in group.edges:
            weight = min(1.0, edge.calls * dependency_weight(p, edge.kind))
            available *= 1.0 - weight * (1.0 - edge.target.availability)
            if edge.kind != CACHED:
                in_time *= 1.0 - weight * edge.target.slow
        group.availability = available
        group.slow = 1.0 - in_time
        w.served += group.entry_share * available
        w.slow += group.entry_share * group.slow


def _serving(p: SimpleNamespace, r: Resource) -> float:
    if r.status != RUNNING:
        return 0.0
    share = 1.0 - downtime(p, r) if r.busy_ticks > 0 else 1.0
    return share * 0.5 if r.hold else share


def _serve_idle(group: Group) -> None:
    up = 0.0
    for r in group.members:
        up += r.serving
        r.utilisation = IDLE_UTILISATION if r.serving > 0.0 else 0.0
        r.latency = 1.0
    group.capability = min(1.0, up)
    group.slow_self = 0.0


def _serve(p: SimpleNamespace, group: Group) -> None:
    """Split the group's load over the members that are up, each a queue with one server per vCPU."""
    up = 0.0
    for r in group.members:
        up += r.serving
        r.utilisation = 0.0
        r.latency = 1.0
    served = late = 0.0
    if up > 0.0:
        for r in group.members:
            if r.serving <= 0.0:
                continue
            capacity = r.vcpu * (1.0 - p.unhealthy_capacity_loss * (1.0 - r.health))
            rho = group.load * group.demand / up / capacity
            r.utilisation = rho
            busy = min(rho, UTILISATION_CAP)
            for _ in range(r.size):  # rho to the power of the number of servers, by squaring
                busy *= busy
            r.latency = 1.0 / (1.0 - busy)
            dropped = DROP_MAX * max(0.0, min(1.0, (rho - DROP_FROM) / (1.0 - DROP_FROM)))
            if rho > 1.0:
                dropped += 1.0 - 1.0 / rho
            served += (1.0 - min(1.0, dropped)) * r.serving
            if r.latency > p.slow_response_ratio:
                late += r.serving
        late /= up
        served = min(1.0, up) * served / up
    group.capability = served
    group.slow_self = late


def track_cascade(p: SimpleNamespace, w: World) -> None:
    """A cascade runs while groups that are fine by themselves are dragged down by what they depend on."""
    w.tick_cascades = 0
    heaviest: Group | None = None
    impaired = total = 0.0
    for group in w.groups:
        if group.idle:
            continue
        total += group.weight
        if group.availability < IMPAIRED:
            impaired += group.weight
            if group.capability >= IMPAIRED and (heaviest is None or group.weight > heaviest.weight):
                heaviest = group
    if heaviest is None or w.served > UNNOTICED:
        w.cascade = False
        w.cascade_root = None
        w.cascade_blast = 0.0
        return
    root = root_of(p, heaviest)
    if root.availability < IMPAIRED:
        impaired -= root.weight
    w.cascade_root = root
    w.cascade_blast = impaired / total
    w.max_blast = max(w.max_blast, w.cascade_blast)
    if not w.cascade:
        w.cascade = True
        w.cascades += 1
        w.tick_cascades = 1


def root_of(p: SimpleNamespace, group: Group) -> Group:
    """Down the dependency that costs most availability, to the first group that fails by itself."""
    if group.capability < IMPAIRED:
        return group

    def loss(edge: Edge) -> float:
        return min(1.0, edge.calls * dependency_weight(p, edge.kind)) * (1.0 - edge.target.availability)

    worst = max(group.edges, key=loss, default=None)
    return group if worst is None or loss(worst) <= 0.0 else root_of(p, worst.target)
