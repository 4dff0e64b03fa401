"""What stands around IP? Links without addresses, pause frames in its place, and IPv6 extension headers; steps of `locate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_LOOP, LINK_NULL, LINK_PPP, LINKS_RAW_IP
from ibdissect.capture.scattered import u16
from ibdissect.wire import encapsulation as wire
from ibdissect.wire.spec import Field

if TYPE_CHECKING:
    from .locate import Finder, Int

MAX_EXTENSIONS, EXTENSION = 8, 8
"""Extension headers of an IPv6 packet that are read, and the bytes of the shortest."""


def point_to_point(finder: Finder, link: int, rows: Int, at: Int) -> None:
    """Links without addresses: IP follows, alone or behind the header of a loopback interface or PPP."""
    if link in LINKS_RAW_IP:
        _ip(finder, rows, at)
    elif link in (LINK_NULL, LINK_LOOP):
        rows, at = _whole(finder, rows, at, wire.Loopback.size)
        finder.put("null", rows, at)
        _ip(finder, rows, at + wire.Loopback.size)
    elif link == LINK_PPP:
        rows, at = _whole(finder, rows, at, wire.PPP.size)
        frame = _u16(finder, at, wire.PPP.address) == wire.PPP_FRAME
        rows, at = rows[frame], at[frame]
        finder.put("ppp", rows, at)
        ip = np.isin(_u16(finder, at, wire.PPP.protocol), (wire.PPP_IPV4, wire.PPP_IPV6))
        _ip(finder, rows[ip], at[ip] + wire.PPP.size)


def _ip(finder: Finder, rows: Int, at: Int) -> None:
    """IP of the version that its first bits say."""
    finder.ip4(rows, at)
    finder.ip6(rows, at)


def _whole(finder: Finder, rows: Int, at: Int, size: int) -> tuple[Int, Int]:
    """The rows that hold `size` bytes at `at`; `rows` itself if all do, since whole columns are not indexed."""
    good = at + size <= finder.pick(finder.loc.end, rows)
    return (rows, at) if good.all() else (rows[good], at[good])


def _u16(finder: Finder, at: Int, field: Field[int]) -> Int:
    """The 16 bits at the place of a field of the structure at `at`."""
    return u16(finder.data, at + field.bit // 8)


def pause(finder: Finder, rows: Int, at: Int) -> None:
    """Pause frames of MAC control, for a whole link or for priorities (PFC)."""
    for struct, opcode in ((wire.Pause, wire.PAUSE), (wire.PriorityPause, wire.PRIORITY_PAUSE)):
        some, there = _whole(finder, rows, at, struct.size)
        meant = _u16(finder, there, struct.opcode) == opcode
        finder.loc.at(struct.key)[some[meant]] = there[meant]


def behind_extensions(finder: Finder, rows: Int, at: Int) -> tuple[npt.NDArray[np.uint8], Int]:
    """What the IPv6 packets at `at` carry behind their extension headers, uint8[k], and where that begins, int64[k].

    If a header was cut, or MAX_EXTENSIONS others stand before it, it counts as what the packet carries.
    """
    protocol, at = finder.data[at + wire.IPv6.next_header.bit // 8], at + wire.IPv6.size
    for some in extension_headers(finder.data, protocol, at, finder.loc.end[rows]):
        for number, struct in wire.IP6_EXTENSIONS.items():
            which = some[protocol[some] == number]
            finder.loc.at(struct.key)[rows[which]] = at[which]
    return protocol, at


def extension_headers(data: npt.NDArray[np.uint8], protocol: npt.NDArray[np.uint8], at: Int, end: Int) -> Iterator[Int]:
    """Which packets have another extension header, as indices; `protocol` says of which kind, `at` where, until the next is asked for.

    Each array holds one value for each packet; `end` is where the packet ends.
    """
    for _ in range(MAX_EXTENSIONS):
        some = np.flatnonzero(np.isin(protocol, list(wire.IP6_EXTENSIONS)))
        some = some[at[some] + EXTENSION <= end[some]]
        if not some.size:
            break
        yield some
        start = at[some]
        protocol[some] = data[start + wire.HopByHop.next_header.bit // 8]
        at[some] += EXTENSION * (1 + data[start + wire.HopByHop.length.bit // 8].astype(np.int64))
