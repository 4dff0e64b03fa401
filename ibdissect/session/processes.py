"""How do several processes check many captures, so that a crash loses only the capture it happened in?"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.context import BaseContext

from ibdissect.lint.result import CaptureReport

MOST_PATHS = 16
"""Captures per task: enough to make the cost of passing a task on negligible."""
TASKS_PER_JOB = 8
"""Least number of tasks per process, so that all processes end at about the same time."""

Check = Callable[[str], CaptureReport]
"""Checks the capture at a path; must be picklable, including its arguments."""

_check: list[Check] = []
"""The check of this worker process, set when it starts."""


def in_processes(paths: list[str], check: Check, jobs: int) -> Iterator[CaptureReport]:
    """Reports in the order of `paths`, checked by `jobs` processes."""
    size = max(1, min(MOST_PATHS, len(paths) // (jobs * TASKS_PER_JOB)))
    left = deque(paths[start : start + size] for start in range(0, len(paths), size))
    while left:
        for reports in _pooled(left, check, jobs):
            left.popleft()
            yield from reports
        if left:  # a process died on one of the captures being checked: check the first task's captures one by one
            for path in left.popleft():
                yield _alone(path, check)


def _pooled(tasks: deque[list[str]], check: Check, jobs: int) -> Iterator[list[CaptureReport]]:
    """Reports of each task, until a process dies."""
    pool = _pool(min(jobs, len(tasks)), check)
    try:
        futures: list[Future[list[CaptureReport]]] = [pool.submit(_work, task) for task in tasks]
        for future in futures:
            yield future.result()
    except (BrokenProcessPool, KeyboardInterrupt, SystemExit) as error:
        # Do not wait for tasks that have started. The pool would wait forever for a process that it started while another died.
        for process in tuple((pool._processes or {}).values()):
            process.kill()
        if not isinstance(error, BrokenProcessPool):
            raise
    finally:  # also if the caller stops early, or on an exception
        pool.shutdown(cancel_futures=True)


def _alone(path: str, check: Check) -> CaptureReport:
    """The report of one capture, in a process of its own."""
    with _pool(1, check) as pool:
        try:
            return pool.submit(_work, [path]).result()[0]
        except BrokenProcessPool:  # out of memory, or killed
            return CaptureReport(path=path, status="unreadable", error=f"{path}: the process that checked it died")


def _pool(jobs: int, check: Check) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_start, initargs=(check,))


def _context() -> BaseContext:
    """How processes start: forked from this one, which has imported everything, unless other threads run.

    Otherwise they are forked from a server that first imports the same modules, which takes as long as our own start.
    """
    if sys.platform == "linux" and threading.active_count() == 1:
        return get_context("fork")
    context = get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.partition(".")[0] in ("ibdissect", "numpy")])
    return context


def _start(check: Check) -> None:
    _check[:] = [check]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # imported objects live forever: exclude them from garbage collection


def _work(paths: list[str]) -> list[CaptureReport]:
    return [_check[0](path) for path in paths]
