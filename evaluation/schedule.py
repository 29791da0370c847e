"""Blocks of worlds of many agents on several processes.

What comes out does not depend on how many processes there are: every block is played by a new agent and says
nothing to another, and of an agent whose blocks fail the first failure in the order of the seeds is kept.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import numpy as np

from evaluation.agents.entry import Entry
from evaluation.block import Conditions, Outcome, play_block, warm_up

DIED = "its process died: out of memory, or a crash in native code"


@dataclass(frozen=True)
class Task:
    """One block of one agent."""

    agent: int  # index of the entry
    entry: Entry
    block: int  # 0, 1, ... in the order of the seeds
    seeds: np.ndarray


def play(conditions: Conditions, tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Outcome]]:
    """Play the tasks, in the given order or several at once.

    After an agent's failure its later blocks are dropped: they are reported with neither rows nor an error.
    """
    if workers == 1 or len(tasks) <= 1:
        yield from _one_by_one(conditions, tasks)
    else:
        yield from _in_parallel(conditions, tasks, workers)


def _one_by_one(conditions: Conditions, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
    failed: set[int] = set()
    if tasks:
        warm_up(conditions)
    for task in tasks:
        outcome = Outcome({}) if task.agent in failed else play_block(conditions, task.entry, task.seeds)
        if outcome.error:
            failed.add(task.agent)
        yield task, outcome


def _pool(workers: int, conditions: Conditions) -> ProcessPoolExecutor:
    # Spawned, not forked: torch and numba keep threads and locks that a fork would copy in any state.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(conditions,))


_CONDITIONS: Conditions | None = None


def _begin(conditions: Conditions) -> None:
    """In a worker: what is the same for all blocks arrives once. Ctrl-C ends it without a word."""
    global _CONDITIONS
    _CONDITIONS = conditions
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    warm_up(conditions)


def _work(task: Task) -> Outcome:
    assert _CONDITIONS is not None
    return play_block(_CONDITIONS, task.entry, task.seeds)


def _in_parallel(conditions: Conditions, tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Outcome]]:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # the processes share the cores already
    left = list(tasks)
    pool = _pool(min(workers, len(tasks)), conditions)
    try:
        futures = {pool.submit(_work, task): task for task in tasks}
        for future in as_completed(futures):
            task = futures[future]
            if future.cancelled():
                outcome = Outcome({})
            else:
                outcome = future.result()
            if outcome.error:
                _drop_later_blocks(task, futures)
            left.remove(task)
            yield task, outcome
    except BrokenProcessPool:
        yield from _each_alone(conditions, left)
    finally:
        for process in list((pool._processes or {}).values()):  # those that a Ctrl-C or an error found at work
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _drop_later_blocks(failed: Task, futures: dict[Future[Outcome], Task]) -> None:
    """Earlier blocks go on, so that the error that is reported is the first one in the order of the seeds."""
    for future, task in futures.items():
        if task.agent == failed.agent and task.block > failed.block:
            future.cancel()


def _each_alone(conditions: Conditions, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
    """After a process died: the rest one at a time, so that it is known whose fault the next death is."""
    failed: set[int] = set()
    pool: ProcessPoolExecutor | None = None
    try:
        for task in tasks:
            outcome = Outcome({})
            if task.agent not in failed:
                pool = pool or _pool(1, conditions)
                try:
                    outcome = pool.submit(_work, task).result()
                except BrokenProcessPool:
                    outcome, pool = Outcome({}, DIED), None
            if outcome.error:
                failed.add(task.agent)
            yield task, outcome
    finally:
        if pool is not None:
            pool.shutdown()
