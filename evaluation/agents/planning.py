"""Kernels that planners share: copies of a world, its bill, and episodes played to the end.

An *aside* is a batch of one world to play in (`State.empty(1, ...)`). Nothing here writes to the worlds that it
copies from, nor to an immune memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cloudrl import engine
from cloudrl.actions import N_OPS
from cloudrl.policies.runbook import Runbook
from cloudrl.policies.scripted import ScriptedPolicy, act, from_runbook, handwritten, noop, searched_runbook
from cloudrl.simulator import Simulator
from cloudrl.types import State
from evaluation.agents.planning_jit import kernel

RUNBOOK_SUITES = ("CloudOps-Easy", "CloudOps-Medium", "CloudOps-Hard")


def portfolio(scenario_name: str) -> list[ScriptedPolicy]:
    """Ways to go on: do nothing, the searched runbook of this suite, those of the others, the hand-written one."""
    names = [scenario_name, *(name for name in RUNBOOK_SUITES if name != scenario_name)]
    books: list[Runbook] = []
    for name in names:
        book = searched_runbook(name)
        if book not in books:
            books.append(book)
    return [noop(), *(from_runbook(f"runbook {k}", book) for k, book in enumerate(books)), handwritten()]


def settings_of(policies: list[ScriptedPolicy]) -> tuple[np.ndarray, np.ndarray]:
    """Kinds (M,) int64 and settings (M, S) float64 of the policies, for the kernels."""
    return np.array([p.kind for p in policies], np.int64), np.array([p.settings for p in policies])


class Desk:
    """Work space of one thread for worlds of one size."""

    def __init__(self, sim: Simulator) -> None:
        self.aside = State.empty(1, sim.n_slots, sim.state.edges.shape[1])
        self.scratch = engine.Scratch(*(array.copy() for array in sim.scratch))
        self.observation = np.zeros(sim.observations.shape[1], np.float32)
        self.mask = np.zeros(sim.n_actions, np.bool_)


def in_threads(n_worlds: int, threads: int, work: Callable[[int], None]) -> None:
    """`work(world)` for every world, shared out among threads (kernels hold no lock).

    The worlds must not write to anything in common: then the result does not depend on the number of threads.
    """
    threads = max(1, min(threads, n_worlds, os.cpu_count() or 1))
    if threads == 1:
        for world in range(n_worlds):
            work(world)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, world) for world in range(n_worlds)]:
            done.result()


@kernel
def put(source, b, target, c):  # type: ignore[no-untyped-def]
    """World `c` of `target` becomes a copy of world `b` of `source`."""
    target.worlds[c] = source.worlds[b]
    target.groups[c] = source.groups[b]
    target.resources[c] = source.resources[b]
    target.edges[c] = source.edges[b]
    target.pending[c] = source.pending[b]


@kernel
def dollars(w):  # type: ignore[no-untyped-def]
    """$ of a world so far."""
    return w.infrastructure + w.outage + w.exposure + w.labour


@kernel
def step(rules, tables, aside, scratch, action):  # type: ignore[no-untyped-def]
    """One tick of the world in `aside`. What safety says is looked up only where there is an action to judge."""
    w, groups, resources, edges = aside.worlds[0], aside.groups[0], aside.resources[0], aside.edges[0]
    if action != resources.shape[0] * N_OPS:
        engine.refresh(rules, tables, w, groups, resources, edges, scratch)
    engine.step_world(rules, tables, w, groups, resources, edges, aside.pending[0], action, scratch)


@kernel
def choose(rules, tables, aside, scratch, observation, mask, kind, settings):  # type: ignore[no-untyped-def]
    """The action of a scripted policy in the world in `aside`."""
    if kind == 0:  # doing nothing needs no look
        return aside.resources.shape[1] * N_OPS
    engine.look_at(rules, tables, aside, 0, scratch, observation, mask)
    w = aside.worlds[0]
    return act(kind, 0, settings, observation, mask, w.key, w.tick)


@kernel
def play_out(rules, tables, aside, scratch, observation, mask, kind, settings):  # type: ignore[no-untyped-def]
    """Play the world in `aside` to the end under a scripted policy. Returns its bill, $."""
    ticks = rules.params[0].ticks
    w, groups, resources, edges = aside.worlds[0], aside.groups[0], aside.resources[0], aside.edges[0]
    while w.tick < ticks:
        action = choose(rules, tables, aside, scratch, observation, mask, kind, settings)
        engine.step_world(rules, tables, w, groups, resources, edges, aside.pending[0], action, scratch)
    return dollars(w)
