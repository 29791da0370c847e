"""Who may import whom: the arrows of the design. A new module of cloudrl must be given its place here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PACKAGES: dict[str, set[str]] = {
    "cloudrl": set(),
    "cloudenv": set(),
    "configs": set(),
    "envs": {"cloudrl"},
    "evaluation": {"cloudrl", "envs", "cloudenv"},
    "trainers": {"cloudrl", "envs", "evaluation"},
}
"""Top-level packages of ours, and which others each may import. Nobody imports trainers, scripts or tests."""

OURS = {*PACKAGES, "scripts", "tests"}

BASE = {
    "types",
    "actions",
    "jit",
    "seeding",
    "measurements",
    "records",
    "errors",
    "manifest",
    "ranges",
    "copies",
    "dispatch",
}
SIBLINGS = {"dynamics", "reward", "safety", "memory", "scenarios", "observation"}
ENGINE = {"simulator", "engine"}
SETTINGS = {"config", "compose", "cli", "runs"}
TOP = {"policies", "llm", "curriculum"}
SCHEMAS = {
    "scenarios.schema", "scenarios.ranges", "scenarios.estate", "reward.weights", "safety.config", "memory.config",
    "llm.config",
}  # fmt: skip
"""The dataclasses of siblings, free of behaviour, and the file that a scenario may point to."""

HEAVY = {"torch", "stable_baselines3", "sb3_contrib", "trl", "transformers", "gradio", "fastapi", "boto3", "moto"}


def imports(file: Path, package: str) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import in a file, relative ones made absolute, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:  # `from cloudrl import reward` names a module too
                yield node.lineno, f"{module}.{alias.name}"


def allowed_in_core(module: str) -> set[str] | None:
    """First parts (below cloudrl) that a module of cloudrl may import; None for an unknown module."""
    part = module.split(".")[0]
    if part in BASE:
        return BASE
    if part in SIBLINGS:
        return BASE | {part}
    if part in ENGINE:
        return BASE | SIBLINGS | ENGINE
    if part in SETTINGS:
        return BASE | SETTINGS
    if part in TOP or part == "__init__":
        return BASE | SIBLINGS | ENGINE | SETTINGS | TOP
    return None


def violations(root: Path) -> list[str]:
    out = []
    for top, allowed in PACKAGES.items():
        folder = root / "envs" / "cloudenv" if top == "cloudenv" else root / top
        for file in sorted(folder.rglob("*.py")):
            inside = file.relative_to(folder).with_suffix("").parts
            if top == "envs" and inside[0] == "cloudenv":
                continue
            where = file.relative_to(root).as_posix()
            package = ".".join([top, *inside[:-1]])
            if top == "cloudrl" and allowed_in_core(".".join(inside)) is None:
                out.append(f"{where}: a new module of cloudrl; give it a layer in this test")
                continue
            for line, target in imports(file, package):
                if reason := forbidden(top, allowed, inside, target):
                    out.append(f"{where}:{line}: imports {target}; {reason}")
    return out


def forbidden(top: str, allowed: set[str], inside: tuple[str, ...], target: str) -> str | None:
    first, *rest = target.split(".")
    if top == "cloudrl" and first in HEAVY:
        return "the core is numpy and numba"
    if first in OURS - {top}:
        return None if first in allowed else f"{top} may import {sorted(allowed) or 'nothing of ours'}"
    if top == first == "cloudrl" and rest:
        may = allowed_in_core(".".join(inside)) or set()
        if inside[0] in SETTINGS and any(".".join(rest).startswith(schema) for schema in SCHEMAS):
            return None
        known = BASE | SIBLINGS | ENGINE | SETTINGS | TOP
        if rest[0] in known and rest[0] not in may:
            return f"'{inside[0]}' may import {sorted(may)}"
    return None


def test_arrows() -> None:
    assert violations(ROOT) == []


PLANTED = {
    "the core imports a trainer": ("cloudrl/types.py", "import trainers.ppo"),
    "the core imports a script inside a function": ("cloudrl/types.py", "def f():\n    from scripts import bench"),
    "the core imports torch": ("cloudrl/reward/terms.py", "import torch"),
    "the base imports a sibling": ("cloudrl/types.py", "from cloudrl.reward import terms"),
    "siblings": ("cloudrl/reward/terms.py", "from cloudrl.safety.layer import check"),
    "siblings, relative": ("cloudrl/reward/terms.py", "from ..safety.layer import check"),
    "siblings, by attribute": ("cloudrl/reward/terms.py", "from cloudrl import safety"),
    "a sibling imports the config": ("cloudrl/safety/layer.py", "from cloudrl.config import PPOConfig"),
    "the simulator imports the config": ("cloudrl/simulator.py", "import cloudrl.config"),
    "the simulator imports a policy": ("cloudrl/simulator.py", "from cloudrl.policies import noop"),
    "the config imports behaviour": ("cloudrl/config.py", "from cloudrl.reward.terms import cost"),
    "the environments import the evaluation": ("envs/group.py", "from evaluation import metrics"),
    "the evaluation imports a trainer": ("evaluation/run.py", "import trainers"),
    "a trainer imports a test": ("trainers/ppo.py", "import tests.helpers"),
    "cloudenv imports the core": ("envs/cloudenv/server/app.py", "from cloudrl.errors import UserError"),
    "cloudenv imports the adapters": ("envs/cloudenv/client.py", "import envs.cloudops"),
    "a module without a place": ("cloudrl/misc.py", ""),
}
FINE = {
    "cloudrl/config.py": "from cloudrl.reward.weights import RewardWeights\nimport cloudrl.errors",
    "cloudrl/reward/weights.py": "from cloudrl.types import State\nfrom . import terms",
    "cloudrl/simulator.py": "from cloudrl.safety.layer import check\nimport numpy",
    "envs/cloudenv/server/app.py": "import cloudenv, fastapi\nfrom ..models import CloudEnvAction",
    "cloudrl/policies/lists.py": "from cloudrl import simulator, config",
    "trainers/ppo.py": "import torch\nfrom evaluation import metrics\nimport envs, cloudrl.config",
}


def plant(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_is_caught(case: str, tmp_path: Path) -> None:
    for name, text in FINE.items():
        plant(tmp_path, name, text)
    assert violations(tmp_path) == []
    name, text = PLANTED[case]
    plant(tmp_path, name, text)
    found = violations(tmp_path)
    assert len(found) == 1 and found[0].startswith(name), found
