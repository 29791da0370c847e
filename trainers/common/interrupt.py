"""Ctrl-C that waits until a run can be saved whole."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """While it is entered, the first Ctrl-C only sets `asked`; `check` then raises. A second one does not wait."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.asked:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        os.write(2, b"\nstopping after this update; Ctrl-C again stops at once\n")  # safe inside a handler

    def __enter__(self) -> Interrupt:
        ours = threading.current_thread() is threading.main_thread()
        # A process started in the background may have been told to ignore Ctrl-C: leave it so.
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if kind is None:
            self.check()
