# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Packets inside tunnels: VXLAN, GENEVE, GRE, ERSPAN, MPLS labels, IP in IP. Steps of `locate`."""

from __future__ import annotations

from ibdissect.wire import encapsulation as wire
from ibdissect.wire.encapsulation import (
    ERSPAN2,
    ERSPAN3,
    GENEVE,
    GENEVE_PORT,
    GRE,
    MPLS,
    VXLAN,
    VXLAN_GPE_PORT,
    VXLAN_LINUX_PORT,
    VXLAN_PORT,
    VXLANGPE,
)

from .offsets import AROUND, LABELS, MAX_DEPTH, NAMES, OF_FRAME, OF_PACKET

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16
    from cython.cimports.ibdissect.engine.offsets import Offsets
else:
    from .common import b16
    from .offsets import Offsets

IP4, IP6 = wire.ETHERTYPE_IPV4, wire.ETHERTYPE_IPV6
FRAME, LABELLED, ERSPAN, ERSPAN_3, ANY_IP = 0x6558, wire.ETHERTYPE_MPLS, 0x88BE, 0x22EB, -1
"""What is inside: an Ethertype, or IP of the version that its first bits say."""
CARRIED = frozenset({FRAME, IP4, IP6, LABELLED, ERSPAN, ERSPAN_3})
ON_ETHERNET = frozenset({IP4, IP6, wire.ETHERTYPE_ROCE, *wire.ETHERTYPES_VLAN})
GPE = (0, IP4, IP6, FRAME, 0, LABELLED)
"""By Next Protocol of VXLAN-GPE."""
GRE_OPTIONS = ((AROUND.index("gre_checksum"), 0x8000), (AROUND.index("gre_key"), 0x2000), (AROUND.index("gre_sequence"), 0x1000))
_OF_FRAME = cython.declare(cython.Py_ssize_t, len(OF_FRAME))
_OF_PACKET = cython.declare(cython.Py_ssize_t, len(OF_FRAME) + len(OF_PACKET))
_MPLS = cython.declare(cython.Py_ssize_t, AROUND.index(LABELS[0]))
_LABELS = cython.declare(cython.Py_ssize_t, len(LABELS))
_IP4 = cython.declare(cython.Py_ssize_t, NAMES.index("ip4"))
_BTH = cython.declare(cython.Py_ssize_t, NAMES.index("bth"))
_INNER = cython.declare(cython.Py_ssize_t, NAMES.index("inner"))
_FLAGS4 = cython.declare(cython.Py_ssize_t, wire.IPv4.more_fragments.bit // 8)

_GPE_PROTOCOL = cython.declare(cython.Py_ssize_t, VXLANGPE.protocol.bit // 8)
_GENEVE_PROTOCOL = cython.declare(cython.Py_ssize_t, GENEVE.protocol.bit // 8)
_TUNNEL = cython.declare(cython.Py_ssize_t, VXLAN.size)
_GRE = cython.declare(cython.Py_ssize_t, GRE.size)
_GRE_PROTOCOL = cython.declare(cython.Py_ssize_t, GRE.protocol.bit // 8)
_LABEL = cython.declare(cython.Py_ssize_t, MPLS.size)
_BOTTOM = cython.declare(cython.Py_ssize_t, MPLS.bottom.bit // 8)
_ERSPAN2 = cython.declare(cython.Py_ssize_t, ERSPAN2.size)
_ERSPAN3 = cython.declare(cython.Py_ssize_t, ERSPAN3.size)
_FRAME_TYPE = cython.declare(cython.Py_ssize_t, ERSPAN3.has_frame.bit // 8)
_ETHERNET = cython.declare(cython.Py_ssize_t, wire.Ethernet.size)
_ETHERTYPE = cython.declare(cython.Py_ssize_t, wire.Ethernet.type.bit // 8)
_IP4_SIZE = cython.declare(cython.Py_ssize_t, wire.IPv4.size)
_IP6_SIZE = cython.declare(cython.Py_ssize_t, wire.IPv6.size)
_CONTROL_WORD = cython.declare(cython.Py_ssize_t, 4)
_VXLAN_AT = cython.declare(cython.Py_ssize_t, AROUND.index("vxlan"))
_VXLAN_GPE_AT = cython.declare(cython.Py_ssize_t, AROUND.index("vxlan_gpe"))
_GENEVE_AT = cython.declare(cython.Py_ssize_t, AROUND.index("geneve"))
_GRE_AT = cython.declare(cython.Py_ssize_t, AROUND.index("gre"))
_ERSPAN2_AT = cython.declare(cython.Py_ssize_t, AROUND.index("erspan2"))
_ERSPAN3_AT = cython.declare(cython.Py_ssize_t, AROUND.index("erspan3"))
_VXLAN_PORT = cython.declare(cython.int, VXLAN_PORT)
_VXLAN_LINUX_PORT = cython.declare(cython.int, VXLAN_LINUX_PORT)
_VXLAN_GPE_PORT = cython.declare(cython.int, VXLAN_GPE_PORT)
_GENEVE_PORT = cython.declare(cython.int, GENEVE_PORT)
_PROTOCOL_GRE = cython.declare(cython.int, wire.PROTOCOL_GRE)
_PROTOCOL_TCP = cython.declare(cython.int, wire.PROTOCOL_TCP)
_PROTOCOL_IPV4 = cython.declare(cython.int, wire.PROTOCOL_IPV4)
_PROTOCOL_IPV6 = cython.declare(cython.int, wire.PROTOCOL_IPV6)


@cython.cclass
class Tunnels(Offsets):
    """The steps of a row that lead into a tunnel; `engine.locate` goes on in it."""

    def ip4(self, at: cython.Py_ssize_t) -> cython.int:
        """An IPv4 packet."""
        raise NotImplementedError

    def ip6(self, at: cython.Py_ssize_t) -> cython.int:
        """An IPv6 packet."""
        raise NotImplementedError

    def frame(self, at: cython.Py_ssize_t) -> cython.int:
        """An Ethernet frame."""
        raise NotImplementedError

    def behind_udp(self, at: cython.Py_ssize_t, port: cython.int) -> cython.int:
        """VXLAN and GENEVE, by the UDP port; not in the first fragment of a datagram."""
        if port == _VXLAN_LINUX_PORT:
            port = _VXLAN_PORT
        if (port != _VXLAN_PORT and port != _VXLAN_GPE_PORT and port != _GENEVE_PORT) or at + _TUNNEL > self.end:
            return self.unread(at)
        outer: cython.Py_ssize_t = self.at(_IP4)
        if outer >= 0 and self.data[outer + _FLAGS4] & 0x20:
            return self.skip(at)
        first: cython.int = self.data[at]
        what: cython.int = 0
        options: cython.Py_ssize_t = 0
        extended: cython.bint = first & 0x3C == 0x0C and self.data[at + _GPE_PROTOCOL] != 0  # which may have the port of VXLAN
        if port == _VXLAN_PORT and not extended:
            if first & 0x08:
                what = FRAME
                self.outer(_VXLAN_AT, at)
        elif port != _GENEVE_PORT:
            if extended and self.data[at + _GPE_PROTOCOL] < len(GPE):
                what = GPE[self.data[at + _GPE_PROTOCOL]]
                self.outer(_VXLAN_GPE_AT, at)
        elif first >> 6 == 0 and b16(self.data, at + _GENEVE_PROTOCOL) in CARRIED:
            what = b16(self.data, at + _GENEVE_PROTOCOL)
            options = (first & 0x3F) << 2
            self.outer(_GENEVE_AT, at)
        return self.inside(at + _TUNNEL + options, what)

    def behind_ip(self, at: cython.Py_ssize_t, protocol: cython.int) -> cython.int:
        """GRE, IP in IP, and what is not read, by the protocol of an IP packet that is not a fragment. TCP is read elsewhere."""
        if protocol == _PROTOCOL_GRE:
            return self.gre(at)
        if protocol == _PROTOCOL_IPV4:
            return self.inside(at, IP4)
        if protocol == _PROTOCOL_IPV6:
            return self.inside(at, IP6)
        return 0 if protocol == _PROTOCOL_TCP else self.unread(at)

    def gre(self, at: cython.Py_ssize_t) -> cython.int:
        """GRE, and what ERSPAN puts between it and the mirrored frame."""
        if at + _GRE > self.end:
            return self.unread(at)
        flags: cython.int = b16(self.data, at)
        what: cython.int = b16(self.data, at + _GRE_PROTOCOL)
        if flags & 0x4007 or what not in CARRIED:  # source routes or another version
            return self.skip(at)
        self.outer(_GRE_AT, at)
        at += _GRE
        for name, flag in GRE_OPTIONS:
            if flags & flag:
                if at + _GRE <= self.end:
                    self.outer(name, at)
                at += _GRE
        if what == ERSPAN:
            what = FRAME
            if flags & 0x1000:  # without sequence numbers it is type I, which has no header
                what = 0
                if at + _ERSPAN2 <= self.end and self.data[at] >> 4 == 1:
                    self.outer(_ERSPAN2_AT, at)
                    what = FRAME
                    at += _ERSPAN2
        elif what == ERSPAN_3:
            what = 0
            if at + _ERSPAN3 <= self.end and self.data[at] >> 4 == 2:
                self.outer(_ERSPAN3_AT, at)
                last: cython.int = b16(self.data, at + _FRAME_TYPE)
                if last >> 10 & 0x1F == 0:
                    what = FRAME
                elif last >> 10 & 0x1F == 2:
                    what = ANY_IP
                at += _ERSPAN3 + (last & 1) * 8  # 8 bytes of the platform
        return self.inside(at, what)

    def mpls(self, at: cython.Py_ssize_t) -> cython.int:
        """Labels to the bottom of the stack."""
        label: cython.Py_ssize_t
        for label in range(_LABELS):
            if at + _LABEL > self.end:
                return 0
            self.outer(_MPLS + label, at)
            at += _LABEL
            if self.data[at - _LABEL + _BOTTOM] & 1:
                return self.labelled(at)
        return self.skip(at)

    def labelled(self, at: cython.Py_ssize_t) -> cython.int:
        """What follows labels is not named: IP by its version, Ethernet where its Ethertype must be."""
        if at + _IP4_SIZE > self.end:
            return self.unread(at)
        version: cython.int = self.data[at] >> 4
        if version == 0 and b16(self.data, at + _CONTROL_WORD + _ETHERTYPE) in ON_ETHERNET:  # a control word before the frame (RFC 4448)
            return self.inside(at + _CONTROL_WORD, FRAME)
        either: cython.bint = b16(self.data, at + _ETHERTYPE) in ON_ETHERNET
        if version != 4 and version != 6 and either:
            return self.inside(at, FRAME)
        self.inside(at, ANY_IP)
        return self.skip(at) if either and self.at(_BTH) < 0 else 0  # or an address of Ethernet that begins as IP does

    def inside(self, at: cython.Py_ssize_t, what: cython.int) -> cython.int:
        """Go on with the packet in a tunnel; the headers before it become those of the tunnel."""
        if self.depth == MAX_DEPTH:
            return self.skip(at)
        if what == LABELLED:
            return self.mpls(at)
        frame: cython.bint = what == FRAME and at + _ETHERNET <= self.end
        version: cython.int = 0
        if what in (IP4, IP6, ANY_IP):
            if at + _IP4_SIZE <= self.end:
                version = self.data[at] >> 4
            if (version == 4 and (what == IP6 or self.data[at] & 15 < 5)) or (version == 6 and (what == IP4 or at + _IP6_SIZE > self.end)):
                version = 0
        if not frame and version != 4 and version != 6:
            return self.skip(at)
        name: cython.Py_ssize_t
        for name in range(0 if frame else _OF_FRAME, _OF_PACKET):
            self.move(name)
        self.put(_INNER, at)
        self.depth += 1
        if frame:
            return self.frame(at)
        return self.ip4(at) if version == 4 else self.ip6(at)
