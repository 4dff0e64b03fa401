"""Work on captures by several processes of this machine."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from ibdissect import heap
from ibdissect.capture.file_names import Unit
from ibdissect.plugins import failure

from .children import end_with_parent, safe_path
from .ordered_pool import Work

T = TypeVar("T")

_work: list[Work[Any]] = []
"""The function that this worker process calls for each capture, set when it starts."""


class Processes(Generic[T]):
    """A pool of processes; if one dies, all tasks that have not ended raise BrokenProcessPool."""

    died = (BrokenProcessPool,)

    def __init__(self, work: Work[T], slots: int) -> None:
        self.work, self.slots = work, slots
        self._pool: ProcessPoolExecutor | None = None
        self._around = ExitStack()
        """What holds as long as there is a pool, which may start processes at any time."""

    def submit(self, paths: Sequence[Unit]) -> Future[list[T]]:
        if self._pool is None:
            self._around.enter_context(safe_path())
            self._pool = ProcessPoolExecutor(self.slots, mp_context=_context(), initializer=_start, initargs=(self.work,))
        try:
            return self._pool.submit(_all, paths)
        except BrokenProcessPool as error:  # died since the last task
            broken: Future[list[T]] = Future()
            broken.set_exception(error)
            return broken

    def mend(self) -> None:
        if self._pool is not None and self._pool._broken:
            self.close()

    def close(self) -> None:
        if self._pool is not None:
            # Do not wait for tasks that have started. The pool would wait forever for a process that it started while another died.
            for process in tuple((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._around.close()


def _context() -> BaseContext:
    """How processes start: forked from this one, which has imported everything, unless other threads run.

    Otherwise they are forked from a server that first imports the same modules, which takes as long as our own start.
    """
    if sys.platform == "linux" and threading.active_count() == 1:
        return get_context("fork")
    context = get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.partition(".")[0] in ("ibdissect", "numpy")])
    return context


def _start(work: Work[Any]) -> None:
    end_with_parent()
    _work[:] = [work]
    for number in (signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):  # inherited from the command, which tidies up; `nohup` stays
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all processes; the first one ends the others
    heap.set_up()
    gc.freeze()  # imported objects live forever: exclude them from garbage collection


def _all(paths: Sequence[Unit]) -> list[Any]:
    try:
        return [_work[0](path, stop=None) for path in paths]
    except BaseException as error:  # also SystemExit
        if (failed := failure(error)) is not None:  # the traceback, which names the plugin, does not leave this process
            raise failed from None
        raise
