"""One agent on one block of worlds: what a worker process does."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudrl.memory.immune import ImmuneMemory
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import SafetyConfig
from cloudrl.seeding import VALIDATION_SEEDS
from cloudrl.simulator import Simulator
from evaluation.agents.entry import Context, Entry
from evaluation.agents.registry import build, find
from evaluation.cache import Rows
from evaluation.counterfactual import unnecessary
from evaluation.metrics import Recorder
from evaluation.rollout import play_episodes

BLOCK, SLOW_BLOCK = 50, 10
"""Worlds that are played together, and lost together when the command is killed."""


@dataclass(frozen=True)
class Conditions:
    """The same for every agent of an evaluation."""

    context: Context
    reward: RewardWeights
    safety: SafetyConfig
    memory: ImmuneMemory | None
    ledger: bool


@dataclass(frozen=True)
class Outcome:
    """The figures of a block, or one line on what went wrong."""

    rows: Rows
    error: str = ""


def blocks(entry: Entry, seeds: np.ndarray) -> list[np.ndarray]:
    """The seeds in pieces that are played one after the other."""
    size = SLOW_BLOCK if entry.slow else BLOCK
    return [seeds[i : i + size] for i in range(0, len(seeds), size)]


def warm_up(conditions: Conditions) -> None:
    """Load the compiled kernels, so that their loading is nobody's time."""
    _play(conditions, find(["noop"], conditions.context)[0], np.array([VALIDATION_SEEDS.stop - 1]))


def play_block(conditions: Conditions, entry: Entry, seeds: np.ndarray) -> Outcome:
    """Play the worlds of `seeds` with a new agent. Never raises: an agent's error is a figure too."""
    start = time.perf_counter()
    try:
        rows = _play(conditions, entry, seeds)
    except Exception as error:
        return Outcome({}, describe(error))
    rows["seconds"] = np.full(len(seeds), (time.perf_counter() - start) / len(seeds))
    return Outcome(rows)


def _play(c: Conditions, entry: Entry, seeds: np.ndarray) -> Rows:
    agent = build(entry, c.context)
    recorder = Recorder()
    play_episodes(
        agent, c.context.scenario, seeds, reward=c.reward, safety=c.safety, memory=c.memory, on_tick=recorder
    )
    rows: Rows = {"seed": seeds.copy(), **recorder.metrics()}
    if c.ledger:
        rows["unnecessary"] = count_unnecessary(c, seeds, recorder.actions)
    counts = getattr(agent, "counts", None)
    if counts is not None:
        rows.update(_checked(counts(), len(seeds)))
    return rows | {"ops": recorder.ops, "actions": recorder.actions.astype(np.int16)}


def count_unnecessary(c: Conditions, seeds: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Unnecessary disruptions (B,) of episodes that were played by `actions` (B, ticks)."""
    sim = Simulator(c.context.scenario, len(seeds), reward=c.reward, safety=c.safety, memory=c.memory)
    sim.reset(seeds)
    return unnecessary(sim, actions.astype(np.int64), threads=1)


def _checked(counts: Mapping[str, np.ndarray], worlds: int) -> Rows:
    """What an agent says of itself, one number per world."""
    out = {name: np.asarray(values) for name, values in counts.items()}
    for name, values in out.items():
        if values.shape != (worlds,) or values.dtype.kind not in "biuf":
            raise ValueError(f"counts(): {name} must be one number per world")
    return out


def describe(error: BaseException) -> str:
    """One line on an error: its message, and for what nobody foresaw its type and place."""
    message = " ".join(str(error).split())
    if isinstance(error, ValueError) and message:
        return message
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"
