"""Nested config dataclasses as one flat numpy record, so that kernels read constants by name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def leaves(config: Any) -> list[tuple[str, int | float]]:
    """(name, value) of every number in the nested config, in order of declaration."""
    out: list[tuple[str, int | float]] = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            out += leaves(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            out.append((field.name, value))
    return out


def record_dtype(config: Any) -> np.dtype:
    """The record's dtype, from a config that holds its defaults. Leaf names must be unique."""
    names = [name for name, _ in leaves(config)]
    if len(set(names)) != len(names):
        raise ValueError(f"two fields share a name: {sorted(n for n in names if names.count(n) > 1)}")
    return np.dtype([(n, np.int64 if isinstance(v, int) else np.float64) for n, v in leaves(config)], align=True)


def record(config: Any, dtype: np.dtype) -> np.ndarray:
    """The config's numbers as a (1,) array of `dtype`."""
    out = np.zeros(1, dtype)
    for name, value in leaves(config):
        if name in (dtype.names or ()):
            out[name] = value
    return out
