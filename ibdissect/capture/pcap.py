"""Records of pcap files: both byte orders, microseconds and nanoseconds, ERF inside (link type 197)."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ibdissect.capture import erf
from ibdissect.capture.chunk import AHEAD, FRONT, LINK_ERF, LINK_ETHERNET, LINK_NAMES, Chunk
from ibdissect.capture.gather import Bytes, Ints
from ibdissect.capture.record_starts import Mask, Stride
from ibdissect.capture.records import DAY, LONGEST, Records
from ibdissect.errors import CaptureError

from . import gather

MAGICS = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000), b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}
"""First four bytes -> byte order and nanoseconds per unit of the sub-second field."""
MODIFIED = (b"\x34\xcd\xb2\xa1", b"\xa1\xb2\xcd\x34")
"""Alexey Kuznetzov's patched libpcap: longer record headers, not supported."""
FILE_HEADER = 24
HEADER = 16

OTHER_LINKS = {
    105: "IEEE 802.11", 119: "IEEE 802.11 Prism", 127: "IEEE 802.11 radiotap", 187: "Bluetooth HCI", 189: "USB",
    195: "IEEE 802.15.4", 220: "USB Linux", 227: "CAN", 249: "USBPcap", 253: "netlink",
}  # fmt: skip
"""Link types that carry no InfiniBand: beside others in a pcapng their frames are not missed (tcpdump.org's list of link types)."""
UNREAD_LINKS = {147: "user 0", 192: "PPI", 252: "Wireshark export"}
"""Link types that might carry it, but are not read."""


def no_infiniband(path: str, link: int) -> CaptureError:
    """The error for a link type that cannot carry InfiniBand."""
    name = (OTHER_LINKS | UNREAD_LINKS).get(link)
    return CaptureError(path, f"link type {link}{f' ({name})' if name else ''} carries no InfiniBand")


class PcapRecords(Records):
    """A pcap file; `head` is its file header of 24 bytes."""

    limit = HEADER + LONGEST
    independent = True

    def __init__(self, head: bytes, path: str) -> None:
        super().__init__()
        if len(head) < FILE_HEADER:
            raise CaptureError(path, f"the pcap header is cut off ({len(head)} of {FILE_HEADER} bytes)")
        self.order, self.unit = MAGICS[head[:4]]
        # The upper half of the field holds the length of a frame check sequence.
        self.link = int.from_bytes(head[20:24], "little" if self.order == "<" else "big") & 0xFFFF
        if self.link not in LINK_NAMES:
            raise no_infiniband(path, self.link)
        self.start = FILE_HEADER
        self.note_link(self.link)

    @property
    def stride(self) -> Stride:
        return Stride(dtype=f"{self.order}u4", at=8, plus=HEADER, least=HEADER, header=HEADER)

    def second_at(self, raw: Bytes, position: int) -> int | None:
        return int.from_bytes(raw[position : position + 4].tobytes(), "little" if self.order == "<" else "big")

    def likely(self, raw: Bytes, filled: int, positions: Ints, second: int | None) -> Mask:
        head = gather.gather(raw, positions, HEADER).view(f"{self.order}u4")
        caplen, length = head[:, 2], head[:, 3]
        good = (caplen > 0) & (caplen <= length) & (length <= LONGEST) & (head[:, 1] < 1_000_000_000 // self.unit)
        if second is not None:
            good &= np.abs(head[:, 0].astype(np.int64) - second) <= DAY
        return good

    def fault(self, raw: Bytes, filled: int, starts: Ints, sizes: Ints) -> tuple[int, str]:
        bad = np.flatnonzero(sizes > self.limit)
        if not bad.size:
            return len(starts), ""
        first = int(bad[0])
        return first, f"captured length {int(sizes[first]) - HEADER} is impossible (at most {LONGEST})"

    def rows(self, raw: Bytes, base: int, starts: Ints) -> Chunk:
        near = int(starts[-1]) + HEADER + FRONT <= len(raw)
        ahead = AHEAD if self.link == LINK_ETHERNET else 0
        size = FRONT if near else erf.HEADER if self.link == LINK_ERF else 0
        words = gather.columns(raw, starts, (0, HEADER // 4), (HEADER - ahead, size // 4))
        head, front = words[: HEADER // 4].view(f"{self.order}u4"), words[HEADER // 4 :]
        caplen = head[2].astype(np.int64)
        if self.link == LINK_ERF:
            rows = erf.erf_rows(raw, starts + HEADER, caplen, front[: erf.HEADER // 4])
            cut = np.flatnonzero(caplen < erf.HEADER)
            rows.time_ns[cut] = head[0, cut].astype(np.int64) * 1_000_000_000 + head[1, cut].astype(np.int64) * self.unit
            return replace(rows, front=front) if near and len(cut) == 0 and int(rows.pseudo.min()) >= 0 else rows
        time_ns = head[0].astype(np.int64) * 1_000_000_000 + head[1].astype(np.int64) * self.unit
        count = len(starts)
        return Chunk(
            0, base, raw, starts + HEADER, caplen, head[3].astype(np.int64), time_ns, link=np.full(count, self.link, np.uint16),
            interface=np.zeros(count, np.uint16), pseudo=np.full(count, -1, np.int64), front=front if near else None,
        )  # fmt: skip
