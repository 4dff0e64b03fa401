"""The command `ibdissect`, also as `python -m ibdissect`."""

from __future__ import annotations

import gc
import os
import sys

COLLECT = (100_000, 20, 50)
"""How seldom Python looks for reference cycles, of which there are few: after every 700 objects would take 10 to 40 % more time."""


def main() -> None:
    """Answer `--version` at once; for anything else load the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from ibdissect import native
        from ibdissect.version import VERSION

        print(f"ibdissect {VERSION}" + ("" if native.sums else " (built without a compiler: CRCs are checked more slowly)"))
        return
    # NumPy needs only one thread here; starting OpenBLAS's thread pool takes 0.08 s (measured).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*COLLECT)
    from ibdissect.cli import run
    from ibdissect.heap import share_one_heap

    share_one_heap()
    sys.exit(run())


if __name__ == "__main__":
    main()
