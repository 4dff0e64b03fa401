"""IPoIB: the encapsulation header, ARP with 20-byte addresses, connected mode's private data."""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import IPOIB_CM_MASK, IPOIB_CM_PREFIX
from ..encapsulation import ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6
from ..places import CmPayload, CmService, Inside, QKey
from ..spec import Struct, enum, gid, ip4, pad, qpn, rest, uint

IPOIB_Q_KEY = 0x0000_0B1B
"""Default Q_Key of the broadcast group and so of all UD traffic of an IPoIB link; a manager may choose another (RFC 4391 5)."""

PROTOCOLS: Mapping[int, str] = {ETHERTYPE_IPV4: "IPv4", ETHERTYPE_ARP: "ARP", 0x8035: "RARP", ETHERTYPE_IPV6: "IPv6"}
"""Type of the encapsulation header (RFC 4391 6)."""

ARP_OPERATIONS: Mapping[int, str] = {1: "request", 2: "reply"}
HARDWARE_INFINIBAND = 32


def fits(number: int, body: bytes) -> bool:
    """Whether `body` is exactly one packet of the protocol with this Type, so that nothing else is taken for IP or ARP."""
    if number == ETHERTYPE_IPV4:
        return len(body) >= 20 and body[0] >> 4 == 4 and body[0] & 15 >= 5 and int.from_bytes(body[2:4], "big") == len(body)
    if number == ETHERTYPE_IPV6:
        return len(body) >= 40 and body[0] >> 4 == 6 and int.from_bytes(body[4:6], "big") + 40 == len(body)
    return number == ETHERTYPE_ARP and len(body) == IPoIBAddressResolution.size and body[:6] == b"\0\x20\x08\0\x14\x04"


class IPoIB(Struct):
    """Encapsulation header of IP over InfiniBand; the IP packet or ARP message follows."""

    key, section, size = "ipoib", "RFC 4391 6", 4
    carried_by = (QKey(IPOIB_Q_KEY), CmPayload(IPOIB_CM_PREFIX, IPOIB_CM_MASK))
    type = enum(16, PROTOCOLS, "Type", at="0", base="hex", ws="ipoib.type")
    reserved = pad(16, at="2", ws="ipoib.reserved")
    payload = rest("Payload", at="4")


class IPoIBAddressResolution(Struct):
    """ARP between IPoIB interfaces, whose hardware addresses are flags, QPN and GID."""

    key, section, size, title = "ipoib.arp", "RFC 4391 9; RFC 826", 56, "ARP over IPoIB"
    carried_by = (Inside(IPoIB.payload, ((IPoIB.type, frozenset({ETHERTYPE_ARP})),)),)
    hardware_type = enum(16, {HARDWARE_INFINIBAND: "InfiniBand"}, "Hardware Type", at="0")
    protocol_type = enum(16, PROTOCOLS, "Protocol Type", at="2", base="hex")
    hardware_size = uint(8, "Hardware Size", at="4", unit="bytes")
    protocol_size = uint(8, "Protocol Size", at="5", unit="bytes")
    operation = enum(16, ARP_OPERATIONS, "Operation", at="6")
    sender_flags = uint(8, "Sender Flags", at="8", base="hex")
    sender_qpn = qpn("Sender QPN", at="9")
    sender_gid = gid("Sender GID", at="12")
    sender_ip = ip4("Sender IP", at="28")
    target_flags = uint(8, "Target Flags", at="32", base="hex")
    target_qpn = qpn("Target QPN", at="33")
    target_gid = gid("Target GID", at="36")
    target_ip = ip4("Target IP", at="52")


class IPoIBConnect(Struct):
    """Private data of REQ and REP of IPoIB connected mode: the sender's UD queue pair and how much it receives."""

    key, section, size, title = "ipoib.cm", "RFC 4755 3.5; kernel ipoib.h struct ipoib_cm_data", 8, "IPoIB connected mode"
    carried_by = (CmService(IPOIB_CM_PREFIX, IPOIB_CM_MASK, frozenset({0x0010, 0x0013})),)
    reserved = pad(8, at="0")
    ud_qpn = qpn("UD QPN", at="1")
    receive_mtu = uint(32, "Receive MTU", at="4", unit="bytes")
