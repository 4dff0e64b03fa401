"""Blocks of pcapng files: sections of either byte order, interfaces, three kinds of packet blocks.

Source: the pcapng specification (draft-ietf-opsawg-pcapng): every block is type, length, body, length again.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from ibdissect.capture import erf, record_starts
from ibdissect.capture.chunk import LINK_ERF, LINK_NAMES, Chunk, Damage
from ibdissect.capture.gather import Bytes, Ints
from ibdissect.capture.interfaces import Interfaces, Ticks
from ibdissect.capture.pcap import OTHER_LINKS
from ibdissect.capture.record_starts import Mask, Stride
from ibdissect.capture.records import LONGEST, Records
from ibdissect.errors import CaptureError

from . import gather

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
KNOWN = (SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, 4, 5, PACKET, 7, 8, 9, 10, 0xBAD, 0x40000BAD)
BYTE_ORDER_MAGIC = 0x1A2B3C4D
MAGIC = b"\x0a\x0d\x0d\x0a"
HEADER = 12
"""Type, length and, in a section header, the byte-order magic; no block is shorter."""
PACKET_HEADER, SECTION_HEADER = 28, 24
LONGEST_BLOCK = 16 << 20
MAX_INTERFACES = 65536
MAX_ORDERS = 4096
"""Changes of byte order between sections; limited because each costs a step. Files joined by `cat` have few."""
MAX_OPTIONS = 100
"""Options searched for comments per block."""
OPT_COMMENT = 1
SPAN = 256
"""Bytes walked first in a section, then eight times more each step: the next section may come soon and swap the byte order."""


def order_of(head: bytes, path: str) -> str:
    """Byte order, `<` or `>`, of the section header at the start of `head`."""
    for order in "<>":
        if len(head) >= HEADER and struct.unpack_from(f"{order}I", head, 8)[0] == BYTE_ORDER_MAGIC:
            return order
    if len(head) < HEADER:
        raise CaptureError(path, f"the pcapng section header is cut off ({len(head)} bytes)")
    raise CaptureError(path, "the pcapng section header has no byte-order magic", offset=8)


class PcapngRecords(Records):
    """A pcapng file; `head` starts with its first section header."""

    limit = LONGEST_BLOCK

    def __init__(self, head: bytes, path: str) -> None:
        super().__init__()
        self.order = order_of(head, path)
        self.interfaces = Interfaces()
        self.section = 0
        """File-wide index of the section's first interface."""
        self.span = SPAN
        self._unknown: set[int] = set()
        """Unknown link types of which there were frames."""
        self.orders = 0
        """Number of changes of byte order."""

    @property
    def stride(self) -> Stride:
        return Stride(dtype=f"{self.order}u4", at=4, plus=0, least=HEADER, header=HEADER)

    def second_at(self, raw: Bytes, position: int) -> int | None:
        return None

    def likely(self, raw: Bytes, filled: int, positions: Ints, second: int | None) -> Mask:
        head = gather.gather(raw, positions, 8).view(f"{self.order}u4")
        size = head[:, 1].astype(np.int64)
        good: Mask = (size >= HEADER) & (size % 4 == 0) & (size <= LONGEST + 4096) & np.isin(head[:, 0], KNOWN)
        good &= positions + size <= filled
        good[good] = self._trailers(raw, positions[good], size[good]) == size[good]
        return good

    def _trailers(self, raw: Bytes, starts: Ints, sizes: Ints) -> Ints:
        trailers: Ints = gather.unaligned(raw, f"{self.order}u4")[starts + sizes - 4].astype(np.int64)
        return trailers

    def complete(self, raw: Bytes, filled: int, at: int) -> tuple[Ints, int, str, bool]:
        if at + HEADER > filled:
            return np.empty(0, np.int64), at, "", False
        stop = min(filled, max(at + self.span, at + HEADER))
        starts, after = record_starts.walk(raw, at, stop, self.stride)
        other = ">" if self.order == "<" else "<"
        swapped = self._blocks(raw, starts, SECTION) & (gather.unaligned(raw, f"{other}u4")[starts + 8] == BYTE_ORDER_MAGIC)
        if swapped.any():
            cut = int(np.argmax(swapped))
            if cut == 0:
                self.order, self.span, self.orders = other, SPAN, self.orders + 1
                return starts[:0], at, "", True
            starts, after = starts[:cut], int(starts[cut])
        self.span = min(self.span * 8, LONGEST_BLOCK * 8)
        starts, after, reason, again = self.checked(raw, filled, starts, after)
        # The walk may have stopped at the span, before the end of the window.
        return starts, after, reason, again or (not self.need and after + HEADER <= filled)

    def _blocks(self, raw: Bytes, starts: Ints, kind: int) -> Mask:
        found: Mask = gather.unaligned(raw, f"{self.order}u4")[starts] == kind
        return found

    def fault(self, raw: Bytes, filled: int, starts: Ints, sizes: Ints) -> tuple[int, str]:
        length = gather.unaligned(raw, f"{self.order}u4")[starts + 4].astype(np.int64)
        section = self._blocks(raw, starts, SECTION)
        magic = gather.unaligned(raw, f"{self.order}u4")[starts + 8] == BYTE_ORDER_MAGIC
        bad = (length < HEADER) | (length % 4 != 0) | (length > LONGEST_BLOCK) | (section & ~magic)
        whole = ~bad & (starts + sizes <= filled)
        bad[whole] = self._trailers(raw, starts[whole], sizes[whole]) != sizes[whole]
        if not bad.any():
            return len(starts), ""
        first = int(np.argmax(bad))
        if section[first] and not magic[first]:
            return first, "section header without byte-order magic"
        if whole[first]:
            return first, f"the two lengths of a block differ (the first is {int(length[first])})"
        return first, f"block length {int(length[first])} is impossible"

    def rows(self, raw: Bytes, base: int, starts: Ints) -> Chunk:
        kind = gather.unaligned(raw, f"{self.order}u4")[starts].astype(np.int64)
        described = np.cumsum(kind == INTERFACE) + len(self.interfaces)
        section = np.maximum.accumulate(np.where(kind == SECTION, described, self.section))
        sizes = self.stride.sizes(raw, starts)
        for start, size in zip(starts[kind == INTERFACE].tolist(), sizes[kind == INTERFACE].tolist(), strict=True):
            described_by = raw[start + 8 : start + max(16, size - 4)].tobytes()
            self.interfaces.describe(described_by, "little" if self.order == "<" else "big")
            self.note_link(int(self.interfaces.columns["link"][-1]))
        headers = starts[kind == SECTION]
        if headers.size:
            of_capture = np.full(len(headers), -1 - self.frames)
            self._read_comments(raw, of_capture, headers + SECTION_HEADER, headers + sizes[kind == SECTION] - 4)
        self.section = int(section[-1])
        if len(self.interfaces) > MAX_INTERFACES:
            self._damaged(base + int(starts[-1]), f"more than {MAX_INTERFACES} interfaces")
            self.stopped = True
        if self.orders > MAX_ORDERS:
            self._damaged(base + int(starts[-1]), f"the byte order changed more than {MAX_ORDERS} times")
            self.stopped = True
        packet = (kind == PACKET) | (kind == OLD_PACKET) | (kind == SIMPLE_PACKET)
        return self._packets(raw, base, starts[packet], sizes[packet], kind[packet], section[packet], described[packet])

    def _packets(self, raw: Bytes, base: int, starts: Ints, sizes: Ints, kind: Ints, section: Ints, described: Ints) -> Chunk:
        head = gather.gather(raw, starts, PACKET_HEADER).view(f"{self.order}u4").astype(np.int64)
        simple = kind == SIMPLE_PACKET
        within = np.where(kind == OLD_PACKET, head[:, 2] >> 16 if self.order == ">" else head[:, 2] & 0xFFFF, head[:, 2])
        interface = section + np.where(simple, 0, within)
        ticks = head[:, 3].astype(np.uint64) << np.uint64(32) | head[:, 4].astype(np.uint64)
        caplen, length, data = head[:, 5], head[:, 6], np.full(len(starts), PACKET_HEADER, np.int64)
        good = (interface < described) & (interface < MAX_INTERFACES)
        if simple.any():
            self._simple(head, simple, good, interface, sizes, caplen, length, data)
            ticks[simple] = 0
        # The trailing length is 4 bytes; padding and options precede it.
        good &= (caplen <= sizes - data - 4) & (caplen <= LONGEST)
        if not good.all():
            for index in np.flatnonzero(~good).tolist():
                what = "no such interface" if interface[index] >= described[index] else "captured length beyond the block"
                place, before = base + int(starts[index]), int(np.count_nonzero(good[:index]))
                self._damaged(place, f"packet block: {what}", place + int(sizes[index]), before)
                if self.stopped:
                    good[index:] = False
                    break
        if not good.all():
            kept = np.flatnonzero(good)
            starts, sizes, data, caplen, length = starts[kept], sizes[kept], data[kept], caplen[kept], length[kept]
            interface, ticks, simple = interface[kept], ticks[kept], simple[kept]
        optioned = ~simple & (sizes - 4 - data - (caplen + 3 & ~3) >= 4)
        if optioned.any():
            rows = np.flatnonzero(optioned)
            self._read_comments(raw, rows, (starts + data + (caplen + 3 & ~3))[rows], (starts + sizes - 4)[rows])
        return self._frames(raw, starts + data, caplen, length, interface, ticks, simple)

    def _simple(self, head: Ints, simple: Mask, good: Mask, interface: Ints, sizes: Ints, caplen: Ints, length: Ints, data: Ints) -> None:
        """Simple packets: no time, first interface of the section, captured length limited by its snap length."""
        original = head[simple, 2]
        limit = np.full(len(original), LONGEST)
        known = good[simple]
        limit[known] = self.interfaces.columns["snaplen"][interface[simple][known]]
        limit[limit == 0] = LONGEST
        # Without a snap length the captured length is limited by the block.
        caplen[simple] = np.minimum(np.minimum(original, limit), sizes[simple] - 16)
        length[simple], data[simple] = original, 12

    def _frames(
        self, raw: Bytes, offset: Ints, caplen: Ints, length: Ints, interface: Ints, ticks: Ticks,
        simple: Mask,
    ) -> Chunk:  # fmt: skip
        time_ns = self.interfaces.nanoseconds(interface, ticks)
        time_ns[simple] = 0
        link = self.interfaces.columns["link"][interface].astype(np.uint16)
        self._say_unknown(link)
        pseudo = np.full(len(offset), -1, np.int64)
        rows = Chunk(0, 0, raw, offset, caplen, length, time_ns, link, interface.astype(np.uint16), pseudo, interfaces=self.interfaces)
        inside = np.flatnonzero(link == LINK_ERF)
        if inside.size:
            found = erf.erf_rows(raw, offset[inside], caplen[inside])
            for column in ("offset", "caplen", "length", "link", "pseudo"):
                getattr(rows, column)[inside] = getattr(found, column)
            within = found.time_ns - time_ns[inside]  # mergecap 4.0 writes whole seconds in the blocks of ERF records
            finer = inside[(found.pseudo >= 0) & (within > 0) & (within < self.interfaces.ticks_ns()[interface[inside]])]
            time_ns[finer] += within[np.searchsorted(inside, finer)]
        return rows

    def _say_unknown(self, links: npt.NDArray[np.uint16]) -> None:
        """Frames of a link type that nobody here knows are not read: InfiniBand may be in them. Said once for each type."""
        if all(link in LINK_NAMES or link in OTHER_LINKS for link in self.link_types):
            return
        for link in np.unique(links).tolist():
            if link not in LINK_NAMES and link not in OTHER_LINKS and link not in self._unknown:
                self._unknown.add(link)
                reason = f"frames of link type {link} are not read: it is not known what they carry"
                self.add_damage(Damage(kind="unreadable", offset=0, frame=self.frames, reason=reason))

    def _read_comments(self, raw: Bytes, rows: Ints, at: Ints, stop: Ints) -> None:
        """Collect the comments in the options of all blocks, one option of each at a time; row r is frame `frames` + 1 + r."""
        short = gather.unaligned(raw, f"{self.order}u2")
        for _ in range(MAX_OPTIONS):
            inside = at + 4 <= stop
            rows, at, stop = rows[inside], at[inside], stop[inside]
            if not rows.size:
                return
            code, size = short[at].astype(np.int64), short[at + 2].astype(np.int64)
            for index in np.flatnonzero((code == OPT_COMMENT) & (at + 4 + size <= stop)).tolist():
                start = int(at[index]) + 4
                text = raw[start : start + int(size[index])].tobytes().decode("utf-8", "replace")
                self.comments.note(self.frames + 1 + int(rows[index]), text)
            going = code != 0
            rows, at, stop = rows[going], (at + 4 + (size + 3 & ~3))[going], stop[going]

    def _damaged(self, offset: int, reason: str, resumed: int | None = None, before: int = 0) -> None:
        frame = self.frames + before
        self.add_damage(Damage(kind="damaged", offset=offset, frame=frame, reason=reason, resumed=resumed))
