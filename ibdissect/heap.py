"""How does the C library keep memory that was freed? On Linux, for one process that reads windows of megabytes."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
KEPT = 64 << 20
"""Most bytes of free memory that stay with the process. glibc itself arrives at this when it has freed blocks of 32 MB."""


def share_one_heap() -> None:
    """Let all threads take memory from one heap, and freed windows serve the next ones.

    glibc gives each thread a heap of its own, and what one thread has freed does not serve another: 50 to 90 MB more for the thread that
    reads ahead. Dask makes its workers return freed memory at once, which takes half as much CPU time again (docs/decisions/clusters.md).
    On other systems, and with a C library without mallopt, nothing changes.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, KEPT // 2), (_TRIM_THRESHOLD, KEPT)):
            mallopt(parameter, value)
