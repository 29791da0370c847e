"""The measurements behind `python scripts/bench.py aws`: CloudEnv in one process, and its server.

The server runs in a process of its own and the clients in this one, so throughput is that of one server process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TASK = "hard-task-1"
"""Four resources: a bucket that calls a function, its role, and a table."""

ACTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("s3", "PutBucketVersioning", {"Bucket": "uploads", "VersioningConfiguration": {"Status": "Suspended"}}),
    ("iam", "GetRole", {"RoleName": "ingest-role"}),
    ("lambda", "UpdateFunctionConfiguration", {"FunctionName": "ingest", "Timeout": 7}),
    ("dynamodb", "UpdateTable", {"TableName": "items", "DeletionProtectionEnabled": False}),
    ("s3", "PutBucketVersioning", {"Bucket": "uploads", "VersioningConfiguration": {"Status": "Enabled"}}),
    ("s3", "GetBucketPolicy", {"Bucket": "uploads"}),
    ("lambda", "UpdateFunctionConfiguration", {"FunctionName": "ingest", "Timeout": 30}),
    ("dynamodb", "UpdateTable", {"TableName": "items", "DeletionProtectionEnabled": True}),
]
"""One action each after the other: every resource is changed and changed back, and read in between."""


def step_seconds(steps: int, clock: Callable[[], float]) -> list[float]:
    """Act, read back, diff and reward, in this process."""
    from dataclasses import replace

    from cloudenv.server.managers.episode import Episode
    from cloudenv.server.managers.task import load_task

    episode = Episode("bench", replace(load_task(TASK), max_steps=10 * steps))
    seconds = []
    for k in range(-len(ACTIONS), steps):  # the first round warms up
        start = clock()
        outcome = episode.act(*ACTIONS[k % len(ACTIONS)])
        if k >= 0:
            seconds.append(clock() - start)
        assert outcome.operation_result["status"] == "SUCCESS", outcome.operation_result
    episode.close()
    return seconds


def build_seconds(episodes: int, clock: Callable[[], float]) -> list[float]:
    """Build, break and read a pipeline, in this process."""
    from cloudenv.server.managers.episode import Episode
    from cloudenv.server.managers.task import load_task

    task, seconds = load_task(TASK), []
    for k in range(-1, episodes):
        start = clock()
        episode = Episode("bench", task)
        if k >= 0:
            seconds.append(clock() - start)
        episode.close()
    return seconds


def fork_seconds(forks: int) -> tuple[list[float], list[float]]:
    """From the call of fork to the twin's first answer: (on the wall, of processors); the session has a process of
    its own. Processor time is that of the session, its twin and this process together: on a machine with a core
    to spare the wall shows no more.
    """
    from cloudenv.session import CloudEnvSession

    session = CloudEnvSession.spawn()
    session.reset(TASK)
    assert session.pid is not None
    wall, processors = [], []
    for _ in range(forks):
        used = time.process_time() + processor_seconds(session.pid)
        start = time.perf_counter()
        twin = session.fork()
        twin.step({"service": "s3", "operation": "ListBuckets", "payload": {}})
        wall.append(time.perf_counter() - start)
        assert twin.pid is not None
        spent = time.process_time() + processor_seconds(session.pid) + processor_seconds(twin.pid)
        processors.append(spent - used)
        twin.close()
        while alive(twin.pid):  # its end, some milliseconds of work, is not a part of the next fork
            time.sleep(0.001)
    session.close()
    return wall, processors


def processor_seconds(pid: int) -> float:
    """What a process has used so far. The number of its clock is Linux's, as in glibc's clock_getcpuclockid."""
    return time.clock_gettime((~pid << 3) | 2)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def server() -> Iterator[tuple[str, int, float]]:
    """The base URL and the id of a server process, and how many seconds it took until /health answered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "cloudenv.server.app", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "CLOUDENV_MAX_SESSIONS": "256"},
    )
    try:
        for _ in range(3000):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}", process.pid, time.perf_counter() - start
    finally:
        process.terminate()
        process.wait(timeout=30)


def server_load(sessions: int, steps: int) -> dict[str, float]:
    """That many WebSocket sessions at once, each of that many steps: what one server process does."""
    from cloudenv import AsyncMyEnv, CloudEnvAction

    latencies: list[float] = []

    async def begin(env: Any) -> None:
        await env.reset(task_id=TASK)

    async def play(env: Any) -> None:
        for k in range(steps):
            service, operation, payload = ACTIONS[k % len(ACTIONS)]
            start = time.perf_counter()
            result = await env.step(CloudEnvAction(service=service, operation=operation, payload=payload))
            latencies.append(time.perf_counter() - start)
            assert result.observation.step_count == k + 1, "a step was lost"

    async def everybody(url: str, pid: int) -> tuple[float, float, float]:
        envs = [AsyncMyEnv(base_url=url, message_timeout_s=600) for _ in range(sessions)]
        start = time.perf_counter()
        await asyncio.gather(*map(begin, envs))
        begun, used = time.perf_counter(), processor_seconds(pid)
        await asyncio.gather(*map(play, envs))
        done, spent = time.perf_counter(), processor_seconds(pid)
        await asyncio.gather(*(env.close() for env in envs))
        return begun - start, done - begun, spent - used

    with server() as (url, pid, start_seconds):
        starting, playing, working = asyncio.run(everybody(url, pid))
    return {
        "start_seconds": start_seconds,
        "sessions": sessions,
        "steps": sessions * steps,
        "episodes_per_second": sessions / starting,
        "steps_per_second": sessions * steps / playing,
        "steps_per_processor_second": sessions * steps / working,
        "latency_median_ms": 1e3 * statistics.median(latencies),
        "latency_worst_ms": 1e3 * max(latencies),
    }
