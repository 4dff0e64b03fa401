"""What runs beside the screen: reading, checking, filtering, searching, writing. Threads that die with the program."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from ibdissect.errors import CaptureError

from .find import Query, find
from .messages import SearchEnded, WriteEnded
from .model import CaptureModel, Matcher
from .rows import FilteredRows, Rows

STEP = 4096
"""Frames written between two looks at whether to stop."""


def start(work: Callable[[], None], name: str) -> threading.Thread:
    """Run something beside the screen."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


class Latest:
    """Work of which only the latest request counts; an older one sees that it is no longer wanted."""

    def __init__(self) -> None:
        self._number = 0
        self.busy = False

    def cancel(self) -> None:
        """Nothing is wanted any more."""
        self._number += 1
        self.busy = False

    def run(self, work: Callable[[Callable[[], bool]], None], name: str) -> None:
        """Start `work(wanted)`."""
        self._number += 1
        number = self._number
        self.busy = True

        def wanted() -> bool:
            return self._number == number

        def whole() -> None:
            work(wanted)
            if wanted():
                self.busy = False

        start(whole, name)


def fill(model: CaptureModel, rows: FilteredRows, matcher: Matcher) -> Callable[[Callable[[], bool]], None]:
    """The work of a display filter."""
    return lambda wanted: model.fill(rows, matcher, wanted, lambda: None)


def search(
    model: CaptureModel, rows: Rows, query: Query, row: int, forward: bool, tell: Callable[[SearchEnded], None]
) -> Callable[[Callable[[], bool]], None]:
    """The work of a search."""

    def work(wanted: Callable[[], bool]) -> None:
        found = find(model, rows, query, row, forward=forward, wanted=wanted)
        if wanted():
            tell(SearchEnded(query, *(found if found is not None else (None, False))))

    return work


def write(model: CaptureModel, frames: Callable[[int, int], list[int]], total: int, path: str) -> WriteEnded:
    """Write frames to a new file, under another name until it is whole."""
    from ibdissect.capture.writing import CaptureWriter  # not needed for the first rows

    part = f"{path}.part"
    written = 0
    try:
        container = "pcapng" if path.endswith(".pcapng") else "pcap"
        with CaptureWriter(part, container=container) as writer:
            for low in range(0, total, STEP):
                if model.stopped:
                    break
                numbers = frames(low, min(low + STEP, total))
                chunk = model.index.chunk(numbers)
                for row, number in enumerate(numbers):
                    writer.add(chunk, row, model.reader.comments.get(number, ()))
                written = writer.frames
        os.replace(part, path)
    except (CaptureError, OSError) as error:
        Path(part).unlink(missing_ok=True)
        return WriteEnded(path, written, str(error))
    return WriteEnded(path, written, None)


def unwritable(path: str, source: str) -> str | None:
    """Why frames cannot be written there; None when they can."""
    if not path.strip():
        return "type a file name ending in .pcap or .pcapng"
    if not path.endswith((".pcap", ".pcapng")):
        return "the name must end in .pcap or .pcapng"
    target = Path(path).expanduser()
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}"
    if source != "-" and target.exists() and Path(source).exists() and target.samefile(source):
        return "that is the capture itself"
    return None


def overwrites(path: str) -> str | None:
    """What to ask before a file is overwritten; None for a new one."""
    return "the file exists: Enter again overwrites it" if Path(path).expanduser().exists() else None
