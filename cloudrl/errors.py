"""Errors that a person can mend: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Wrong input of a person. The commands print its message as one line and exit with code 1."""


def did_you_mean(name: str, known: Iterable[str], show: int = 12) -> str:
    """A closing phrase for "unknown x": the closest known name, or the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    if not names:
        return "there is none to choose from"
    more = f", ... ({len(names)} in all)" if len(names) > show else ""
    return f"choose from {', '.join(names[:show])}{more}"
