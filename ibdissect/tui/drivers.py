"""Terminal drivers for terminals that send nonsense, have an absurd size, or disappear: limited sizes, and a shutdown that never hangs."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from textual import events
from textual.drivers import linux_driver, web_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.geometry import Size
from textual.message import Message

WIDEST, TALLEST = 500, 200
"""Cells of the largest screen that is drawn; a larger terminal shows it in its corner."""
GRACE = 1.5
"""Seconds that an orderly end may take before the process just ends."""

# One byte that is not UTF-8 would otherwise end the thread that reads the keys.
_lenient = partial(codecs.getincrementaldecoder("utf-8"), "replace")
linux_driver.getincrementaldecoder = web_driver.getincrementaldecoder = lambda _: _lenient  # type: ignore[attr-defined]


def bounded(size: Size | tuple[int, int]) -> Size:
    """A size that can be drawn."""
    return Size(max(1, min(size[0], WIDEST)), max(1, min(size[1], TALLEST)))


class TerminalDriver(LinuxDriver):
    """A terminal on this machine."""

    def __init__(self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._size = self._get_terminal_size() if size is None else size  # Textual would take it from Rich, whatever it is

    def _get_terminal_size(self) -> tuple[int, int]:
        width, height = bounded(super()._get_terminal_size())
        return width, height

    def process_message(self, message: Message) -> None:
        super().process_message(_within_bounds(message))


class BrowserDriver(WebDriver):
    """A page of `ibdissect serve`."""

    def __init__(self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if self._size is not None:
            self._size = tuple(bounded(self._size))  # type: ignore[assignment]

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        if packet_type == "resize":
            width, height = bounded((int(str(payload["width"])), int(str(payload["height"]))))
            payload = {**payload, "width": width, "height": height}
        super().on_meta(packet_type, payload)


def _within_bounds(message: Message) -> Message:
    if isinstance(message, events.Resize) and message.size != bounded(message.size):
        size = bounded(message.size)
        return events.Resize(size, size)
    return message


def end_in_time(leave: Callable[[], object]) -> None:
    """Call `leave` at SIGHUP, SIGTERM and SIGINT.

    If the main thread hangs on a dead terminal, the process ends after `GRACE` seconds anyway.
    Called from the thread of the event loop.
    """
    loop = asyncio.get_running_loop()

    def end(*_: object) -> None:
        late = threading.Timer(GRACE, os._exit, (1,))
        late.daemon = True
        late.start()
        loop.call_soon_threadsafe(leave)

    for name in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(name)
        signal.signal(name, end)  # unlike the loop's own handler, this one runs while the main thread waits for a lock
