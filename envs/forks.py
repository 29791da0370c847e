"""What actions are worth: each is played in a fork of its world, and a reference policy plays on for a while.

All forks of a world share its luck, so that two of its actions differ by what they do and nothing else. Forks
never write to the immune memory.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from cloudrl import engine
from cloudrl.actions import N_OPS
from cloudrl.jit import kernel
from cloudrl.policies.scripted import ScriptedPolicy, act, noop
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.simulator import Simulator
from cloudrl.types import State

_NOBODY = noop().kind


class Futures(NamedTuple):
    """What M forks earned, in baseline ticks."""

    total: np.ndarray  # (M,) reward of the action's tick and, discounted, of those that followed
    first: np.ndarray  # (M,) of the action's tick alone
    terms: np.ndarray  # (M, 5) its weighted terms; they sum to `first` but for its clip


@kernel
def play_forks(  # type: ignore[no-untyped-def]
    rules, tables, state, which, actions, horizon, discount, kind, argument, settings,
    aside, scratch, observation, mask, total, first, terms,
):  # fmt: skip
    """Play actions[m] in a copy of world which[m], then up to `horizon` ticks of the policy."""
    p = rules.params[0]
    idle = state.resources.shape[1] * N_OPS
    w = aside.worlds[0]
    groups, resources, edges, pending = aside.groups[0], aside.resources[0], aside.edges[0], aside.pending[0]
    for m in range(which.shape[0]):
        b = which[m]
        aside.worlds[0] = state.worlds[b]
        aside.groups[0] = state.groups[b]
        aside.resources[0] = state.resources[b]
        aside.edges[0] = state.edges[b]
        engine.step_world(rules, tables, w, groups, resources, edges, pending, actions[m], scratch)
        first[m] = w.reward
        terms[m, 0] = w.reward_cost
        terms[m, 1] = w.reward_security
        terms[m, 2] = w.reward_reliability
        terms[m, 3] = w.reward_action
        terms[m, 4] = w.reward_failure
        total[m] = w.reward
        factor = 1.0
        last = min(p.ticks, w.tick + horizon)
        while w.tick < last:
            action = idle
            if kind != _NOBODY:  # doing nothing needs no look
                engine.look_at(rules, tables, aside, 0, scratch, observation, mask)
                action = act(kind, argument, settings, observation, mask, w.key, w.tick)
            engine.step_world(rules, tables, w, groups, resources, edges, pending, action, scratch)
            factor *= discount
            total[m] += factor * w.reward


class _Desk:
    """Work space of one thread."""

    def __init__(self, sim: Simulator) -> None:
        self.aside = State.empty(1, sim.n_slots, sim.state.edges.shape[1])
        self.scratch = engine.Scratch(*(array.copy() for array in sim.scratch))
        self.observation = np.zeros(sim.observations.shape[1], np.float32)
        self.mask = np.zeros(sim.n_actions, np.bool_)


class Forks:
    """Forks of the worlds of one simulator, shared out among threads; the values do not depend on their number."""

    def __init__(self, sim: Simulator, threads: int = 1) -> None:
        self.sim = sim
        self._rules = sim.rules._replace(memory_write=False)
        self._desks = [_Desk(sim) for _ in range(max(1, min(threads, os.cpu_count() or 1)))]
        self._pool = ThreadPoolExecutor(len(self._desks)) if len(self._desks) > 1 else None

    def play(
        self, which: np.ndarray, actions: np.ndarray, policy: ScriptedPolicy, horizon: int, discount: float = 1.0
    ) -> Futures:
        """Play `actions` (M,) in forks of the worlds `which` (M,), then `horizon` ticks of `policy`.

        The worlds themselves do not change. A rejected action is played as the simulator would: as NOOP.
        """
        m = len(which)
        futures = Futures(np.empty(m), np.empty(m), np.empty((m, len(TERM_NAMES))))
        which = np.ascontiguousarray(which, np.int64)
        actions = np.ascontiguousarray(actions, np.int64)
        cuts = np.linspace(0, m, len(self._desks) + 1).astype(int)

        def part(desk: _Desk, start: int, stop: int) -> None:
            play_forks(
                self._rules, self.sim.tables, self.sim.state, which[start:stop], actions[start:stop],
                horizon, discount, policy.kind, policy.argument, policy.settings,
                desk.aside, desk.scratch, desk.observation, desk.mask, *(a[start:stop] for a in futures),
            )  # fmt: skip

        if self._pool is None:
            part(self._desks[0], 0, m)
        else:
            for done in [self._pool.submit(part, d, *cuts[k : k + 2]) for k, d in enumerate(self._desks)]:
                done.result()
        return futures
