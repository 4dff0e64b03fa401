"""Captures checked in other processes, with results in order; a crash loses only the capture that caused it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
MOST_PATHS = 16
"""Captures per task: enough that handing out a task costs next to nothing."""
TASKS_PER_SLOT = 8
"""Least number of tasks per process, so that all processes end at about the same time."""
IN_FLIGHT = 3
"""Tasks per process that are submitted at a time: no process waits for work, and memory does not grow with the number of captures."""
ALONE = 2
"""How often a capture, checked alone, must kill its process to be given up; the first time may have had other reasons."""
POLL = 0.2
"""Seconds between two looks at whether to stop."""

Work = Callable[..., T]
"""Called as `work(path, stop=...)`, with a capture, a set or the number of a window. `stop` is None or says whether to end early.
Must be picklable, including its arguments."""
Engine = Callable[[Work[T]], "Pool[T]"]
"""Makes a pool whose processes do that work."""
Lost = Callable[[Any], T]
"""The result for a capture that killed the process that worked on it, twice."""


class Pending(Protocol[T]):
    """A submitted task, as `concurrent.futures.Future`."""

    def result(self) -> list[T]: ...
    def add_done_callback(self, called: Callable[[Any], None], /) -> object: ...


class Pool(Protocol[T]):
    """Where tasks run: processes of this machine, or workers of a cluster."""

    @property
    def slots(self) -> int:
        """Tasks that run at a time."""

    @property
    def died(self) -> tuple[type[BaseException], ...]:
        """What a task raises if its process died, or another one beside it."""

    def submit(self, paths: Sequence[Any]) -> Pending[T]:
        """Start to work on captures, in order."""

    def mend(self) -> None:
        """Called when a process has died: make `submit` work again."""

    def close(self) -> None:
        """End what runs, at once."""


class Stopped(Exception):
    """The user ended the work."""


def spread(
    paths: Sequence[Any], pool: Pool[T], lost: Lost[T], stop: Callable[[], bool] | None = None, most: int = MOST_PATHS
) -> Generator[T]:
    """One result per path, in their order, each as soon as it and those before it are there. A task has at most `most` of them.

    If a process dies, the captures of its task are checked one by one while nothing else runs. A capture that kills its process twice is
    `lost`. `stop` ends the iteration early.
    """
    size = max(1, min(most, len(paths) // (pool.slots * TASKS_PER_SLOT)))
    starts = iter(range(0, len(paths), size))
    flying: deque[tuple[list[Any], Pending[T] | list[T]]] = deque()
    try:
        while True:
            while len(flying) < pool.slots * IN_FLIGHT and (start := next(starts, None)) is not None:
                task = list(paths[start : start + size])
                flying.append((task, pool.submit(task)))
            if not flying:
                return
            task, pending = flying.popleft()
            results = _outcome(pending, pool, stop)
            if results is not None:
                yield from results
                continue
            pool.mend()
            others = [(other, _outcome(running, pool, stop)) for other, running in flying]
            for path in task:
                for _ in range(ALONE):
                    alone = _outcome(pool.submit([path]), pool, stop)
                    pool.mend()
                    if alone is not None:
                        break
                yield from [lost(path)] if alone is None else alone
            flying = deque((other, pool.submit(other) if ended is None else ended) for other, ended in others)
    except Stopped:
        return
    finally:  # also if the caller stops early, or on an exception
        pool.close()


def _outcome(pending: Pending[T] | list[T], pool: Pool[T], stop: Callable[[], bool] | None) -> list[T] | None:
    """Wait for the results of a task; None if its process died. Raises Stopped if the user ends the work."""
    if isinstance(pending, list):
        return pending
    over = threading.Event()
    pending.add_done_callback(lambda _: over.set())
    while not over.wait(POLL if stop is not None else None):
        if stop is not None and stop():
            raise Stopped
    try:
        return pending.result()
    except pool.died:
        return None
