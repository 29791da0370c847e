"""Timed events: what happens once in an episode, at a time and with a strength drawn per world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cloudrl.errors import UserError, did_you_mean
from cloudrl.types import ANY_KIND, EVENT, EVENT_NAMES, KIND_NAMES, MAX_EVENTS, ONE_KIND

TARGETS = {"any": ANY_KIND, "one": ONE_KIND} | {name: kind for kind, name in enumerate(KIND_NAMES)}
"""What `hits` may say: every kind, one kind drawn per world (not queues), or that kind."""


@dataclass
class Event:
    """One event. All numbers are drawn uniformly per world, ends included.

    kind      what begins at the end of its first tick          `strength`
    surge     outside load is multiplied, rising for half an     x load
              hour, while it lasts
    alarms    sensors raise false alarms while it lasts          1 / (resource tick)
    zone      one of three zones is lost: what runs there        -
              crashes, however often it is restarted, until
              the zone is back; what is multi-AZ serves half
              for a tick, a queue is not hit
    service   all replicas of one service with traffic crash     -
    hole      a published vulnerability, known at once           exploitation probability in 30 days
    leak      credentials leak: as bad as this much older        days
    price     the price per vCPU is multiplied, for good         x price
    """

    kind: str = ""
    start_min: int = 0  # first tick
    start_max: int = 0
    ticks_min: int = 1  # how long; no matter for hole, leak and price, which stay
    ticks_max: int = 1
    strength_low: float = 1.0
    strength_high: float = 1.0
    hits: str = "any"  # kind of resource, see TARGETS; service: the kind that the service is of
    share: float = 1.0  # of those resources, each drawn by itself; service: of its replicas


def event_table(events: list[Event]) -> np.ndarray:
    """The events as an (E,) array of dtype EVENT, for the kernels. They have been checked."""
    table = np.zeros(len(events), EVENT)
    for row, event in zip(table, events, strict=True):
        row["kind"], row["hits"] = EVENT_NAMES.index(event.kind), TARGETS[event.hits]
        for name in ("start_min", "start_max", "ticks_min", "ticks_max", "strength_low", "strength_high", "share"):
            row[name] = getattr(event, name)
    return table


def check_events(prefix: str, events: list[Event], ticks: int) -> None:
    """Known kinds and targets, within the episode, and not more of them than a world has room for."""
    if len(events) > MAX_EVENTS:
        raise UserError(f"{prefix}.events: {len(events)} events; a scenario has at most {MAX_EVENTS}")
    for k, event in enumerate(events):
        where = f"{prefix}.events[{k}]"
        if event.kind not in EVENT_NAMES:
            raise UserError(f"{where}.kind='{event.kind}': no such event; {did_you_mean(event.kind, EVENT_NAMES)}")
        if event.hits not in TARGETS:
            raise UserError(f"{where}.hits='{event.hits}': no such kind; {did_you_mean(event.hits, TARGETS)}")
        if event.start_max >= ticks:
            raise UserError(f"{where}.start_max={event.start_max}: the episode has {ticks} ticks; begin within it")
