"""Which packet is inside a tunnel? VXLAN, GENEVE, GRE, ERSPAN, MPLS labels, IP in IP; steps of `locate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_ETHERNET
from ibdissect.capture.scattered import u16
from ibdissect.wire import encapsulation as wire
from ibdissect.wire.encapsulation import ERSPAN2, ERSPAN3, GENEVE_PORT, VXLAN_GPE_PORT, VXLAN_PORT

if TYPE_CHECKING:
    from .locate import Bool, Finder, Int, Located

MAX_DEPTH = 2
"""Tunnels read one inside the other, as when a switch mirrors a port whose packets are in VXLAN."""
LABELS = ("mpls", "mpls2", "mpls3", "mpls4")
"""Entries of an MPLS label stack, from the top."""
IP4, IP6 = wire.ETHERTYPE_IPV4, wire.ETHERTYPE_IPV6
FRAME, MPLS, ERSPAN, ERSPAN_3, ANY_IP = 0x6558, 0x8847, 0x88BE, 0x22EB, -1
"""What is inside: an Ethertype, or IP of the version that its first bits say."""
GRE_OPTIONS = (("gre_checksum", 0x8000), ("gre_key", 0x2000), ("gre_sequence", 0x1000))
_GPE = np.array([0, IP4, IP6, FRAME, 0, MPLS])
"""By Next Protocol of VXLAN-GPE."""
_CARRIED = [FRAME, IP4, IP6, MPLS, ERSPAN, ERSPAN_3]
_ON_ETHERNET = [IP4, IP6, wire.ETHERTYPE_ROCE, *wire.ETHERTYPES_VLAN]


def names(*headers: str) -> tuple[str, ...]:
    """The names of headers in `Located.start` at all depths."""
    return tuple(f"{name}.{depth}" for depth in range(MAX_DEPTH) for name in headers)


def in_tunnel(located: Located) -> Bool:
    """Rows with the header of a tunnel, even if its packet could not be read, bool[n]."""
    found = np.zeros(located.n, np.bool_)
    for name, start in located.start.items():
        if name.endswith(".0"):
            found |= start >= 0
    return found


def behind_udp(finder: Finder, rows: Int, at: Int, port: Int) -> None:
    """VXLAN and GENEVE, by the UDP port; not in the first fragment of a datagram."""
    good = ((port == VXLAN_PORT) | (port == VXLAN_GPE_PORT) | (port == GENEVE_PORT)) & (at + 8 <= finder.loc.end[rows])
    rows, at, port = rows[good], at[good], port[good]
    ip4 = finder.loc.at("ip4")[rows]
    fragment = (ip4 >= 0) & (finder.data[ip4 + 6] & 0x20 != 0)
    finder.skip(rows[fragment], at[fragment])
    rows, at, port = rows[~fragment], at[~fragment], port[~fragment]
    if not rows.size:
        return
    first, protocol, ethertype = finder.data[at], finder.data[at + 3], u16(finder.data, at + 2)
    vxlan = (port == VXLAN_PORT) & (first & 0x08 != 0)
    gpe = (port == VXLAN_GPE_PORT) & (first & 0x3C == 0x0C) & (protocol < len(_GPE))
    geneve = (port == GENEVE_PORT) & (first >> 6 == 0) & np.isin(ethertype, _CARRIED)
    for name, there in (("vxlan", vxlan), ("vxlan_gpe", gpe), ("geneve", geneve)):
        _outer(finder, name, rows[there], at[there])
    inside = np.where(vxlan, FRAME, np.where(geneve, ethertype, 0))
    inside[gpe] = _GPE[protocol[gpe]]
    _inside(finder, rows, at + 8 + geneve * ((first & 0x3F).astype(np.int64) << 2), inside)


def is_tunnel(protocol: npt.NDArray[np.uint8]) -> Bool:
    """Which IP protocols carry a packet."""
    return np.isin(protocol, (wire.PROTOCOL_IPV4, wire.PROTOCOL_IPV6, wire.PROTOCOL_GRE))


def may_hold_keys(protocol: npt.NDArray[np.uint8]) -> Bool:
    """Which IP protocols may carry a packet or message with keys: tunnels, UDP (RoCE), and TCP (SMC-R). ICMP and others do not."""
    return is_tunnel(protocol) | np.isin(protocol, (wire.PROTOCOL_TCP, wire.PROTOCOL_UDP))


def behind_ip(finder: Finder, rows: Int, at: Int, protocol: npt.NDArray[np.uint8]) -> None:
    """GRE, and IP in IP, by the protocol of an IP packet that is not a fragment."""
    gre, four, six = (protocol == one for one in (wire.PROTOCOL_GRE, wire.PROTOCOL_IPV4, wire.PROTOCOL_IPV6))
    if gre.any():
        _gre(finder, rows[gre], at[gre])
    _inside(finder, rows[four], at[four], np.full(int(four.sum()), IP4))
    _inside(finder, rows[six], at[six], np.full(int(six.sum()), IP6))


def _gre(finder: Finder, rows: Int, at: Int) -> None:
    """GRE, and what ERSPAN puts between it and the mirrored frame."""
    rows, at = _fitting(finder, rows, at, 4)
    flags, inside = u16(finder.data, at), u16(finder.data, at + 2)
    known = (flags & 0x4007 == 0) & np.isin(inside, _CARRIED)  # neither source routes nor another version
    finder.skip(rows[~known], at[~known])
    rows, at, flags, inside = rows[known], at[known], flags[known], inside[known]
    _outer(finder, "gre", rows, at)
    at = at + 4
    for name, bit in GRE_OPTIONS:
        there = flags & bit != 0
        _outer(finder, name, *_fitting(finder, rows[there], at[there], 4))
        at = at + 4 * there
    second = (inside == ERSPAN) & (flags & 0x1000 != 0)
    inside[inside == ERSPAN] = FRAME  # without sequence numbers it is type I, which has no header
    third = inside == ERSPAN_3
    for name, there, version, size in (("erspan2", second, 1, ERSPAN2.size), ("erspan3", third, 2, ERSPAN3.size)):
        some = np.flatnonzero(there)
        inside[some] = 0
        some = some[at[some] + size <= finder.loc.end[rows[some]]]
        some = some[finder.data[at[some]] >> 4 == version]
        _outer(finder, name, rows[some], at[some])
        inside[some] = FRAME
        if version == 2:
            last = u16(finder.data, at[some] + 10)
            inside[some] = np.select([last >> 10 & 0x1F == 0, last >> 10 & 0x1F == 2], [FRAME, ANY_IP])
            at[some] += (last & 1) * 8  # 8 bytes of the platform
        at[some] += size
    _inside(finder, rows, at, inside)


def mpls(finder: Finder, rows: Int, at: Int) -> None:
    """Labels to the bottom of the stack. What follows is not named: IP by its version, Ethernet where its Ethertype must be."""
    for name in LABELS:
        rows, at = _fitting(finder, rows, at, 4)
        _outer(finder, name, rows, at)
        bottom, at = finder.data[at + 2] & 1 == 1, at + 4
        _labelled(finder, rows[bottom], at[bottom])
        rows, at = rows[~bottom], at[~bottom]
    finder.skip(rows, at)


def _labelled(finder: Finder, rows: Int, at: Int) -> None:
    rows, at = _fitting(finder, rows, at, 20)
    version = finder.data[at] >> 4
    control = (version == 0) & np.isin(u16(finder.data, at + 16), _ON_ETHERNET)  # a control word before the frame (RFC 4448)
    frame = control | ((version != 4) & (version != 6) & np.isin(u16(finder.data, at + 12), _ON_ETHERNET))
    _inside(finder, rows, at + 4 * control, np.where(frame, FRAME, ANY_IP))


def _inside(finder: Finder, rows: Int, at: Int, inside: Int) -> None:
    """Go on with the packet in a tunnel; the headers before it become those of the tunnel."""
    if finder.depth == MAX_DEPTH or not rows.size:
        finder.skip(rows, at)
        return
    data, end = finder.data, finder.loc.end[rows]
    first = data[np.minimum(at, data.size - 1)]
    frame = (inside == FRAME) & (at + 14 <= end)
    four = ((inside == IP4) | (inside == ANY_IP)) & (first >> 4 == 4) & (first & 15 >= 5) & (at + 20 <= end)
    six = ((inside == IP6) | (inside == ANY_IP)) & (first >> 4 == 6) & (at + 40 <= end)
    for header in ("eth", "vlan", "vlan2", "vlan3"):
        _move(finder, header, rows[frame])
    for header in ("ip4", "ip6", *(struct.key for struct in wire.IP6_EXTENSIONS.values()), "udp"):
        _move(finder, header, rows[frame | four | six])
    for there in (frame, four, six):
        finder.loc.at("inner")[rows[there]] = at[there]
    labels = inside == MPLS
    other = ~(frame | four | six | labels)
    finder.skip(rows[other], at[other])
    mpls(finder, rows[labels], at[labels])
    finder.depth += 1
    finder.cooked(LINK_ETHERNET, rows[frame], at[frame])
    finder.ip4(rows[four], at[four])
    finder.ip6(rows[six], at[six])
    finder.depth -= 1


def _fitting(finder: Finder, rows: Int, at: Int, size: int) -> tuple[Int, Int]:
    """Those of some rows that hold `size` bytes at `at`, and their offsets."""
    good: Bool = at + size <= finder.loc.end[rows]
    return rows[good], at[good]


def _outer(finder: Finder, name: str, rows: Int, at: Int) -> None:
    """Set where a header of the current tunnel starts."""
    if rows.size and finder.depth < MAX_DEPTH:
        finder.loc.at(f"{name}.{finder.depth}")[rows] = at


def _move(finder: Finder, name: str, rows: Int) -> None:
    """Make a header one of the current tunnel."""
    start = finder.loc.start.get(name)
    if start is not None and (start[rows] >= 0).any():
        _outer(finder, name, rows, start[rows])
        start[rows] = -1
