"""What does Ctrl+C do during a check? The first ends it after the current window and keeps the findings, the second ends at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from ibdissect.capture.stream import allow_reads, interrupt_reads

INTERRUPTED = 130
"""Exit status, as shells report a program ended by SIGINT."""


class Interruptions:
    """Within this context, the first Ctrl+C only asks to stop."""

    def __init__(self) -> None:
        # Signals can be handled only in the main thread; if SIGINT is ignored (background job of a script), leave it so.
        main = threading.current_thread() is threading.main_thread()
        self._handles = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._before: Any = None
        self._asked = False

    def stop(self) -> bool:
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        interrupt_reads()  # a read from a pipe may block for hours

    def __enter__(self) -> Interruptions:
        if self._handles:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)
            allow_reads()
