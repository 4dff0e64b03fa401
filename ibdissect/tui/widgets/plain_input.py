"""A line of input that shows invisible characters as escapes."""

from __future__ import annotations

from textual.widgets import Input

from ibdissect.wire.text import printable


class PlainInput(Input):
    """An `Input` draws its value as it is, escape sequences and bidi marks too."""

    def validate_value(self, value: str) -> str:
        """What Textual stores instead of a new value."""
        return printable(value)
