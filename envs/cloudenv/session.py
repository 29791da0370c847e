"""CloudEnv in this process, without a server: reset, step, fork, close, in the manner of gymnasium.

    session = CloudEnvSession()
    observation, info = session.reset("hard-task-1")
    observation, reward, terminated, truncated, info = session.step(
        {"service": "s3", "operation": "ListBuckets", "payload": {}}
    )
    twin = session.fork()      # a process that goes on from here; both are independent
    session.close()

A fork copies the emulator with everything in it, in some 20 ms: a group of rollouts from one state needs one
build. Only a process with a single thread may fork. In one with several (torch starts some), let the session
live in a process of its own, which has the same methods: `CloudEnvSession.spawn()`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .server.managers.episode import Episode, StepOutcome
from .server.managers.generator import is_generated
from .server.managers.task import Task, load_task
from .server.providers.aws.backend import Backend, default_backend
from .server.providers.aws.errors import PipelineError
from .server.providers.aws.moto_backend import MotoBackend

Step = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]
"""(observation, reward, terminated, truncated, info)"""

TIMEOUT = 120.0
"""Seconds that a session in another process may take for an answer."""

_parent_ends: set[socket.socket] = set()
"""This process's ends of its forks' sockets. A new fork closes them: an end that stays open keeps a twin alive."""


class CloudEnvSession:
    """One episode at a time. Not thread-safe.

    An observation is the one of the OpenEnv server, as json: task_id, instruction, step_count, operation_result,
    reward, done, current_pipeline_state. `info` has the diff against the ideal: for metrics, not for an agent's
    eyes.
    """

    def __init__(self, backend: Backend | None = None) -> None:
        self._backend = backend
        self._episode: Episode | None = None

    def reset(
        self, task: str | Task = "easy-task-1", seed: int | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode: (observation, info). `seed` completes a generated task: reset("gen:hard", seed=7).

        Raises PipelineError for a task that does not exist or cannot be built.
        """
        if isinstance(task, str):
            task = load_task(f"{task}:{seed or 0}" if is_generated(task) and task.count(":") == 1 else task)
        self.close()
        self._episode = Episode("session", task, backend=self._backend, seed=seed)
        return self._seen(self._episode.observe())

    def step(self, action: Mapping[str, Any]) -> Step:
        """Carry out {"service", "operation", "payload"}. What an agent sends wrong is an error in the observation.

        Raises RuntimeError before the first reset.
        """
        episode = self._current()
        outcome = episode.act(action.get("service", ""), action.get("operation", ""), action.get("payload"))
        observation, info = self._seen(outcome)
        return observation, outcome.reward, outcome.done, outcome.truncated, info

    def solution(self) -> list[dict[str, Any]]:
        """Actions that repair the pipeline from where it is."""
        return self._current().solution()

    def fork(self) -> RemoteSession:
        """A session in a new process that goes on from exactly here.

        Raises RuntimeError in a process with several threads (use `spawn`), and on an emulator behind an endpoint,
        which a fork would share.
        """
        backend = self._backend or default_backend()
        if not isinstance(backend, MotoBackend):
            raise RuntimeError(f"only the emulator in this process can be forked, not {backend.name}")
        if (threads := _threads()) > 1:
            raise RuntimeError(
                f"a process with {threads} threads cannot be forked safely; use CloudEnvSession.spawn(), "
                "and fork the session that it gives"
            )
        ours, theirs = socket.socketpair()
        gc.freeze()  # the collector would touch, and so copy, every page
        pid = os.fork()
        if pid == 0:
            _become(self, theirs, [ours, *_parent_ends])
        theirs.close()
        return RemoteSession(ours, pid)

    @staticmethod
    def spawn() -> RemoteSession:
        """A session in a process of its own, with a single thread, that can be forked from anywhere."""
        ours, theirs = socket.socketpair()
        folder = str(Path(__file__).resolve().parents[1])
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-m", "cloudenv.session", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        theirs.close()
        return RemoteSession(ours, process=process)

    def close(self) -> None:
        """Free the episode. The session can be reset again."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def __enter__(self) -> CloudEnvSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _current(self) -> Episode:
        if self._episode is None:
            raise RuntimeError("call reset first")
        return self._episode

    def _seen(self, outcome: StepOutcome) -> tuple[dict[str, Any], dict[str, Any]]:
        task = self._current().task
        observation = {
            "task_id": task.id,
            "instruction": task.instruction,
            "step_count": outcome.step_count,
            "operation_result": outcome.operation_result,
            "reward": outcome.reward,
            "done": outcome.done,
            "current_pipeline_state": outcome.state,
        }
        return observation, {"diff": outcome.diff, "level": task.level}


class RemoteSession:
    """A session in another process: the same methods, over a socket. Closing it ends the process."""

    def __init__(
        self, end: socket.socket, pid: int | None = None, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._socket: socket.socket | None = end
        self._pid = pid  # of a child that nobody else waits for
        self._process = process
        self.pid = process.pid if process else pid
        """Of the session's process"""
        end.settimeout(TIMEOUT)
        _parent_ends.add(end)

    def reset(
        self, task: str | Task = "easy-task-1", seed: int | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As CloudEnvSession.reset."""
        name = task if isinstance(task, str) else task.to_json()
        observation, info = self._ask("reset", name, seed)
        return observation, info

    def step(self, action: Mapping[str, Any]) -> Step:
        """As CloudEnvSession.step."""
        observation, reward, terminated, truncated, info = self._ask("step", action)
        return observation, reward, terminated, truncated, info

    def solution(self) -> list[dict[str, Any]]:
        """As CloudEnvSession.solution."""
        found: list[dict[str, Any]] = self._ask("solution")
        return found

    def fork(self) -> RemoteSession:
        """As CloudEnvSession.fork, whatever threads this process has."""
        pid = self._ask("fork")
        assert self._socket is not None
        _, fds, _, _ = socket.recv_fds(self._socket, 1, 1)
        twin = RemoteSession(socket.socket(fileno=fds[0]))
        twin.pid = pid
        return twin

    def close(self) -> None:
        """End the process. May be called twice."""
        if self._socket is None:
            return
        _parent_ends.discard(self._socket)
        self._socket.close()
        self._socket = None
        if self._process is not None:
            self._process.wait(timeout=TIMEOUT)
        elif self._pid is not None:
            os.waitpid(self._pid, 0)

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_socket", None) is not None:
            self.close()

    def _ask(self, *request: Any) -> Any:
        if self._socket is None:
            raise RuntimeError("the session is closed")
        try:
            _send(self._socket, request)
            kind, answer = _receive(self._socket)
        except (OSError, EOFError) as e:
            raise RuntimeError(f"the session's process does not answer: {e!r}") from None
        if kind == "PipelineError":
            raise PipelineError(answer)
        if kind == "RuntimeError":
            raise RuntimeError(answer)
        return answer


def _become(session: CloudEnvSession, end: socket.socket, others: list[socket.socket]) -> None:
    """Turn this process, a fresh fork, into the server of its session. Does not return."""
    code = 1
    try:
        for other in others:
            other.close()
        _parent_ends.clear()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that people see
        _serve(session, end)
        code = 0
    finally:
        os._exit(code)


def _serve(session: CloudEnvSession, end: socket.socket) -> None:
    """Answer requests until the other side closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks of this process need nobody who waits for them
    while True:
        try:
            name, *arguments = _receive(end)
        except (EOFError, OSError):
            session.close()
            return
        try:
            if name == "fork":
                twin = session.fork()
                assert twin._socket is not None
                _send(end, ("ok", twin.pid))
                socket.send_fds(end, [b"."], [twin._socket.fileno()])
                twin._pid = None
                twin.close()
                continue
            if name == "reset" and isinstance(arguments[0], dict):
                arguments[0] = Task.from_json(arguments[0])
            answer = ("ok", getattr(session, name)(*arguments))
        except PipelineError as e:
            answer = ("PipelineError", str(e))
        except RuntimeError as e:
            answer = ("RuntimeError", str(e))
        _send(end, answer)


def _send(end: socket.socket, message: Any) -> None:
    data = json.dumps(message, default=_tagged).encode()
    end.sendall(struct.pack("!I", len(data)) + data)


def _receive(end: socket.socket) -> Any:
    (length,) = struct.unpack("!I", _exactly(end, 4))
    return json.loads(_exactly(end, length))


def _exactly(end: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = end.recv(count - len(parts))
        if not part:
            raise EOFError("the other side has closed")
        parts += part
    return bytes(parts)


def _tagged(value: Any) -> Any:
    """bytes travel as tagged base64; anything else that json does not know becomes its text."""
    if isinstance(value, (bytes, bytearray)):
        import base64

        return {"$base64": base64.b64encode(value).decode()}
    return str(value)


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        import threading

        return threading.active_count()


if __name__ == "__main__":
    default_backend()
    _serve(CloudEnvSession(), socket.socket(fileno=int(sys.argv[1])))
