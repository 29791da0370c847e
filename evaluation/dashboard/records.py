"""What the runs folder holds: runs, their curves, their settings. Damaged and half-written runs never raise here
more than a UserError, since a run may be deleted or be in the making while somebody looks at it.
"""

from __future__ import annotations

import csv
import functools
import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudrl.errors import UserError
from cloudrl.runs import MANIFEST, read_json
from evaluation.dashboard.folders import Folders

DEPTH = 6
"""Levels below the runs folder in which runs are looked for."""
TRAINERS = ("ppo", "grpo")
FINAL = "eval/final.json"
"""Written at the end of a training."""

Curve = tuple[np.ndarray, np.ndarray]
"""Steps (n,) and values (n,)."""


@dataclass(frozen=True)
class Record:
    """A run folder, as lists show it."""

    name: str  # relative to the runs folder
    path: Path
    algo: str  # ppo | grpo | eval
    what: str  # "curriculum easy, seed 0"
    created: str  # "2026-11-29 20:03:20"

    @property
    def finished(self) -> bool:
        return self.algo not in TRAINERS or (self.path / FINAL).exists()

    @property
    def label(self) -> str:
        day, _, time = self.created.partition(" ")
        return f"{self.algo} · {self.what} · {day[5:]} {time}"


def find_runs(folders: Folders, algos: Iterable[str] | None = None) -> list[Record]:
    """All runs below the runs folder, newest first. Hidden folders and links are left out."""
    wanted = None if algos is None else set(algos)
    found = []
    for here, below, files in os.walk(folders.runs):
        path = Path(here)
        depth = len(path.relative_to(folders.runs).parts)
        below[:] = [] if depth >= DEPTH else [name for name in below if not name.startswith(".")]
        if MANIFEST in files:
            record = read_record(folders, path)
            if record is not None:
                below[:] = []
                if wanted is None or record.algo in wanted:
                    found.append(record)
    return sorted(found, key=lambda r: (r.created, r.name), reverse=True)


def read_record(folders: Folders, path: Path) -> Record | None:
    """The run in a folder; None if it is none, or not whole yet."""
    manifest = read_json(path / MANIFEST)
    algo = manifest.get("algo")
    if not isinstance(algo, str):
        return None
    created = str(manifest.get("created", ""))[:19].replace("T", " ")
    return Record(folders.name(path), path, algo, _what(path, manifest), created)


def _what(path: Path, manifest: dict[str, object]) -> str:
    """What a run was about, in a few words."""
    if manifest.get("algo") == "eval":
        config = _text(path / "config.yaml")
        suite, seeds = (re.search(rf"^{key}: (.*)$", config, re.MULTILINE) for key in ("suite", "seeds"))
        return f"{suite[1] if suite else '?'}, seeds {seeds[1] if seeds else '?'}"
    overrides = manifest.get("overrides")
    chosen = [str(o) for o in overrides] if isinstance(overrides, list) else []
    curriculum = next((o.partition("=")[2] for o in chosen if o.lstrip("+").startswith("curriculum=")), None)
    world = f"curriculum {curriculum}" if curriculum else str(manifest.get("scenario") or "?")
    return f"{world}, seed {manifest.get('seed')}"


def describe(folders: Folders, name: str) -> tuple[str, str]:
    """(command, config) of a run, as text. Raises UserError when it is gone."""
    path = run_folder(folders, name)
    return _text(path / "command.txt").strip(), _text(path / "config.yaml").strip()


def run_folder(folders: Folders, name: str) -> Path:
    """The folder of a run. Raises UserError: outside, gone, or not a run."""
    path = folders.inside(name)
    if not path.is_dir():
        raise UserError(f"{name}: this run is gone; was it deleted or moved?")
    if not (path / MANIFEST).is_file():
        raise UserError(f"{name}: no run of Cloud-RL here, or not whole ({MANIFEST} is missing)")
    return path


# ---- curves ----------------------------------------------------------------------------------------------------


def read_curves(folders: Folders, name: str) -> dict[str, Curve]:
    """Curves of a run by tag, in the order of progress.csv. Raises UserError: gone, nothing logged, damaged."""
    path = run_folder(folders, name) / "progress.csv"
    try:
        facts = path.stat()
        curves = _parse(path, facts.st_mtime_ns, facts.st_size)
    except FileNotFoundError:
        if read_record(folders, path.parent) is None:
            raise UserError(f"{name}: this run is gone; was it deleted or moved?") from None
        raise UserError(f"{name}: no curves here; only trainings have them, see Evaluate") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{name}: progress.csv cannot be read: {error}") from None
    if not curves:
        raise UserError(f"{name}: nothing logged yet")
    return curves


@functools.lru_cache(maxsize=64)
def _parse(path: Path, modified: int, size: int) -> dict[str, Curve]:
    """A column per tag; rows that are cut short or hold no numbers are left out. The key changes with the file."""
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]  # the last line may be in the making
    points: dict[str, tuple[list[float], list[float]]] = {}
    for row in csv.DictReader(io.StringIO(whole)):
        step = _number(row.get("step"))
        if step is None or None in row:
            continue
        for tag, cell in row.items():
            value = _number(cell)
            if tag != "step" and value is not None:
                steps, values = points.setdefault(tag, ([], []))
                steps.append(step)
                values.append(value)
    return {tag: (np.array(steps), np.array(values)) for tag, (steps, values) in points.items()}


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
