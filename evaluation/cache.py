"""What was played before: figures per (agent, suite version, seed). A killed evaluation goes on where it was.

A finished block of worlds is one npz file that appears by a rename. The folder's name is a hash of everything that
the figures depend on; change any of it, and the file is simply not found.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from cloudrl.runs import write_atomic
from evaluation import counterfactual, metrics, rollout
from evaluation.results import Suite
from evaluation.suites import bare

Rows = dict[str, np.ndarray]
"""Figures by name, one row per world: "seed", "seconds", "ops", "actions" and the metrics."""


def digest(*parts: Any) -> str:
    """Sixteen hex digits of anything that json knows."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def measuring_code() -> list[str]:
    """Source of how figures are taken: an old figure of another definition must not be read."""
    return [bare(Path(str(m.__file__)).read_text(encoding="utf-8")) for m in (metrics, rollout, counterfactual)]


class Cache:
    """Blocks of figures of one suite below a folder.

    Args:
        root: the folder of the cache; None = remember until the end of the process only.
        suite: version of the worlds.
        settings: whatever else the figures depend on (weights of the reward).
    """

    def __init__(self, root: Path | None, suite: Suite, settings: Mapping[str, Any]) -> None:
        facts = {key: value for key, value in asdict(suite).items() if key != "scenario"}
        self._root = None if root is None else root / digest(facts, settings, measuring_code())
        self._kept: dict[str, list[Rows]] = {}

    def _blocks(self, identity: str) -> list[Rows]:
        if self._root is None:
            return self._kept.get(identity, [])
        files = sorted((self._root / digest(identity)).glob("*.npz"))
        return [rows for file in files if (rows := _load(file))]

    def read(self, identity: str, seeds: np.ndarray) -> Rows:
        """The rows known of an agent for some of `seeds`, in the order of the seeds.

        Where a world was written twice the row with more figures is taken.
        """
        blocks = sorted(self._blocks(identity), key=len)
        if not blocks:
            return {}
        place = {int(seed): (b, i) for b, rows in enumerate(blocks) for i, seed in enumerate(rows["seed"])}
        found = [place[int(seed)] for seed in seeds if int(seed) in place]
        if not found:
            return {}
        names = sorted(set.intersection(*(set(blocks[b]) for b, _ in found)))
        return {name: np.array([blocks[b][name][i] for b, i in found]) for name in names}

    def write(self, identity: str, rows: Rows) -> None:
        """Keep a finished block."""
        if self._root is None:
            self._kept.setdefault(identity, []).append(rows)
            return
        folder = self._root / digest(identity)
        folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **rows)  # type: ignore[arg-type]
        write_atomic(folder / f"{digest(rows['seed'].tolist())}.npz", buffer.getvalue())


def _load(file: Path) -> Rows:
    try:
        with np.load(file, allow_pickle=False) as stored:
            rows = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, BadZipFile, KeyError):
        return {}  # damaged: played again
    whole = "seed" in rows and all(len(values) == len(rows["seed"]) for values in rows.values())
    return rows if whole else {}
