"""The command `ibdissect`, also as `python -m ibdissect`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Answer `--version` at once; for anything else load the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from ibdissect.version_text import version_line

        print(version_line())
        return
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))  # nothing is open yet
    # NumPy needs only one thread here; starting OpenBLAS's thread pool takes 0.08 s (measured).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from ibdissect import heap

    heap.set_up()
    from ibdissect.cli import run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run())


if __name__ == "__main__":
    main()
