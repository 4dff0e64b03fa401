"""Changed captures: cut, mirrored, tagged, wrapped in a tunnel, fragmented, or recorded with a clock that steps back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from tests.independent_packets import records

Record = tuple[int, int, bytes]
"""Time in nanoseconds, length on the wire, bytes."""


def written(some: list[Record], link: int = 1) -> bytes:
    """The records as a pcap file with nanoseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link)]
    for time, length, data in some:
        parts += [struct.pack("<4I", time // 10**9, time % 10**9, len(data), length), data]
    return b"".join(parts)


def ethernet(path: Path) -> list[Record] | None:
    """The records of a capture of Ethernet; None for other captures."""
    every = list(records(str(path)))
    return [(time, length, data) for time, length, data, _ in every] if every and {one[3] for one in every} == {1} else None


def cut(size: int) -> Callable[[list[Record]], list[Record]]:
    return lambda some: [(time, length, data[:size]) for time, length, data in some]


def mirrored(some: list[Record]) -> list[Record]:
    """Each frame twice, 200 ns apart."""
    return [one for time, length, data in some for one in ((time, length, data), (time + 200, length, data))]


def mirrored_thrice(some: list[Record]) -> list[Record]:
    """Each frame three times, by mirrors that are some 100 ns apart."""
    return [(time + 150 * i, length, data) for time, length, data in some for i in range(3)]


def mirrored_and_cut(some: list[Record]) -> list[Record]:
    return mirrored(cut(66)(some))


def two_tags(some: list[Record]) -> list[Record]:
    """QinQ."""
    return [(time, length + 8, data[:12] + b"\x88\xa8\x00\x64\x81\x00\x00\x2a" + data[12:]) for time, length, data in some]


def mirrored_with_tag(some: list[Record]) -> list[Record]:
    """Each frame twice, the second time with a VLAN tag."""
    tagged = vlan(some)
    return [one for pair in zip(some, ((time + 300, *rest) for time, *rest in tagged), strict=True) for one in pair]


def mirrored_with_tag_and_cut(some: list[Record]) -> list[Record]:
    """Cut behind its tag, the second one shows four bytes less of the packet."""
    return cut(70)(mirrored_with_tag(some))


def vlan(some: list[Record]) -> list[Record]:
    return [(time, length + 4, data[:12] + b"\x81\x00\x00\x2a" + data[12:]) for time, length, data in some]


def _behind(some: list[Record], protocol: int, between: bytes) -> list[Record]:
    """Whole frames in an outer IPv4 packet."""
    found = []
    for time, length, data in some:
        size = 20 + len(between) + length
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, protocol, 0, b"\xac\x10\0\1", b"\xac\x10\0\2")
        found.append((time, length + 34 + len(between), bytes(12) + b"\x08\x00" + head + between + data))
    return found


def vxlan(some: list[Record]) -> list[Record]:
    found = []
    for one in some:
        length = 16 + one[1]
        found += _behind([one], 17, struct.pack(">4H", 40000, 4789, length, 0) + b"\x08\0\0\0\0\0\x05\0")
    return found


def geneve(some: list[Record]) -> list[Record]:
    found = []
    for one in some:
        found += _behind([one], 17, struct.pack(">4H", 40000, 6081, 16 + one[1], 0) + b"\0\0\x65\x58\0\0\x05\0")
    return found


def geneve_in_ipv6(some: list[Record]) -> list[Record]:
    """With options of eight bytes, in a VLAN."""
    found = []
    for time, length, data in some:
        udp = struct.pack(">4H", 40000, 6081, 24 + length, 0) + b"\x02\0\x65\x58\0\0\x05\0" + b"\x01\x03\x80\x01abcd"
        head = struct.pack(">IHBB", 0x60000000, 24 + length, 17, 64) + bytes(15) + b"\1" + bytes(15) + b"\2"
        found.append((time, length + 14 + 4 + 40 + 24, bytes(12) + b"\x81\0\0\x07\x86\xdd" + head + udp + data))
    return found


def gre(some: list[Record]) -> list[Record]:
    return _behind(some, 47, b"\0\0\x65\x58")


def out_of_order(some: list[Record]) -> list[Record]:
    """Fragments, of each packet the second one first."""
    return fragmented(some, -1)


def fragmented(some: list[Record], order: int = 1) -> list[Record]:
    """IPv4 packets of more than 576 bytes in two fragments."""
    found = []
    for time, length, data in some:
        if data[12:14] != b"\x08\x00" or length < 600 or len(data) < length or data[20] & 0x3F:
            found.append((time, length, data))
            continue
        head, body = data[14:34], data[34 : 14 + int.from_bytes(data[16:18], "big")]
        for start, part in ((0, body[:512]), (512, body[512:]))[::order]:
            flags = (0x2000 if not start else 0) | start // 8
            ip = head[:2] + struct.pack(">H", 20 + len(part)) + head[4:6] + struct.pack(">H", flags) + head[8:]
            found.append((time, 34 + len(part), data[:14] + ip + part))
    return found


def set_back(some: list[Record]) -> list[Record]:
    """From the middle on an hour earlier."""
    return [(time - 3600 * 10**9 * (2 * i >= len(some)), length, data) for i, (time, length, data) in enumerate(some)]


def stepping(some: list[Record]) -> list[Record]:
    """Each tenth frame two seconds earlier than it was, and again and again an hour."""
    return [(time - 2 * 10**9 * (i % 10 == 9) - 3600 * 10**9 * (i // 40), length, data) for i, (time, length, data) in enumerate(some)]


CHANGES: dict[str, Callable[[list[Record]], list[Record]]] = {
    **{f"cut at {size}": cut(size) for size in (54, 58, 64, 70, 74, 80, 96, 100, 128)},
    "cut at 66 and mirrored": mirrored_and_cut, "mirrored thrice": mirrored_thrice, "QinQ": two_tags, "GENEVE in IPv6": geneve_in_ipv6,
    "fragments out of order": out_of_order, "stepping back": stepping,
    "mirrored": mirrored, "mirrored with a tag": mirrored_with_tag, "mirrored with a tag and cut": mirrored_with_tag_and_cut,
    "VLAN": vlan, "VXLAN": vxlan, "GENEVE": geneve, "GRE": gre,
    "fragmented": fragmented, "set back": set_back,
}  # fmt: skip
