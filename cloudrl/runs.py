"""Run folders: created whole, never shared, and readable after a kill at any moment.

    runs/<algo>/<time>/
        config.yaml overrides.json command.txt manifest.json README.md    written once, at the start
        tb/ progress.csv eval/                                            written by the trainer as it goes
        checkpoints/step_<n>/  best/step_<n>/                             appear whole or not at all

A checkpoint is written under a hidden name, gets a manifest with a hash of every file, and is renamed: the rename
is the moment at which it exists.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shlex
import shutil
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from cloudrl.errors import UserError, did_you_mean
from cloudrl.manifest import describe_machine, git_state, package_versions

MANIFEST = "manifest.json"
FORMAT = 1


# ---- files ----------------------------------------------------------------------------------------------------


def write_atomic(path: str | Path, data: str | bytes) -> None:
    """The file holds the old content or the new one, never a part."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with open(temporary, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def save_json(path: str | Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """What json does not know: dataclasses, enums, numpy's numbers and arrays, paths."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write a {type(value).__name__} as json")


def config_hash(config: Any) -> str:
    """Sixteen hex digits that differ when any value of a dataclass differs."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=_plain).encode()).hexdigest()[:16]


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power, where the system can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


# ---- runs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Where things are in a run folder."""

    path: Path

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def progress_file(self) -> Path:
        return self.path / "progress.csv"

    @property
    def tb(self) -> Path:
        return self.path / "tb"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        return self.path / "best"

    @property
    def eval(self) -> Path:
        return self.path / "eval"

    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.path / MANIFEST).read_text()))

    def overrides(self) -> list[str]:
        return list(json.loads((self.path / "overrides.json").read_text()))


def create_run(algo: str, config: Any, overrides: Sequence[str] | None = None, **facts: Any) -> Run:
    """A new folder <config.runs_dir>/<algo>/<time to the microsecond>, with everything known at the start in it.

    `facts` are added to the manifest: what a loader must know, such as the version of the observation.
    """
    root = Path(config.runs_dir) / algo
    root.mkdir(parents=True, exist_ok=True)
    new = root / f".new-{uuid.uuid4().hex}"
    new.mkdir()
    try:
        overrides = _overrides_of_command() if overrides is None else list(overrides)
        (new / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))
        save_json(new / "overrides.json", overrides)
        command = shlex.join(sys.orig_argv)
        (new / "command.txt").write_text(command + "\n")
        now = datetime.now()
        scenario = getattr(config, "scenario", None)
        manifest = {
            "format": FORMAT,
            "algo": algo,
            "created": now.isoformat(),
            "command": command,
            "overrides": overrides,
            "seed": getattr(config, "seed", None),
            "scenario": getattr(scenario, "name", None),
            "stages": [stage.name for stage in getattr(getattr(config, "curriculum", None), "stages", [])],
            "scenario_hash": config_hash(scenario),
            "config_hash": config_hash(config),
            "git": git_state(),
            "versions": package_versions(),
            "machine": describe_machine(),
            **facts,
        }
        save_json(new / MANIFEST, manifest)
        for name in ("tb", "checkpoints", "best", "eval"):
            (new / name).mkdir()
        while True:
            path = root / now.strftime("%Y-%m-%d_%H-%M-%S_%f")
            write_card(Run(new), path=path)
            try:
                os.rename(new, path)  # fails if it exists, since a run folder is never empty
                return Run(path)
            except OSError:
                if not path.exists():
                    raise
                now = datetime.now()
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _overrides_of_command() -> list[str]:
    from hydra.core.hydra_config import HydraConfig  # a run may also be made without a command line

    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def resolve_run(path: str | Path, algo: str | None = None) -> Run:
    """The run at a path, which may also lie inside the run (a checkpoint)."""
    start = Path(path)
    if not start.exists():
        parent = start.parent
        siblings = [p.name for p in parent.iterdir() if (p / MANIFEST).exists()] if parent.is_dir() else []
        hint = did_you_mean(start.name, siblings) if siblings else "give the folder that the training printed"
        raise UserError(f"{path}: no such run; {hint}")
    for folder in [start, *start.resolve().parents][:4]:
        manifest = read_json(folder / MANIFEST)
        if "algo" in manifest:
            if algo is not None and manifest["algo"] != algo:
                raise UserError(f"{path}: a run of {manifest['algo']}, not of {algo}")
            if manifest.get("format") != FORMAT:
                raise UserError(f"{path}: made by another version of Cloud-RL (format {manifest.get('format')})")
            return Run(folder)
    raise UserError(f"{path}: not a run of Cloud-RL (no {MANIFEST} in it); give a folder like runs/ppo/<time>")


def resume_point(path: str | Path, algo: str) -> tuple[Run, Path | None]:
    """A run, and the checkpoint to go on from: the one that the path names, or else the latest whole one.

    None: the run stopped before its first checkpoint and starts again from the beginning.
    """
    run = resolve_run(path, algo)
    here = Path(path).resolve()
    for folder in (here, *here.parents):
        if folder.name.startswith("step_") and folder.parent.parent == run.path.resolve():
            if not is_whole(folder):
                raise UserError(
                    f"{path}: this checkpoint is damaged; give {run.path} to go on from the latest whole one"
                )
            return run, folder
    return run, latest_checkpoint(run.checkpoints)


def check_trusted(path: str | Path, runs_dir: str | Path, trust: bool) -> None:
    """Pickled files run code when loaded: only one's own runs are, unless the person says otherwise."""
    if not trust and not Path(path).resolve().is_relative_to(Path(runs_dir).resolve()):
        raise UserError(
            f"{path}: outside runs_dir={runs_dir}, and loading it may run code; "
            f"say trust=true if you trust it, or runs_dir=... if your runs lie elsewhere"
        )


def resume_command(run: Run, algo: str, where: Path | None = None) -> str:
    """What to type to go on with a run."""
    path = where or run.path
    root = path.parent.parent
    return f"python -m trainers.{algo} resume={path}" + ("" if root == Path("runs") else f" runs_dir={root}")


@contextmanager
def locked(run: Run) -> Iterator[None]:
    """The only process that writes into a run; another one gets a UserError. A kill frees the lock."""
    with open(run.path / ".lock", "w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no such locks on this system
            pass
        except OSError:
            raise UserError(f"{run.path}: another process is training this run; wait for it or stop it") from None
        yield


def write_card(run: Run, results: str = "", path: Path | None = None) -> None:
    """README.md of the run; `results` is markdown, the final table; `path` is where it will lie."""
    manifest, where = run.manifest(), path or run.path
    git = manifest["git"]
    commit = f"{git['sha']}{' with changes' if git['dirty'] else ''}" if git else "not in a git checkout"
    algo, stages = manifest["algo"], manifest["stages"]
    world = f"a curriculum ({', '.join(stages)})" if stages else manifest["scenario"]
    write_atomic(
        run.path / "README.md",
        f"# {algo} on {world}, seed {manifest['seed']}\n\n"
        f"Started {manifest['created'][:19]} by\n\n```\n{manifest['command']}\n```\n\n"
        f"Commit: {commit}. Every setting: `config.yaml`; versions and machine: `{MANIFEST}`.\n\n"
        f"## Results\n\n{results.strip() or 'Not finished.'}\n\n"
        f"## Use\n\n```\ntensorboard --logdir {where}\n{resume_command(run, algo, where)}\n```\n",
    )


# ---- checkpoints ----------------------------------------------------------------------------------------------


@contextmanager
def new_checkpoint(parent: Path, step: int, keep: int = 2, **meta: Any) -> Iterator[Path]:
    """A folder to write into; when the block ends without an error it becomes <parent>/step_<step>, whole.

    The last `keep` checkpoints stay. `meta` (numbers, texts) lands in the checkpoint's manifest.
    """
    parent.mkdir(parents=True, exist_ok=True)
    temporary = parent / f".new-{uuid.uuid4().hex}"
    temporary.mkdir()
    try:
        yield temporary
        files = sorted(p for p in temporary.rglob("*") if p.is_file())
        for file in files:
            _sync(file)
        manifest = {
            "step": int(step),
            "sequence": 1 + max((_sequence(p) for p in _folders(parent)), default=0),
            "meta": meta,
            "files": {p.relative_to(temporary).as_posix(): _digest(p) for p in files},
        }
        save_json(temporary / MANIFEST, manifest)
        name, n = f"step_{int(step):012d}", 0
        while (parent / name).exists():  # saved at this step before, for instance at Ctrl-C after a regular save
            n += 1
            name = f"step_{int(step):012d}.{n}"
        os.rename(temporary, parent / name)
        _sync(parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    prune(parent, keep)


def latest_checkpoint(parent: Path) -> Path | None:
    """The newest whole checkpoint in a folder; broken ones are passed over."""
    return next((p for p in sorted(_folders(parent), key=_sequence, reverse=True) if is_whole(p)), None)


def checkpoint_manifest(checkpoint: Path) -> dict[str, Any]:
    """step, meta and the files of a checkpoint."""
    return read_json(checkpoint / MANIFEST)


def is_whole(checkpoint: Path) -> bool:
    """Every file is there with the hash it was written with."""
    manifest = read_json(checkpoint / MANIFEST)
    if "files" not in manifest:
        return False
    return all(
        (checkpoint / name).is_file() and _digest(checkpoint / name) == digest
        for name, digest in manifest["files"].items()
    )


def prune(parent: Path, keep: int) -> None:
    """Remove all but the last `keep` whole checkpoints, and what a killed process left behind."""
    folders = sorted(_folders(parent), key=_sequence, reverse=True)
    newest = [p for p in folders if is_whole(p)][:keep]
    for folder in folders:
        if folder not in newest:
            shutil.rmtree(folder, ignore_errors=True)
    for leftover in parent.glob(".new-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _folders(parent: Path) -> list[Path]:
    return [p for p in parent.glob("step_*") if p.is_dir()] if parent.is_dir() else []


def _sequence(checkpoint: Path) -> int:
    return int(read_json(checkpoint / MANIFEST).get("sequence", 0))


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a json file; {} if there is none, or it cannot be read."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


# ---- state of the random generators ---------------------------------------------------------------------------


def rng_state(**others: bytes) -> str:
    """Python's and numpy's global generators, and states of others (torch) as bytes, as one json text."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return json.dumps(
        {
            "python": [version, list(internal), gauss],
            "numpy": [name, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
            "others": {key: base64.b64encode(value).decode() for key, value in others.items()},
        }
    )


def restore_rng(text: str) -> dict[str, bytes]:
    """Set Python's and numpy's generators; returns the others for their owners to set."""
    state = json.loads(text)
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))
    return {key: base64.b64decode(value) for key, value in state["others"].items()}
