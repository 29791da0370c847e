"""Where runs lie. Whatever a browser names is looked up here, and refused outside the runs folder."""

from __future__ import annotations

from pathlib import Path

from cloudrl.errors import UserError


class Folders:
    """The runs folder, and every path inside it.

    Args:
        runs: folder of runs; it need not exist yet.
    """

    def __init__(self, runs: str | Path = "runs") -> None:
        self.runs = Path(runs).resolve()
        if self.runs.exists() and not self.runs.is_dir():
            raise UserError(f"--runs {runs}: not a folder")

    def inside(self, text: str | Path) -> Path:
        """The path `text`, relative to the runs folder or absolute, with every link resolved.

        Raises UserError when it lies outside the runs folder, also through `..` or a symbolic link.
        """
        try:
            path = (self.runs / text).resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a zero byte
            raise UserError("not a path inside the runs folder") from None
        if not path.is_relative_to(self.runs):
            raise UserError("outside the runs folder: refused")
        return path

    def name(self, path: Path) -> str:
        """How a page calls a path inside the runs folder: relative to it."""
        return path.resolve().relative_to(self.runs).as_posix()
