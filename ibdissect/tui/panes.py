"""Which panes fit on the screen, and which did the user ask for?"""

from __future__ import annotations

from dataclasses import dataclass

WIDE, TALL = 100, 30
"""Columns from which the bytes stand beside the tree, lines from which the findings have their own pane."""


@dataclass(slots=True)
class Panes:
    """None: as the size allows."""

    bytes_wanted: bool | None = None
    findings_wanted: bool | None = None

    def shown(self, width: int, height: int) -> dict[str, bool]:
        """Whether tree, bytes and findings are there."""
        wide, tall = width >= WIDE, height >= TALL
        with_bytes = wide if self.bytes_wanted is None else self.bytes_wanted
        with_findings = tall if self.findings_wanted is None else self.findings_wanted
        # A small screen has room for one of them beside the list.
        tree = (wide or not with_bytes) and (tall or not with_findings)
        return {"tree": tree, "bytes": with_bytes and (tall or not with_findings), "findings": with_findings}
