"""The operations an agent may call and the flat action space built from them.

An action is an operation on one resource, or NOOP. Trainers see a flat index::

    index = slot * N_OPS + op        for op in 0 .. N_OPS-1, slot in 0 .. n_slots-1
    index = n_slots * N_OPS          NOOP, always the last index

so the same network can act on worlds of another size, and NOOP needs no resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cloudrl.jit import kernel


class Op(IntEnum):
    """Operations. Values are the column of the op inside a resource's block of the action space."""

    ANALYZE = 0
    PATCH = 1
    ENCRYPT = 2
    ROTATE_CREDS = 3
    RESTART = 4
    RESIZE_DOWN = 5
    STOP = 6
    DELETE = 7
    START = 8
    RESIZE_UP = 9
    ENABLE_LOGGING = 10
    RESTRICT_ACCESS = 11
    NOOP = 12


N_OPS = len(Op) - 1
"""Operations that need a resource: every op but NOOP."""

OP_NAMES = tuple(op.name for op in Op)

# Plain integers: numba kernels read module-level ints as compile-time constants, enums cost a lookup.
ANALYZE, PATCH, ENCRYPT, ROTATE_CREDS, RESTART, RESIZE_DOWN, STOP, DELETE = range(8)
START, RESIZE_UP, ENABLE_LOGGING, RESTRICT_ACCESS, NOOP = range(8, 13)

# Sets of ops are bit sets: bit `op` is 1 if the op is in the set. Rules return such sets.
NO_OPS = 0
ALL_OPS = (1 << N_OPS) - 1
CORE_OPS = ALL_OPS & ~(1 << START | 1 << RESIZE_UP | 1 << ENABLE_LOGGING | 1 << RESTRICT_ACCESS)
"""The nine operations of the first specification (NOOP included implicitly): `actions=core`."""
DISRUPTIVE_OPS = (
    1 << PATCH | 1 << ENCRYPT | 1 << RESTART | 1 << RESIZE_DOWN | 1 << STOP | 1 << DELETE | 1 << RESIZE_UP
)
"""Ops that take capacity away while they run, or for good."""


@dataclass(frozen=True)
class Action:
    """One decision. `slot` is ignored when `op` is NOOP."""

    op: Op
    slot: int = -1

    def index(self, n_slots: int) -> int:
        """Flat index of this action in a world of `n_slots` slots."""
        if self.op == Op.NOOP:
            return noop_index(n_slots)
        if not 0 <= self.slot < n_slots:
            raise ValueError(f"slot {self.slot} is outside 0..{n_slots - 1}")
        return self.slot * N_OPS + int(self.op)

    @classmethod
    def from_index(cls, index: int, n_slots: int) -> Action:
        """The action behind a flat index. Raises ValueError outside the action space."""
        if not 0 <= index <= noop_index(n_slots):
            raise ValueError(f"action {index} is outside 0..{noop_index(n_slots)}")
        if index == noop_index(n_slots):
            return cls(Op.NOOP)
        return cls(Op(index % N_OPS), index // N_OPS)


def n_actions(n_slots: int) -> int:
    """Size of the flat action space."""
    return n_slots * N_OPS + 1


def noop_index(n_slots: int) -> int:
    """Flat index of NOOP."""
    return n_slots * N_OPS


@kernel
def contains(ops: int, op: int) -> bool:
    """True if the bit set `ops` holds `op`."""
    return (ops >> op) & 1 == 1
