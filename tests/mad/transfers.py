"""RMPP transfers as tests send them, segment by segment, and what is put together of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ibdissect.mad.rmpp_reassembly import Transfers
from tests.craft import erf_pcap, gmp
from tests.decode.made import tables_of

STEP, ROOM = 112, 200
"""Bytes of a record, and of a segment's data."""
AT = 84
"""Where the data of a segment starts in its frame."""


def segment(
    number: int, flags: int, length: int, data: bytes, *, kind: int = 1, method: int = 0x92, status: int = 0, attribute: int = 0x11,
    step: int = STEP, **kw: Any,
) -> bytes:  # fmt: skip
    """A message of a transfer of subnet administration: of its data, or another kind."""
    body = struct.pack(">BBBBII8xHxx8x", 1, kind, flags, status, number, length, step // 8) + data
    return gmp(0x03, method, attribute, body, at=24, **kw)


def segments(table: bytes, *, tid: int = 1, step: int = STEP) -> list[bytes]:
    """A table, cut as the standard cuts it."""
    parts = [table[at : at + ROOM] for at in range(0, len(table), ROOM)] or [b""]
    last, header = len(parts), {"transaction_id": tid}
    return [
        segment(i, 1 | 2 * (i == 1) | 4 * (i == last), 20 + len(part) if i == last else 0, part, step=step, header=header)
        for i, part in enumerate(parts, 1)
    ]


def reply(kind: int, number: int = 0, *, tid: int = 1, status: int = 0) -> bytes:
    """What the receiver sends."""
    return segment(number, 1, 0, b"", kind=kind, method=0x12, status=status, step=0, slid=2, dlid=1, header={"transaction_id": tid})


def transfers(frames: Sequence[bytes], times: Sequence[int] | None = None) -> tuple[list[Any], list[Any]]:
    """The transfers that ended, in that order, and the others, oldest first."""
    found, ended = Transfers(), list[Any]()
    for table in tables_of(erf_pcap(frames, times=times)):
        ended += found.feed(table).values()
    return ended, found.unfinished()
