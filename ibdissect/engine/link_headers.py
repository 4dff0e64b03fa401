# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Headers around IP: Ethernet and what replaces it, VLAN tags, links without addresses, pause frames, IPv6 extension headers."""

from __future__ import annotations

from collections.abc import Sequence

from ibdissect.wire import encapsulation as wire
from ibdissect.wire.headers import GRH

from .offsets import NAMES, TAGS

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16
    from cython.cimports.ibdissect.engine.tunnels import Tunnels
else:
    from .common import b16
    from .tunnels import Tunnels

UNKNOWN, INFINIBAND, ERF, ETHERNET, COOKED, COOKED2, IPOIB, RAW_IP, LOOPBACK, PPP = range(10)
"""What a frame begins with."""
MAX_EXTENSIONS, EXTENSION, WORD = 8, 8, 4
"""Extension headers of an IPv6 packet that are read, and the bytes of the shortest."""
_ETHERNET_AT = cython.declare(cython.Py_ssize_t, NAMES.index("eth"))
_SLL_AT = cython.declare(cython.Py_ssize_t, NAMES.index("sll"))
_SLL2_AT = cython.declare(cython.Py_ssize_t, NAMES.index("sll2"))
_GRH_AT = cython.declare(cython.Py_ssize_t, NAMES.index("grh"))
_VLAN_AT = cython.declare(cython.Py_ssize_t, NAMES.index(TAGS[0]))
_NULL_AT = cython.declare(cython.Py_ssize_t, NAMES.index("null"))
_PPP_AT = cython.declare(cython.Py_ssize_t, NAMES.index("ppp"))
_TAGS = cython.declare(cython.Py_ssize_t, len(TAGS))
_ETHERNET = cython.declare(cython.Py_ssize_t, wire.Ethernet.size)
_ETHERTYPE = cython.declare(cython.Py_ssize_t, wire.Ethernet.type.bit // 8)
_SLL = cython.declare(cython.Py_ssize_t, wire.SLL.size)
_SLL_TYPE = cython.declare(cython.Py_ssize_t, wire.SLL.type.bit // 8)
_SLL2 = cython.declare(cython.Py_ssize_t, wire.SLL2.size)
_SLL2_TYPE = cython.declare(cython.Py_ssize_t, wire.SLL2.type.bit // 8)
_IPOIB = cython.declare(cython.Py_ssize_t, GRH.size + 4)  # the header of IP over InfiniBand: Ethertype and 16 reserved bits
_IPOIB_TYPE = cython.declare(cython.Py_ssize_t, GRH.size)
_VLAN = cython.declare(cython.Py_ssize_t, wire.VLAN.size)
_VLAN_TYPE = cython.declare(cython.Py_ssize_t, wire.VLAN.type.bit // 8)
_LOOPBACK = cython.declare(cython.Py_ssize_t, wire.Loopback.size)
_PPP = cython.declare(cython.Py_ssize_t, wire.PPP.size)
_PPP_PROTOCOL = cython.declare(cython.Py_ssize_t, wire.PPP.protocol.bit // 8)
_TYPE_8021Q = cython.declare(cython.int, wire.ETHERTYPE_8021Q)
_TYPE_8021AD = cython.declare(cython.int, wire.ETHERTYPE_8021AD)
_TYPE_QINQ = cython.declare(cython.int, wire.ETHERTYPE_QINQ)
_TYPE_IP4 = cython.declare(cython.int, wire.ETHERTYPE_IPV4)
_TYPE_IP6 = cython.declare(cython.int, wire.ETHERTYPE_IPV6)
_TYPE_ROCE = cython.declare(cython.int, wire.ETHERTYPE_ROCE)
_TYPE_MPLS = cython.declare(cython.int, wire.ETHERTYPE_MPLS)
_TYPE_MPLS_UPSTREAM = cython.declare(cython.int, wire.ETHERTYPE_MPLS_UPSTREAM)
_TYPE_CONTROL = cython.declare(cython.int, wire.ETHERTYPE_MAC_CONTROL)


def extension_headers(data: Sequence[int], protocol: int, at: int, end: int) -> list[tuple[str, int, int, int]]:
    """The extension headers from `at` on of an IPv6 packet that ends at `end`: of which kind (`Struct.key`), where, which protocol it
    announces, and where that begins.

    `protocol` says of which kind the first is; a header that was cut, and what stands behind MAX_EXTENSIONS others, are none. Nor is that
    of a fragment, unless it is the whole packet.
    """
    found: list[tuple[str, int, int, int]] = []
    while len(found) < MAX_EXTENSIONS and protocol in wire.IP6_EXTENSIONS and at + EXTENSION <= end:
        kind = wire.IP6_EXTENSIONS[protocol]
        length = data[at + wire.HopByHop.length.bit // 8]
        size = EXTENSION * (1 + length)
        if kind is wire.IP6Fragment:
            if data[at + _FRAGMENT_AT] or data[at + _FRAGMENT_AT + 1] & ~_FRAGMENT_RESERVED:
                break
            size = EXTENSION
        elif kind is wire.IP6Authentication:
            size = WORD * (2 + length)
            if size < kind.size or at + kind.size > end:
                break
        announced, behind = data[at + wire.HopByHop.next_header.bit // 8], at + size
        found.append((kind.key, at, announced, behind))
        protocol, at = announced, behind
    return found


_FRAGMENT_AT, _FRAGMENT_RESERVED = wire.IP6Fragment.offset_.bit // 8, 6
"""Where the offset of a fragment and its two reserved bits are."""


@cython.cclass
class LinkHeaders(Tunnels):
    """The steps of a row from its link to IP or RoCE v1."""

    def roce1(self, at: cython.Py_ssize_t) -> cython.int:
        """A GRH behind Ethernet; `engine.locate` has it."""
        raise NotImplementedError

    def ip(self, at: cython.Py_ssize_t) -> cython.int:
        """IP of the version that its first bits say."""
        return self.ip6(at) if at < self.end and self.data[at] >> 4 == 6 else self.ip4(at)

    @cython.cfunc
    @cython.exceptval(-1)
    def frame(self, at: cython.Py_ssize_t) -> cython.int:
        """An Ethernet frame."""
        return self.cooked(_ETHERNET_AT, at, _ETHERTYPE, _ETHERNET)

    def cooked(self, name: cython.Py_ssize_t, at: cython.Py_ssize_t, type_at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        """Ethernet and the pseudo headers that replace it: find the network header by its Ethertype."""
        if at + size > self.end:
            return 0
        self.put(name, at)
        return self.network(at + size, b16(self.data, at + type_at))

    def network(self, at: cython.Py_ssize_t, ethertype: cython.int) -> cython.int:
        """What an Ethertype announces: VLAN tags, then IP, RoCE v1, pause frames, or MPLS labels."""
        tag: cython.Py_ssize_t
        for tag in range(_TAGS):
            if (ethertype != _TYPE_8021Q and ethertype != _TYPE_8021AD and ethertype != _TYPE_QINQ) or at + _VLAN > self.end:
                break
            self.put(_VLAN_AT + tag, at)
            ethertype = b16(self.data, at + _VLAN_TYPE)
            at += _VLAN
        if ethertype == _TYPE_IP4:
            return self.ip4(at)
        if ethertype == _TYPE_IP6:
            return self.ip6(at)
        if ethertype == _TYPE_ROCE:
            return self.roce1(at)
        if ethertype == _TYPE_CONTROL:
            return self.pause(at)
        if ethertype in (_TYPE_MPLS, _TYPE_MPLS_UPSTREAM):
            return self.mpls(at)
        return self.unread(at)

    def pause(self, at: cython.Py_ssize_t) -> cython.int:
        """Pause frames of MAC control, for a whole link or for priorities (PFC)."""
        for struct, opcode in ((wire.Pause, wire.PAUSE), (wire.PriorityPause, wire.PRIORITY_PAUSE)):
            if at + struct.size <= self.end and b16(self.data, at + struct.opcode.bit // 8) == opcode:
                self.put(NAMES.index(struct.key), at)
        return 0

    def linked(self, form: cython.int, at: cython.Py_ssize_t) -> cython.int:
        """A frame that does not begin with Ethernet, by its form: behind links without addresses is IP."""
        if form == COOKED:
            return self.cooked(_SLL_AT, at, _SLL_TYPE, _SLL)
        if form == COOKED2:
            return self.cooked(_SLL2_AT, at, _SLL2_TYPE, _SLL2)
        if form == IPOIB:
            return self.cooked(_GRH_AT, at, _IPOIB_TYPE, _IPOIB)
        if form == RAW_IP:
            return self.ip(at)
        if form == LOOPBACK and at + _LOOPBACK <= self.end:
            self.put(_NULL_AT, at)
            return self.ip(at + _LOOPBACK)
        if form == PPP and at + _PPP <= self.end and b16(self.data, at) == wire.PPP_FRAME:
            self.put(_PPP_AT, at)
            protocol: cython.int = b16(self.data, at + _PPP_PROTOCOL)
            if protocol in (wire.PPP_IPV4, wire.PPP_IPV6):
                return self.ip(at + _PPP)
            return self.unread(at + _PPP) if protocol & wire.PPP_CONTROL else self.skip(at + _PPP)
        return self.skip(at)
