"""How the tabs listen: without a spinner over what is being read, without a queue, and only to the page itself."""

from __future__ import annotations

from typing import Any

QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    "api_visibility": "private",
    "concurrency_limit": None,
    "queue": False,
}
"""Arguments of an event that reads or starts something short."""
