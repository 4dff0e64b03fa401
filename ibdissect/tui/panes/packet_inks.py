"""Inks of packets: by the user's coloring rules, else errors, repetitions and management stand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.cache import LRUCache

from ibdissect.screen_model.capture_model import CaptureModel, PacketLine

if TYPE_CHECKING:
    from ibdissect.dfilter.compile import Filter

TINTS = {"SMP": "smp", "SA": "sa", "CM": "cm", "PM": "gs", "BM": "gs", "DM": "gs", "CC": "gs", "PerfMgt": "gs"}
"""Ink by protocol."""


class PacketInks:
    """Finds the inks of packets, those of the rules for a page of them at once."""

    def __init__(self, model: CaptureModel, repeated: Callable[[int], bool]) -> None:
        """`repeated`: whether the packet of a frame was sent before."""
        self.model, self.repeated = model, repeated
        self.rules: list[tuple[Filter, str]] | None = None
        """Coloring rules: the ink of the frames that a filter matches, the first rule counts. None: not known yet."""
        self._by_page: LRUCache[int, dict[int, str]] = LRUCache(64)
        """Ink by frame, by page."""

    def forget(self) -> None:
        """Rules, rows, or what is known of a frame changed."""
        self._by_page.clear()

    def by_rule(self, frame: int, page: int, frames: Callable[[int], Sequence[int]]) -> str | None:
        """The ink that a coloring rule gives a frame. `frames`: those of a page, ascending."""
        if not self.rules:
            return None
        if page not in self._by_page:
            shown, inks = frames(page), dict[int, str]()
            for matcher, ink in reversed(self.rules):
                inks |= dict.fromkeys(self.model.matching(matcher, shown), ink)
            self._by_page[page] = inks
        return self._by_page[page].get(frame)

    def of(self, line: PacketLine, page: int, frames: Callable[[int], Sequence[int]]) -> str | None:
        """By the user's coloring rules, else for errors, else for management; None for plain data."""
        ink = self.by_rule(line.frame, page, frames)
        if ink is not None:
            return ink
        if line.malformed or line.info.startswith(("NAK", "RNR NAK")):
            return "nak"
        if self.repeated(line.frame):
            return "again"
        return TINTS.get(line.protocol, None if line.p_key is not None else "other")
