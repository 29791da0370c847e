"""A kernel without numba's dispatch: for one world that takes longer than the tick itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def direct(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of `kernel` for arguments of these types.

    Nothing is checked when it is called: give it these very arguments, again and again.
    """
    if not hasattr(kernel, "compile"):  # NUMBA_DISABLE_JIT
        return kernel  # type: ignore[no-any-return]
    return kernel.compile(tuple(numba.typeof(argument) for argument in arguments))  # type: ignore[no-any-return]
