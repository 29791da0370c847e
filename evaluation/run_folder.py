"""The run folder of an evaluation, which appears whole."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from omegaconf import OmegaConf

from cloudrl.manifest import describe_machine, git_state, package_versions
from cloudrl.runs import save_json
from evaluation.config import EvalConfig
from evaluation.report import summarise, write_report
from evaluation.results import Results
from evaluation.scalars import write_scalars


def write_run(config: EvalConfig, results: Results, timing: Mapping[str, Mapping[str, float]]) -> Path:
    """Write everything under a temporary name, then rename to <runs_dir>/eval/<time to the microsecond>."""
    root = Path(config.runs_dir) / "eval"
    root.mkdir(parents=True, exist_ok=True)
    new = root / f".new-{uuid.uuid4().hex}"
    new.mkdir()
    try:
        results.write(new)
        save_json(new / "timing.json", timing)
        now = datetime.now()
        (new / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))
        command = shlex.join(sys.orig_argv)
        (new / "command.txt").write_text(command + "\n")
        manifest = {
            "algo": "eval",
            "created": now.isoformat(),
            "command": command,
            "git": git_state(),
            "versions": package_versions(),
            "machine": describe_machine(),
        }
        save_json(new / "manifest.json", manifest)
        if config.report:
            write_report(new)
            write_scalars(new / "tb", summarise(results))
        path = root / now.strftime("%Y-%m-%d_%H-%M-%S_%f")
        os.rename(new, path)
        return path
    finally:
        shutil.rmtree(new, ignore_errors=True)
