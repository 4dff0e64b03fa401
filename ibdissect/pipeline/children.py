"""Child processes: they load no module from the working directory, and end when this process does.

The working directory may be an archive of captures that somebody else has made, with a `multiprocessing.py` in it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

from ibdissect.errors import ConfigError

SAFE = "PYTHONSAFEPATH"
"""With this variable, as with `-P`, Python does not put the working directory on the module path of `python -c`, which starts fork servers,
resource trackers, and the processes of Dask and macOS (docs.python.org, "Command line and environment")."""


@contextmanager
def safe_path() -> Iterator[None]:
    """Within this context, Python processes that start, and those that they start, look for no module in the working directory.

    Raises ConfigError where they would not see the variable.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise ConfigError("python", "-E", "other processes would load modules from the working directory", hint="add -P to it")
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE, None)
        else:
            os.environ[SAFE] = before


def end_with_parent() -> None:
    """Let this process, which `multiprocessing` has started, end as soon as its parent does, even by SIGKILL.

    The parent holds the other end of a pipe. On Linux the kernel watches it, so that code which never lets go of Python's lock ends, too.
    """
    parent = parent_process()
    if parent is None:
        return
    if hasattr(signal, "SIGIO") and sys.platform == "linux":
        import fcntl

        fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, fcntl.fcntl(parent.sentinel, fcntl.F_GETFL) | os.O_ASYNC)

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="ends with its parent").start()
