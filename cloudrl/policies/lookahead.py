"""What an action is worth, by forks: play it, then a tail to the end of the episode, on the world's own luck.

With the do-nothing tail, `value(action) - value(NOOP)` is what the action alone would change. An act that only
brings knowledge (ANALYZE) changes nothing by itself: it is worth what its follow-up is worth, so its tail patches
what it found.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cloudrl import engine
from cloudrl.actions import ANALYZE, N_OPS
from cloudrl.jit import kernel
from cloudrl.policies.runbook import Runbook
from cloudrl.policies.scripted import ScriptedPolicy, act, from_runbook, noop
from cloudrl.simulator import Simulator
from cloudrl.types import State

FOLLOW_UP = from_runbook(
    "patch what is known and worth it",
    Runbook(patch_epss=0.0, quiet_load=10.0, margin=1.0, downtime_margin=1.0).only("patch"),
)


@kernel
def play_tail(rules, tables, aside, scratch, observation, mask, first, kind, argument, settings):  # type: ignore[no-untyped-def]
    """Play action `first` and then the tail policy in the only world of `aside`. Returns the episode's reward."""
    p = rules.params[0]
    w = aside.worlds[0]
    groups, resources, edges = aside.groups[0], aside.resources[0], aside.edges[0]
    pending = aside.pending[0]
    action = first
    while True:
        engine.step_world(rules, tables, w, groups, resources, edges, pending, action, scratch)
        if w.tick >= p.ticks:
            return w.reward_total
        if kind == 0:  # doing nothing needs no look
            action = resources.shape[0] * N_OPS
        else:
            engine.look_at(rules, tables, aside, 0, scratch, observation, mask)
            action = act(kind, argument, settings, observation, mask, w.key, w.tick)


@kernel
def fork_values(  # type: ignore[no-untyped-def]
    rules, tables, state, which, candidates, aside, scratch, observation, mask, kind, argument, settings, out
):
    """out[k, c] = the episode's reward of world which[k] if candidates[k, c] is played now, and then the tail."""
    for k in range(which.shape[0]):
        b = which[k]
        for c in range(candidates.shape[1]):
            aside.worlds[0] = state.worlds[b]
            aside.groups[0] = state.groups[b]
            aside.resources[0] = state.resources[b]
            aside.edges[0] = state.edges[b]
            out[k, c] = play_tail(
                rules, tables, aside, scratch, observation, mask, candidates[k, c], kind, argument, settings
            )


class _Desk:
    """Work space of one thread."""

    def __init__(self, sim: Simulator) -> None:
        self.aside = State.empty(1, sim.n_slots, sim.state.edges.shape[1])
        self.scratch = engine.Scratch(*(array.copy() for array in sim.scratch))
        self.observation = np.zeros(sim.observations.shape[1], np.float32)
        self.mask = np.zeros(sim.n_actions, np.bool_)


class Lookahead:
    """Worth of candidate actions in the worlds of one simulator. Forks never write to the immune memory.

    The worlds are shared out among threads (the kernel holds no lock, no world looks at another): the values do
    not depend on their number.
    """

    def __init__(self, sim: Simulator, threads: int = 2) -> None:
        self.sim = sim
        self._rules = sim.rules._replace(memory_write=False)
        self._desks = [_Desk(sim) for _ in range(max(1, min(threads, os.cpu_count() or 1)))]
        self._pool = ThreadPoolExecutor(len(self._desks))

    def values(self, which: np.ndarray, candidates: np.ndarray, tail: ScriptedPolicy) -> np.ndarray:
        """Episode rewards (K, C) of `candidates` (K, C) in the worlds `which` (K,), followed by `tail`."""
        out = np.empty(candidates.shape)
        cuts = np.linspace(0, len(which), len(self._desks) + 1).astype(int)

        def play(desk: _Desk, start: int, stop: int) -> None:
            fork_values(
                self._rules, self.sim.tables, self.sim.state,
                which[start:stop], np.ascontiguousarray(candidates[start:stop]),
                desk.aside, desk.scratch, desk.observation, desk.mask,
                tail.kind, tail.argument, tail.settings, out[start:stop],
            )  # fmt: skip

        for done in [self._pool.submit(play, d, cuts[k], cuts[k + 1]) for k, d in enumerate(self._desks)]:
            done.result()
        return out

    def worth(self, candidates: np.ndarray) -> np.ndarray:
        """(B, C): what each candidate changes against NOOP, in the reward's units; NaN: a second ANALYZE in a row.

        `candidates` (B, C) flat actions, one row per world.
        """
        sim = self.sim
        worlds = np.arange(sim.n_worlds)
        with_noop = np.column_stack([candidates, np.full(sim.n_worlds, sim.noop)])
        values = self.values(worlds, with_noop, noop())
        worth = values[:, :-1] - values[:, -1:]
        asks = (candidates % N_OPS == ANALYZE) & (candidates != sim.noop)
        rows = np.flatnonzero(asks.any(axis=1))
        if len(rows):
            columns = asks[rows].argmax(axis=1)
            pair = np.column_stack([candidates[rows, columns], np.full(len(rows), sim.noop)])
            values = self.values(rows, pair, FOLLOW_UP)
            worth[asks] = np.nan
            worth[rows, columns] = values[:, 0] - values[:, 1]
        return worth
