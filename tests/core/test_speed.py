"""Copies of worlds are copies, kernels without dispatch are the same kernels, and the benchmarks run.

How fast all this is stands in docs/benchmarks.md: a test on a shared machine could only say how busy it is.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloudrl import ImmuneMemory, Simulator
from cloudrl.dispatch import Direct, direct
from cloudrl.jit import kernel
from cloudrl.types import ABSENT, State
from tests.core.play import play, same_state, scenario_of

ROOT = Path(__file__).resolve().parents[2]


def played(n_worlds: int = 4, ticks: int = 30, **arguments: object) -> Simulator:
    sim = Simulator(scenario_of("easy"), n_worlds, **arguments)  # type: ignore[arg-type]
    sim.reset(np.arange(n_worlds))
    play(sim, ticks)
    return sim


# ---------------------------------------------------------------- state


def test_empty_states_are_zero_but_for_their_status() -> None:
    state = State.empty(3, 5, 0)
    assert state.edges.shape == (3, 1)
    assert (state.resources["status"] == ABSENT).all()
    state.resources["status"] = 0
    assert not any(np.frombuffer(array.tobytes(), np.uint8).any() for array in state)


def test_arrays_of_a_state_never_overlap_and_are_aligned() -> None:
    state = State.blank(3, 7, 5)
    for k, array in enumerate(state):
        assert array.flags.c_contiguous and array.flags.writeable
        assert array.ctypes.data % 8 == 0
        assert not any(np.shares_memory(array, other) for other in state[k + 1 :])


def test_copies_own_their_memory() -> None:
    sim = played()
    whole, some, one = sim.state.copy(), sim.state.take(np.array([2, 0])), sim.snapshot(2)
    for copied, index in ((whole, slice(None)), (some, np.array([2, 0])), (one, slice(2, 3))):
        assert same_state(copied, (array[index] for array in sim.state))
        assert not any(np.shares_memory(mine, theirs) for mine, theirs in zip(copied, sim.state, strict=True))


# ---------------------------------------------------------------- forks


@pytest.mark.parametrize("luck", ["same", "resampled"])
def test_a_fork_is_independent_of_its_original(luck: str) -> None:
    sim = played()
    before, seen, masks = sim.snapshot(), sim.observations.copy(), sim.masks.copy()
    fork = sim.fork(1, 3, luck)
    assert np.array_equal(fork.observations, seen[[1, 1, 1]]) and np.array_equal(fork.masks, masks[[1, 1, 1]])
    assert not fork.rewards.any()
    mine = (*sim.state, sim.observations, sim.masks, sim.rewards, *sim.scratch)
    theirs = (*fork.state, fork.observations, fork.masks, fork.rewards, *fork.scratch)
    assert not any(np.shares_memory(a, b) for a, b in zip(mine, theirs, strict=True))
    play(fork, 20, seed=1)
    fork.idle_totals()
    assert same_state(sim.state, before)
    assert np.array_equal(sim.observations, seen) and np.array_equal(sim.masks, masks)


def test_a_fork_of_a_fork_keeps_its_own_work_space() -> None:
    sim = played()
    totals = sim.idle_totals()
    fork = sim.fork(2, 2)
    assert np.array_equal(fork.idle_totals(), totals[[2, 2]])
    assert fork._aside is not sim._aside
    assert np.array_equal(fork.fork(1).idle_totals(), totals[[2]])


def test_restoring_one_world_leaves_the_others_alone() -> None:
    sim = played()
    saved, seen = sim.snapshot(1), sim.observations[1].copy()
    play(sim, 10, seed=2)
    others = [0, 2, 3]
    before, observations, masks = sim.snapshot(), sim.observations.copy(), sim.masks.copy()
    sim.restore(saved, 1)
    assert same_state((array[1:2] for array in sim.state), saved)
    assert np.array_equal(sim.observations[1], seen)
    assert same_state((array[others] for array in sim.state), (array[others] for array in before))
    assert np.array_equal(sim.observations[others], observations[others])
    assert np.array_equal(sim.masks[others], masks[others])


# ---------------------------------------------------------------- pickles


def test_a_pickle_holds_no_empty_memory_and_plays_on() -> None:
    sim = played()
    data = pickle.dumps(sim)
    again = pickle.loads(data)
    assert len(data) < 100_000, "the tables of a memory that is off weigh more than the worlds"
    assert again.tables is sim.tables
    assert np.array_equal(play(again, 10, seed=3), play(sim, 10, seed=3))
    assert same_state(again.state, sim.state)


def test_a_pickle_keeps_its_memory() -> None:
    sim = played(memory=ImmuneMemory())
    again = pickle.loads(pickle.dumps(sim))
    assert again.memory is not None and again.tables is again.memory.tables
    assert same_state(again.tables, sim.tables)


# ---------------------------------------------------------------- dispatch


@kernel
def _add(numbers, more):  # type: ignore[no-untyped-def]
    numbers += more
    return numbers.sum()


def test_a_direct_kernel_is_the_kernel() -> None:
    numbers = np.arange(4.0)
    adding = Direct(_add)
    assert [adding(numbers, 1) for _ in range(2)] == [10.0, 14.0]
    assert direct(_add, numbers, 1)(numbers, 1) == 18.0


def test_any_kind_of_actions_reaches_the_kernel_as_it_expects_them() -> None:
    plain = played(2)
    actions = [plain.noop, 3]
    readonly = np.array(actions)
    readonly.flags.writeable = False
    kinds = (
        np.array(actions),
        actions,
        readonly,
        np.array([actions, actions]).T[:, 0],
        np.array(actions, np.int32),
    )
    states = []
    for kind in kinds:
        fork = pickle.loads(pickle.dumps(plain))  # machine code is looked up anew with this very array
        fork.step(kind)
        states.append(fork.state)
    assert all(same_state(states[0], state) for state in states[1:])


# ---------------------------------------------------------------- benchmarks


@pytest.mark.slow
@pytest.mark.parametrize("what", ["env", "scaling", "fork"])
def test_benchmarks_run(what: str, tmp_path: Path) -> None:
    """At a tiny size: the figures mean nothing, the table and the json are there."""
    command = [sys.executable, str(ROOT / "scripts" / "bench.py"), what, "--repetitions", "1", "--ticks", "3"]
    out = subprocess.run(
        [*command, "--json", "out.json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert out.returncode == 0, out.stderr
    assert "target" in out.stdout
    assert json.loads((tmp_path / "out.json").read_text())["results"]
