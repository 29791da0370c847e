"""Agents of one's own, good and bad, for `python:tests.evaluation.own_agents:<class>`."""

from __future__ import annotations

import os
import time

import numpy as np

from evaluation.agents.agent import View


class Idle:
    """Does nothing, like noop."""

    name = "idle"

    def act(self, view: View) -> np.ndarray:
        return np.full(view.n_worlds, view.noop)


class Dice(Idle):
    """Draws an admissible action from its own luck; remembers nothing."""

    def act(self, view: View) -> np.ndarray:
        rank = (view.luck + np.uint64(view.tick * 7919)) % view.masks.sum(axis=1).astype(np.uint64)
        return np.argmax(np.cumsum(view.masks, axis=1) > rank[:, None].astype(np.int64), axis=1)


class Raises(Idle):
    """A bug in the third tick."""

    def act(self, view: View) -> np.ndarray:
        if view.tick == 2:
            raise ZeroDivisionError("a bug")
        return super().act(view)


class NotANumber(Idle):
    def act(self, view: View) -> np.ndarray:
        return np.full(view.n_worlds, np.nan)


class OutOfRange(Idle):
    def act(self, view: View) -> np.ndarray:
        return super().act(view) + 1


class WrongShape(Idle):
    def act(self, view: View) -> np.ndarray:
        return np.zeros(view.n_worlds + 1, int)


class FailsToStart(Idle):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Dies(Idle):
    """Takes its process with it."""

    def act(self, view: View) -> np.ndarray:
        os._exit(3)


class Stubborn(Idle):
    """Asks for what is masked: no error, but it is counted."""

    def act(self, view: View) -> np.ndarray:
        return np.argmin(view.masks, axis=1)


class Slow(Idle):
    """Half a second per block; writes down what it plays."""

    def begin(self, view: View) -> None:
        with open(os.environ["OWN_AGENTS_LOG"], "a") as log:
            log.write(f"{view.n_worlds} {os.getpid()}\n")
        time.sleep(float(os.environ.get("OWN_AGENTS_SLEEP", "0.5")))
