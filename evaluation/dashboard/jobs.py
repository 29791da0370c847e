"""Commands that the dashboard has started: trainings and evaluations, each a process group of its own.

They outlive the page that started them (a reload, a closed browser), but not the dashboard: when it ends, each
gets the Ctrl-C that saves. What they print is kept in memory, its last lines.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from cloudrl.errors import UserError

KEPT = 1000
"""Lines of output per job."""
WAIT = 20.0
"""Seconds that a job has for saving when the dashboard ends, before Ctrl-C is pressed again."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FOLDER = re.compile(r"^run folder +(\S.*)$")
_PERCENT = re.compile(r"(\d{1,3})%\|.*?\| ?(.*)$")


class Job:
    """One command. Everything may be asked from any thread.

    Args:
        kind: ppo | grpo | eval.
        title: what it does, for lists.
        command: arguments behind `python`.
        terminal: give it a terminal as its stderr, so that it draws its progress bar.
    """

    def __init__(self, number: int, kind: str, title: str, command: Sequence[str], terminal: bool = False) -> None:
        self.number, self.kind, self.title, self.command = number, kind, title, list(command)
        self.started = time.time()
        self.ended: float | None = None
        self.asked = 0  # times that it was told to stop
        self.folder: Path | None = None  # the run folder, once the command has said it
        self.bar: tuple[int, str] | None = None  # its progress bar: percent, and the figures beside it
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        read, write = _terminal() if terminal else os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-u", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=write,
                start_new_session=True, env=os.environ | {"COLUMNS": "118", "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        except OSError as error:
            os.close(read)
            raise UserError(f"cannot start {' '.join(command)}: {error.strerror}") from None
        finally:
            os.close(write)
        assert self._process.stdout is not None
        self._readers = [
            threading.Thread(target=self._read, args=source, daemon=True)
            for source in ((self._process.stdout.fileno(), None), (read, read))
        ]
        for reader in self._readers:
            reader.start()
        threading.Thread(target=self._wait, daemon=True).start()

    # ------------------------------------------------------------------ state
    @property
    def running(self) -> bool:
        return self.ended is None

    @property
    def code(self) -> int | None:
        return None if self.ended is None else self._process.returncode

    @property
    def state(self) -> str:
        """running, stopping, done, stopped or failed."""
        if self.running:
            return "stopping" if self.asked else "running"
        if self.code == 0:
            return "done"
        return "stopped" if self.asked else "failed"

    @property
    def seconds(self) -> float:
        return (self.ended or time.time()) - self.started

    @property
    def label(self) -> str:
        return f"{self.number}. {self.title} · {self.state}"

    def log(self, last: int = KEPT) -> str:
        with self._lock:
            return "\n".join(list(self._lines)[-last:])

    def failure(self) -> str:
        """One line on why it failed: its own message, or its code."""
        if self.state != "failed":
            return ""
        with self._lock:
            said = [line for line in self._lines if line.startswith("cloudrl: ")]
        return said[-1].removeprefix("cloudrl: ") if said else f"ended with code {self.code}; the log says more"

    # ------------------------------------------------------------------ control
    def stop(self) -> None:
        """Ctrl-C: it saves and ends. Asked again it ends at once, asked once more it is killed."""
        self._signal((signal.SIGINT, signal.SIGINT, signal.SIGKILL)[min(self.asked, 2)])
        self.asked += 1

    def wait(self, seconds: float) -> bool:
        """Wait for the end; whether it came."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    # ------------------------------------------------------------------ output
    def _wait(self) -> None:
        self._process.wait()
        for reader in self._readers:
            reader.join(2.0)  # a grandchild may hold the pipe open for longer
        self.ended = time.time()

    def _read(self, source: int, to_close: int | None) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        while True:
            try:
                data = os.read(source, 1 << 16)
            except OSError:  # a terminal whose other end is closed
                break
            if not data:
                break
            rest = self._take(rest + decoder.decode(data))
        if rest:
            self._line(rest)
        if to_close is not None:
            os.close(to_close)

    def _take(self, text: str) -> str:
        """Note whole lines, and the state of a progress bar; returns what is not a whole line yet."""
        *lines, rest = text.replace("\r\n", "\n").split("\n")
        for line in lines:
            self._line(line)
        drawn, _, last = rest.rpartition("\r")
        if not self._progress(last):  # half drawn
            self._progress(drawn.rpartition("\r")[2])
        return last

    def _line(self, line: str) -> None:
        text = _ESCAPES.sub("", line.rpartition("\r")[2]).rstrip()
        if self._progress(text) or not text:
            return
        found = _FOLDER.match(text)
        if found:
            self.folder = Path(found[1]).resolve()  # commands name it from the present folder
        with self._lock:
            self._lines.append(text)

    def _progress(self, text: str) -> bool:
        found = _PERCENT.search(_ESCAPES.sub("", text))
        if found:
            self.bar = (min(100, int(found[1])), found[2].strip())
        return found is not None


def _terminal() -> tuple[int, int]:
    """(read, write) ends of a terminal, or of a pipe where the system has none."""
    try:
        import pty
        import termios

        read, write = pty.openpty()
        termios.tcsetwinsize(write, (40, 118))  # a bar that finds no width draws nothing
        return read, write
    except (ImportError, OSError):
        return os.pipe()


class Jobs:
    """All jobs of a server, by number."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._closed = False

    def start(self, kind: str, title: str, command: Sequence[str], terminal: bool = False) -> Job:
        """Start `python <command>`. Raises UserError if that cannot be."""
        with self._lock:
            if self._closed:
                raise UserError("the dashboard is ending; start it again")
            job = Job(len(self._jobs) + 1, kind, title, command, terminal)
            self._jobs[job.number] = job
            return job

    def get(self, number: int | None) -> Job | None:
        return self._jobs.get(number) if isinstance(number, int) else None

    def of(self, *kinds: str) -> list[Job]:
        """Jobs of some kinds, newest first."""
        return [job for job in reversed(self._jobs.values()) if job.kind in kinds]

    def folders_in_use(self) -> set[Path]:
        """Run folders that a running job writes."""
        return {job.folder.resolve() for job in self._jobs.values() if job.running and job.folder is not None}

    def close(self, wait: float = WAIT, say: Callable[[str], None] = lambda text: None) -> None:
        """Ctrl-C for all that run; after `wait` seconds again, and five seconds later the end."""
        with self._lock:
            self._closed = True
        left = [job for job in self._jobs.values() if job.running]
        if left:
            say(f"ending {len(left)} running jobs: they save first")
        for patience in (wait, 5.0, 2.0):
            for job in left:
                job.stop()
            until = time.time() + patience
            left = [job for job in left if not job.wait(until - time.time())]
            if not left:
                return
