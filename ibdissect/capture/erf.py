"""ERF headers, in bare ERF files, and in ERF records inside pcap and pcapng (link type 197).

Header, 16 bytes: timestamp (little-endian 32.32 fixed point), type, flags, rlen, lctr, wlen (big-endian); an extension
header of 8 bytes follows while bit 7 of the type, or of the extension header before, is set. Sources: Endace ERF types
reference; checked against the public InfiniBand sample and tshark.
"""

from __future__ import annotations

import numpy as np

from ibdissect.capture.chunk import LINK_ERF, LINK_ETHERNET, Chunk
from ibdissect.capture.gather import Bytes, Ints, Words
from ibdissect.capture.record_starts import Mask, Stride
from ibdissect.capture.records import DAY, Records
from ibdissect.wire.encapsulation import ERF_ETHERNET

from . import gather

HEADER = 16
TYPE_PAD = 48
KNOWN = (*range(1, 26), 27, 28, 29, TYPE_PAD)
"""Defined record types; 28 and 29 are Omni-Path, 27 metadata, 48 padding."""

_SUBHEADER = np.zeros(128, np.int64)
_SUBHEADER[list(ERF_ETHERNET)] = 2  # offset and padding byte
_SUBHEADER[[5, 6, 7, 8, 9, 12, 17, 18]] = 4  # multi-channel header
_SKIP = np.tile(HEADER + _SUBHEADER, 2).astype(np.uint8)
_LINK = np.full((2, 128), LINK_ERF, np.uint8)
_LINK[:, ERF_ETHERNET] = LINK_ETHERNET
"""By the byte that holds the type: bytes before the frame (without extension headers), and link type of the frame."""
_KNOWN = np.zeros(128, np.bool_)
_KNOWN[list(KNOWN)] = True

WEEK = 7 * DAY


def erf_rows(raw: Bytes, headers: Ints, available: Ints, head: Words | None = None) -> Chunk:
    """Frames of the ERF records whose headers start at `headers` and that have `available` bytes, header included.

    `head`: the headers as columns, uint32[4, n] (`scattered.columns`), if already read.
    A record too short for its header becomes a row without bytes and without `pseudo`.
    """
    if head is None:
        head = gather.columns(raw, headers, (0, HEADER // 4))
    # Convert seconds and 2**-32 fractions separately: together they would overflow.
    fraction, second = head[0].view("<u4").astype(np.uint64), head[1].view("<u4").astype(np.int64)
    fraction *= 1_000_000_000
    fraction += 1 << 31
    fraction >>= 32
    second *= 1_000_000_000
    second += fraction.view(np.int64)
    time_ns = second
    kinds = head[2].view(np.uint8)[::4].copy()
    length = head[3].view(">u2")[1::2].astype(np.int64)
    interface = (head[2].view(np.uint8)[1::4] & 3).astype(np.uint16)
    skip = gather.looked_up(kinds, _SKIP).astype(np.int64)
    link = gather.looked_up(kinds, _LINK).astype(np.uint16)
    if int(kinds.max(initial=0)) & 0x80:
        more = np.flatnonzero(kinds & 0x80)
        skip[more] += _extension_bytes(raw, headers[more], available[more])
    captured = available - skip
    whole = captured >= 0
    pseudo = headers
    offset = headers + skip
    caplen = np.minimum(length, captured)
    if not whole.all():
        short = ~whole
        offset = np.where(short, headers + available, offset)
        header_cut = available < HEADER
        pseudo = np.where(short, -1, headers)
        caplen[short] = 0
        length[header_cut], time_ns[header_cut], interface[header_cut] = 0, 0, 0
        link[short] = LINK_ERF
    return Chunk(0, 0, raw, offset, caplen, length, time_ns, link, interface, pseudo)


def _extension_bytes(raw: Bytes, headers: Ints, available: Ints) -> Ints:
    """Total bytes of the extension headers of each record, at least one; at most one reaches beyond the record."""
    extra = np.zeros(len(headers), np.int64)
    open_ = np.arange(len(headers))
    while open_.size:
        at = HEADER + extra[open_]
        inside = at < available[open_]
        extra[open_] += 8
        open_, at = open_[inside], at[inside]
        open_ = open_[raw[headers[open_] + at] & 0x80 != 0]
    return extra


class ErfRecords(Records):
    """A bare ERF file: consecutive records of `rlen` bytes, no file header."""

    limit = 65535
    independent = True

    def __init__(self) -> None:
        super().__init__()
        self.note_link(LINK_ERF)

    @property
    def stride(self) -> Stride:
        return Stride(dtype=">u2", at=10, plus=0, least=HEADER, header=HEADER)

    def second_at(self, raw: Bytes, position: int) -> int | None:
        return int.from_bytes(raw[position + 4 : position + 8].tobytes(), "little")

    def likely(self, raw: Bytes, filled: int, positions: Ints, second: int | None) -> Mask:
        head = gather.gather(raw, positions, HEADER)
        rlen, wlen = head.view(">u2")[:, 5], head.view(">u2")[:, 7]
        good: Mask = _KNOWN[head[:, 8] & 0x7F] & (rlen > HEADER) & (wlen > 0)
        if second is not None:
            good &= np.abs(head.view("<u4")[:, 1].astype(np.int64) - second) <= DAY
        return good

    def fault(self, raw: Bytes, filled: int, starts: Ints, sizes: Ints) -> tuple[int, str]:
        head = gather.gather(raw, starts, HEADER)
        rlen, known = head.view(">u2")[:, 5], _KNOWN[head[:, 8] & 0x7F]
        bad = np.flatnonzero((rlen < HEADER) | ~known)
        if not bad.size:
            return len(starts), ""
        first = int(bad[0])
        if not known[first]:
            return first, f"no ERF record: type {int(head[first, 8]) & 0x7F}"
        return first, f"ERF record length {int(rlen[first])} is below {HEADER}"

    def rows(self, raw: Bytes, base: int, starts: Ints) -> Chunk:
        # Wireshark does not count padding records, but does count those with an extension header.
        starts = starts[raw[starts + 8] != TYPE_PAD]
        return erf_rows(raw, starts, self.stride.sizes(raw, starts))


def looks_like_erf(head: bytes, whole: bool) -> bool:
    """Whether `head`, the start of a file (or all of it, if `whole`), is a chain of ERF records; ERF has no magic number."""
    at, previous, seen = 0, -1, 0
    for _ in range(20):
        if at + HEADER > len(head):
            break
        kind, rlen = head[at + 8] & 0x7F, int.from_bytes(head[at + 10 : at + 12], "big")
        second = int.from_bytes(head[at + 4 : at + 8], "little")
        if kind not in KNOWN or rlen < HEADER:
            return False
        if head[at + 8] != TYPE_PAD:
            if rlen < HEADER + int(_SUBHEADER[kind]) or (previous >= 0 and not -1 <= second - previous <= WEEK):
                return False
            if at + rlen > len(head):
                break
            previous = second
            seen += 1
        at += rlen
    else:
        return seen > 0
    # Fewer than twenty records: at the end of the file, a cut-off last record is accepted only after two good ones.
    return seen > 0 and (at == len(head) or not whole or seen > 1)
