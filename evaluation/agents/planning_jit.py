"""The planners' kernels, in a compile cache of their own.

numba keeps machine code until the kernel's own file changes; a change in a kernel that it calls, in another file,
goes unnoticed. cloudrl.jit answers for the core with a folder per version of its source. Planners' kernels call
each other across files too, so they have a folder per version of theirs, inside the core's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cloudrl import jit

Function = TypeVar("Function", bound=Callable[..., Any])
_HERE = Path(__file__).parent
_SOURCES = sorted([*_HERE.glob("planning*.py"), _HERE / "greedy.py", _HERE / "mpc.py"])


def _version() -> str:
    digest = hashlib.sha256()
    for path in _SOURCES:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


_FOLDER = jit.CACHE_DIR / f"planners-{_version()}"


def kernel(function: Function) -> Function:
    """As cloudrl.jit.kernel."""
    return jit.kernel(function, _FOLDER)
