"""Immune memory: what was done or happened in which situation, and whether a cascade or breach followed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cloudrl.actions import N_OPS
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import _DECAY_EVERY as DECAY_EVERY
from cloudrl.memory.signature import HEALTH_BANDS, LOAD_BANDS
from cloudrl.types import BREACH_INCIDENT, NO_INCIDENT
from tests.twin.model import Group, Note, Resource, World
from tests.twin.operations import DISRUPTIVE


@dataclass(slots=True)
class Evidence:
    bad: float = 0.0
    good: float = 0.0
    severity: float = 0.0
    last_seen: int = -1


def band(value: float, limits: tuple[float, float]) -> int:
    """0, 1 or 2: below, between or above two limits."""
    return 0 if value < limits[0] else 1 if value < limits[1] else 2


def context(r: Resource) -> int:
    """The situation of a resource as a number: kind, health, load, dependents, exposure."""
    number = r.kind * 3 + band(r.past_health[r.lag], HEALTH_BANDS)
    number = number * 3 + band(r.past_utilisation[r.lag], LOAD_BANDS)
    number = number * 3 + min(2, r.group.dependents)
    return number * 2 + r.exposure_seen


class TwinMemory:
    """One memory, shared by the worlds that are stepped in turn."""

    def __init__(self, config: MemoryConfig | None = None) -> None:
        self.config = config or MemoryConfig()
        self.evidence: dict[tuple[int, int], Evidence] = {}
        self.antibodies: dict[int, frozenset[int]] = {}
        self.risk: dict[int, float] = {}
        self.episodes = 0
        self.changed = False

    @property
    def writable(self) -> bool:
        return self.config.enabled and not self.config.frozen

    # ------------------------------------------------------------------ notes of a world
    def note(self, w: World, r: Resource, event: int) -> None:
        """Put something on the world's waiting list; the oldest makes room if it is full."""
        entry = Note((context(r), event), r.group, w.tick)
        if None in w.pending:
            place = w.pending.index(None)
        else:
            place = min(range(len(w.pending)), key=lambda k: (w.pending[k].tick, k))  # type: ignore[union-attr]
        w.pending[place] = entry

    def blame(self, w: World, group: Group | None, severity: float) -> None:
        """What was done on this group within the window was bad."""
        for entry in w.pending:
            if entry is not None and entry.group is group:
                entry.bad = True
                entry.severity = max(entry.severity, severity)

    def watch(self, w: World) -> None:
        """After a tick: incidents, blame, and the notes whose time is over."""
        for r in w.resources:
            if r.incident != NO_INCIDENT:
                self.note(w, r, N_OPS + r.incident - 1)
                if r.incident == BREACH_INCIDENT:
                    self.blame(w, r.group, 1.0)
        if w.tick_cascades:
            self.blame(w, w.cascade_root, w.cascade_blast)
        for place, entry in enumerate(w.pending):
            if entry is not None and w.tick >= entry.tick + self.config.window_ticks:
                w.pending[place] = None
                if self.writable:
                    self._learn(entry)

    def _learn(self, entry: Note) -> None:
        e = self.evidence.setdefault(entry.signature, Evidence())
        if entry.bad:
            e.bad += 1.0
            e.severity += entry.severity
        else:
            e.good += 1.0
        e.last_seen = self.episodes
        self.changed = True

    # ------------------------------------------------------------------ once per tick of the batch
    def settle(self, episodes_ended: int) -> None:
        """Merge what the worlds learned in this tick; count episodes and let evidence fade."""
        if self.changed:
            self.refresh()
        if not self.writable or episodes_ended == 0:
            return
        before = self.episodes
        self.episodes += episodes_ended
        rounds = self.episodes // DECAY_EVERY - before // DECAY_EVERY
        if rounds:
            factor = self.config.decay ** (DECAY_EVERY * rounds)
            for e in self.evidence.values():
                e.bad *= factor
                e.good *= factor
                e.severity *= factor
            self.refresh()

    def refresh(self) -> None:
        """Derive risks and antibodies from the evidence."""
        c = self.config
        self.changed = False
        self.risk = {}
        antibodies: dict[int, set[int]] = {}
        for (where, op), e in self.evidence.items():
            if op not in DISRUPTIVE:
                continue
            bad = e.bad + c.prior_bad
            total = bad + (e.good + c.prior_good)
            mean = bad / total
            lower = mean - c.credible_z * math.sqrt(mean * (1.0 - mean) / (total + 1.0))
            seen = e.bad + e.good
            if seen > 0.0:
                self.risk[where] = max(self.risk.get(where, 0.0), mean)
            if lower > c.veto_bound and seen >= c.minimum_evidence:
                antibodies.setdefault(where, set()).add(op)
        self.antibodies = {where: frozenset(ops) for where, ops in antibodies.items()}
