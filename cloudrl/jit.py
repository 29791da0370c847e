"""`@kernel`: numba.njit with a compile cache that is never stale.

Numba's own cache looks at the file of the function only: a change in a function that it calls is not
noticed, and old machine code runs on. So the cache lives in a folder named after a hash of the whole
package's source.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def _source_hash() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    if "CLOUDRL_CACHE_DIR" in os.environ:
        return Path(os.environ["CLOUDRL_CACHE_DIR"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cloudrl"


def _cache_dir() -> Path:
    """The folder for this version of the source; a folder in the temporary directory if home is read-only."""
    root = _cache_root() / "kernels"
    try:
        folder = root / _source_hash()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(folder)
        _forget_old(root, keep=folder)
        return folder
    except OSError:
        return Path(tempfile.gettempdir()) / f"cloudrl-kernels-{os.getuid()}" / _source_hash()


def _forget_old(root: Path, keep: Path, days: float = 14.0) -> None:
    """Drop folders of source versions that nobody compiled for two weeks."""
    limit = time.time() - days * 86400
    for folder in root.iterdir():
        if folder != keep and folder.is_dir() and folder.stat().st_mtime < limit:
            shutil.rmtree(folder, ignore_errors=True)


CACHE_DIR = _cache_dir()


def kernel(function: Function, folder: Path = CACHE_DIR) -> Function:
    """Compile `function` in nopython mode, IEEE arithmetic (no fastmath: results must be bit-exact).

    `folder` holds its machine code: one per version of all that the function calls.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    finally:
        numba.config.CACHE_DIR = before
