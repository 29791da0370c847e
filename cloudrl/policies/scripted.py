"""Scripted policies by name, and whole episodes of them in one kernel call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cloudrl import engine
from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.jit import kernel
from cloudrl.policies.runbook import (
    COST_RULES,
    N_SETTINGS,
    RELIABILITY_RULES,
    SECURITY_RULES,
    Runbook,
    runbook,
)
from cloudrl.policies.simple import constant_action, random_action, round_robin_action
from cloudrl.simulator import Simulator

_NOOP, _RANDOM, _CONSTANT, _ROUND_ROBIN, _RUNBOOK = range(5)
RUNBOOKS_FILE = Path(__file__).with_name("runbooks.yaml")


@dataclass(frozen=True)
class ScriptedPolicy:
    """A pure function of what an agent sees."""

    name: str
    kind: int
    argument: int = 0  # op of a constant policy, salt of a random one
    settings: np.ndarray = field(default_factory=lambda: np.zeros(N_SETTINGS))

    def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray, tick: int) -> np.ndarray:
        """Flat actions (B,) for observations (B, D), masks (B, A) and world keys (B,) uint64."""
        out = np.empty(len(masks), np.int64)
        act_batch(self.kind, self.argument, self.settings, observations, masks, keys, tick, out)
        return out


@kernel
def act(kind, argument, settings, observation, mask, key, tick):  # type: ignore[no-untyped-def]
    """Dispatch to the policy kernels."""
    if kind == _RANDOM:
        return random_action(mask, key, tick, argument)
    if kind == _CONSTANT:
        return constant_action(mask, argument, tick)
    if kind == _ROUND_ROBIN:
        return round_robin_action(mask, tick)
    if kind == _RUNBOOK:
        return runbook(settings, observation, mask, mask.shape[0] // N_OPS)
    return mask.shape[0] - 1


@kernel
def act_batch(kind, argument, settings, observations, masks, keys, tick, out):  # type: ignore[no-untyped-def]
    """`act` for every row."""
    for b in range(masks.shape[0]):
        out[b] = act(kind, argument, settings, observations[b], masks[b], keys[b], tick)


@kernel
def play_batch(rules, tables, state, scratch, observations, masks, rewards, ticks, kind, argument, settings):  # type: ignore[no-untyped-def]
    """Play every world to the end of its episode, one after the other."""
    one = np.zeros(1, np.int64)
    for b in range(state.worlds.shape[0]):
        w = state.worlds[b]
        while w.tick < ticks:
            one[0] = act(kind, argument, settings, observations[b], masks[b], w.key, w.tick)
            engine.step_world(
                rules, tables, w, state.groups[b], state.resources[b], state.edges[b], state.pending[b],
                one[0], scratch,
            )  # fmt: skip
            engine.look_at(rules, tables, state, b, scratch, observations[b], masks[b])
        rewards[b] = w.reward_total


def play(sim: Simulator, policy: ScriptedPolicy) -> np.ndarray:
    """Play all worlds of `sim` to the end under `policy`. Returns the final world records (B,).

    The immune memory is read but not written.
    """
    play_batch(
        sim.rules._replace(memory_write=False), sim.tables, sim.state, sim.scratch, sim.observations, sim.masks,
        sim.rewards, sim.ticks, policy.kind, policy.argument, policy.settings,
    )  # fmt: skip
    return sim.state.worlds


@cache
def _searched() -> dict[str, Any]:
    return yaml.safe_load(RUNBOOKS_FILE.read_text()) if RUNBOOKS_FILE.exists() else {}


def searched_runbook(scenario_name: str) -> Runbook:
    """The best runbook that the search found for a suite; for other scenarios that of CloudOps-Medium."""
    found = _searched()
    settings = found.get(scenario_name) or found.get("CloudOps-Medium")
    return Runbook(**settings["settings"]) if settings else Runbook()


def noop() -> ScriptedPolicy:
    return ScriptedPolicy("noop", _NOOP)


def random(salt: int = 0) -> ScriptedPolicy:
    return ScriptedPolicy("random", _RANDOM, salt)


def constant(op: int) -> ScriptedPolicy:
    return ScriptedPolicy(OP_NAMES[op].lower().replace("_", "-") + "-all", _CONSTANT, int(op))


def round_robin() -> ScriptedPolicy:
    return ScriptedPolicy("round-robin", _ROUND_ROBIN)


def from_runbook(name: str, book: Runbook) -> ScriptedPolicy:
    return ScriptedPolicy(name, _RUNBOOK, 0, book.vector())


def handwritten() -> ScriptedPolicy:
    return from_runbook("handwritten", Runbook())


def single_objectives() -> list[ScriptedPolicy]:
    """The hand-written runbook reduced to one objective."""
    book = Runbook()
    return [
        from_runbook("cost-only", book.only(*COST_RULES)),
        from_runbook("security-only", book.only(*SECURITY_RULES)),
        from_runbook("reliability-only", book.only(*RELIABILITY_RULES)),
    ]


def baselines(scenario_name: str) -> list[ScriptedPolicy]:
    """Every scripted policy."""
    return [
        noop(), random(), *(constant(op) for op in range(N_OPS)), round_robin(), *single_objectives(),
        handwritten(), from_runbook("runbook", searched_runbook(scenario_name)),
    ]  # fmt: skip
