"""Agents `ppo:<run>` and `ppo-best:<run>`: what trainers.ppo left behind, sampled or its best action.

The path is a run folder (its best checkpoint is taken), a checkpoint, or any folder with policy.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION, RESOURCE_FEATURES, WORLD_FEATURES
from cloudrl.runs import Run, config_hash, latest_checkpoint, resolve_run
from evaluation.agents.entry import Context, Entry, code_of

if TYPE_CHECKING:
    from evaluation.agents.policy_agent import PolicyAgent

DESCRIPTION = "policy.json"
_CODE = tuple(f"evaluation/agents/{name}.py" for name in ("policy_agent", "sampling", "networks", "set_ops"))

_OF_THE_MACHINE = ("seed", "runs_dir", "device", "threads", "resume", "trust", "keep_checkpoints", "progress_bar")


@dataclass(frozen=True)
class Trained:
    """Where a policy lies and what is known of its training."""

    folder: Path
    title: str
    group: str
    noop_offset: float = 0.0  # of the best action, tuned by the training on validation worlds


def locate(path: str) -> Trained:
    """The policy at a path. Raises UserError if there is none."""
    folder = Path(path)
    if (folder / DESCRIPTION).is_file() and not _inside_run(folder):
        return Trained(folder, folder.resolve().name, folder.resolve().name)
    run = resolve_run(path, "ppo")
    if not (folder / DESCRIPTION).is_file():
        best = latest_checkpoint(run.best) or latest_checkpoint(run.checkpoints)
        if best is None:
            raise UserError(f"{path}: has no whole checkpoint; resume the run")
        folder = best
    final = run.eval / "final.json"
    offset = float(json.loads(final.read_text())["noop_offset"]) if final.exists() else 0.0
    manifest = run.manifest()
    trained_on = str(manifest["scenario"]).removeprefix("CloudOps-")
    return Trained(folder, f"{trained_on}, seed {manifest['seed']}", f"{trained_on} ({_group(run)[:6]})", offset)


def _inside_run(folder: Path) -> bool:
    try:
        resolve_run(folder)
    except UserError:
        return False
    return True


def _group(run: Run) -> str:
    """The same for runs that differ by seed and machine only."""
    settings: Any = OmegaConf.to_container(OmegaConf.load(run.config_file))
    return config_hash({key: value for key, value in settings.items() if key not in _OF_THE_MACHINE})


def _describe(path: str, best: bool) -> Entry:
    found = locate(path)
    kind = "ppo-best" if best else "ppo"
    weights = json.loads((found.folder / DESCRIPTION).read_text(encoding="utf-8")).get("weights_sha256", "")
    offset = f"{found.noop_offset:+g}" if best else ""
    return Entry(
        name=f"{kind} {found.title}",
        spec=path,
        identity=f"{kind}{offset} {weights} {code_of(*_CODE)}",
        group=f"{kind} {found.group}",
    )


def _build(path: str, best: bool) -> PolicyAgent:
    import torch as th

    from evaluation.agents.policy_agent import PolicyAgent

    th.set_num_threads(1)  # sums may round differently for another number
    found = locate(path)
    return PolicyAgent.load(
        found.folder,
        observation_version=OBSERVATION_VERSION,
        feature_names={"resource": RESOURCE_FEATURES, "world": WORLD_FEATURES},
        deterministic=best,
        noop_offset=found.noop_offset if best else 0.0,
    )


def describe_sampled(path: str, context: Context) -> Entry:
    return _describe(path, best=False)


def describe_best(path: str, context: Context) -> Entry:
    return _describe(path, best=True)


def build_sampled(path: str, context: Context) -> PolicyAgent:
    return _build(path, best=False)


def build_best(path: str, context: Context) -> PolicyAgent:
    return _build(path, best=True)
