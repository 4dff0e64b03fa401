"""Queue pairs that two hosts agree on for SMC-R, over TCP instead of connection management."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ibdissect.wire.cut import number_of
from ibdissect.wire.places import Behind
from ibdissect.wire.ulp.ip import TCP
from ibdissect.wire.ulp.smc import SMC_R, SMCAccept, SMCConfirm, SMCHandshake
from ibdissect.wire.ulp.smc_llc import SERVICE, SMCAddLink

from .find_structures import at_place
from .occurrences import Occurrences
from .payloads import tcp_data

if TYPE_CHECKING:
    from .chunk_table import ChunkTable
    from .services import Services

_KINDS = {2: SMCAccept, 3: SMCConfirm}
_BEHIND = tuple(place for place in TCP.carried_by if isinstance(place, Behind))
ADD_LINK = 0x02
_V4_MAPPED = bytes(10) + b"\xff\xff"


def agreed(table: ChunkTable) -> Iterator[tuple[int, int, set[bytes]]]:
    """(row, queue pair, addresses of its port) of Accept and Confirm messages that begin and end with the eye catcher.

    Uses nothing that depends on services, because services are learnt from it.
    """
    for place in _BEHIND:
        (field, wanted), *_ = place.when
        if any((table.values(field) == value).any() for value in wanted):
            yield from _in_segments(table, tcp_data(table, at_place(table, TCP, place), SMC_R))


def added(table: ChunkTable, services: Services) -> Iterator[tuple[int, int, set[bytes]]]:
    """The same for Add Link messages, on queue pairs of known services: a side's queue pair for another link."""
    rows, numbers, _ = services.messages(table)
    at, stop = table.located.at("payload"), table.located.payload_end
    for row, number in zip(rows.tolist(), numbers, strict=True):
        data = table.chunk.data[at[row] : stop[row]]
        if number == SERVICE and len(data) >= SMCAddLink.size:
            link = SMCAddLink(data.tobytes())
            if link.type == ADD_LINK and not link.rejected and link.qpn:
                yield row, link.qpn, _addresses(link.gid)


def _addresses(gid: bytes) -> set[bytes]:
    return {gid, gid.removeprefix(_V4_MAPPED)}


def _in_segments(table: ChunkTable, found: Occurrences) -> Iterator[tuple[int, int, set[bytes]]]:
    for row, at, stop in zip(found.rows.tolist(), found.at.tolist(), found.stop.tolist(), strict=True):
        data = table.chunk.data[at:stop].tobytes()
        kind, length = _KINDS.get(number_of(data, SMCHandshake.type)), number_of(data, SMCHandshake.length)
        if kind is None or not SMCHandshake.size + kind.size + len(SMC_R) <= length <= len(data):
            continue
        if data[length - len(SMC_R) : length] == SMC_R:
            handshake = kind(data[SMCHandshake.size :])
            yield row, handshake.qpn, _addresses(handshake.gid)
