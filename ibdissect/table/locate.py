"""Where does each header start? The one dissector, for a whole chunk at a time.

Columns, views and the tree all use these offsets, so they cannot disagree. Every offset counts from the start of `chunk.data`;
-1 means that the header is absent or does not fit its packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.chunk import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, LINK_IPOIB, LINK_SLL, LINK_SLL2, Chunk
from ibdissect.capture.scattered import looked_up, u16
from ibdissect.wire import encapsulation, headers
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.spec import Struct

from . import around_ip, first_bytes, tunnels
from .first_bytes import Front, Place

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
StructType = type[Struct]

MALFORMED = (
    "",
    "the LRH does not fit the frame",
    "LRH.PktLen is larger than the frame",
    "LRH.PktLen is too small for the headers it announces",
    "the GRH does not fit the packet",
    "the BTH does not fit the packet",
    "an extended header does not fit the packet",
    "the IP length is larger than the frame",
    "the MAD is shorter than its header",
    "the ERF header does not fit the record",
    "GRH.PayLen disagrees with the frame",
    "the UDP length is larger than the IP packet",
)
OK, NO_LRH, PKTLEN_LARGE, PKTLEN_SMALL, NO_GRH, NO_BTH, NO_EXTENDED, IP_LARGE, NO_MAD, NO_ERF, GRH_LENGTH, UDP_LARGE = range(12)

_EXTENDED = ("RDETH", "DETH", "XRCETH", "FETH", "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt", "IETH", "CNP")


def _chains() -> tuple[dict[str, npt.NDArray[np.int16]], Int]:
    """Per OpCode: offset of each extended header from the end of the BTH (-1: none), and their total size."""
    delta = {name: np.full(256, -1, np.int16) for name in _EXTENDED}
    total = np.zeros(256, np.int64)
    for code, opcode in OPCODES.items():
        at = 0
        for name in opcode.headers:
            delta[name][code] = at
            at += getattr(headers, name).size
        total[code] = at
    return delta, total


EXTENDED_AT, EXTENDED_SIZE = _chains()
_PAYLOAD_AT = (headers.BTH.size + EXTENDED_SIZE).astype(np.uint8)
"""Per OpCode: bytes from the start of the BTH to the payload."""
EXTENDED_STRUCTS: dict[StructType, str] = {getattr(headers, name): name for name in _EXTENDED}


class Located(Record, eq=False):
    """Offsets of the headers of every row of a chunk (int64, -1 if absent)."""

    n: int
    end: Int
    """End of the row's captured bytes."""
    snapped: Bool
    """The record holds fewer bytes than the frame had on the wire, or a tunnel holds only the beginning of a packet."""
    malformed: npt.NDArray[np.uint8]
    """Index into MALFORMED; 0: well-formed."""
    front: Front
    """The first bytes of every row."""
    length: Int
    """Bytes that the frame had on the wire, int64[n]; if a tunnel holds only the beginning of a packet, what it would have had."""
    start: dict[str, Int] = field(default_factory=dict)
    """By name: erf eth vlan vlan2 sll sll2 null ppp pause pfc ip4 ip6 ip6_hop_by_hop ip6_routing ip6_destination udp link lrh rwh grh bth
    payload mad icrc vcrc; `inner`: the packet inside a tunnel; `skipped`: what is not read of an IP fragment, a tunnel or an ICMP error,
    up to the end of the frame.

    eth to udp are the innermost headers. Those around a tunnel are `eth.0`, `ip4.0` ... with the tunnel's own (`gre.0`),
    those around a tunnel inside it `eth.1` ...
    """
    payload_end: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """End of the payload, before pad bytes and ICRC; meaningful where payload >= 0."""
    opcode: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    """BTH.OpCode; meaningful where bth >= 0."""
    limit: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Where the transport headers must end: at the ICRC or the end of the captured bytes; meaningful where bth >= 0."""
    complete: Bool = field(default_factory=lambda: np.empty(0, np.bool_))
    """The packet was captured up to its ICRC, so that CRCs can be checked."""
    stop: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Where the ICRC ends by the length that an outer header gives (LRH, IP, UDP, GRH), captured or not; meaningful where bth >= 0."""

    def at(self, name: str) -> Int:
        """Offsets of one kind of header, int64[n]; all -1 if no row has it."""
        found = self.start.get(name)
        if found is None:
            found = self.start[name] = np.full(self.n, -1, np.int64)
        return found

    @property
    def without_infiniband(self) -> Bool:
        """Rows with neither an InfiniBand nor a RoCE packet, bool[n]."""
        return (self.at("bth") < 0) & (self.at("lrh") < 0) & (self.at("grh") < 0) & (self.at("link") < 0)


def locate(chunk: Chunk, roce_ports: Sequence[int] = (encapsulation.ROCE_PORT,)) -> Located:
    """Find the headers of every row. Never raises, whatever the bytes. `roce_ports`: UDP ports of RoCE v2."""
    n = len(chunk)
    end = chunk.offset + chunk.caplen
    loc = Located(n, end, chunk.caplen < chunk.length, np.zeros(n, np.uint8), Front(chunk), chunk.length)
    loc.payload_end, loc.opcode, loc.complete = end.copy(), np.zeros(n, np.uint8), np.zeros(n, np.bool_)
    loc.limit, loc.stop = end.copy(), end.copy()
    if not n:
        return loc
    if (chunk.pseudo >= 0).any():
        loc.start["erf"] = chunk.pseudo
    finder = Finder(chunk, loc, roce_ports)
    first = int(chunk.link[0])
    alike = bool((chunk.link == first).all())
    for link in [first] if alike else np.flatnonzero(np.bincount(chunk.link)).tolist():
        rows = finder.every if alike else np.flatnonzero(chunk.link == link)
        if link == LINK_INFINIBAND:
            finder.native(rows)
        elif link == LINK_ERF:
            finder.erf(rows)
        elif link in (LINK_ETHERNET, LINK_SLL, LINK_SLL2, LINK_IPOIB):
            finder.cooked(link, rows, finder.pick(chunk.offset, rows).copy())  # a header of a packet inside may take its place
        else:
            around_ip.point_to_point(finder, link, rows, finder.pick(chunk.offset, rows).copy())
    return loc


def select(good: Bool, *columns: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """The good rows of some columns. If all are good, the usual case, the columns are not copied: this halves the time of `locate`."""
    return columns if good.all() else tuple(column[good] for column in columns)


class Finder:
    """The steps of `locate`; each handles its rows and passes them to the next step.

    Most chunks hold one kind of packet: if `rows` is `every`, whole columns are used without indexing.
    """

    def __init__(self, chunk: Chunk, loc: Located, roce_ports: Sequence[int]) -> None:
        self.data, self.chunk, self.loc, self.roce_ports = chunk.data, chunk, loc, roce_ports
        self.every = np.arange(loc.n)
        self.depth = 0
        """Tunnels around the rows that are read just now."""

    def pick(self, values: npt.NDArray[Any], rows: Int) -> npt.NDArray[Any]:
        """Some rows of a column of the chunk; do not write to the result."""
        return values if rows is self.every else values[rows]

    def put(self, name: str, rows: Int, at: Int) -> None:
        """Set where a header starts in `rows`."""
        if rows is self.every:
            self.loc.start[name] = at
        else:
            self.loc.at(name)[rows] = at

    def bad(self, rows: Int, reason: int) -> None:
        """Mark rows malformed, unless they were cut by a snap length or marked before."""
        rows = rows[~self.loc.snapped[rows]]
        self.loc.malformed[rows[self.loc.malformed[rows] == 0]] = reason

    def fit(self, rows: Int, at: Int, size: int, reason: int, stop: Int | None = None) -> Bool:
        """Which of `rows` hold `size` bytes at `at`, before `stop` if given; marks the others malformed."""
        end = self.pick(self.loc.end, rows)
        good: Bool = at + size <= (end if stop is None else np.minimum(stop, end))
        if not good.all():
            self.bad(rows[~good], reason)
        return good

    def longer(self, rows: Int, stop: Int, reason: int) -> None:
        """Mark rows whose packet ends behind the frame: malformed, but in a tunnel cut, since mirrors send the beginning of a packet."""
        long = stop - self.pick(self.chunk.offset, rows) > self.pick(self.chunk.length, rows)
        if long.any():
            if self.depth:
                self.loc.snapped[rows[long]], self.loc.length = True, self.loc.length.copy()
                self.loc.length[rows[long]] = (stop - self.chunk.offset[rows])[long]
            self.bad(rows[long], reason)

    def skip(self, rows: Int, at: Int) -> None:
        """Say where what is not read begins; nowhere, if nothing of it was captured."""
        rows, at = select(at < self.loc.end[rows], rows, at)
        if rows.size:
            self.loc.at("skipped")[rows] = at

    def erf(self, rows: Int) -> None:
        pseudo = self.pick(self.chunk.pseudo, rows)
        there = pseudo >= 0
        if not there.all():
            self.bad(rows[~there], NO_ERF)
            rows, pseudo = rows[there], pseudo[there]
        kind = self.loc.front.part(rows, pseudo + 8, 1)[:, 0] & 0x7F
        infiniband = kind == encapsulation.ERF_INFINIBAND
        if infiniband.all():
            self.native(rows)
            return
        self.native(rows[infiniband])
        flow = rows[kind == encapsulation.ERF_INFINIBAND_LINK]
        if flow.size:
            at = self.chunk.offset[flow]
            good = at + 6 <= self.loc.end[flow]
            self.loc.at("link")[flow[good]] = at[good]

    def native(self, rows: Int) -> None:
        if not rows.size:
            return
        at = self.pick(self.chunk.offset, rows)
        good = self.fit(rows, at, 8, NO_LRH)
        rows, at = select(good, rows, at)
        self.put("lrh", rows, at)
        head, end = Place(self.loc.front, rows, at), self.pick(self.loc.end, rows)
        lnh = head.part(0, 4)[:, 1] & 3
        size = (first_bytes.u16(head.part(4, 4), 0) & 0x7FF) << 2
        stop = at + size
        large = stop > end
        if large.any():
            self.bad(rows[large & (size > self.chunk.length[rows])], PKTLEN_LARGE)
        small = (size < 12) & ~large
        if small.any():
            self.bad(rows[small], PKTLEN_SMALL)
        # VCRC: two bytes after a complete packet.
        whole = stop + 2 <= end
        whole &= ~small
        if whole.all():
            self.put("vcrc", rows, stop)
        else:
            self.loc.at("vcrc")[rows[whole]] = stop[whole]
        behind = at + 8
        there = lnh == 2
        if not there.all():
            self.grh_or_raw(rows, behind, stop, lnh, there)
            rows, behind, stop = select(there, rows, behind, stop)
        self.transport(rows, behind, stop)

    def grh_or_raw(self, rows: Int, at: Int, stop: Int, lnh: npt.NDArray[np.integer[Any]], there: Bool) -> None:
        """Handle all but local transport packets; updates `at` and `there` for rows with transport headers after a GRH."""
        world = np.flatnonzero(lnh == 3)
        if world.size:
            transport = self.grh(rows[world], at[world], stop[world])
            at[world] += 40
            there[world[transport]] = True
        ipv6 = lnh == 1
        ipv6 &= at + 40 <= stop
        if ipv6.any():
            self.ip6(rows[ipv6], at[ipv6])
        raw = np.flatnonzero(lnh == 0)
        if raw.size:
            rows, at, stop = rows[raw], at[raw], stop[raw]
            good = self.fit(rows, at, 4, PKTLEN_SMALL, stop)
            rows, at, stop = rows[good], at[good], stop[good]
            self.loc.at("rwh")[rows] = at
            self.payload(rows, at + 4, np.minimum(stop, self.loc.end[rows]))

    def grh(self, rows: Int, at: Int, stop: Int) -> Int:
        """Locate the GRH of `rows`; returns the indices of those with a BTH after it. `stop` is the end of the ICRC."""
        good = np.flatnonzero(self.fit(rows, at, 40, NO_GRH, stop))
        rows, at, stop = rows[good], at[good], stop[good]
        self.loc.at("grh")[rows] = at
        iba = self.data[at + 6] == 0x1B
        other = ~iba
        if other.any():
            self.payload(rows[other], at[other] + 40, np.minimum(stop[other], self.loc.end[rows[other]]))
        found: Int = good[iba]
        return found

    def cooked(self, link: int, rows: Int, at: Int) -> None:
        """Ethernet and the pseudo headers that replace it: find the network header by its Ethertype."""
        name, type_at, size = {
            LINK_ETHERNET: ("eth", 12, 14), LINK_SLL: ("sll", 14, 16), LINK_SLL2: ("sll2", 0, 20), LINK_IPOIB: ("", 40, 44),
        }[link]  # fmt: skip
        good = at + size <= self.pick(self.loc.end, rows)
        rows, at = select(good, rows, at)
        if not rows.size:
            return
        self.put(name or "grh", rows, at)
        self.network(rows, at + size, first_bytes.u16(self.loc.front.part(rows, at + type_at, 2), 0))

    def network(self, rows: Int, at: Int, ethertype: Int) -> None:
        """What an Ethertype announces: VLAN tags, then IP, RoCE v1, or MPLS labels. Changes `ethertype`."""
        for tag in ("vlan", "vlan2", "vlan3"):
            tagged = (ethertype == encapsulation.ETHERTYPE_8021Q) | (ethertype == encapsulation.ETHERTYPE_8021AD)
            tagged |= ethertype == encapsulation.ETHERTYPE_QINQ
            if not tagged.any():
                break
            tagged &= at + 4 <= self.loc.end[rows]
            if not tagged.any():
                break
            self.loc.at(tag)[rows[tagged]] = at[tagged]
            ethertype[tagged] = u16(self.data, at[tagged] + 2)
            at = np.where(tagged, at + 4, at)
        four = ethertype == encapsulation.ETHERTYPE_IPV4
        if four.all():
            self.ip4(rows, at)
            return
        self.ip4(rows[four], at[four])
        six = ethertype == encapsulation.ETHERTYPE_IPV6
        self.ip6(rows[six], at[six])
        roce1 = ethertype == encapsulation.ETHERTYPE_ROCE
        if roce1.any():
            self.roce1(rows[roce1], at[roce1])
        control = ethertype == encapsulation.ETHERTYPE_MAC_CONTROL
        if control.any():
            around_ip.pause(self, rows[control], at[control])
        labels = (ethertype == 0x8847) | (ethertype == 0x8848)
        if labels.any():
            tunnels.mpls(self, rows[labels], at[labels])

    def roce1(self, rows: Int, at: Int) -> None:
        fits = at + 40 <= self.loc.end[rows]
        self.bad(rows[~fits], NO_GRH)
        rows, at = rows[fits], at[fits]
        stop = at + 40 + u16(self.data, at + 4)
        self.longer(rows, stop, GRH_LENGTH)
        transport = self.grh(rows, at, stop)
        self.transport(rows[transport], at[transport] + 40, stop[transport])

    def ip4(self, rows: Int, at: Int) -> None:
        if not rows.size:
            return
        good = at + 20 <= self.pick(self.loc.end, rows)
        rows, at = select(good, rows, at)
        head = Place(self.loc.front, rows, at)
        first, fragment, protocol = head.part(0, 4), head.part(6, 2), head.part(9, 1)[:, 0]
        header = (first[:, 0] & 15) << 2
        good = (first[:, 0] >> 4 == 4) & (header >= 20)
        rows, at, header, first, fragment, protocol = select(good, rows, at, header, first, fragment, protocol)
        self.put("ip4", rows, at)
        datagram = (protocol == encapsulation.PROTOCOL_UDP) & (fragment[:, 0] & 0x1F == 0) & (fragment[:, 1] == 0)  # not a later fragment
        stop, at = at + first_bytes.u16(first, 2), at + header
        if not datagram.all():
            later = (fragment[:, 0] & 0x1F != 0) | (fragment[:, 1] != 0)
            parts = (later & tunnels.may_hold_keys(protocol)) | ((fragment[:, 0] & 0x20 != 0) & tunnels.is_tunnel(protocol))
            self.skip(rows[parts], at[parts])
            icmp = (protocol == encapsulation.PROTOCOL_ICMP) & ~later
            self.quoted(rows[icmp], at[icmp] + 8, 20, 9)
            whole = ~datagram & ~parts
            tunnels.behind_ip(self, rows[whole], at[whole], protocol[whole])
        rows, at, stop = select(datagram, rows, at, stop)
        self.udp(rows, at, stop)

    def ip6(self, rows: Int, at: Int) -> None:
        if not rows.size:
            return
        good = (at + 40 <= self.loc.end[rows]) & (self.data[np.minimum(at, self.data.size - 1)] >> 4 == 6)
        rows, at = rows[good], at[good]
        self.loc.at("ip6")[rows] = at
        stop = at + 40 + u16(self.data, at + 4)
        protocol, at = around_ip.behind_extensions(self, rows, at)
        datagram = protocol == encapsulation.PROTOCOL_UDP
        if not datagram.all():
            tunnels.behind_ip(self, rows[~datagram], at[~datagram], protocol[~datagram])
            parts = (protocol == encapsulation.IP6_FRAGMENT) & tunnels.may_hold_keys(self.data[np.minimum(at, self.data.size - 1)])
            self.skip(rows[parts], at[parts])
            icmp = protocol == encapsulation.PROTOCOL_ICMPV6
            self.quoted(rows[icmp], at[icmp] + 8, 40, 6)
        self.udp(rows[datagram], at[datagram], stop[datagram])

    def quoted(self, rows: Int, at: Int, size: int, protocol_at: int) -> None:
        """RoCE packets that ICMP errors quote are not read; `size`: of their IP header, without options."""
        rows, at = select(at + size + 8 + headers.BTH.size < self.loc.end[rows], rows, at)  # a BTH contains no key
        roce = (self.data[at + protocol_at] == encapsulation.PROTOCOL_UDP) & np.isin(u16(self.data, at + size + 2), self.roce_ports)
        self.skip(rows[roce], at[roce])

    def udp(self, rows: Int, at: Int, stop: Int) -> None:
        end = self.pick(self.loc.end, rows)
        good = at + 8 <= np.minimum(stop, end)
        if not good.all():
            short = ~good & (at + 8 <= end)  # the IP packet claims to end in front of it
            self.skip(rows[short], at[short])
        rows, at, stop = select(good, rows, at, stop)
        if not rows.size:
            return
        self.put("udp", rows, at)
        head = Place(self.loc.front, rows, at)
        size = first_bytes.u16(head.part(4, 4), 0)
        port = first_bytes.u16(head.part(0, 4), 2)
        roce = port == self.roce_ports[0]
        for other in self.roce_ports[1:]:
            roce |= port == other
        if not roce.all():
            tunnels.behind_udp(self, rows[~roce], at[~roce] + 8, port[~roce])
        rows, at, stop, size = select(roce, rows, at, stop, size)
        self.longer(rows, stop, IP_LARGE)
        # A datagram may end before its IP packet, never after it (RFC 768), except that a first fragment holds only its beginning.
        long, whole = at + size > stop, None
        if long.any():
            outer = self.loc.at("ip4")[rows]
            fragment = long & (outer >= 0) & (self.data[outer + 6] & 0x20 != 0)
            long, whole = long & ~fragment, ~fragment
        self.transport(rows, at + 8, np.minimum(stop, at + size), whole)
        if whole is not None:  # the UDP header of a first fragment gives the length of all fragments
            self.loc.stop[rows[~whole]] = (at + size)[~whole]
        self.bad(rows[long], UDP_LARGE)

    def transport(self, rows: Int, at: Int, stop: Int, whole: Bool | None = None) -> None:
        """Locate BTH, extended headers, payload and MAD; `stop` is the end of the ICRC according to the outer lengths.

        `whole`: whether the packet goes on to its ICRC, instead of in another IP fragment. None: all do.
        """
        if not rows.size:
            return
        loc, end = self.loc, self.pick(self.loc.end, rows)
        complete = stop <= end
        if whole is not None:
            complete &= whole
        complete &= stop - at >= 16
        if complete.all():
            limit = stop - 4
        else:
            ends = stop - 4 if whole is None else np.where(whole, stop - 4, stop)  # also if it is cut off within the ICRC
            limit = np.where(complete | (ends - at >= 12), np.minimum(ends, end), np.minimum(stop, end))
            good = at + 12 <= limit
            if not good.all():
                self.bad(rows[~good], NO_BTH)
                rows, at, stop, complete, limit = rows[good], at[good], stop[good], complete[good], limit[good]
        self.put("bth", rows, at)
        place = Place(loc.front, rows, at)
        head = place.part(0, 4)
        opcode = head[:, 0].copy()
        if rows is self.every:
            loc.complete, loc.limit, loc.opcode, loc.stop = complete, limit, opcode, stop
        else:
            loc.complete[rows], loc.limit[rows], loc.opcode[rows], loc.stop[rows] = complete, limit, opcode, stop
        if complete.all():
            self.put("icrc", rows, limit)
        else:
            loc.at("icrc")[rows[complete]] = limit[complete]
        payload = at + looked_up(opcode, _PAYLOAD_AT)
        short = payload > limit
        stop = np.where(complete, np.maximum(limit - ((head[:, 1] >> 4) & 3), payload), limit)
        if short.any():
            self.bad(rows[short], NO_EXTENDED)
            self.payload(rows[~short], payload[~short], stop[~short])
        else:
            self.payload(rows, payload, stop)
        some = np.flatnonzero((opcode & 0xFE) == 0x64)  # UD SEND Only, with or without immediate data
        if some.size:
            destination = place.part(4, 4).take(some, axis=0)
            some = some[(destination[:, 1] == 0) & (destination[:, 2] == 0) & (destination[:, 3] <= 1) & ~short[some]]
            rows, payload, stop = rows[some], payload[some], stop[some]
            fits = payload + 24 <= stop
            if not fits.all():
                self.bad(rows[~fits], NO_MAD)
            loc.at("mad")[rows[fits]] = payload[fits]

    def payload(self, rows: Int, at: Int, stop: Int) -> None:
        there = stop > at
        if rows is self.every:
            self.loc.start["payload"] = np.where(there, at, -1)
            self.loc.payload_end = np.where(there, stop, self.loc.end)
            return
        rows, at, stop = select(there, rows, at, stop)
        self.loc.at("payload")[rows] = at
        self.loc.payload_end[rows] = stop
