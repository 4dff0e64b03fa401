"""Work beside the screen, in threads that end with the program; for some work, only the latest request counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .capture_model import CaptureModel


class Work(threading.Thread):
    """Work on a capture; errors are reported for it."""

    def __init__(self, work: Callable[[], None], name: str, model: CaptureModel) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self.model = model


class Latest:
    """Work of which only the latest request counts; an older one sees that it is no longer wanted."""

    def __init__(self) -> None:
        self._number = 0
        self.name = ""
        """Of the work that runs; empty for none."""

    @property
    def busy(self) -> bool:
        return bool(self.name)

    def cancel(self) -> None:
        self._number += 1
        self.name = ""

    def run(
        self, work: Callable[[Callable[[], bool]], None], name: str, model: CaptureModel, done: Callable[[], None] = lambda: None
    ) -> None:  # fmt: skip
        """Start `work(wanted)` on a capture; then `done`, if it is still wanted."""
        self._number += 1
        number = self._number
        self.name = name

        def wanted() -> bool:
            return self._number == number

        def whole() -> None:
            work(wanted)
            if wanted():
                self.name = ""
                done()

        Work(whole, name, model).start()
