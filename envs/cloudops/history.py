"""The day so far of one world, written down while it is played."""

from __future__ import annotations

from typing import Any

from cloudrl.reward.bill import BILL_PARTS
from cloudrl.simulator import Simulator


class History:
    """Traffic, dollars and actions, tick by tick: what a picture shows below the services."""

    def __init__(self) -> None:
        self.load: list[float] = []  # outside traffic, mean 1
        self.served: list[float] = []  # share of it served in time
        self.dollars: list[tuple[float, ...]] = []  # by part of the bill
        self.actions: list[tuple[int, int, int]] = []  # tick, flat action that was asked for, verdict

    def note(self, simulator: Simulator, world: int, action: int) -> None:
        """Write down the tick that was just played."""
        w: Any = simulator.state.worlds[world]
        self.load.append(float(w["load"]))
        self.served.append(float(w["served"] * (1.0 - w["slow"])))
        self.dollars.append(tuple(float(w[f"tick_{part}"]) for part in BILL_PARTS))
        if action != simulator.noop:
            self.actions.append((int(w["tick"]) - 1, action, int(w["verdict"])))

    def cut(self, ticks: int) -> None:
        """Forget what came after so many ticks."""
        del self.load[ticks:], self.served[ticks:], self.dollars[ticks:]
        self.actions = [entry for entry in self.actions if entry[0] < ticks]
