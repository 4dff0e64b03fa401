"""Memory that is no longer used: settings for a process that reads windows of megabytes and makes few cycles."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
KEPT = 64 << 20
"""Most bytes of free memory that stay with the process. glibc itself arrives at this when it has freed blocks of 32 MB."""

COLLECT = (100_000, 20, 50)
"""How seldom Python looks for reference cycles, of which there are few: after every 700 objects would take 10 to 40 % more time."""


def set_up() -> None:
    """Let all threads take memory from one heap, freed windows serve the next ones, and Python seldom look for cycles.

    glibc gives each thread a heap of its own, and what one thread has freed does not serve another: 50 to 90 MB more for the thread that
    reads ahead. Dask makes its workers return freed memory at once, which takes half as much CPU time again (docs/decisions/clusters.md).
    On other systems, and with a C library without mallopt, nothing changes.
    """
    gc.set_threshold(*COLLECT)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, KEPT // 2), (_TRIM_THRESHOLD, KEPT)):
            mallopt(parameter, value)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector, which would scan many permanent objects again and again while more are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
