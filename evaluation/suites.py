"""Which worlds an evaluation plays: a suite's scenario, its seeds, and the version of everything that prices them.

scenario = find_scenario("medium")                  # or stress-<name>, scaled-<n>, an estate's name or file
seeds = find_seeds("public", scenario)              # or validation, 10000-10099, 20007
facts(scenario, "medium", safety, memory)           # what results are keyed by
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import re
import tokenize
from dataclasses import asdict
from pathlib import Path

import numpy as np

import cloudrl
from cloudrl.errors import UserError, did_you_mean
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.library import CONFIG_DIR, SUITES, available, load_scenario, scenario_hash, split_of
from cloudrl.scenarios.scale import scaled_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TEST_SEEDS, VALIDATION_SEEDS
from evaluation.results import Suite

PUBLIC_WORLDS, STRESS_WORLDS = 200, 50
"""Worlds behind the words `public` and `validation`: of the main suites, of a stress suite."""
MOST_WORLDS = 10_000
"""In one evaluation."""
SEED_WORDS = {"public": TEST_SEEDS.start, "validation": VALIDATION_SEEDS.start}

DYNAMICS = (
    "types.py", "actions.py", "seeding.py", "measurements.py", "records.py", "engine.py", "simulator.py",
    "observation.py", "dynamics", "reward", "safety", "memory", "scenarios",
)  # fmt: skip
"""Files and folders of cloudrl that decide what happens in a world, what an agent sees of it and what it costs."""


def find_scenario(name: str) -> Scenario:
    """The scenario of a suite. Raises UserError for an unknown one."""
    if name in available():
        return load_scenario(name)
    if re.fullmatch(r"scaled-\d+", name):
        return scaled_scenario(int(name.removeprefix("scaled-")))
    if name in _estates() or name.endswith((".yaml", ".yml")):
        return load_scenario("estate", path=name)
    raise UserError(
        f"suite={name}: no such suite; {did_you_mean(name, [*suite_names(), *_estates()]).rstrip('.')}; "
        f"scaled-<n> and the yaml file of your own estate are suites too"
    )


def suite_names() -> list[str]:
    """Suites that ship: the main ones first."""
    return [*SUITES, *(name for name in available() if name not in SUITES)]


def _estates() -> list[str]:
    return sorted(p.stem for p in (CONFIG_DIR / "estates").glob("*.yaml"))


def is_stress(scenario: Scenario) -> bool:
    return scenario.name.startswith("CloudOps-Stress-")


def find_seeds(text: str, scenario: Scenario) -> np.ndarray:
    """Seeds (B,) int64 of `public`, `validation`, a range such as 10000-10099, or one seed. Raises UserError."""
    if text in SEED_WORDS:
        return SEED_WORDS[text] + np.arange(STRESS_WORLDS if is_stress(scenario) else PUBLIC_WORLDS)
    match = re.fullmatch(r"(\d{1,15})(?:-(\d{1,15}))?", text)
    if match is None:
        raise UserError(f"seeds={text}: say public, validation, one seed, or a range such as 10000-10099")
    first = int(match[1])
    last = int(match[2] or first)
    if last < first:
        raise UserError(f"seeds={text}: the range ends before it starts")
    if last - first >= MOST_WORLDS:
        raise UserError(f"seeds={text}: {last - first + 1:,} worlds; take at most {MOST_WORLDS:,} at once")
    if split_of(first) != split_of(last):
        raise UserError(
            f"seeds={text}: mixes {split_of(first)} and {split_of(last)} worlds, which have other shapes; "
            f"validation starts at {VALIDATION_SEEDS.start}, test at {TEST_SEEDS.start}"
        )
    return np.arange(first, last + 1)


@functools.cache
def dynamics_version() -> str:
    """Hash of the code that decides what happens in a world; comments and docstrings do not count."""
    root = Path(cloudrl.__file__).parent
    digest = hashlib.sha256()
    for part in DYNAMICS:
        files = [root / part] if part.endswith(".py") else sorted((root / part).rglob("*.py"))
        for file in files:
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(bare(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]


def bare(source: str) -> str:
    """Python source without comments, docstrings, blank lines: the same text under every version of Python."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):  # a bare string is a docstring, or explains the name above it
        if not isinstance(node, ast.Expr) or node.end_lineno is None:
            continue
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def prices_hash(scenario: Scenario) -> str:
    """Hash of what things cost: prices, labour, stakes."""
    values = [asdict(part) for part in (scenario.prices, scenario.operations, scenario.stakes)]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def facts(
    scenario: Scenario, name: str, safety: SafetyConfig | None = None, memory: ImmuneMemory | None = None
) -> Suite:
    """Everything that results are keyed by: another value anywhere, and they may not be compared."""
    safety = safety or SafetyConfig()
    return Suite(
        name=scenario.name,
        version=scenario.version,
        scenario=name,
        scenario_hash=scenario_hash(scenario),
        prices_hash=prices_hash(scenario),
        code=dynamics_version(),
        ticks=scenario.horizon.ticks,
        slots=scenario.slots,
        safety=safety.mode.value,
        actions=safety.actions.value,
        memory=memory_hash(memory),
    )


def memory_hash(memory: ImmuneMemory | None) -> str | None:
    """Hash of what a frozen immune memory holds; None without one."""
    if memory is None or not memory.config.enabled:
        return None
    settings = {key: value for key, value in asdict(memory.config).items() if key not in ("path", "frozen")}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for table in memory.tables:
        digest.update(np.ascontiguousarray(table).tobytes())
    return digest.hexdigest()[:12]
