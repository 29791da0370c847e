"""One world that is played by an agent and looked at by a person: forth, back, and by hand.

    play = Playthrough(scenario, seed=20003, pilot=lambda sim: ...)
    play.step(); play.goto(0); play.act(action); play.finish()
    play.worths()                 # what every decision so far was worth

The world at any tick is restored from a snapshot and the actions since then, which is exact: no draw depends on an
action, and the same actions give the same world (docs/simulator.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cloudrl.reward.bill import BILL_PARTS, bill
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from cloudrl.types import State
from evaluation.counterfactual import Worths, worths

KEEP = 12
"""Ticks between two snapshots: a day of 288 ticks keeps 25 of them, each some 11 kB with 25 resources."""

Pilot = Callable[[Simulator], int]
"""The flat action in the one world of a simulator, as it stands."""


@dataclass(frozen=True)
class Decision:
    """One tick: what was asked for, what became of it, and what the tick brought."""

    action: int  # flat, that was asked for
    executed: int  # that ran
    verdict: str  # admissible, invalid or vetoed
    rules: tuple[str, ...]  # ids of the broken rules
    reason: str
    by_hand: bool
    load: float  # outside traffic, mean 1
    served: float  # share of it in time
    dollars: tuple[float, ...]  # of the tick, by part of the bill
    crashes: int
    breaches: int
    cascade: bool


class Playthrough:
    """A world of a scenario, the decisions so far, and the tick that is shown. One person's; not shared.

    Args:
        pilot: who decides where no person does. It is asked at the last tick that was played only.
    """

    def __init__(
        self, scenario: Scenario, seed: int, pilot: Pilot, safety: SafetyConfig | None = None, title: str = ""
    ) -> None:
        self.title = title
        self.pilot = pilot
        self.sim = Simulator(scenario, 1, safety=safety)
        self.sim.reset(seed)
        self.seed = seed
        self.decisions: list[Decision] = []
        self.tick = 0
        self.stopping = False  # set to end `finish` early
        self.lock = threading.RLock()
        self._snapshots: dict[int, State] = {0: self.sim.snapshot(0)}
        self._worths: Worths | None = None
        self.idle = self._idle_bill()

    @property
    def ticks(self) -> int:
        """Length of the episode."""
        return self.sim.ticks

    @property
    def played(self) -> int:
        """Ticks that have been decided."""
        return len(self.decisions)

    @property
    def last(self) -> Decision | None:
        """The decision that led to what is shown."""
        return self.decisions[self.tick - 1] if self.tick else None

    # ------------------------------------------------------------------ move
    def goto(self, tick: int) -> None:
        """Show a tick, up to the last one that was played."""
        with self.lock:
            tick = min(max(0, int(tick)), self.played)
            start = max(k for k in self._snapshots if k <= tick)
            if not start <= self.tick <= tick:  # nearer from where it stands
                self.sim.restore(self._snapshots[start], 0)
                self.tick = start
            for decision in self.decisions[self.tick : tick]:
                self.sim.step([decision.action])
            self.tick = tick

    def step(self) -> None:
        """The next tick: what was played, or what the pilot decides."""
        with self.lock:
            if self.tick < self.played:
                self.goto(self.tick + 1)
            elif self.tick < self.ticks:
                self._advance(self.pilot(self.sim), by_hand=False)

    def act(self, action: int) -> Decision:
        """Play an action by hand. Whatever was played after the shown tick is forgotten.

        Raises ValueError: no such action, or the day is over.
        """
        with self.lock:
            if not 0 <= action <= self.sim.noop:
                raise ValueError(f"action {action} is outside 0..{self.sim.noop}")
            if self.tick >= self.ticks:
                raise ValueError("the day is over; go back to act")
            return self._advance(action, by_hand=True)

    def go_on(self) -> None:
        """Forget what was played after the shown tick: the pilot decides anew from here."""
        with self.lock:
            self._forget()

    def finish(self) -> Iterator[int]:
        """Play to the end; yields the tick after each. Ends early once `stopping` is set."""
        self.stopping = False
        with self.lock:
            self.goto(self.played)
        while self.tick < self.ticks and not self.stopping:
            self.step()
            yield self.tick

    def _advance(self, action: int, by_hand: bool) -> Decision:
        self._forget()
        sim = self.sim
        verdict = sim.verdict(0, action)
        sim.step([action])
        w: Any = sim.state.worlds[0]
        decision = Decision(
            action, int(w["executed"]), verdict.name, verdict.rules, verdict.reason, by_hand,
            float(w["load"]), float(w["served"] * (1.0 - w["slow"])),
            tuple(float(w[f"tick_{part}"]) for part in BILL_PARTS),
            int(w["tick_crashes"]), int(w["tick_breaches"]), bool(w["cascade"]),
        )  # fmt: skip
        self.decisions.append(decision)
        self.tick += 1
        if self.tick % KEEP == 0:
            self._snapshots[self.tick] = sim.snapshot(0)
        return decision

    def _forget(self) -> None:
        """What was played after the shown tick."""
        del self.decisions[self.tick :]
        self._snapshots = {tick: state for tick, state in self._snapshots.items() if tick <= self.tick}
        self._worths = None

    # ------------------------------------------------------------------ figures
    def worths(self) -> Worths:
        """What every decision so far was worth by the end of the day, (1, ticks).

        That is the bill without it minus the bill, on the same luck, later decisions as they were played. Nothing
        is done after the last of them.
        """
        with self.lock:
            if self._worths is None:
                actions = np.full((1, self.ticks), self.sim.noop)
                actions[0, : self.played] = [decision.executed for decision in self.decisions]
                self._worths = worths(self._fresh(), actions, threads=1)
            return self._worths

    def _fresh(self) -> Simulator:
        """The same world at tick 0, apart from the one that is shown."""
        fresh = self.sim.fork(0)
        fresh.restore(self._snapshots[0])
        return fresh

    def _idle_bill(self) -> np.ndarray:
        """$ so far if nothing is done, at every tick, (ticks + 1,)."""
        idle = self._fresh()
        out = np.zeros(self.ticks + 1)
        for tick in range(self.ticks):
            idle.step([idle.noop], look=False)
            out[tick + 1] = bill(idle.state.worlds)[0]
        return out
