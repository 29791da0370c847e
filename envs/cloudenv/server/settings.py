"""Limits of the server, each set by an environment variable; the command line sets address and emulator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

PREFIX = "CLOUDENV_"


@dataclass(frozen=True)
class Settings:
    """Field `max_episodes` is the variable CLOUDENV_MAX_EPISODES, and so on; all are positive numbers."""

    max_body_bytes: int = 1_048_576
    """Of an HTTP body and of a WebSocket message."""
    max_sessions: int = 256
    """WebSocket sessions at once."""
    max_episodes: int = 512
    """Episodes at once, over HTTP and WebSocket together; each holds an emulated AWS account."""
    max_pipelines: int = 256
    """Posted pipelines at once; built-in tasks do not count."""
    idle_seconds: float = 1800.0
    """An episode without an action for so long is closed."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{_variable(field.name)}={getattr(self, field.name)}: must be positive")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Raises ValueError, one line, for a value that is no positive number."""
        variables = os.environ if environ is None else environ
        values = {}
        for field in fields(cls):
            text = variables.get(_variable(field.name), "").strip()
            if text:
                try:
                    values[field.name] = (float if field.type == "float" else int)(text)
                except ValueError:
                    raise ValueError(f"{_variable(field.name)}={text}: must be a number") from None
        return cls(**values)  # type: ignore[arg-type]


def _variable(field: str) -> str:
    return PREFIX + field.upper()
