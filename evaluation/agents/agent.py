"""What an agent is, and all that it may know.

An agent plays B worlds at once. At every tick it gets a `View` and returns one action per world. A view holds
what can be seen, and offers what may be asked: worlds imagined from what can be seen. The simulator itself, and
with it the hidden state and the luck to come, stays with whoever plays the episodes. Only a clairvoyant agent is
handed it, by another method, and every table marks such an agent.

An agent of your own needs a name and `act`:

    class PatchWhatIsKnown:
        name = "patch what is known"

        def act(self, view):
            known = view.resource_feature("known_count") > 0
            allowed = view.masks[:, PATCH::N_OPS][:, : view.n_slots] & known
            return np.where(allowed.any(1), allowed.argmax(1) * N_OPS + PATCH, view.noop)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cloudrl.actions import noop_index
from cloudrl.observation import N_RESOURCE_FEATURES, N_WORLD_FEATURES, RESOURCE_COLUMN, WORLD_COLUMN
from cloudrl.simulator import Simulator

Imagine = Callable[[int, int, int], Simulator]


@dataclass(frozen=True)
class View:
    """What an agent may see and ask of B worlds at one tick.

    The arrays are buffers that change with the next tick: copy what you keep.
    """

    observations: np.ndarray  # (B, D) float32, laid out as cloudrl/observation.py says
    masks: np.ndarray  # (B, A) bool, True = admissible
    tick: int  # 0 .. ticks-1
    ticks: int  # length of the episode
    n_slots: int  # N
    luck: np.ndarray  # (B,) uint64: keys for the agent's own draws. They tell nothing of the world's luck
    imagination: Imagine | None = None

    @property
    def n_worlds(self) -> int:
        """B."""
        return len(self.masks)

    @property
    def noop(self) -> int:
        """Flat index of NOOP, the last action."""
        return noop_index(self.n_slots)

    def resource_feature(self, name: str) -> np.ndarray:
        """One number of every resource, (B, N): names in cloudrl.observation.RESOURCE_FEATURES."""
        return self.observations[:, RESOURCE_COLUMN[name] : -N_WORLD_FEATURES : N_RESOURCE_FEATURES]

    def world_feature(self, name: str) -> np.ndarray:
        """One number of every world, (B,): names in cloudrl.observation.WORLD_FEATURES."""
        return self.observations[:, self.n_slots * N_RESOURCE_FEATURES + WORLD_COLUMN[name]]

    def imagine(self, world: int, n: int = 1, salt: int = 0) -> Simulator:
        """`n` worlds as `world` could be, with futures as they could come.

        Hidden state and luck are drawn anew from what can be seen (`Simulator.fork(luck="resampled")`) and from
        the agent's own luck: two worlds that look alike are imagined alike. The same `salt` gives the same worlds.

        Raises:
            RuntimeError: the view was made without a simulator behind it.
        """
        if self.imagination is None:
            raise RuntimeError("this view offers no imagined worlds: it was made without a simulator")
        return self.imagination(world, n, salt)


@runtime_checkable
class Agent(Protocol):
    """Anything that maps what it sees to actions. An optional `begin(view)` is called before the first tick."""

    name: str

    def act(self, view: View) -> np.ndarray:
        """Flat actions (B,) of integers."""
        ...


@runtime_checkable
class Clairvoyant(Protocol):
    """An agent that knows the luck to come. It bounds what can be reached; nobody else gets what it gets."""

    name: str

    def foresee(self, sim: Simulator) -> np.ndarray:
        """Flat actions (ticks, B) for the whole episode of the worlds of `sim`, which stand at tick 0.

        `sim` is the true one and must be left as it is.
        """
        ...


def own_luck(seeds: Iterable[int] | np.ndarray) -> np.ndarray:
    """Keys (B,) uint64 for the draws of whoever plays the worlds of `seeds`.

    A hash, so that no arithmetic leads from it to the world's key. (The seeds themselves are public: whoever tries
    all of them knows the world. Nothing can be done about that in a benchmark that can be repeated.)
    """

    def key(seed: int) -> int:
        digest = hashlib.blake2b(int(seed).to_bytes(8, "little"), digest_size=8, person=b"agent's luck")
        return int.from_bytes(digest.digest(), "little")

    return np.array([key(seed) for seed in seeds], np.uint64)


def view_of(sim: Simulator, luck: np.ndarray) -> View:
    """What an agent may see of the worlds of `sim` now. All of them stand at the same tick."""

    def imagine(world: int, n: int, salt: int) -> Simulator:
        return sim.fork(world, n, luck="resampled", salt=salt, key=luck[world])

    return View(
        sim.observations, sim.masks, int(sim.state.worlds["tick"][0]), sim.ticks, sim.n_slots, luck, imagine
    )


def checked(actions: Any, n_worlds: int, n_actions: int) -> np.ndarray:
    """The actions (B,) int64 of an agent.

    Raises:
        ValueError: another shape, something that is not a whole number, or no action at all.
    """
    actions = np.asarray(actions)
    if actions.shape != (n_worlds,):
        raise ValueError(f"the agent returned actions of shape {actions.shape}, expected ({n_worlds},)")
    if actions.dtype.kind not in "iu":
        whole = actions.dtype.kind == "f" and np.isfinite(actions).all() and (actions == np.floor(actions)).all()
        if not whole:
            raise ValueError(f"the agent returned {actions.ravel()[:3]}...: actions are whole numbers")
    outside = (actions < 0) | (actions >= n_actions)
    if outside.any():
        raise ValueError(f"the agent returned {actions[outside][0]}: actions are 0 to {n_actions - 1}")
    return actions.astype(np.int64)
