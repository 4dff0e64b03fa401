"""The one-line summary of frames without InfiniBand transport. Protocol names only; the tree has the details."""

from __future__ import annotations

from ibdissect.decode import ChunkTable, Int
from ibdissect.wire import encapsulation
from ibdissect.wire.cut import field_of, number_of
from ibdissect.wire.encapsulation import (
    ETHERTYPES,
    IP_PROTOCOLS,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    SLL,
    SLL2,
    UDP,
    VLAN,
    Ethernet,
    IPv4,
    IPv6,
)
from ibdissect.wire.headers import LRH, RWH
from ibdissect.wire.text import gid_text, ip4_text
from ibdissect.wire.ulp.ip import ICMP, ICMP_TYPES, ICMPV6_TYPES, TCP
from ibdissect.wire.ulp.ipoib import IPoIB, IPoIBAddressResolution, fits

LLC_LIMIT = 1536
"""Lower Ethertypes are lengths (IEEE 802.3 3.2.6)."""
TCP_FLAGS = ((2, "SYN"), (1, "FIN"), (4, "RST"), (8, "PSH"), (16, "ACK"))


def fill(table: ChunkTable, rows: Int, position: list[int], protocols: list[str], infos: list[str]) -> None:
    located, chunk = table.located, table.chunk
    for row, place in zip(rows.tolist(), position, strict=True):
        start = int(chunk.offset[row])
        frame = chunk.data[start : start + int(chunk.caplen[row])].tobytes()
        if asked := _pause(table, row):
            protocols[place], infos[place] = asked
            continue
        where = {name: int(column[row]) - start for name, column in located.start.items() if column[row] >= 0}
        protocols[place], infos[place] = _line(frame, where, int(chunk.length[row]), int(chunk.link[row]))


def _pause(table: ChunkTable, row: int) -> tuple[str, str] | None:
    """The name of a pause frame, and what it asks for: `pause priority 3 for 65535 quanta, resume priority 4`. None if it is none."""
    if (at := int(table.first(encapsulation.PriorityPause)[row])) >= 0:
        kinds = zip(range(len(encapsulation.PAUSED)), encapsulation.PAUSED, encapsulation.PAUSE_TIMES, strict=True)
        told = [(f"priority {number}", int(table.values(time)[at])) for number, paused, time in kinds if table.values(paused)[at]]
    elif (at := int(table.first(encapsulation.Pause)[row])) >= 0:
        told = [("the link", int(table.values(encapsulation.Pause.time)[at]))]
    else:
        return None
    name = "Pause" if table.first(encapsulation.PriorityPause)[row] < 0 else encapsulation.PriorityPause.title
    return name, ", ".join(f"pause {what} for {quanta} quanta" if quanta else f"resume {what}" for what, quanta in told) or "no priority"


def _line(frame: bytes, at: dict[str, int], length: int, link: int) -> tuple[str, str]:
    if "ip4" in at:
        start = at["ip4"]
        fragment, protocol = number_of(frame, IPv4.fragment_offset, start), number_of(frame, IPv4.protocol, start)
        if fragment:
            return "IPv4", f"Fragment at byte {fragment * 8} of protocol {protocol}"
        return _ip(frame, protocol, start + number_of(frame, IPv4.header_length, start) * 4, "IPv4")
    if "ip6" in at:
        upper, start = number_of(frame, IPv6.next_header, at["ip6"]), at["ip6"] + IPv6.size
        if upper == 0 and start + 2 <= len(frame):  # hop-by-hop options, as in multicast listener reports
            upper, start = frame[start], start + 8 + frame[start + 1] * 8
        return _ip(frame, upper, start, "IPv6")
    if "lrh" in at:
        if "rwh" in at:
            number = number_of(frame, RWH.etype, at["rwh"])
            known = f" ({ETHERTYPES[number]})" if number in ETHERTYPES else ""
            return "RWH", f"Raw packet, Ethertype 0x{number:04x}{known}"
        return "InfiniBand", f"LRH with LNH {number_of(frame, LRH.lnh, at['lrh'])}, {length} bytes"
    return _ethernet(frame, at, length, link)


def _ethernet(frame: bytes, at: dict[str, int], length: int, link: int) -> tuple[str, str]:
    tag = max((at[name] for name in ("vlan", "vlan2", "vlan3") if name in at), default=None)
    if tag is not None:
        kind, start = VLAN.type, tag
    elif (known := next((one for one in (Ethernet.type, SLL.type, SLL2.type) if one.owner.key in at), None)) is not None:
        kind, start = known, at[known.owner.key]
    else:
        return "Data", f"{length} bytes, link type {link}"
    number, body = number_of(frame, kind, start), frame[start + kind.owner.size :]
    if number == encapsulation.ETHERTYPE_ARP and len(body) >= encapsulation.ARP_SIZE:
        operation = int.from_bytes(body[encapsulation.ARP_OPERATION], "big")
        sender, target = ip4_text(body[encapsulation.ARP_SENDER]), ip4_text(body[encapsulation.ARP_TARGET])
        if operation == encapsulation.ARP_REPLY:
            return "ARP", f"{sender} is at {body[encapsulation.ARP_SENDER_MAC].hex(':')}"
        return "ARP", f"Who has {target}? Tell {sender}" if operation == encapsulation.ARP_REQUEST else f"operation {operation}"
    if number < LLC_LIMIT:
        return "LLC", f"{number} bytes"
    name = ETHERTYPES.get(number)
    return (name or "Ethernet"), (f"{length} bytes" if name else f"Ethertype 0x{number:04x}, {length} bytes")


def _ip(frame: bytes, upper: int, at: int, family: str) -> tuple[str, str]:
    body = frame[at:]
    ports = field_of(body, UDP.source_port), field_of(body, UDP.destination_port)
    if upper in (PROTOCOL_TCP, PROTOCOL_UDP) and None not in ports:
        source, destination = ports
        if upper == PROTOCOL_UDP:
            return "UDP", f"{source} → {destination} len {max(number_of(body, UDP.length) - UDP.size, 0)}"
        set_ = number_of(body, TCP.flags)
        flags = [name for bit, name in TCP_FLAGS if set_ & bit]
        return "TCP", f"{source} → {destination} [{', '.join(flags)}]"
    if upper in (PROTOCOL_ICMP, PROTOCOL_ICMPV6) and body:
        names = ICMP_TYPES if upper == PROTOCOL_ICMP else ICMPV6_TYPES
        return ("ICMP" if upper == PROTOCOL_ICMP else "ICMPv6"), names.get(kind := number_of(body, ICMP.type), f"type {kind}")
    return IP_PROTOCOLS.get(upper, family), f"protocol {upper}"


def ipoib(message: bytes) -> str | None:
    """The summary of a message behind whose IPoIB header exactly one packet of its Type follows; else None."""
    number, body = number_of(message, IPoIB.type), message[IPoIB.size :]
    if not fits(number, body):
        return None
    if number == encapsulation.ETHERTYPE_IPV4:
        ip4 = IPv4(body)
        protocol, info = _ip(body, ip4.protocol, ip4.header_length * 4, "IPv4")
        return f"{protocol} {info} {ip4_text(ip4.source)} → {ip4_text(ip4.destination)}"
    if number == encapsulation.ETHERTYPE_IPV6:
        ip6 = IPv6(body)
        protocol, info = _ip(body, ip6.next_header, IPv6.size, "IPv6")
        return f"{protocol} {info} {gid_text(ip6.source)} → {gid_text(ip6.destination)}"
    arp = IPoIBAddressResolution(body)
    sender, target = ip4_text(arp.sender_ip), ip4_text(arp.target_ip)
    if arp.operation == encapsulation.ARP_REPLY:
        hardware = body[IPoIBAddressResolution.sender_flags.span[0] : IPoIBAddressResolution.sender_ip.span[0]]
        return f"ARP {sender} is at {hardware.hex()}"
    return f"ARP Who has {target}? Tell {sender}"
