"""First and middle packets whose payload is not the path MTU, or not that of the first packet of their message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import ChunkTable
from ibdissect.decode.history import SECOND_NS
from ibdissect.engine.psn_gaps import MTUS
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import ERROR, INFO, Context, Hit, Seen, fault, on_event
from ibdissect.rules.BTH.header_fields import continued
from ibdissect.rules.shared.packet_flows import PacketRule, room_behind_headers
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.transport.events import SizeChanged
from ibdissect.wire.expr import Where
from ibdissect.wire.headers import BTH

ONE_MESSAGE_NS = 60 * SECOND_NS
"""No message takes longer."""


def _no_mtu(table: ChunkTable) -> npt.NDArray[np.bool_]:
    """First and middle packets whose payload is not a path MTU."""
    index = np.flatnonzero(table.once(continued))
    bad = np.zeros(len(table.occurrences(BTH)), np.bool_)
    if index.size:
        room = table.once(room_behind_headers)[index]
        bad[index] = (room >= 0) & ~np.isin(room, MTUS) & (table.values(BTH.padcnt)[index] == 0)
    return bad


class NotPathMtu(PacketRule):
    """A packet that is not the last of its message is not filled to the path MTU.

    First and Middle packets carry exactly the path MTU: 256, 512, 1024, 2048 or 4096 bytes. The responder answers anything else with a NAK.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender's transport is at fault.

    One packet whose payload is not a path MTU. Or two packets of one message with different payloads, all packets between them, and no
    wrong ICRC. That is an `info` if they are a minute apart: the queue pair may have been made again.
    """

    code, name, severity = "BTH007", "first-middle-not-pmtu", ERROR
    reference = "IBA 9.4, 9.7.4.1.6"
    when = Where(BTH.opcode, _no_mtu)
    message = "{opcode!t} carries {size:byte}: more of its message follows, so it must be full (256, 512, 1024, 2048 or 4096)"
    example = "an RC SEND Middle with 100 bytes"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"size": int(seen.table.once(room_behind_headers)[i])}

    needs = (CaptureLoss,)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        frames = [one.frame for one in hit.related]
        return INFO if frames and context.get(CaptureLoss).nanoseconds_between(frames[0], hit.frame) > ONE_MESSAGE_NS else None

    @on_event(SizeChanged)
    def changed(self, event: SizeChanged, context: Context) -> Iterator[Hit]:
        yield fault(
            Seen(context.table, event.frame - context.table.chunk.first),
            {"opcode": value_of(BTH.opcode, event.opcode), "size": event.size, "mtu": event.mtu},
            BTH.opcode, event.opcode, proof=[(event.first, "the first packet of the message")], key=("size", event.slot),
            message="{opcode!t} carries {size:byte}, the first packet of its message {mtu}",
        )  # fmt: skip
