"""Many sessions at once: nothing is lost and nothing is mixed up; and many episodes: no memory is kept."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import httpx
import pytest
from play import pipeline, post

from cloudenv import AsyncMyEnv, CloudEnvAction
from cloudenv.server.host import EpisodeHost
from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.task import Task, load_task
from cloudenv.server.settings import Settings

FULL = os.environ.get("CLOUDRL_FULL") == "1"
SESSIONS, STEPS = (64, 20) if FULL else (12, 6)


async def play(url: str, number: int) -> None:
    """One session that makes buckets under its own names, and sees those and no others."""
    mine: set[str] = set()
    async with AsyncMyEnv(base_url=url, message_timeout_s=300) as env:
        await env.reset(task_id="load", episode_id="ep-1")
        for step in range(STEPS):
            name = f"bucket-{number}-{step}"
            action = CloudEnvAction(service="s3", operation="CreateBucket", payload={"Bucket": name})
            seen = (await env.step(action)).observation
            mine.add(f"s3:{name}")
            assert seen.operation_result["status"] == "SUCCESS", seen.operation_result
            assert seen.step_count == step + 1
            assert set(seen.current_pipeline_state) == mine | {"s3:data"}
        assert (await env.state()).step_count == STEPS


def test_sessions_do_not_mix_and_lose_no_step(url: str) -> None:
    post(f"{url}/api/pipelines", pipeline("load"))

    async def everybody() -> None:
        await asyncio.gather(*(play(url, number) for number in range(SESSIONS)))

    try:
        asyncio.run(everybody())
    finally:
        httpx.delete(f"{url}/api/pipelines/load")


def resident_kb() -> int:
    """Resident memory of this process."""
    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("reads /proc")
    return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS")))


def objects() -> int:
    """How many objects there are that the garbage collector knows."""
    gc.collect()
    return len(gc.get_objects())


def pass_through(host: EpisodeHost, task: Task, count: int, clock: list[float]) -> None:
    """So many episodes; half of them are ended, half are left to the reaper."""
    for number in range(count):
        host.open("http", f"ep-{number}", task, None).act("s3", "ListBuckets")
        if number % 2:
            host.end("http", f"ep-{number}")
        clock[0] += 4.0
        host.episodes.reap()
    clock[0] += 60.0
    host.episodes.reap()
    assert len(host.episodes) == 0


def test_an_episode_that_has_ended_is_not_kept() -> None:
    clock, task = [0.0], load_task("easy-task-1")
    host = EpisodeHost(Settings(idle_seconds=10), clock=lambda: clock[0])
    pass_through(host, task, 5, clock)
    before = objects()
    kept = [Episode("kept", task) for _ in range(5)]
    one = (objects() - before) / len(kept)
    for episode in kept:
        episode.close()
    kept.clear()
    before = objects()
    pass_through(host, task, 20, clock)
    assert (objects() - before) / 20 < one / 2


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="CLOUDRL_FULL=1")
def test_memory_is_flat_over_a_thousand_episodes() -> None:
    clock, task = [0.0], load_task("hard-task-1")
    host = EpisodeHost(Settings(idle_seconds=10), clock=lambda: clock[0])
    pass_through(host, task, 150, clock)
    before = resident_kb()
    pass_through(host, task, 1000, clock)
    assert resident_kb() < 1.05 * before
