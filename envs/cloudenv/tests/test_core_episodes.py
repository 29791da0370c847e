"""The store of episodes: limits, idle ones, memory, and many at once."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Any

import pytest

from cloudenv.server.managers.episode import Episode
from cloudenv.server.managers.episodes import EpisodeStore, TooManyEpisodes
from cloudenv.server.managers.task import Task, load_task
from cloudenv.server.providers.aws.backend import Backend
from cloudenv.server.providers.aws.errors import PipelineError
from cloudenv.server.providers.aws.moto_backend import MotoBackend

BACKEND = MotoBackend()
GRAPH: dict[str, Any] = {"sqs:q": [{"service": "sqs:jobs", "encryption": "sse"}]}
TASK = Task("t", broken={"sqs:q": [{"service": "sqs:jobs", "encryption": "none"}]}, ideal=GRAPH)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_idle_episodes_are_closed_and_used_ones_are_not() -> None:
    clock = Clock()
    store = EpisodeStore(BACKEND, ttl=10, clock=clock)
    first, second = store.create("a", TASK), store.create("b", TASK)
    clock.now = 8
    assert store.get("b") is second
    clock.now = 12
    assert store.reap() == 1
    assert store.ids() == ["b"] and first.closed and not second.closed
    assert first.act("sqs", "ListQueues", {}).operation_result["error"]["code"] == "EpisodeOver"
    store.close_all()
    assert len(store) == 0 and second.closed


def test_the_limit_holds_and_idle_ones_make_room() -> None:
    clock = Clock()
    store = EpisodeStore(BACKEND, limit=2, ttl=10, clock=clock)
    store.create("a", TASK)
    store.create("b", TASK)
    with pytest.raises(TooManyEpisodes, match="2 episodes are open"):
        store.create("c", TASK)
    store.create("b", TASK)  # the same id takes the place of its predecessor
    clock.now = 11
    store.create("c", TASK)
    assert store.ids() == ["c"]
    store.close_all()


def test_a_task_that_cannot_be_built_leaves_nothing_behind() -> None:
    store = EpisodeStore(BACKEND)
    graph = {"lambda:f": [{"service": "lambda:f"}]}  # no role
    with pytest.raises(PipelineError, match="lambda:f"):
        store.create("a", Task("t", broken=graph, ideal=graph))
    assert len(store) == 0
    store.create("a", TASK)
    store.close_all()


def test_many_episodes_in_threads_do_not_see_each_other() -> None:
    """Each writes its own mark under the same names, and must read it back, in 16 threads at once."""
    task = load_task("gen:hard:3")
    errors: list[str] = []

    def work(number: int) -> None:
        try:
            episode = Episode(f"e{number}", task, backend=BACKEND)
            for round_ in range(3):
                text = f"mark-{number}-{round_}"
                name = f"bucket-{round_}"
                episode.act("s3", "CreateBucket", {"Bucket": name})
                episode.act("s3", "PutObject", {"Bucket": name, "Key": "k", "Body": text})
                output = episode.act("s3", "GetObject", {"Bucket": name, "Key": "k"}).operation_result["output"]
                buckets = episode.act("s3", "ListBuckets", {}).operation_result["output"]["Buckets"]
                mine = {b["Name"] for b in buckets} & {f"bucket-{i}" for i in range(9)}
                if output["Body"] != _tagged(text) or len(mine) != round_ + 1:
                    errors.append(f"{number}: {output['Body']} {mine}")
            for action in episode.solution():
                outcome = episode.act(**action)
            if not outcome.done:
                errors.append(f"{number}: not solved: {outcome.operation_result}")
            episode.close()
        except Exception as e:
            errors.append(f"{number}: {e!r}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_memory_stays_flat() -> None:
    """Closed episodes leave nothing: RSS after so many more episodes grows by less than 20 kB for each."""
    full = os.environ.get("CLOUDRL_FULL") == "1"
    count = 1000 if full else 60
    tasks = [TASK, load_task("gen:medium:5")]

    def run(times: int) -> None:
        for i in range(times):
            episode = Episode("m", tasks[i % len(tasks)], backend=BACKEND)
            episode.act("s3", "CreateBucket", {})
            if full:  # 60 ms for the first call in an account
                episode.act("ec2", "CreateSecurityGroup", {})
            episode.close()
        gc.collect()

    run(140 if full else 40)  # a cache of moto holds (emptied) containers of the last 128 accounts
    before = _rss()
    run(count)
    assert _rss() - before < 20e3 * count, f"{(_rss() - before) / count / 1e3:.1f} kB an episode"


def _rss() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _tagged(text: str) -> dict[str, str]:
    import base64

    return {"$base64": base64.b64encode(text.encode()).decode()}


def test_the_first_call_of_an_operation_is_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads models of the service. Sixty episodes that begin at once would each load them: 23 s, not 6."""
    times: list[tuple[float, float]] = []

    def call(*_: Any) -> dict[str, Any]:
        begun = time.perf_counter()
        time.sleep(0.05)
        times.append((begun, time.perf_counter()))
        return {}

    monkeypatch.setattr(Backend, "call", call)
    backend = MotoBackend()
    threads = [
        threading.Thread(target=backend.call, args=("990000000001", "s3", "ListBuckets", {})) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, *others = sorted(times)
    assert len(others) == 5 and all(begun >= first[1] for begun, _ in others)
    assert min(end for _, end in others) > max(begun for begun, _ in others), "later calls wait for nobody"
