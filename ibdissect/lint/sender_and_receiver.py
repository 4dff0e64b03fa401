"""The two ends of a finding's frame, for sentences that name nobody."""

from __future__ import annotations

import re

from msgspec import Struct as Record

NAMES_SOMEBODY = (
    r"(?<!\bwith )\bLID (?!65535\b)[1-9]\d*\b|\bport with LID [1-9]"
    r"|(?:^|\b(?:of|to|at|from|node|manager|over|switch|SM|and|through|[Pp]ort ?GUID) )0x[0-9a-f]{16}\b"
    r"|\bDR 0\b|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}\b|(?:^|\bfrom )[0-9a-f]{1,4}:[0-9a-f:]+"
)
"""What names a port, node or host in a sentence: a LID, GUID or address (a regular expression, compiled on first use)."""

GOES_ON = (":", " with ", " has ", " was ", " is ", " asks ", " takes ", " to route ")
"""How sentences go on after `SubnSet(PortInfo)` if the ends may stand between."""
TO_SOMEBODY = (" to ", " of ", " with ", " without ")
"""How sentences go on after `SubnSet(PortInfo)` if they name the receiver."""
SHOWN_HOPS = 16
"""Of longer routes only the first hops are shown."""


class Route(Record, frozen=True):
    """The directed route of an SMP, which names its ends by neither LID nor address."""

    sender: int
    """High word of the transaction id, which tells senders apart."""
    hops: bytes
    """InitialPath without its unused first byte."""
    returns: bool
    """Whether the SMP comes from the end of the route."""
    whole: bool
    """Whether the route is known to its end, and begins at the sender."""


class Who(Record, frozen=True):
    """The ends of a frame, as text."""

    source: str = ""
    """`LID 2`, an address, or a port as `fabric.Port` is printed; empty if unknown."""
    destination: str = ""
    """The same; `DR 0,1,4` is a route whose end is unknown."""
    service: str = ""
    """`RC` of a packet that is no MAD; empty if it has none."""
    source_qp: int | None = None
    """The queue pair that sent it, where the packet says so."""
    qp: int | None = None
    """The queue pair that it goes to; None for MADs, which all go to the agent's."""
    mad: str = ""
    """What a MAD does: `SubnSet(PortInfo)`."""
    selection: str = ""
    """What its modifier selects: ` port 3`."""
    route: Route | None = None
    """Of an SMP with a directed route."""

    @property
    def way(self) -> str:
        """`DR 0,1,4`; empty without a directed route."""
        if self.route is None:
            return ""
        hops = self.route.hops
        return f"DR {','.join(map(str, (0, *hops[:SHOWN_HOPS])))}" + (f",... ({len(hops)} hops)" if len(hops) > SHOWN_HOPS else "")

    def name_in(self, sentence: str) -> str:
        """The sentence; if it names nobody, with both ends; if it begins with a request to somebody, with its sender."""
        if not (self.source or self.destination):
            return sentence
        if re.search(NAMES_SOMEBODY, sentence):
            return self._from(sentence) if self.mad and self.source else sentence
        return self._within(sentence) if self.mad else self._before(sentence)

    def _from(self, sentence: str) -> str:
        """`SubnSet(PortInfo) from LID 1 with M_Key#3 to ...`."""
        lid = re.search(r"\bLID \d+", self.source)
        shown = re.escape(lid[0] if lid is not None else self.source)
        if self.source == "LID 0" or " from " in sentence or re.search(rf"{shown}\b", sentence):
            return sentence
        for title in (self.mad, self.mad.removeprefix("Subn")):
            rest = sentence.removeprefix(title)
            if sentence.startswith(title) and rest.startswith(TO_SOMEBODY):
                return f"{title} from {self.source}{rest}"
        return sentence

    def _before(self, sentence: str) -> str:
        service = f"{self.service} " if self.service and not sentence.startswith(f"{self.service} ") else ""
        source, destination = (
            " ".join(filter(None, (name, "" if qp is None else f"QP 0x{qp:06x}")))
            for name, qp in ((self.source, self.source_qp), (self.destination, self.qp))
        )
        return f"{service}{source}{' → ' if source else ''}{destination}: {sentence}"

    def _within(self, sentence: str) -> str:
        """`SubnSet(PortInfo) port 3 from LID 1 to LID 2: ...`, or `SubnGet(NodeInfo) from LID 1 to LID 2 has ...`."""
        ends = (f" from {self.source}" if self.source else "") + (f" to {self.destination}" if self.destination else "")
        for title in (self.mad, self.mad.removeprefix("Subn")):
            rest = sentence.removeprefix(title).removeprefix(self.selection)
            if sentence.startswith(title) and rest.startswith(GOES_ON):
                rest = re.sub("^ to route [0-9,]+", f" along {self.way}" if self.way and self.way != self.destination else "", rest)
                return f"{self.mad}{self.selection}{ends}{rest}"
        return f"{self.mad}{self.selection}{ends}: {sentence}"
