"""Hints of the immune memory: what went wrong before in a situation like that of a resource now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cloudrl.actions import DISRUPTIVE_OPS, N_OPS
from cloudrl.llm.bands import split
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import Tables
from cloudrl.memory.signature import HEALTH_BANDS, LOAD_BANDS, N_CONTEXTS, N_EVENTS
from cloudrl.observation import RESOURCE_COLUMN

_WORTH_SAYING = 0.1
"""Probability of a bad outcome from which an operation is mentioned: twice the prior's."""
_DISRUPTIVE = (DISRUPTIVE_OPS >> np.arange(N_OPS)) & 1 == 1
"""The others break nothing: that a breach followed on better logging says where it was needed."""


class Hint(NamedTuple):
    """An operation on a resource, and how it went in situations like this."""

    slot: int
    op: int
    probability: float  # that a cascade or breach follows
    cases: float  # seen, faded


def hints(observations: np.ndarray, tables: Tables, config: MemoryConfig, top: int) -> list[list[Hint]]:
    """The `top` most dangerous disruptive operations of each world, the worst first."""
    bad = tables.bad.reshape(N_CONTEXTS, N_EVENTS)[:, :N_OPS]
    if not bad.any():
        return [[] for _ in observations]
    cases = bad + tables.good.reshape(N_CONTEXTS, N_EVENTS)[:, :N_OPS]
    probability = (bad + config.prior_bad) / (cases + config.prior_bad + config.prior_good)
    probability = np.where(_DISRUPTIVE & (bad > 0) & (probability >= _WORTH_SAYING), probability, 0.0)
    where = contexts(observations)
    found = np.where(where[..., None] >= 0, probability[where], 0.0).reshape(len(where), -1)
    order = np.argsort(-found, axis=1, kind="stable")[:, :top]
    return [
        [
            Hint(int(k) // N_OPS, int(k) % N_OPS, float(row[k]), float(cases[at[k // N_OPS], k % N_OPS]))
            for k in best
            if row[k] > 0.0
        ]
        for row, best, at in zip(found, order, where, strict=True)
    ]


def contexts(observations: np.ndarray) -> np.ndarray:
    """(B, N): the memory's index of each resource's situation, as in cloudrl/memory/signature.py; -1 = none."""
    of = np.moveaxis(split(observations)[0], 2, 0)
    see = {name: of[column] for name, column in RESOURCE_COLUMN.items()}
    kind = (see["database"] + 2 * see["cache"] + 3 * see["queue"]).astype(np.int64)
    health = np.digitize(see["health"], HEALTH_BANDS)
    load = np.digitize(see["utilisation"], LOAD_BANDS)
    dependents = np.minimum(2, np.rint(4.0 * see["dependents"]).astype(np.int64))
    where = (((kind * 3 + health) * 3 + load) * 3 + dependents) * 2 + (see["exposure_seen"] > 0)
    return np.where((see["present"] > 0) & (see["deleted"] == 0), where, -1)
