"""Timed events: drawn at the start, carried out when their tick comes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace

from cloudrl.scenarios.events import Event
from cloudrl.seeding import EVENT_DRAWS
from cloudrl.types import CACHE, DATABASE, DELETED, FAILURE_INCIDENT, KIND_NAMES, QUEUE, RUNNING, VM
from tests.twin.model import Group, Resource, World, crash
from tests.twin.streams import uniform


def schedule(w: World, events: list[Event]) -> None:
    """When each event begins and ends, how strong it is, and the number that picks its victims."""
    w.events = events
    draws = w.luck.stream(EVENT_DRAWS, 0)
    for e, event in enumerate(events):
        start, ticks, strength, pick = (uniform(draws, e, slot) for slot in range(4))
        w.event_start[e] = event.start_min + math.floor((event.start_max - event.start_min + 1) * start)
        length = event.ticks_min + math.floor((event.ticks_max - event.ticks_min + 1) * ticks)
        w.event_end[e] = w.event_start[e] + length
        w.event_strength[e] = event.strength_low + (event.strength_high - event.strength_low) * strength
        w.event_pick[e] = pick


def under_way(w: World, kind: str) -> Iterator[int]:
    """Events of a kind that last over this tick."""
    for e, event in enumerate(w.events):
        if event.kind == kind and w.event_start[e] <= w.tick < w.event_end[e]:
            yield e


def load_factor(w: World) -> float:
    """Surges: a rise in six equal steps."""
    factor = 1.0
    for e in under_way(w, "surge"):
        risen = min(1.0, (w.tick - w.event_start[e] + 1.0) / 6)
        factor *= 1.0 + (w.event_strength[e] - 1.0) * risen
    return factor


def false_alarms(p: SimpleNamespace, w: World) -> float:
    """Probability of a false alarm of one resource."""
    return max([p.false_alarm_rate, *(w.event_strength[e] for e in under_way(w, "alarms"))])


def strike(w: World, r: Resource) -> None:
    """Whatever begins in this tick and reaches the resource; a lost zone, as long as it is lost."""
    lost = set(under_way(w, "zone"))
    for e, event in enumerate(w.events):
        begins = w.event_start[e] == w.tick
        if not (begins or e in lost) or r.status == DELETED or not _reaches(w, e, r):
            continue
        if uniform(w.luck.stream(EVENT_DRAWS, 1 + e), r.index, 0) >= event.share:
            continue
        strength = w.event_strength[e]
        if event.kind == "zone" and r.multi_az:
            r.hold = r.hold or begins
        elif event.kind in ("zone", "service"):
            if r.status == RUNNING:
                crash(w, r, w.event_end[e] - w.tick, FAILURE_INCIDENT)
                r.alarm = True
        elif event.kind == "hole" and r.kind != QUEUE:
            r.known_count += 1
            r.known_epss += strength
            r.known_cvss = 10.0
        elif event.kind == "leak":
            r.credential_days += strength
        elif event.kind == "price":
            r.unit_price *= strength


def _reaches(w: World, e: int, r: Resource) -> bool:
    event, pick = w.events[e], w.event_pick[e]
    if event.kind == "zone":
        return r.kind != QUEUE and (r.group.index + r.group.members.index(r)) % 3 == int(3 * pick)
    if event.kind == "service":
        candidates = [g for g in w.groups if _may_fail(event, g)]
        return bool(candidates) and r.group is candidates[int(len(candidates) * pick)]
    if event.hits == "one":
        return r.kind == (VM, DATABASE, CACHE)[int(3 * pick)]
    return event.hits in ("any", KIND_NAMES[r.kind])


def _may_fail(event: Event, group: Group) -> bool:
    kind = group.members[0].kind
    return not group.idle and kind != QUEUE and event.hits in ("any", "one", KIND_NAMES[kind])
