"""What is the one-line summary of a frame without InfiniBand transport? Protocol names only; the tree has the details."""

from __future__ import annotations

from ibdissect.table import ChunkTable, Int
from ibdissect.wire import encapsulation
from ibdissect.wire.encapsulation import ETHERTYPES, IP_PROTOCOLS, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP
from ibdissect.wire.text import gid_text, ip4_text
from ibdissect.wire.ulp.ip import ICMP_TYPES, ICMPV6_TYPES
from ibdissect.wire.ulp.ipoib import fits

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
        header = (frame[at["ip4"]] & 15) * 4
        fragment = int.from_bytes(frame[at["ip4"] + 6 : at["ip4"] + 8], "big") & 0x1FFF
        if fragment:
            return "IPv4", f"Fragment at byte {fragment * 8} of protocol {frame[at['ip4'] + 9]}"
        return _ip(frame, frame[at["ip4"] + 9], at["ip4"] + header, "IPv4")
    if "ip6" in at:
        upper, start = frame[at["ip6"] + 6], at["ip6"] + 40
        if upper == 0 and start + 2 <= len(frame):  # hop-by-hop options, as in multicast listener reports
            upper, start = frame[start], start + 8 + frame[start + 1] * 8
        return _ip(frame, upper, start, "IPv6")
    if "lrh" in at:
        if "rwh" in at:
            number = int.from_bytes(frame[at["rwh"] + 2 : at["rwh"] + 4], "big")
            known = f" ({ETHERTYPES[number]})" if number in ETHERTYPES else ""
            return "RWH", f"Raw packet, Ethertype 0x{number:04x}{known}"
        return "InfiniBand", f"LRH with LNH {frame[at['lrh'] + 1] & 3}, {length} bytes"
    return _ethernet(frame, at, length, link)


def _ethernet(frame: bytes, at: dict[str, int], length: int, link: int) -> tuple[str, str]:
    tag = max((at[name] for name in ("vlan", "vlan2", "vlan3") if name in at), default=None)
    if tag is not None:
        type_at, payload = tag + 2, tag + 4
    elif "eth" in at:
        type_at, payload = at["eth"] + 12, at["eth"] + 14
    elif "sll" in at:
        type_at, payload = at["sll"] + 14, at["sll"] + 16
    elif "sll2" in at:
        type_at, payload = at["sll2"], at["sll2"] + 20
    else:
        return "Data", f"{length} bytes, link type {link}"
    number = int.from_bytes(frame[type_at : type_at + 2], "big")
    body = frame[payload:]
    if number == encapsulation.ETHERTYPE_ARP and len(body) >= 28:
        sender, target = (ip4_text(body[i : i + 4]) for i in (14, 24))
        if body[7] == 2:
            return "ARP", f"{sender} is at {body[8:14].hex(':')}"
        return "ARP", f"Who has {target}? Tell {sender}" if body[7] == 1 else f"operation {body[7]}"
    if number < LLC_LIMIT:
        return "LLC", f"{number} bytes"
    name = ETHERTYPES.get(number)
    return (name or "Ethernet"), (f"{length} bytes" if name else f"Ethertype 0x{number:04x}, {length} bytes")


def _ip(frame: bytes, upper: int, at: int, family: str) -> tuple[str, str]:
    body = frame[at:]
    if upper in (PROTOCOL_TCP, PROTOCOL_UDP) and len(body) >= 4:
        source, destination = int.from_bytes(body[:2], "big"), int.from_bytes(body[2:4], "big")
        if upper == PROTOCOL_UDP:
            size = int.from_bytes(body[4:6], "big") - 8 if len(body) >= 6 else 0
            return "UDP", f"{source} → {destination} len {max(size, 0)}"
        flags = [name for bit, name in TCP_FLAGS if len(body) >= 14 and body[13] & bit]
        return "TCP", f"{source} → {destination} [{', '.join(flags)}]"
    if upper in (PROTOCOL_ICMP, PROTOCOL_ICMPV6) and body:
        names = ICMP_TYPES if upper == PROTOCOL_ICMP else ICMPV6_TYPES
        return ("ICMP" if upper == PROTOCOL_ICMP else "ICMPv6"), names.get(body[0], f"type {body[0]}")
    return IP_PROTOCOLS.get(upper, family), f"protocol {upper}"


def ipoib(message: bytes) -> str | None:
    """The summary of a message behind whose IPoIB header exactly one packet of its Type follows; else None."""
    number, body = int.from_bytes(message[:2], "big"), message[4:]
    if not fits(number, body):
        return None
    if number == encapsulation.ETHERTYPE_IPV4:
        protocol, info = _ip(body, body[9], (body[0] & 15) * 4, "IPv4")
        return f"{protocol} {info} {ip4_text(body[12:16])} → {ip4_text(body[16:20])}"
    if number == encapsulation.ETHERTYPE_IPV6:
        protocol, info = _ip(body, body[6], 40, "IPv6")
        return f"{protocol} {info} {gid_text(body[8:24])} → {gid_text(body[24:40])}"
    sender, target = ip4_text(body[28:32]), ip4_text(body[52:56])
    return f"ARP {sender} is at {body[8:28].hex()}" if body[7] == 2 else f"ARP Who has {target}? Tell {sender}"
