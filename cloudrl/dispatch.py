"""Kernels without numba's dispatch.

At every call numba compares the types of all arguments with those that it has compiled for. For the twenty-odd
record arrays of a simulator that takes longer than a tick of one world. Their types never change, so one look is
enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def direct(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of `kernel` for arguments of these types.

    Nothing is checked when it is called: give it arguments of these very types (dtype, dimensions, contiguity).
    """
    if not hasattr(kernel, "compile"):  # NUMBA_DISABLE_JIT
        return kernel  # type: ignore[no-any-return]
    return kernel.compile(tuple(numba.typeof(argument) for argument in arguments))  # type: ignore[no-any-return]


class Direct:
    """A kernel whose machine code is looked up at the first call; all later calls must bring the same types."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._entry is None:
            self._entry = direct(self.kernel, *arguments)
        return self._entry(*arguments)
