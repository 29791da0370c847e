"""What a picture shows of a world: a few facts per resource, in words and tones; no colour stands alone.

`facts` reads what monitoring shows, as the text rendering does; with `truth` also what is hidden from agents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cloudrl.actions import OP_NAMES
from cloudrl.memory.signature import HEALTH_BANDS
from cloudrl.simulator import Simulator
from cloudrl.types import CRASHED, DELETED, KIND_NAMES, QUEUE, RUNNING, STATUS_NAMES, STOPPED
from envs.cloudops.render_ansi import names_of

TONES = {
    "well": "#2b6cb0",  # healthy
    "worn": "#d69e2e",
    "ill": "#c2410c",
    "crashed": "#7a1f1f",
    "stopped": "#718096",
    "deleted": "#a0aec0",
}
"""Colour of a resource by its state; a test keeps them apart for people who see no red or no green. Every state is
also written."""
PARTS = {"infrastructure": "#8ea3c6", "outage": "#c2410c", "exposure": "#ecb94f", "labour": "#0f766e"}
"""Colours of the bill's parts, those of the report."""


@dataclass(frozen=True)
class Mark:
    """A letter or number beside a resource."""

    text: str
    title: str  # what it means
    hidden: bool = False  # agents do not see it


@dataclass(frozen=True)
class Fact:
    """One resource."""

    slot: int
    name: str
    kind: str
    size: str  # "4 vCPU"; empty for a queue, which has no size
    status: str  # "running", "crashed", or the operation in progress: "restart 3"
    tone: str  # a key of TONES
    health: float  # 0..1
    utilisation: float | None  # load / capacity; None where nothing runs
    busy: bool
    idle: bool  # no traffic is routed to it
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Trouble:
    """Services that a cascade takes down, and where it began."""

    root: int  # group, -1 = none
    hit: frozenset[int]  # groups with availability below 1/2
    blast: float  # share of the traffic


def facts(simulator: Simulator, world: int, truth: bool = False) -> list[Fact]:
    """The resources of a world, by slot."""
    n = int(simulator.state.worlds["n_resources"][world])
    names = names_of(simulator, world)
    return [_fact(slot, names[slot], simulator.state.resources[world, slot], truth) for slot in range(n)]


def trouble(simulator: Simulator, world: int) -> Trouble | None:
    """The cascade that runs in a world."""
    w: Any = simulator.state.worlds[world]
    if not w["cascade"]:
        return None
    groups = simulator.state.groups[world, : int(w["n_groups"])]
    hit = frozenset(g for g, group in enumerate(groups) if group["availability"] < 0.5 and not group["idle"])
    return Trouble(int(w["cascade_root"]), hit, float(w["cascade_blast"]))


def _fact(slot: int, name: str, r: Any, truth: bool) -> Fact:
    status, lag = int(r["status"]), 0 if truth else int(r["lag"])
    health = float(r["past_health"][lag])
    running = status == RUNNING
    busy = int(r["busy_ticks"]) > 0
    text = (
        f"{OP_NAMES[r['busy_op']].lower().replace('_', ' ')} {int(r['busy_ticks'])}"
        if busy
        else STATUS_NAMES[status]
    )
    return Fact(
        slot, name, KIND_NAMES[r["kind"]],
        "" if r["kind"] == QUEUE else f"{1 << int(r['size'])} vCPU",
        text, tone_of(status, health), health,
        float(r["past_utilisation"][lag]) if running else None, busy, bool(r["idle"]),
        _marks(r, truth) if status < DELETED else (),
    )  # fmt: skip


def tone_of(status: int, health: float) -> str:
    """The key of TONES."""
    if status in (STOPPED, CRASHED) or status >= DELETED:
        return STATUS_NAMES[status] if status < DELETED else "deleted"
    ill, well = HEALTH_BANDS
    return "ill" if health < ill else "worn" if health < well else "well"


def _marks(r: Any, truth: bool) -> tuple[Mark, ...]:
    out = []
    if r["alarm"]:
        out.append(Mark("!", "an alarm rings"))
    if r["exposure_seen"]:
        out.append(Mark("P", "open to the public"))
    elif truth and r["exposed"]:
        out.append(Mark("P", "open to the public, and nobody has noticed", True))
    for which, found in (("known", "known"), ("hidden", "not found yet")):
        count = int(r[f"{which}_count"])
        if count and (truth or which == "known"):
            worst, risk = float(r[f"{which}_cvss"]), 1.0 - math.exp(-float(r[f"{which}_epss"]))
            title = (
                f"{count} {'vulnerability' if count == 1 else 'vulnerabilities'} {found}, worst CVSS {worst:.1f}, "
                f"{100 * risk:.0f} % exploited within 30 days"
            )
            out.append(Mark(f"V{count}", title, which == "hidden"))
    return tuple(out)
