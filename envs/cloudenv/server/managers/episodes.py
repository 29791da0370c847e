"""The episodes of one process: by id, with a limit on their number, and an end for those that nobody uses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..providers.aws.backend import Backend
from .episode import Episode
from .task import Task


class TooManyEpisodes(RuntimeError):
    """The limit on open episodes is reached, and none of them is idle."""


class EpisodeStore:
    """Open episodes by id. Thread-safe; an episode has a lock of its own, so that long calls of one hold up no
    other.

    limit: open episodes at most. ttl: seconds after which an unused one is closed. clock: seconds, monotonic.
    """

    def __init__(
        self,
        backend: Backend | None = None,
        *,
        limit: int = 256,
        ttl: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._limit = limit
        self._ttl = ttl
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Episode] = {}
        self._used: dict[str, float] = {}
        self._starting: set[str] = set()

    def create(self, episode_id: str, task: Task, seed: int | None = None) -> Episode:
        """A new episode; one of the same id is closed first.

        Raises TooManyEpisodes, and PipelineError for a task that cannot be built.
        """
        self.reap()
        with self._lock:
            others = (set(self._open) | self._starting) - {episode_id}
            if episode_id in self._starting:
                raise TooManyEpisodes(f"episode {episode_id!r} is just being started")
            if len(others) >= self._limit:
                raise TooManyEpisodes(f"{self._limit} episodes are open; close one, or try again later")
            self._starting.add(episode_id)
        try:
            self.close(episode_id)
            episode = Episode(episode_id, task, backend=self._backend, seed=seed)
            with self._lock:
                self._open[episode_id] = episode
                self._used[episode_id] = self._clock()
            return episode
        finally:
            with self._lock:
                self._starting.discard(episode_id)

    def get(self, episode_id: str) -> Episode | None:
        """The open episode of this id, which counts as used now; None when there is none."""
        with self._lock:
            episode = self._open.get(episode_id)
            if episode is not None:
                self._used[episode_id] = self._clock()
            return episode

    def close(self, episode_id: str) -> bool:
        """Close an episode and free its account; False when there is none."""
        with self._lock:
            episode = self._open.pop(episode_id, None)
            self._used.pop(episode_id, None)
        if episode is None:
            return False
        episode.close()
        return True

    def reap(self) -> int:
        """Close the episodes that were not used for the time to live; how many."""
        with self._lock:
            oldest = self._clock() - self._ttl
            idle = [i for i, used in self._used.items() if used < oldest]
        return sum(self.close(i) for i in idle)

    def close_all(self) -> None:
        for episode_id in list(self._open):
            self.close(episode_id)

    def __len__(self) -> int:
        return len(self._open)

    def ids(self) -> list[str]:
        """Ids of the open episodes, sorted."""
        with self._lock:
            return sorted(self._open)
