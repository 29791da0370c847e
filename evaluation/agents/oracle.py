"""The oracle: a search on the world's true luck. It bounds what can be reached, and competes with nobody.

It starts from the best of a portfolio of lists and improves the plan of the day by random edits, each judged by
replaying the day (planning_edits.py). Every action passes the safety layer, as everybody's does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cloudrl.simulator import Simulator
from cloudrl.types import State
from evaluation.agents.agent import own_luck
from evaluation.agents.planning import Desk, in_threads, portfolio
from evaluation.agents.planning_edits import STRIDE, improve, record


@dataclass(frozen=True)
class Oracle:
    """Searches each world's plan on its own: the same plan alone, among others, on any number of threads.

    Args:
        edits: random edits of each plan.
        heat: the temperature at the start, as a share of the bill.
        threads: of the processor.
    """

    edits: int = 40_000
    heat: float = 5e-4
    threads: int = 1
    name: str = "oracle"

    def foresee(self, sim: Simulator) -> np.ndarray:
        """Flat actions (ticks, B) of the worlds of `sim`, which stand at tick 0."""
        plans = np.empty((sim.ticks, sim.n_worlds), np.int64)

        def work(world: int) -> None:
            plans[:, world] = self.search(sim, world)

        in_threads(sim.n_worlds, self.threads, work)
        return plans

    def search(self, sim: Simulator, world: int) -> np.ndarray:
        """The best plan found for one world: flat actions (ticks,) of which none is rejected."""
        desk, rules = Desk(sim), sim.rules._replace(memory_write=False)
        key = own_luck([int(sim.state.worlds["seed"][world])])[0]
        starts = []
        for policy in portfolio(sim.scenario.name):
            plan = np.empty(sim.ticks, np.int64)
            cost = record(
                rules, sim.tables, sim.state, world, desk.aside, desk.scratch, desk.observation, desk.mask,
                policy.kind, policy.settings, plan,
            )  # fmt: skip
            starts.append((cost, plan))
        cost, plan = min(starts, key=lambda start: start[0])
        marks = -(-sim.ticks // STRIDE)
        store = State.empty(2 * marks, sim.n_slots, sim.state.edges.shape[1])
        best = np.empty_like(plan)
        improve(
            rules, sim.tables, sim.state, world, key, store, np.zeros(marks, np.int64), desk.aside, desk.scratch,
            self.edits, self.heat * cost, plan, np.empty_like(plan), best,
        )  # fmt: skip
        return best
