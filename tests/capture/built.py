"""Captures byte by byte: builders and plain readers that share nothing with the package."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ibdissect.capture.chunk import Reader
from ibdissect.capture.opening import open_capture

Row = tuple[int, int, int, bytes, int, int, bool]
"""time_ns, length, caplen, data, link, interface, has a pseudo-header."""

PCAP_MAGIC = {("<", False): 0xA1B2C3D4, (">", False): 0xA1B2C3D4, ("<", True): 0xA1B23C4D, (">", True): 0xA1B23C4D}


class Pipe(io.RawIOBase):
    """A stream without seek that returns pieces of many sizes, as from a slow writer."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.turn = data, 0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: the buffer protocol has no type before Python 3.12
        self.turn += 1
        size = min(len(buffer), (1, 700, 13, 40_000)[self.turn % 4])
        piece = self.data[self.at : self.at + size]
        buffer[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


@dataclass
class Packet:
    second: int
    sub: int
    """Nanoseconds below the second."""
    data: bytes
    more: int = 0
    """Bytes on the wire that were not captured."""


def pcap(packets: list[Packet], order: str = "<", nano: bool = True, link: int = 1) -> bytes:
    out = struct.pack(f"{order}IHHiIII", PCAP_MAGIC[order, nano], 2, 4, 0, 0, 65535, link)
    for packet in packets:
        sub = packet.sub if nano else packet.sub // 1000
        out += struct.pack(f"{order}IIII", packet.second, sub, len(packet.data), len(packet.data) + packet.more) + packet.data
    return out


def pcap_rows(packets: list[Packet], nano: bool = True, link: int = 1) -> list[Row]:
    return [
        (p.second * 10**9 + (p.sub if nano else p.sub // 1000 * 1000), len(p.data) + p.more, len(p.data), p.data, link, 0, False)
        for p in packets
    ]


def erf_record(
    data: bytes, *, second: int, fraction: int = 0, kind: int = 21, flags: int = 0, extensions: int = 0, wlen: int | None = None
) -> bytes:
    """One ERF record, padded to 8 bytes."""
    chain = b"".join(bytes([(0x80 if left else 0) | 3]) + bytes(7) for left in range(extensions - 1, -1, -1))
    body = chain + (b"\0\0" if kind in (2, 11, 16, 20) else b"") + data
    body += bytes(-len(body) % 8)
    head = struct.pack("<II", fraction, second) + bytes([kind | (0x80 if extensions else 0), flags])
    return head + struct.pack(">HHH", 16 + len(body), 0, len(data) if wlen is None else wlen) + body


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def options(order: str, *pairs: tuple[int, bytes]) -> bytes:
    out = b"".join(option(order, *pair) for pair in pairs)
    return out + struct.pack(f"{order}HH", 0, 0) if pairs else b""


def section(order: str = "<", options: bytes = b"") -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1) + options)


def interface(order: str, link: int, *pairs: tuple[int, bytes], snaplen: int = 0) -> bytes:
    return block(order, 1, struct.pack(f"{order}HHI", link, 0, snaplen) + options(order, *pairs))


def enhanced(order: str, index: int, ticks: int, data: bytes, *pairs: tuple[int, bytes], more: int = 0) -> bytes:
    body = struct.pack(f"{order}IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data) + more)
    return block(order, 6, body + data + bytes(-len(data) % 4) + options(order, *pairs))


def old_packet(order: str, index: int, ticks: int, data: bytes) -> bytes:
    body = struct.pack(f"{order}HHIIII", index, 0xFFFF, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(order, 2, body + data)


def simple(order: str, data: bytes, length: int | None = None) -> bytes:
    return block(order, 3, struct.pack(f"{order}I", len(data) if length is None else length) + data)


def rows_of(reader: Reader) -> list[Row]:
    """Every row a reader gives; frame numbers and bounds are checked on the way."""
    rows: list[Row] = []
    for chunk in reader.chunks():
        assert chunk.first == len(rows) + 1
        assert len(chunk) > 0
        assert (chunk.offset >= 0).all() and (chunk.caplen >= 0).all()
        assert (chunk.offset + chunk.caplen <= len(chunk.data)).all()
        for row in range(len(chunk)):
            rows.append(
                (
                    int(chunk.time_ns[row]),
                    int(chunk.length[row]),
                    int(chunk.caplen[row]),
                    chunk.frame_bytes(row),
                    int(chunk.link[row]),
                    int(chunk.interface[row]),
                    bool(chunk.pseudo[row] >= 0),
                )
            )
    return rows


def read(capture: bytes | Path, window: int = 1 << 24) -> tuple[list[Row], Reader]:
    source = str(capture) if isinstance(capture, Path) else io.BytesIO(capture)
    with open_capture(source, window=window) as reader:
        return rows_of(reader), reader


@dataclass
class Ng:
    """A pcapng under construction, with the rows that it must give."""

    blob: bytes = b""
    rows: list[Row] = field(default_factory=list)
    comments: dict[int, list[str]] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    """File position behind each frame."""
    links: set[int] = field(default_factory=set)


FAKE = struct.pack("<IIII", 1_600_000_000, 5, 20, 20)
"""A pcap record header that may lie in payload."""


def payloads() -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=90),
        st.builds(lambda a, b, n: a + FAKE * n + b, st.binary(max_size=9), st.binary(max_size=40), st.integers(1, 6)),
    )


def packets(seconds: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[list[Packet]]:
    if seconds is None:
        seconds = st.one_of(st.integers(1_600_000_000, 1_600_000_100), st.integers(0, 2**32 - 1))
    return st.lists(st.builds(Packet, seconds, st.integers(0, 999_999_999), payloads(), st.integers(0, 5000)), max_size=40)


@st.composite
def pcapngs(draw: st.DrawFn) -> Ng:
    """Sections of both byte orders with all kinds of blocks."""
    made, first = Ng(), 0
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.sampled_from("<>"))
        made.blob += section(order)
        links: list[tuple[int, int]] = []
        for _ in range(draw(st.integers(0, 25))):
            what = draw(st.sampled_from(["interface", "epb", "epb", "epb", "epb", "old", "simple", "other"]))
            data = draw(payloads())
            if what == "interface" or not links:
                link, snaplen = draw(st.sampled_from([1, 242, 247, 105])), draw(st.sampled_from([0, 20, 65535]))
                made.blob += interface(order, link, (2, b"ib0"), (9, b"\x09"), snaplen=snaplen)
                links.append((link, snaplen))
                made.links.add(link)
                continue
            if what == "other":
                made.blob += block(order, draw(st.sampled_from([4, 5, 10, 0xBAD, 0x1234])), data)
                continue
            index, ticks = draw(st.integers(0, len(links) - 1)), draw(st.integers(0, 4_600_000_000 * 10**9))
            number = len(made.rows) + 1
            if what == "epb":
                texts = draw(st.lists(st.text(max_size=8), max_size=2))
                more = draw(st.integers(0, 999))
                pairs = [(2, b"\0\0\0\x01"), *((1, text.encode()) for text in texts)]
                made.blob += enhanced(order, index, ticks, data, *pairs, more=more)
                if texts:
                    made.comments[number] = texts
                row = (ticks, len(data) + more, len(data), data)
            elif what == "old":
                made.blob += old_packet(order, index, ticks, data)
                row = (ticks, len(data), len(data), data)
            else:
                index, snaplen = 0, links[0][1] or 1 << 20
                made.blob += simple(order, data[:snaplen], len(data))
                row = (0, len(data), min(len(data), snaplen), data[:snaplen])
            made.rows.append((*row, links[index][0], first + index, False))
            made.ends.append(len(made.blob))
        first += len(links)
    return made
