# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""The start of each header of a packet, from its link to its payload, MAD and ICRC, one packet after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ibdissect.wire import encapsulation as wire
from ibdissect.wire import headers, unread_carriers
from ibdissect.wire.headers import BTH, GRH, LRH, RWH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import MAX_WORDS
from ibdissect.wire.opcodes import OPCODES, UD_SEND_ONLY

from .link_headers import ERF, ETHERNET, INFINIBAND, extension_headers
from .offsets import (
    NAMES,
    NO_BTH,
    NO_ERF,
    NO_EXTENDED,
    NO_GRH,
    NO_LRH,
    NO_MAD,
    PKTLEN_LARGE,
    PKTLEN_SMALL,
    UDP_LARGE,
)

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16, fetch
    from cython.cimports.ibdissect.engine.link_headers import LinkHeaders
else:
    from .common import b16, fetch
    from .link_headers import LinkHeaders


def _behind_bth() -> bytes:
    found = bytearray([BTH.size] * 256)
    for code, opcode in OPCODES.items():
        found[code] += sum(getattr(headers, name).size for name in opcode.headers)
    return bytes(found)


BEFORE_PAYLOAD = _behind_bth()
"""Per OpCode: bytes from the start of the BTH to the payload."""
TUNNELS = frozenset({wire.PROTOCOL_IPV4, wire.PROTOCOL_IPV6, wire.PROTOCOL_GRE})
"""IP protocols that carry a packet."""
ECHO = frozenset({0, 8})
"""Types of ICMP that quote no packet; of ICMPv6, those from FIRST_INFORMATION on, but for a redirect."""
FIRST_INFORMATION, REDIRECT = 128, 137
IBA = 0x1B
_AHEAD = cython.declare(cython.Py_ssize_t, 16)  # rows whose first bytes are on their way
_LINE = cython.declare(cython.Py_ssize_t, 64)  # bytes of a cache line
_INFINIBAND = cython.declare(cython.int, INFINIBAND)
_ERF = cython.declare(cython.int, ERF)
_ETHERNET = cython.declare(cython.int, ETHERNET)
_LRH_AT = cython.declare(cython.Py_ssize_t, NAMES.index("lrh"))
_RWH_AT = cython.declare(cython.Py_ssize_t, NAMES.index("rwh"))
_GRH_AT = cython.declare(cython.Py_ssize_t, NAMES.index("grh"))
_BTH_AT = cython.declare(cython.Py_ssize_t, NAMES.index("bth"))
_MAD_AT = cython.declare(cython.Py_ssize_t, NAMES.index("mad"))
_ICRC_AT = cython.declare(cython.Py_ssize_t, NAMES.index("icrc"))
_VCRC_AT = cython.declare(cython.Py_ssize_t, NAMES.index("vcrc"))
_LINK_AT = cython.declare(cython.Py_ssize_t, NAMES.index("link"))
_IP4_AT = cython.declare(cython.Py_ssize_t, NAMES.index("ip4"))
_IP6_AT = cython.declare(cython.Py_ssize_t, NAMES.index("ip6"))
_UDP_AT = cython.declare(cython.Py_ssize_t, NAMES.index("udp"))
_ERF_TYPE = cython.declare(cython.Py_ssize_t, wire.ERF.types.bit // 8)
_FLOW_CONTROL = cython.declare(cython.Py_ssize_t, headers.FlowControl.size)
_LRH = cython.declare(cython.Py_ssize_t, LRH.size)
_LNH = cython.declare(cython.Py_ssize_t, LRH.lnh.bit // 8)
_PKTLEN = cython.declare(cython.Py_ssize_t, LRH.pktlen.bit // 16 * 2)
_VCRC = cython.declare(cython.Py_ssize_t, headers.VCRC.size)
_RWH = cython.declare(cython.Py_ssize_t, RWH.size)
_GRH = cython.declare(cython.Py_ssize_t, GRH.size)
_GRH_LENGTH = cython.declare(cython.Py_ssize_t, GRH.pay_len.bit // 8)
_GRH_NEXT = cython.declare(cython.Py_ssize_t, GRH.nxt_hdr.bit // 8)
_BTH = cython.declare(cython.Py_ssize_t, BTH.size)
_PAD = cython.declare(cython.Py_ssize_t, BTH.padcnt.bit // 8)
_QP = cython.declare(cython.Py_ssize_t, BTH.destqp.bit // 8)
_ICRC = cython.declare(cython.Py_ssize_t, headers.ICRC.size)
_SMALLEST = cython.declare(cython.Py_ssize_t, LRH.size + headers.ICRC.size)
_LARGEST = cython.declare(cython.Py_ssize_t, MAX_WORDS * 4)
_MAD = cython.declare(cython.Py_ssize_t, MAD.size)
_IP4 = cython.declare(cython.Py_ssize_t, wire.IPv4.size)
_IP4_LENGTH = cython.declare(cython.Py_ssize_t, wire.IPv4.total_length.bit // 8)
_FRAGMENT = cython.declare(cython.Py_ssize_t, wire.IPv4.more_fragments.bit // 8)
_IP4_PROTOCOL = cython.declare(cython.Py_ssize_t, wire.IPv4.protocol.bit // 8)
_IP6 = cython.declare(cython.Py_ssize_t, wire.IPv6.size)
_IP6_LENGTH = cython.declare(cython.Py_ssize_t, wire.IPv6.payload_length.bit // 8)
_IP6_NEXT = cython.declare(cython.Py_ssize_t, wire.IPv6.next_header.bit // 8)
_UDP = cython.declare(cython.Py_ssize_t, wire.UDP.size)
_UDP_PORT = cython.declare(cython.Py_ssize_t, wire.UDP.destination_port.bit // 8)
_UDP_LENGTH = cython.declare(cython.Py_ssize_t, wire.UDP.length.bit // 8)
_ICMP = cython.declare(cython.Py_ssize_t, 8)  # the header of an ICMP error
_TYPE_IP4 = cython.declare(cython.int, wire.ERF_IPV4)
_TYPE_IP6 = cython.declare(cython.int, wire.ERF_IPV6)
_TYPE_INFINIBAND = cython.declare(cython.int, wire.ERF_INFINIBAND)
_TYPE_LINK = cython.declare(cython.int, wire.ERF_INFINIBAND_LINK)
_IBA = cython.declare(cython.int, IBA)
_UD_SEND = cython.declare(cython.int, UD_SEND_ONLY)  # the lowest bit of an OpCode says that immediate data follow
_PROTOCOL_TCP = cython.declare(cython.int, wire.PROTOCOL_TCP)
_PROTOCOL_AUTHENTICATION = cython.declare(cython.int, wire.IP6_AUTHENTICATION)
_PROTOCOL_UDP = cython.declare(cython.int, wire.PROTOCOL_UDP)
_PROTOCOL_ICMP = cython.declare(cython.int, wire.PROTOCOL_ICMP)
_PROTOCOL_ICMPV6 = cython.declare(cython.int, wire.PROTOCOL_ICMPV6)
_PROTOCOL_FRAGMENT = cython.declare(cython.int, wire.IP6_FRAGMENT)


@cython.final
@cython.cclass
class Finder(LinkHeaders):
    """Finds the headers of the rows of one window; `run` it once. Never raises, whatever the bytes."""

    def ports(self, roce_ports: Sequence[int]) -> None:
        """UDP ports of RoCE v2."""
        self.roce_port, self.roce_ports = roce_ports[0], frozenset(roce_ports)
        self.before_payload = memoryview(BEFORE_PAYLOAD)
        self.mark_with(unread_carriers.marks(roce_ports))

    def run(self, links: Any, forms: bytes, pseudo: Any) -> None:
        """All rows. uint16[n] link types, the form of each link type (`link_headers.INFINIBAND` ...), int64[n] ERF headers (-1: none)."""
        self.links, self.forms, self.pseudo = memoryview(links), memoryview(forms), memoryview(pseudo)
        row: cython.Py_ssize_t
        for row in range(self.rows):
            if row + _AHEAD < self.rows:
                fetch(self.data, self.starts[row + _AHEAD])
                fetch(self.data, self.starts[row + _AHEAD] + _LINE)
            self.begin(row)
            self.form(self.forms[self.links[row]], self.pseudo[row])

    def form(self, form: cython.int, pseudo: cython.Py_ssize_t) -> cython.int:
        """A frame, by what it begins with."""
        if form == _INFINIBAND:
            return self.native()
        if form == _ETHERNET:
            return self.frame(self.start)
        if form != _ERF:
            return self.linked(form, self.start)  # also of a link that is not read
        if pseudo < 0:
            return self.bad(NO_ERF)
        kind: cython.int = self.data[pseudo + _ERF_TYPE] & 0x7F
        if kind == _TYPE_INFINIBAND:
            return self.native()
        if kind == _TYPE_LINK and self.start + _FLOW_CONTROL <= self.end:
            self.mark(_LINK_AT, self.start)
            return 0
        if kind in (_TYPE_IP4, _TYPE_IP6):
            return self.ip(self.start)
        if kind == _TYPE_LINK or kind in unread_carriers.ERF_WITHOUT_PACKETS:
            return self.unread(self.start)
        return self.skip(self.start)

    def mark(self, name: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.int:
        """`put` where the column is known to exist; the compiler copies it to where it is called."""
        slot: cython.Py_ssize_t = self.slots[name]
        if slot < 0:
            return self.put(name, at)
        self.found[slot * self.rows + self.row] = at
        return 0

    def native(self) -> cython.int:
        """An InfiniBand packet from its LRH to its VCRC."""
        at: cython.Py_ssize_t = self.start
        if at + _LRH > self.end:
            return self.bad(NO_LRH)
        self.mark(_LRH_AT, at)
        size: cython.Py_ssize_t = (b16(self.data, at + _PKTLEN) & 0x7FF) << 2
        stop: cython.Py_ssize_t = at + size
        small: cython.bint = size < _SMALLEST and stop <= self.end
        if small:
            self.bad(PKTLEN_SMALL)
        elif stop > self.end and size > self.lengths[self.row]:
            # Cut by a mirror, unless PktLen is wrong: contradicted by PayLen, beyond the largest packet, or with all there but the ICRC.
            global_header: cython.bint = self.data[at + _LNH] & 3 == 3 and at + _LRH + _GRH <= self.end
            wrong: cython.bint = global_header and at + _LRH + _GRH + b16(self.data, at + _LRH + _GRH_LENGTH) != stop
            if wrong or size > _LARGEST or size <= self.lengths[self.row] + _ICRC:
                self.bad(PKTLEN_LARGE)
            else:
                self.longer(stop, stop)
        if stop + _VCRC <= self.end and not small:
            self.mark(_VCRC_AT, stop)
        follows: cython.int = self.data[at + _LNH] & 3
        at += _LRH
        if follows == 2:
            return self.transport(at, stop, True)
        if follows == 3:
            return self.grh(at, stop)
        if follows == 1:
            return self.ip6(at) if at + _IP6 <= stop else self.unread(at)
        end: cython.Py_ssize_t = min(stop, self.end)
        if at + _RWH > end:
            return self.missing(at, _RWH, PKTLEN_SMALL)
        self.mark(_RWH_AT, at)
        self.payload(at + _RWH, end)
        return self.unread(at + _RWH)

    @cython.cfunc
    @cython.exceptval(-1)
    def roce1(self, at: cython.Py_ssize_t) -> cython.int:
        """A GRH behind Ethernet."""
        if at + _GRH > self.end:
            return self.bad(NO_GRH)
        stop: cython.Py_ssize_t = at + _GRH + b16(self.data, at + _GRH_LENGTH)
        self.longer(stop, stop)
        return self.grh(at, stop)

    def grh(self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        """A GRH and what follows it; `stop` is the end of the ICRC."""
        end: cython.Py_ssize_t = min(stop, self.end)
        if at + _GRH > end:
            return self.missing(at, _GRH, NO_GRH)
        self.mark(_GRH_AT, at)
        if self.data[at + _GRH_NEXT] == _IBA:
            return self.transport(at + _GRH, stop, True)
        self.payload(at + _GRH, end)
        return self.skip(at + _GRH)

    @cython.cfunc
    @cython.exceptval(-1)
    def ip4(self, at: cython.Py_ssize_t) -> cython.int:
        """An IPv4 packet; none where the version is another."""
        if at + _IP4 > self.end:
            return self.unread(at)
        size: cython.Py_ssize_t = (self.data[at] & 15) << 2
        if self.data[at] >> 4 != 4 or size < _IP4:
            return self.unread(at)
        self.mark(_IP4_AT, at)
        fragment: cython.int = b16(self.data, at + _FRAGMENT)
        later: cython.bint = fragment & 0x1FFF != 0
        protocol: cython.int = self.data[at + _IP4_PROTOCOL]
        stop: cython.Py_ssize_t = at + b16(self.data, at + _IP4_LENGTH)
        at += size
        if later:
            return self.skip(at)
        if protocol == _PROTOCOL_AUTHENTICATION:
            for name, place, announced, behind in extension_headers(self.data, protocol, at, self.end):
                self.mark(NAMES.index(name), place)
                protocol, at = announced, behind
            if protocol == _PROTOCOL_TCP:  # found only directly behind IP
                return self.skip(at)
        if protocol == _PROTOCOL_UDP:
            return self.udp(at, stop)
        if protocol == _PROTOCOL_ICMP:
            return self.unread(at) if at >= self.end or self.data[at] in ECHO else self.skip(at + _ICMP)
        if fragment & 0x2000 and protocol in TUNNELS:
            return self.skip(at)
        return self.behind_ip(at, protocol)

    @cython.cfunc
    @cython.exceptval(-1)
    def ip6(self, at: cython.Py_ssize_t) -> cython.int:
        """An IPv6 packet; none where the version is another."""
        if at + _IP6 > self.end or self.data[at] >> 4 != 6:
            return self.unread(at)
        self.mark(_IP6_AT, at)
        stop: cython.Py_ssize_t = at + _IP6 + b16(self.data, at + _IP6_LENGTH)
        protocol: cython.int = self.data[at + _IP6_NEXT]
        at += _IP6
        if protocol in wire.IP6_EXTENSIONS:
            for name, place, announced, behind in extension_headers(self.data, protocol, at, self.end):
                self.mark(NAMES.index(name), place)
                protocol, at = announced, behind
            if protocol == _PROTOCOL_TCP:
                return self.skip(at)
        if protocol == _PROTOCOL_UDP:
            return self.udp(at, stop)
        if protocol == _PROTOCOL_FRAGMENT:
            return self.skip(at)
        if protocol == _PROTOCOL_ICMPV6:
            quotes: cython.bint = at < self.end and (self.data[at] < FIRST_INFORMATION or self.data[at] == REDIRECT)
            return self.skip(at + _ICMP) if quotes else self.unread(at)
        return self.behind_ip(at, protocol)

    def udp(self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        """A UDP datagram; `stop`: where its IP packet ends."""
        if at + _UDP > min(stop, self.end):
            return self.skip(at) if at + _UDP <= self.end else 0  # the IP packet claims to end in front of it
        self.mark(_UDP_AT, at)
        port: cython.int = b16(self.data, at + _UDP_PORT)
        if port != self.roce_port and port not in self.roce_ports:
            return self.behind_udp(at + _UDP, port)
        behind: cython.Py_ssize_t = at + b16(self.data, at + _UDP_LENGTH)
        outer: cython.Py_ssize_t = self.at(_IP4_AT)
        # A datagram may end before its IP packet, never after it (RFC 768), except that a first fragment holds only its beginning.
        part: cython.bint = behind > stop and outer >= 0 and self.data[outer + _FRAGMENT] & 0x20 != 0
        self.longer(stop, behind if behind <= stop or part else 0)
        if behind <= stop:
            return self.transport(at + _UDP, behind, True)
        if part:
            self.transport(at + _UDP, stop, False)
            self.stop[self.row] = behind  # the UDP header gives the length of all fragments
            return 0
        self.transport(at + _UDP, stop, True)
        return self.bad(UDP_LARGE)

    def transport(self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t, whole: cython.bint) -> cython.int:
        """BTH, extended headers, payload and MAD; `stop` is the end of the ICRC according to the outer lengths.

        `whole`: whether the packet goes on to its ICRC, instead of in another IP fragment.
        """
        end: cython.Py_ssize_t = self.end
        row: cython.Py_ssize_t = self.row
        complete: cython.bint = whole and stop <= end and stop - at >= _BTH + _ICRC
        limit: cython.Py_ssize_t = stop - _ICRC if whole else stop  # also if it is cut off within the ICRC
        if not complete:
            limit = min(limit, end) if limit - at >= _BTH else min(stop, end)
            if at + _BTH > limit:
                return self.missing(at, _BTH, NO_BTH)
        opcode: cython.int = self.data[at]
        self.mark(_BTH_AT, at)
        self.complete[row], self.opcode[row], self.limit[row], self.stop[row] = complete, opcode, limit, stop
        if complete:
            self.mark(_ICRC_AT, limit)
        behind: cython.Py_ssize_t = at + self.before_payload[opcode]
        if behind > limit:
            return self.bad(NO_EXTENDED)
        if complete:
            limit = max(behind, limit - (self.data[at + _PAD] >> 4 & 3))
        self.payload(behind, limit)
        if opcode & 0xFE == _UD_SEND and not b16(self.data, at + _QP) and self.data[at + _QP + 2] <= 1:
            if behind + _MAD > limit:
                return self.missing(behind, _MAD, NO_MAD)
            self.mark(_MAD_AT, behind)
        return 0
