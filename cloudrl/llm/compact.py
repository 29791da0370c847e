"""The compact prompt: ids with bands, and only what does not go without saying.

    early load low rising
    r0 vm load mid
    r1 vm critical busy health low load low: high patch mid rotate low analyze shrink
    r4 vm idle job later: low stop

Every word is one token of the usual vocabularies, and the longest prompt of eight resources stays below 200.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from cloudrl.llm.bands import FACT, GAIN_BANDS, NEEDS, RESOURCE_FACTS, WORLD_FACTS
from cloudrl.llm.recall import Hint

SYSTEM = "Answer with one JSON action."
HINTS = 2
_NAMED = ("health", "load", "job")
"""Facts whose bands say nothing without their name."""
_OPS = (
    *("analyze", "patch", "encrypt", "rotate", "restart", "shrink", "stop", "delete"),
    *("start", "grow", "log", "restrict"),
)
"""A word per operation, by its number."""
_UNSAID = "risk"  # the hints say more
_FIRST_NEED = FACT[NEEDS[0]]


def compact(resources: np.ndarray, world: np.ndarray, remembered: list[Hint]) -> str:
    """One world as text, from its bands: (N, facts) and (facts,)."""
    lines = [_world(tuple(world.tolist()))]
    for slot, row in enumerate(resources.tolist()):
        if row[0] >= 0:
            lines.append(f"r{slot} {_resource(tuple(row))}")
    if remembered:
        lines.append("avoid " + " ".join(f"{_OPS[h.op]} r{h.slot}" for h in remembered))
    return "\n".join(lines)


@cache
def _world(bands: tuple[int, ...]) -> str:
    words = []
    for fact, band in zip(WORLD_FACTS, bands, strict=True):
        if word := fact.bands[band]:
            words.append(f"{fact.name} {word}" if fact.name in ("load", "served", "changes") else word)
    return " ".join(words)


@lru_cache(50_000)
def _resource(bands: tuple[int, ...]) -> str:
    """There are few different lines: each is made once."""
    words = []
    for fact, band in zip(RESOURCE_FACTS[:_FIRST_NEED], bands[:_FIRST_NEED], strict=True):
        if (word := fact.bands[band]) and fact.name != _UNSAID:
            words.append(f"{fact.name} {word}" if fact.name in _NAMED else word)
    needs = []
    for level in (3, 2, 1):
        named = [need for need, band in zip(NEEDS, bands[_FIRST_NEED:], strict=True) if band == level]
        if named:
            needs.append(" ".join([GAIN_BANDS[level], *named]))
    return " ".join(words) + (": " + " ".join(needs) if needs else "")
