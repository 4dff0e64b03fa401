"""`Story`: the facts that the sentences about one connection name: who asks, who answers, and how it ended."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.cm_names import service_text

from .cause_found import CauseFound, asking_side
from .connection import ConnectionEnd, ConnectionTimes
from .connections_from_lanes import Raw
from .phrases import duration

AT_ONCE_NS = 1_000_000
"""A silence that is shorter, up to the end of the capture, says nothing."""


class Story:
    """What the sentences about one connection name. Any: a direction of the engine, compiled or not."""

    def __init__(
        self, found: CauseFound, raw: Raw, ends: tuple[ConnectionEnd, ConnectionEnd], times: ConnectionTimes | None, r_key: str = ""
    ) -> None:
        self.found, self.raw, self.ends, self.times, self.facts, self.r_key = found, raw, ends, times, found.facts, r_key
        self.half: Any = found.half if found.half is not None else raw.main
        self.side = side = asking_side(found, raw)
        self.asks, self.answers = ends[side].address, ends[1 - side].address
        self.asker, self.other = ends[0].address, ends[1].address

    @property
    def never(self) -> str:
        """What the last RNR NAK asked to wait for, if it was not accepted before the capture or the connection ended."""
        return f", and PSN {self.half.rnr & 0xFFFFFF} was never accepted" if self.half.rnr >= self.half.una else ""

    @property
    def service(self) -> str:
        """` to service ...`, as the REQ asks; empty if it is not captured."""
        service = self.agreed("service_id")
        return f" to service {service_text(service)}" if service is not None else ""

    @property
    def one_way(self) -> bool:
        """Whether the capture holds nothing that goes to the one that asks: answers cannot be in it."""
        return not self.raw.hosts[self.side].heard

    @property
    def hidden(self) -> bool:
        """Whether it holds no request of this direction: what was lost or sent again cannot be counted."""
        return not self.half.requests

    @property
    def ended(self) -> str:
        """How it ended, as far as the capture shows; empty where it ends at once, too."""
        if (dreq := self.facts.get("dreq")) is not None:
            return f"; {self.ends[dreq[1]].address} then ended the connection (DREQ, frame {dreq[0]})"
        quiet = self.facts.get("quiet_ns")
        if quiet is None:  # its requests are not captured
            return ""
        if quiet < AT_ONCE_NS:
            return "; the capture ends then"
        return f"; {self.asks} sent nothing more on this connection in the {duration(quiet)} that follow"

    @property
    def timer(self) -> str:
        """`, the REQ names an ACK timeout of 67.1 ms`; empty where it is not captured, or names none."""
        code = self.agreed("ack_timeout")
        return f", the REQ names an ACK timeout of {duration(4096 << code)}" if code else ""

    def agreed(self, name: str) -> int | None:
        return self.raw.setup.agreed[name] if self.raw.setup is not None else None
