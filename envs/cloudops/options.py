"""What the adapters accept for scenario, reward, safety, memory and split, and what they make of it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from gymnasium import spaces

from cloudrl import observation
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import SafetyConfig, SafetyMode
from cloudrl.scenarios.library import CONFIG_DIR, fill, load_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TEST_SEEDS, TRAIN_SEEDS, VALIDATION_SEEDS
from cloudrl.simulator import Simulator

SPLITS = {"train": TRAIN_SEEDS, "validation": VALIDATION_SEEDS, "test": TEST_SEEDS}

ScenarioLike = str | Scenario
RewardLike = str | RewardWeights | None
SafetyLike = str | SafetyMode | SafetyConfig | None
MemoryLike = bool | str | Path | MemoryConfig | ImmuneMemory | None


def make_simulator(
    scenario: ScenarioLike,
    n_worlds: int,
    reward: RewardLike,
    safety: SafetyLike,
    memory: MemoryLike,
    n_slots: int | None,
) -> Simulator:
    """A simulator from the options of an adapter."""
    return Simulator(
        to_scenario(scenario),
        n_worlds,
        reward=to_reward(reward),
        safety=to_safety(safety),
        memory=to_memory(memory),
        n_slots=n_slots,
    )


def to_scenario(scenario: ScenarioLike) -> Scenario:
    """A name ("easy") or the scenario itself."""
    return scenario if isinstance(scenario, Scenario) else load_scenario(scenario)


def to_reward(reward: RewardLike) -> RewardWeights:
    """The weights themselves, or a preset: configs/reward/<name>.yaml."""
    if reward is None:
        return RewardWeights()
    if isinstance(reward, RewardWeights):
        return reward
    return fill(RewardWeights(), _read_preset(reward), f"reward {reward}")


def _read_preset(name: str) -> dict[str, Any]:
    path = CONFIG_DIR / "reward" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise ValueError(f"no reward preset {name!r}; there are {known}")
    values: dict[str, Any] = yaml.safe_load(path.read_text()) or {}
    merged: dict[str, Any] = {}
    for parent in values.pop("defaults", []):
        if parent != "_self_":
            merged |= _read_preset(parent)
    return merged | values


def to_safety(safety: SafetyLike) -> SafetyConfig:
    """A mode ("enforce", "observe", "off") or the whole config."""
    if safety is None:
        return SafetyConfig()
    if isinstance(safety, SafetyConfig):
        return safety
    try:
        return SafetyConfig(mode=SafetyMode(safety))
    except ValueError:
        known = ", ".join(mode.value for mode in SafetyMode)
        raise ValueError(f"no safety mode {safety!r}; there are {known}") from None


def to_memory(memory: MemoryLike) -> ImmuneMemory | None:
    """None or False: no memory. True: an empty one. A config, a saved file, or the memory itself (then shared)."""
    if memory is None or memory is False:
        return None
    if isinstance(memory, ImmuneMemory):
        return memory
    if isinstance(memory, (str, Path)):
        return ImmuneMemory.load(memory)
    config = MemoryConfig() if memory is True else memory
    if not config.enabled:
        return None
    return ImmuneMemory.load(config.path, config) if config.path is not None else ImmuneMemory(config)


def to_split(split: str) -> range:
    """World seeds of a split."""
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}; there are {', '.join(SPLITS)}")
    return SPLITS[split]


def spaces_of(simulator: Simulator) -> tuple[spaces.Box, spaces.Discrete]:
    """Observation and action space of one world."""
    low, high = observation.bounds(simulator.n_slots)
    return spaces.Box(low, high, dtype=np.float32), spaces.Discrete(simulator.n_actions)


def wanted_world(options: Mapping[str, Any] | None) -> Any:
    """options["world_seed"] of a reset, None without one. A key that nobody knows is a typo."""
    if not options:
        return None
    unknown = sorted(set(options) - {"world_seed"})
    if unknown:
        raise ValueError(f"reset option {unknown[0]!r} is unknown; there is world_seed")
    return options.get("world_seed")


def as_indices(actions: Any, n: int) -> np.ndarray:
    """The actions of a batch as an array (n,) of integers. Raises TypeError or ValueError for anything else."""
    actions = np.asarray(actions)
    if actions.shape != (n,):
        raise ValueError(f"actions have shape {actions.shape}, expected ({n},)")
    if actions.dtype.kind not in "iu":
        raise TypeError(f"actions are of type {actions.dtype}; they must be whole numbers")
    return actions


def as_index(action: Any) -> int:
    """The action as a Python int. Raises TypeError for anything that is not a whole number."""
    try:
        return operator.index(action)
    except TypeError:
        raise TypeError(f"the action is {action!r}; it must be a whole number") from None
