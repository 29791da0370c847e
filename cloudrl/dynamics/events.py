"""Timed events of a scenario (cloudrl/scenarios/events.py): when they begin, what they do.

The dice are thrown at reset, on a stream of their own: start, end, strength, and which zone, service or kind
(`pick`). Nothing of it is observed before it happens. A scenario without events has an empty table, and
every loop here is over at once.
"""

from __future__ import annotations

import math

from cloudrl.dynamics.failures import crash
from cloudrl.jit import kernel
from cloudrl.seeding import EVENT_DRAWS, stream, uniform
from cloudrl.types import (
    ALARM_FLOOD,
    ANY_KIND,
    CRASHED,
    DELETED,
    FAILURE_INCIDENT,
    HOLE,
    LEAK,
    ONE_KIND,
    PRICE,
    QUEUE,
    RUNNING,
    SERVICE_LOSS,
    SURGE,
    ZONE_LOSS,
)

ZONES = 3
RAMP_TICKS = 6  # a surge rises for half an hour
HOLE_CVSS = 10.0
_HITS = 1  # "ticks" 1 .. of the stream: who is hit by event 0 ..


@kernel
def schedule(table, w):  # type: ignore[no-untyped-def]
    """Draw every event of world `w`."""
    for e in range(table.shape[0]):
        _draw(table[e], w, e, 0)


@kernel
def _draw(event, w, e, now):  # type: ignore[no-untyped-def]
    """Draw event `e`, which begins at tick `now` at the earliest."""
    draws = stream(w.key, EVENT_DRAWS, 0)
    first = max(event.start_min, now)
    w.event_start[e] = first + int(math.floor((event.start_max - first + 1) * uniform(draws, e, 0)))
    ticks = event.ticks_min + int(math.floor((event.ticks_max - event.ticks_min + 1) * uniform(draws, e, 1)))
    w.event_end[e] = w.event_start[e] + ticks
    u = uniform(draws, e, 2)
    w.event_strength[e] = event.strength_low + (event.strength_high - event.strength_low) * u
    w.event_pick[e] = uniform(draws, e, 3)


@kernel
def surge(table, w, tick):  # type: ignore[no-untyped-def]
    """Factor on the outside load at `tick`."""
    factor = 1.0
    for e in range(table.shape[0]):
        if table[e].kind == SURGE and w.event_start[e] <= tick < w.event_end[e]:
            risen = min(1.0, (tick - w.event_start[e] + 1.0) / RAMP_TICKS)
            factor *= 1.0 + (w.event_strength[e] - 1.0) * risen
    return factor


@kernel
def false_alarm_rate(table, p, w):  # type: ignore[no-untyped-def]
    """Probability of a false alarm per resource in this tick."""
    rate = p.false_alarm_rate
    for e in range(table.shape[0]):
        if table[e].kind == ALARM_FLOOD and w.event_start[e] <= w.tick < w.event_end[e]:
            rate = max(rate, w.event_strength[e])
    return rate


@kernel
def strike(table, w, groups, resources):  # type: ignore[no-untyped-def]
    """Carry out the events that begin in this tick; a lost zone takes down what runs there until it is back."""
    for e in range(table.shape[0]):
        first = w.event_start[e] == w.tick
        if not first and not (table[e].kind == ZONE_LOSS and w.event_start[e] <= w.tick < w.event_end[e]):
            continue
        draws = stream(w.key, EVENT_DRAWS, _HITS + e)
        for i in range(w.n_resources):
            r = resources[i]
            if (
                r.status < DELETED
                and reaches(table[e], w, e, groups, resources, i)
                and uniform(draws, i, 0) < table[e].share
            ):
                _hit(table[e].kind, w, w.event_strength[e], w.event_end[e] - w.tick, first, r)


@kernel
def _hit(kind, w, strength, ticks, first, r):  # type: ignore[no-untyped-def]
    """What an event of `kind` with `ticks` left does to resource `r`. `first`: in its first tick."""
    if kind == ZONE_LOSS and r.multi_az:
        if first:
            r.hold = 1  # it fails over
    elif kind in (ZONE_LOSS, SERVICE_LOSS):
        if r.status == RUNNING:
            crash(w, r, ticks, FAILURE_INCIDENT)
            r.alarm = 1
    elif kind == HOLE:
        if r.kind != QUEUE:
            r.known_count += 1
            r.known_epss += strength
            r.known_cvss = HOLE_CVSS
    elif kind == LEAK:
        r.credential_days += strength
    elif kind == PRICE:
        r.unit_price *= strength


@kernel
def reaches(event, w, e, groups, resources, i):  # type: ignore[no-untyped-def]
    """True if event `e` is of the kind, the zone or the service of resource `i`."""
    r, pick = resources[i], w.event_pick[e]
    if event.kind == ZONE_LOSS:
        return r.kind != QUEUE and zone(groups, r, i) == int(ZONES * pick)
    if event.kind == SERVICE_LOSS:
        return r.group == _service(event, w, groups, resources, pick)
    if event.hits == ONE_KIND:
        return r.kind == int(QUEUE * pick)
    return event.hits == ANY_KIND or r.kind == event.hits


@kernel
def zone(groups, r, i):  # type: ignore[no-untyped-def]
    """Zone 0, 1 or 2 of resource `i`: the replicas of a service stand in different ones."""
    return (r.group + i - groups[r.group].first) % ZONES


@kernel
def _service(event, w, groups, resources, pick):  # type: ignore[no-untyped-def]
    """The group that is hit: one with traffic whose machines are of the event's kind; -1 if there is none."""
    n = 0
    for g in range(w.n_groups):
        n += _may_fail(event, groups[g], resources)
    k = int(n * pick)
    for g in range(w.n_groups):
        if _may_fail(event, groups[g], resources):
            if k == 0:
                return g
            k -= 1
    return -1


@kernel
def _may_fail(event, group, resources):  # type: ignore[no-untyped-def]
    kind = resources[group.first].kind
    return not group.idle and kind != QUEUE and (event.hits < 0 or kind == event.hits)


@kernel
def resample(table, w, groups, resources):  # type: ignore[no-untyped-def]
    """What an agent cannot know, drawn anew from `w.key`: events to come, and how long those under way will last.

    That a zone or a service is down is public; what crashed with it comes back with it.
    """
    for e in range(table.shape[0]):
        if w.event_start[e] >= w.tick:
            _draw(table[e], w, e, w.tick)
        elif w.event_end[e] >= w.tick:  # an end at this very tick has not been seen
            lasted = max(table[e].ticks_min, w.tick - w.event_start[e])
            u = uniform(stream(w.key, EVENT_DRAWS, 0), e, 1)
            ticks = lasted + int(math.floor((table[e].ticks_max - lasted + 1) * u))
            w.event_end[e] = w.event_start[e] + ticks
            if table[e].kind in (ZONE_LOSS, SERVICE_LOSS):
                for i in range(w.n_resources):
                    if resources[i].status == CRASHED and reaches(table[e], w, e, groups, resources, i):
                        resources[i].repair_ticks = w.event_end[e] - w.tick + 1
