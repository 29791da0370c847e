"""How the tabs listen: without a spinner over what is being read, without a queue, and only to the page itself."""

from __future__ import annotations

import threading
from typing import Any

LOADING = threading.Lock()
"""Held while a handler imports what takes a while: two that import at once may find half of a module."""
QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    "api_visibility": "private",
    "concurrency_limit": None,
    "queue": False,
}
"""Arguments of an event that reads or starts something short."""
