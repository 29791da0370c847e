"""Copies of one world as moves of memory. numpy copies records field by field, which takes many times as long."""

from __future__ import annotations

from cloudrl.jit import kernel


@kernel
def spread(source, world, target, first, count):  # type: ignore[no-untyped-def]
    """The worlds first .. first+count-1 of the state `target` become copies of one world of `source`."""
    for b in range(first, first + count):
        target.worlds[b] = source.worlds[world]
        target.groups[b] = source.groups[world]
        target.resources[b] = source.resources[world]
        target.edges[b] = source.edges[world]
        target.pending[b] = source.pending[world]
