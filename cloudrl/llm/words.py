"""The prompt in words: one word per pair of facts, bound to its resource, always the same number of them.

    w.time=early,load=low w.trend=rising,served=- w.cascade=-,changes=- r0.kind=vm,role=idle ...

For a tokenizer of our own, in which each word is one token (`vocabulary`): a small model need not learn which fact
belongs to which resource, and prompts of a world have one length. `indices` gives the tokens without any text.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from cloudrl.llm.bands import FACT, RESOURCE_FACTS, WORLD_FACTS, Fact

PAIRS = (
    ("kind", "role"),
    ("state", "job", "risk"),
    ("health", "load"),
    ("patch", "analyze"),
    ("rotate", "restrict"),
    ("encrypt", "log"),
    ("shrink", "stop", "delete"),
)
"""Facts of a resource that share a word."""
WORLD_PAIRS = (("time", "load"), ("trend", "served"), ("cascade", "changes"))
N_WORDS = len(PAIRS)
N_WORLD_WORDS = len(WORLD_PAIRS)

_WORLD_FACT = {fact.name: k for k, fact in enumerate(WORLD_FACTS)}


def _radix(facts: tuple[Fact, ...], groups: tuple[tuple[str, ...], ...], index: dict[str, int]) -> np.ndarray:
    """(groups, facts): word of a group = offset + bands @ radix[group]."""
    radix = np.zeros((len(groups), len(facts)), np.int32)
    for g, names in enumerate(groups):
        factor = 1
        for name in reversed(names):
            radix[g, index[name]] = factor
            factor *= len(facts[index[name]].bands)
    return radix


def _words(facts: tuple[Fact, ...], groups: tuple[tuple[str, ...], ...], index: dict[str, int]) -> list[list[str]]:
    """The words of each group, in the order of their index."""
    out = []
    for names in groups:
        words = [""]
        for k, name in enumerate(names):
            bands = [f"{name}={band or '-'}" for band in facts[index[name]].bands]
            words = [f"{word},{band}" if k else band for word in words for band in bands]
        out.append(words)
    return out


_RADIX, _WORLD_RADIX = _radix(RESOURCE_FACTS, PAIRS, FACT), _radix(WORLD_FACTS, WORLD_PAIRS, _WORLD_FACT)
_RESOURCE_WORDS = _words(RESOURCE_FACTS, PAIRS, FACT)
_WORLD_WORDS = _words(WORLD_FACTS, WORLD_PAIRS, _WORLD_FACT)
_PER_RESOURCE = sum(map(len, _RESOURCE_WORDS))
_PER_WORLD = sum(map(len, _WORLD_WORDS))
_OFFSETS = np.cumsum([0, *map(len, _RESOURCE_WORDS[:-1])])
_WORLD_OFFSETS = np.cumsum([0, *map(len, _WORLD_WORDS[:-1])])


@cache
def vocabulary(n_slots: int) -> tuple[str, ...]:
    """Every word that prompts of `n_slots` slots can hold, by index. A larger world's begins with a smaller's."""
    world = [f"w.{word}" for words in _WORLD_WORDS for word in words]
    per_resource = [word for words in _RESOURCE_WORDS for word in words]
    return (*world, *(f"r{slot}.{word}" for slot in range(n_slots) for word in per_resource))


def indices(resources: np.ndarray, worlds: np.ndarray) -> np.ndarray:
    """(B, 3 + 7 N) int32 into the vocabulary, from the bands (B, N, facts) and (B, facts).

    Words of an empty slot are -1.
    """
    of_world = worlds.astype(np.int32) @ _WORLD_RADIX.T + _WORLD_OFFSETS
    words = resources.astype(np.int32) @ _RADIX.T + _OFFSETS
    words += (_PER_WORLD + _PER_RESOURCE * np.arange(resources.shape[1]))[:, None]
    words = np.where(resources[..., :1] >= 0, words, -1)
    return np.concatenate([of_world, words.reshape(len(words), -1)], axis=1).astype(np.int32)


def in_words(row: np.ndarray, n_slots: int) -> str:
    """The prompt behind one row of `indices`."""
    known = vocabulary(n_slots)
    return " ".join(known[k] for k in row.tolist() if k >= 0)
