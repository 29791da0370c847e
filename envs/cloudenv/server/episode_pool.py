"""The open episodes of a server: found by name, limited in number, closed when idle."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .managers.episode import Episode


class PoolFull(Exception):
    """As many episodes are open as may be."""


class EpisodePool:
    """Thread-safe. most: episodes at once; idle_seconds: after so long without use one is closed by `reap`."""

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._most, self._idle, self._clock = most, idle_seconds, clock
        self._open: dict[str, Episode] = {}
        self._used: dict[str, float] = {}
        self._building = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def create(self, name: str, build: Callable[[], Episode]) -> Episode:
        """Build an episode and keep it; one of the same name is closed. Raises PoolFull, or what `build` does."""
        self.close(name)
        with self._lock:
            if len(self._open) + self._building >= self._most:
                raise PoolFull(f"{self._most} episodes are open; end one, or wait until an idle one is closed")
            self._building += 1
        try:
            episode = build()  # outside the lock: it takes long
        except BaseException:
            with self._lock:
                self._building -= 1
            raise
        with self._lock:
            self._building -= 1
            before = self._open.get(name)  # two requests may have started it at once: the later one stays
            self._open[name], self._used[name] = episode, self._clock()
        if before is not None:
            before.close()
        return episode

    def get(self, name: str) -> Episode | None:
        """An open episode; it is in use now."""
        with self._lock:
            if name in self._open:
                self._used[name] = self._clock()
            return self._open.get(name)

    def close(self, name: str) -> bool:
        """Close an episode and free its account; False when there is none of the name."""
        with self._lock:
            self._used.pop(name, None)
            episode = self._open.pop(name, None)
        if episode is not None:
            episode.close()  # waits for an action that is under way
        return episode is not None

    def reap(self) -> int:
        """Close what was idle too long; how many that were."""
        with self._lock:
            late = [name for name, used in self._used.items() if self._clock() - used > self._idle]
        return sum(self.close(name) for name in late)

    def close_all(self) -> None:
        """Close everything."""
        for name in list(self._open):
            self.close(name)
