"""The flat action space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudrl.actions import (
    ALL_OPS,
    CORE_OPS,
    DISRUPTIVE_OPS,
    N_OPS,
    OP_NAMES,
    Action,
    Op,
    contains,
    n_actions,
    noop_index,
)


@given(st.integers(1, 300), st.data())
def test_index_and_action_are_inverse(n_slots: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, noop_index(n_slots)))
    assert Action.from_index(index, n_slots).index(n_slots) == index


@given(st.integers(1, 50), st.sampled_from([op for op in Op if op != Op.NOOP]), st.data())
def test_action_and_index_are_inverse(n_slots: int, op: Op, data: st.DataObject) -> None:
    action = Action(op, data.draw(st.integers(0, n_slots - 1)))
    assert Action.from_index(action.index(n_slots), n_slots) == action


def test_noop_is_the_last_index_and_needs_no_slot() -> None:
    assert n_actions(12) == 12 * N_OPS + 1
    assert Action(Op.NOOP).index(12) == Action(Op.NOOP, 5).index(12) == n_actions(12) - 1 == noop_index(12)
    assert Action.from_index(noop_index(12), 12) == Action(Op.NOOP)


@pytest.mark.parametrize("index", [-1, n_actions(3)])
def test_indices_outside_the_space_are_refused(index: int) -> None:
    with pytest.raises(ValueError, match=f"action {index} is outside"):
        Action.from_index(index, 3)


@pytest.mark.parametrize("slot", [-1, 3])
def test_slots_outside_the_world_are_refused(slot: int) -> None:
    with pytest.raises(ValueError, match=f"slot {slot} is outside"):
        Action(Op.PATCH, slot).index(3)


def test_sets_of_ops() -> None:
    core = {Op[name] for name in OP_NAMES if name != "NOOP" and contains(CORE_OPS, Op[name])}
    assert core == {Op(k) for k in range(8)}
    assert {Op(k) for k in range(N_OPS) if contains(ALL_OPS, k)} == set(Op) - {Op.NOOP}
    assert DISRUPTIVE_OPS & ~ALL_OPS == 0
    assert not contains(DISRUPTIVE_OPS, Op.ANALYZE)
