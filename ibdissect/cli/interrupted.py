"""What does Ctrl+C do to a check? The first one ends it after the window at hand and keeps what was found, the next one ends all."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from ibdissect.capture.stream import calm, wake

INTERRUPTED = 130
"""Exit status, as shells report a program ended by SIGINT."""


class Interruptions:
    """While it is entered, Ctrl+C is a wish to stop. Only for one process: others are ended at once, as before."""

    def __init__(self, jobs: int) -> None:
        # A signal can be handled in the main thread only; where it is ignored (a job of a shell script) it stays so.
        main = threading.current_thread() is threading.main_thread()
        self._handles = jobs <= 1 and main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._before: Any = None
        self._asked = False

    def stop(self) -> bool:
        """Whether the user wants to stop."""
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        wake()  # a pipe may give nothing for hours

    def __enter__(self) -> Interruptions:
        if self._handles:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)
            calm()
