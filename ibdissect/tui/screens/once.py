"""A base of screens that keeps them from being left twice."""

from __future__ import annotations

from typing import Any

from textual.await_complete import AwaitComplete


class EndsOnce:
    """A base before `Screen`: an answer that comes when the screen is gone, as that of a second Enter, is none."""

    def dismiss(self: Any, result: Any = None) -> AwaitComplete:  # Any: it is a base beside a screen, whose type it does not know
        """Leave the screen with a result, if it is the one that is shown."""
        return super().dismiss(result) if self.is_current else AwaitComplete()  # type: ignore[misc]
