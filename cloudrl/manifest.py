"""Facts that make a run repeatable: the source, the versions, the kind of machine (never its name or its user)."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "cloud-rl", "numpy", "numba", "gymnasium", "stable-baselines3", "sb3-contrib", "torch", "transformers", "trl",
    "tensorboard", "hydra-core", "omegaconf",
)  # fmt: skip


def git_state() -> dict[str, Any] | None:
    """Commit of the checkout that this code runs from, and whether it has changes; None for an installed wheel."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    try:
        sha = _git(root, "rev-parse", "HEAD").strip()
        return {"sha": sha, "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no").strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout


def package_versions() -> dict[str, str]:
    """Versions of the installed packages that results depend on."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def describe_machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
