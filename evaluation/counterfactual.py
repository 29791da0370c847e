"""What each decision of an episode was worth: the bill of the world without it minus that of the world with it.

The twin of a decision is the same world up to its tick, then NOOP in its place, then every later action of the
episode as it was, on the same luck. An action that the twin's safety layer finds impossible or forbidden is NOOP
there, as it would be in any episode. So every decision has one number: dollars > 0 were saved by it, dollars < 0
were lost by it.

The numbers do not add up to what the episode saved against doing nothing. An ANALYZE and the PATCH that it made
possible are each worth what the pair is worth; of two acts of which one would have done, both are worth nothing.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from cloudrl import engine
from cloudrl.actions import N_OPS
from cloudrl.copies import spread
from cloudrl.jit import kernel
from cloudrl.reward.bill import BILL_PARTS, bill
from cloudrl.simulator import Simulator
from cloudrl.types import State


@kernel
def act(rules, tables, one, b, action, scratch):  # type: ignore[no-untyped-def]
    """One tick of world `b`. Only an action needs a verdict, so only then is one formed."""
    w = one.worlds[b]
    groups, resources, edges = one.groups[b], one.resources[b], one.edges[b]
    if action != resources.shape[0] * N_OPS:
        engine.refresh(rules, tables, w, groups, resources, edges, scratch)
    engine.step_world(rules, tables, w, groups, resources, edges, one.pending[b], action, scratch)


@kernel
def twins(  # type: ignore[no-untyped-def]
    rules, tables, state, first, last, actions, disruptive_only, aside, scratch, parts, lost, disrupted
):
    """Play the worlds first .. last-1 to the end under `actions` (B, T), and the twin of every decision.

    parts[b, t] = the twin's bill by part, lost[b, t] = later actions that it could not carry out; both untouched
    where there was no decision. disrupted[b, t]: the decision took capacity away from something that served.
    """
    ticks = rules.params[0].ticks
    noop = state.resources.shape[1] * N_OPS
    for b in range(first, last):
        w, twin = state.worlds[b], aside.worlds[0]
        while w.tick < ticks:
            t = w.tick
            before = w.disruptions
            if actions[b, t] != noop:
                spread(state, b, aside, 0, 1)
            act(rules, tables, state, b, actions[b, t], scratch)
            disrupted[b, t] = w.disruptions > before
            if actions[b, t] == noop or (disruptive_only and not disrupted[b, t]):
                continue
            rejected = twin.invalid + twin.vetoed - twin.violations
            act(rules, tables, aside, 0, noop, scratch)
            while twin.tick < ticks:
                act(rules, tables, aside, 0, actions[b, twin.tick], scratch)
            parts[b, t, 0] = twin.infrastructure
            parts[b, t, 1] = twin.outage
            parts[b, t, 2] = twin.exposure
            parts[b, t, 3] = twin.labour
            lost[b, t] = twin.invalid + twin.vetoed - twin.violations - rejected


@dataclass(frozen=True)
class Worths:
    """What the decisions of B episodes of T ticks were worth; NaN where there was none to judge.

    Attributes:
        dollars: (B, T) bill of the twin minus the real bill: what the decision saved.
        parts: (B, T, 4) the same by part of the bill, in the order of BILL_PARTS.
        lost: (B, T) later actions that the twin could not carry out.
        disrupted: (B, T) bool: the decision took capacity away from something that served.
        bill: (B,) $ of the real episodes.
        worlds: (B,) their final records.
    """

    dollars: np.ndarray
    parts: np.ndarray
    lost: np.ndarray
    disrupted: np.ndarray
    bill: np.ndarray
    worlds: np.ndarray

    @property
    def unnecessary(self) -> np.ndarray:
        """(B, T) bool: a disruption without which the world had been no worse off."""
        return self.disrupted & (self.dollars <= 0.0)


def worths(
    sim: Simulator, actions: np.ndarray, disruptive_only: bool = False, threads: int | None = None
) -> Worths:
    """Play the worlds of `sim`, which stand at tick 0, under `actions` (B, T) and judge every decision.

    Args:
        sim: just reset; played to the end. Its safety mode and memory hold for the twins too.
        actions: flat actions; those that ran (`executed`), so that the real episode is the one that was played.
        disruptive_only: judge only what took capacity away from something that served.
        threads: the worlds are shared out among so many; the result does not depend on it.
    """
    actions = np.ascontiguousarray(actions, np.int64)
    if actions.shape != (sim.n_worlds, sim.ticks):
        raise ValueError(f"actions have shape {actions.shape}, expected ({sim.n_worlds}, {sim.ticks})")
    if actions.size and (actions.min() < 0 or actions.max() > sim.noop):
        raise ValueError(f"an action is outside 0..{sim.noop}")
    if (sim.state.worlds["tick"] != 0).any():
        raise ValueError("the worlds have been played; reset them first")
    rules = sim.rules._replace(memory_write=False)
    parts = np.full((*actions.shape, len(BILL_PARTS)), np.nan)
    lost = np.zeros(actions.shape, np.int64)
    disrupted = np.zeros(actions.shape, np.bool_)
    n_threads = max(1, min(threads or os.cpu_count() or 1, sim.n_worlds))
    cuts = np.linspace(0, sim.n_worlds, n_threads + 1).astype(int)

    def play(k: int) -> None:
        aside = State.empty(1, sim.n_slots, sim.state.edges.shape[1])
        scratch = engine.Scratch(*(array.copy() for array in sim.scratch))
        twins(
            rules, sim.tables, sim.state, cuts[k], cuts[k + 1], actions, disruptive_only,
            aside, scratch, parts, lost, disrupted,
        )  # fmt: skip

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(play, range(n_threads)))
    worlds = sim.state.worlds.copy()
    real = np.stack([worlds[part] for part in BILL_PARTS], axis=-1)
    totals = np.zeros(actions.shape)  # added part by part, in the order in which bill() adds
    for k in range(len(BILL_PARTS)):
        totals = totals + parts[:, :, k]
    dollars = totals - bill(worlds)[:, None]
    return Worths(dollars, parts - real[:, None, :], lost, disrupted, bill(worlds), worlds)


def unnecessary(sim: Simulator, actions: np.ndarray, threads: int | None = None) -> np.ndarray:
    """(B,): disruptive actions whose twin, which did not act, is no worse off. Arguments as in `worths`."""
    return worths(sim, actions, True, threads).unnecessary.sum(axis=1)
