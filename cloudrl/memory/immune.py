"""Immune memory: what was done or happened before in such a situation, and whether a cascade or breach followed.

Each signature holds a Beta posterior of "a cascade or breach with its root here followed within the window". It
feeds a feature of the observation and the antibody rule. Worlds only note; the notes are merged once per tick in
world order, so that the result never depends on threads, and forks never write.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloudrl.actions import DISRUPTIVE_OPS, N_OPS
from cloudrl.jit import kernel
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.signature import N_CONTEXTS, N_EVENTS, context, describe
from cloudrl.types import BREACH_INCIDENT, NO_INCIDENT, PENDING

N_SIGNATURES = N_CONTEXTS * N_EVENTS
FORMAT = 1
_DECAY_EVERY = 100  # episodes


class Tables(NamedTuple):
    """What the kernels read and write."""

    bad: np.ndarray  # (N_SIGNATURES,) decayed count of outcomes with a cascade or breach
    good: np.ndarray  # (N_SIGNATURES,) ... without
    severity: np.ndarray  # (N_SIGNATURES,) summed severity of the bad ones
    last_seen: np.ndarray  # (N_SIGNATURES,) episode, -1 = never
    antibodies: np.ndarray  # (N_CONTEXTS,) bit set of ops vetoed there
    risk: np.ndarray  # (N_CONTEXTS,) highest posterior mean over the disruptive ops
    episodes: np.ndarray  # (1,) that ended

    @classmethod
    def empty(cls) -> Tables:
        f = np.zeros(N_SIGNATURES)
        return cls(
            f.copy(), f.copy(), f.copy(), np.full(N_SIGNATURES, -1, np.int64),
            np.zeros(N_CONTEXTS, np.int64), np.zeros(N_CONTEXTS), np.zeros(1, np.int64),
        )  # fmt: skip


class ImmuneMemory:
    """The memory that a batch of worlds shares. Deterministic: the same play leaves the same memory."""

    def __init__(self, config: MemoryConfig | None = None) -> None:
        self.config = config or MemoryConfig()
        self.tables = Tables.empty()
        self.refresh()

    @property
    def writable(self) -> bool:
        return self.config.enabled and not self.config.frozen

    def refresh(self) -> None:
        """Derive antibodies and risks from the evidence."""
        c, t = self.config, self.tables
        bad = (t.bad + c.prior_bad).reshape(N_CONTEXTS, N_EVENTS)[:, :N_OPS]
        good = (t.good + c.prior_good).reshape(N_CONTEXTS, N_EVENTS)[:, :N_OPS]
        total = bad + good
        mean = bad / total
        lower = mean - c.credible_z * np.sqrt(mean * (1.0 - mean) / (total + 1.0))
        evidence = (t.bad + t.good).reshape(N_CONTEXTS, N_EVENTS)[:, :N_OPS]
        veto = (lower > c.veto_bound) & (evidence >= c.minimum_evidence)
        bits = (veto * (1 << np.arange(N_OPS))).sum(axis=1) & DISRUPTIVE_OPS
        t.antibodies[:] = bits
        disruptive = (DISRUPTIVE_OPS >> np.arange(N_OPS)) & 1 == 1
        t.risk[:] = np.where(evidence[:, disruptive] > 0, mean[:, disruptive], 0.0).max(axis=1)

    def end_episodes(self, n: int) -> None:
        """Count `n` episodes that ended; let the evidence fade."""
        if not self.writable or n == 0:
            return
        before = int(self.tables.episodes[0])
        self.tables.episodes[0] = before + n
        rounds = (before + n) // _DECAY_EVERY - before // _DECAY_EVERY
        if rounds:
            factor = self.config.decay ** (_DECAY_EVERY * rounds)
            for array in (self.tables.bad, self.tables.good, self.tables.severity):
                array *= factor
            self.refresh()

    def __len__(self) -> int:
        """Signatures seen at least once."""
        return int((self.tables.last_seen >= 0).sum())

    def top(self, n: int = 10) -> list[dict[str, Any]]:
        """The signatures with the most bad outcomes, as rows of a report."""
        t, c = self.tables, self.config
        rows = []
        for k in np.argsort(-t.bad, kind="stable")[:n]:
            bad, good = float(t.bad[k]), float(t.good[k])
            where, event = divmod(int(k), N_EVENTS)
            if bad > 0:
                rows.append(
                    {
                        "signature": describe(int(k)),
                        "bad": bad,
                        "good": good,
                        "probability": (bad + c.prior_bad) / (bad + good + c.prior_bad + c.prior_good),
                        "severity": float(t.severity[k]) / bad,
                        "last_seen": int(t.last_seen[k]),
                        "vetoed": event < N_OPS and bool(int(t.antibodies[where]) >> event & 1),
                    }
                )
        return rows

    def save(self, path: Path | str) -> None:
        """Write the memory as json (floats in full precision)."""
        t = self.tables
        seen = np.flatnonzero(t.last_seen >= 0)
        data = {
            "format": FORMAT,
            "config": asdict(self.config),
            "episodes": int(t.episodes[0]),
            "signatures": {
                str(k): [float(t.bad[k]), float(t.good[k]), float(t.severity[k]), int(t.last_seen[k])]
                for k in seen
            },
        }
        path = Path(path)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(data))
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path | str, config: MemoryConfig | None = None) -> ImmuneMemory:
        """Read a saved memory. Raises ValueError if the file is not one."""
        try:
            data = json.loads(Path(path).read_text())
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}")
            memory = cls(config or MemoryConfig(**data["config"]))
            t = memory.tables
            t.episodes[0] = data["episodes"]
            for key, (bad, good, severity, last_seen) in data["signatures"].items():
                k = int(key)
                if k < 0 or not all(0 <= x < math.inf for x in (bad, good, severity)):
                    raise ValueError(f"signature {key}")
                t.bad[k], t.good[k], t.severity[k], t.last_seen[k] = bad, good, severity, last_seen
        except FileNotFoundError:
            raise ValueError(f"no immune memory at {path}: check memory.path") from None
        except OSError as error:
            raise ValueError(f"cannot read {path} ({error.strerror}): check memory.path") from None
        except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"{path} is not a saved immune memory ({error}): check memory.path") from None
        memory.refresh()
        return memory


@kernel
def note(pending, signature, group, tick):  # type: ignore[no-untyped-def]
    """Put an observation on the waiting list; the oldest makes room if it is full."""
    slot, oldest = -1, 0
    for k in range(PENDING):
        if pending[k].signature < 0:
            slot = k
            break
        if pending[k].tick < pending[oldest].tick:
            oldest = k
    if slot < 0:
        slot = oldest
    entry = pending[slot]
    entry.signature = signature
    entry.group = group
    entry.tick = tick
    entry.bad = 0
    entry.severity = 0.0


@kernel
def watch(w, groups, resources, pending, window, tables, write):  # type: ignore[no-untyped-def]
    """After a tick: note incidents, mark what a cascade or breach proves bad, hand in what is due.

    Returns the number of signatures whose evidence changed.
    """
    for i in range(w.n_resources):
        r = resources[i]
        if r.incident != NO_INCIDENT:
            event = N_OPS + r.incident - 1
            note(pending, context(groups[r.group], r) * N_EVENTS + event, r.group, w.tick)
            if r.incident == BREACH_INCIDENT:
                _blame(pending, r.group, 1.0)
    if w.tick_cascades > 0:
        _blame(pending, w.cascade_root, w.cascade_blast)
    changed = 0
    for k in range(PENDING):
        entry = pending[k]
        if entry.signature >= 0 and entry.tick + window <= w.tick:
            if write:
                s = entry.signature
                if entry.bad:
                    tables.bad[s] += 1.0
                    tables.severity[s] += entry.severity
                else:
                    tables.good[s] += 1.0
                tables.last_seen[s] = tables.episodes[0]
                changed += 1
            entry.signature = -1
    return changed


@kernel
def _blame(pending, group, severity):  # type: ignore[no-untyped-def]
    """What was done on this group within the window counts as bad."""
    for k in range(PENDING):
        entry = pending[k]
        if entry.signature >= 0 and entry.group == group:
            entry.bad = 1
            entry.severity = max(entry.severity, severity)


@kernel
def forget(pending):  # type: ignore[no-untyped-def]
    """Empty the waiting list (a new episode)."""
    for k in range(PENDING):
        pending[k].signature = -1
