"""Changes of the fabric over time: managers, LIDs, states, cables and P_Key tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ibdissect.study.fabric_view import Change
from ibdissect.wire.text import counted

from ..widgets.cells import width_of
from ..widgets.table import Cell, Heading, Table
from .overlay import Overlay

INKS = {"Manager": "good", "P_Keys": "cm", "LID": "smp", "State": "sa", "Link": "gs"}


class HistoryTable(Table[Change]):
    """Changes in the order of time. The axis has a dot for each change of the same port, a full one for that of the line."""

    empty = "Nothing changed, as far as the capture shows."
    rest_title, least_rest = "Time axis", 16

    def __init__(self, changes: Sequence[Change], seconds: Callable[[int], float], span: float) -> None:
        super().__init__(changes, id="history")
        who, text = (max((width_of(one) for one in texts), default=9)
                     for texts in ([change.who for change in changes], [change.text for change in changes]))  # fmt: skip
        self.columns = (
            Heading("Seconds", 11, lambda change: (f"{seconds(change.frame):.6f}", "dim")),
            Heading("Frame", 7, lambda change: (str(change.frame), "accent")),
            Heading("What", 7, lambda change: (change.what, INKS[change.what]), "left"),
            Heading("Who", min(who, 28), lambda change: (change.who, ""), "left"),
            Heading("Change", min(text, 40), lambda change: (change.text, "strong"), "left"),
        )
        self.seconds, self.span = seconds, span
        self.of: dict[str, list[Change]] = {}
        for change in changes:
            self.of.setdefault(change.who, []).append(change)

    def rest(self, item: Change, room: int) -> Cell:
        axis = ["─"] * max(room, 1)
        for change in (*self.of[item.who], item):
            axis[round(self.seconds(change.frame) / self.span * (len(axis) - 1))] = "●" if change is item else "○"
        return "".join(axis), "plot"

    def answer(self, item: Change) -> int:
        return item.frame


class HistoryScreen(Overlay[int]):
    """Returns a frame to go to."""

    keys = "Enter to the frame · o O sort · / search"

    def __init__(self, changes: Sequence[Change], seconds: Callable[[int], float], span: float) -> None:
        title = f"History of the fabric   {counted(len(changes), 'change', ',')} in {span:.3f} s"
        super().__init__(title, HistoryTable(changes, seconds, span))
