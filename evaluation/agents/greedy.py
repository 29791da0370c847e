"""Greedy: the action that is expected to be cheapest within one tick, by forks with resampled luck.

What pays later it does not see. It is here to show that this world is no series of one-step problems.
"""

from __future__ import annotations

import numpy as np

from cloudrl import engine
from evaluation.agents.agent import View
from evaluation.agents.planning import Desk, dollars, in_threads, put
from evaluation.agents.planning_jit import kernel


@kernel
def one_tick_bills(rules, tables, state, actions, aside, scratch, out):  # type: ignore[no-untyped-def]
    """out[c] = mean $ of the coming tick over the worlds of `state` if actions[c] is played."""
    n = state.worlds.shape[0]
    for c in range(actions.shape[0]):
        total = 0.0
        for s in range(n):
            put(state, s, aside, 0)
            w, groups, resources, edges = aside.worlds[0], aside.groups[0], aside.resources[0], aside.edges[0]
            before = dollars(w)
            engine.step_world(
                rules, tables, w, groups, resources, edges, aside.pending[0], actions[c], scratch
            )  # fmt: skip
            total += dollars(w) - before
        out[c] = total / n


class Greedy:
    """Looks one tick ahead, in `samples` imagined worlds that all actions share."""

    name = "greedy"

    def __init__(self, samples: int = 16, threads: int = 1) -> None:
        self.samples, self.threads = samples, threads

    def act(self, view: View) -> np.ndarray:
        actions = np.full(view.n_worlds, view.noop)

        def work(world: int) -> None:
            sim = view.imagine(world, self.samples, salt=view.tick)
            desk = Desk(sim)
            allowed = np.flatnonzero(view.masks[world])[::-1].copy()  # NOOP first: it wins ties
            bills = np.empty(len(allowed))
            one_tick_bills(sim.rules, sim.tables, sim.state, allowed, desk.aside, desk.scratch, bills)
            best = int(np.argmin(bills))
            actions[world] = allowed[best] if bills[best] < bills[0] - 1e-9 else view.noop

        in_threads(view.n_worlds, self.threads, work)
        return actions
