"""What is shown for the ends of packets: names of nodes where they are known and wanted, else addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ibdissect.subnet.describe import port_name
from ibdissect.wire.text import lid_of, printable

from .background_analysis import BackgroundAnalysis
from .capture_model import CaptureModel, PacketLine
from .ladder import LadderStep
from .node_names import PERMISSIVE

if TYPE_CHECKING:
    from ibdissect.subnet.node_names import NodeNames

Shown = TypeVar("Shown", PacketLine, LadderStep)
"""What is shown of a packet in a list."""


class ShownNames:
    """Names that the background analysis has found so far."""

    def __init__(self, model: CaptureModel, study: BackgroundAnalysis) -> None:
        self.model, self.study = model, study
        self.wanted = True
        """Whether names are shown instead of addresses."""

    @property
    def known(self) -> NodeNames | None:
        """The names, if they are wanted."""
        return self.study.names if self.wanted else None

    def address(self, text: str, frame: int = 0) -> str:
        """What is shown for an address: the name of its port. `frame`: of the port that had the LID there."""
        if self.known is None:
            return text
        if frame and (lid := lid_of(text)) is not None and (port := self.study.ends.port(lid, frame)) is not None:
            return port_name(port)
        return printable(self.known.address(text))

    def sentence(self, text: str) -> str:
        """A sentence with names in place of GUIDs and after LIDs."""
        return printable(self.known.sentence(text)) if self.known is not None else text

    def of_packets(self, page: list[Shown]) -> list[Shown]:
        """The same packets with names for the addresses of their ends."""
        if self.known is None:
            return page
        named = [
            replace(one, source=self.address(one.source, one.frame), destination=self.address(one.destination, one.frame)) for one in page
        ]  # fmt: skip
        directed = [i for i, one in enumerate(page) if PERMISSIVE in (one.source, one.destination)]
        ends = self.study.ends.routed(self.model.table([page[i].frame for i in directed])) if directed else {}
        for row, (source, destination) in ends.items():
            one = named[directed[row]]
            named[directed[row]] = replace(one, source=source or one.source, destination=destination or one.destination)
        return named

    def for_filters(self, line: PacketLine) -> tuple[str, str]:
        """The names of sender and receiver of a frame, as the list shows them and filters know them; empty where it shows an address."""
        if self.known is None:
            return "", ""
        known = (side.get(0, [""]) for side in self.study.ends.of(self.model.table([line.frame]), ports=True))
        both = zip((line.source, line.destination), known, strict=True)
        source, destination = (one if one in names else names[-1] for one, names in both)
        return source, destination
