"""Chunks of captures and of frames, for tests."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from tests.craft import erf_pcap, ethernet_pcap


def tables_of(capture: bytes | bytearray | str | Path, window: int = 1 << 20) -> Iterator[ChunkTable]:
    """The chunks of a capture that is read `window` bytes at a time."""
    return map(ChunkTable, open_capture(io.BytesIO(capture) if isinstance(capture, bytes | bytearray) else capture, window=window).chunks())


def table_of(capture: bytes | bytearray | str | Path) -> ChunkTable:
    """The only chunk of a small capture."""
    return next(tables_of(capture))


def native_table(frames: Iterable[bytes]) -> ChunkTable:
    """One chunk of native InfiniBand frames."""
    return table_of(erf_pcap(frames))


def ethernet_table(frames: Iterable[bytes]) -> ChunkTable:
    """One chunk of Ethernet frames."""
    return table_of(ethernet_pcap(frames))


@dataclass(frozen=True)
class Row:
    """A record of a chunk made by hand."""

    frame: bytes
    link: int
    wire: int = -1
    """Bytes that the frame had on the wire; -1: those that there are."""
    erf: int | None = None
    """Type byte of an ERF header in front."""


def chunk_of(rows: Sequence[Row], around: bytes = b"\xff" * 8) -> Chunk:
    """The records as a chunk of frames 1, 2, ..; ones lie between and around them, so that what reads on finds something."""
    data, offset, pseudo = bytearray(around), [], []
    for row in rows:
        pseudo.append(-1 if row.erf is None else len(data))
        data += b"" if row.erf is None else bytes([*bytes(8), row.erf, *bytes(7)])
        offset.append(len(data))
        data += row.frame + around
    sizes = [len(row.frame) for row in rows]
    n = len(rows)
    return Chunk(
        first=1, base=0, data=np.frombuffer(bytes(data), np.uint8), offset=np.array(offset, np.int64), caplen=np.array(sizes, np.int64),
        length=np.array([size if row.wire < 0 else row.wire for row, size in zip(rows, sizes, strict=True)], np.int64),
        time_ns=np.arange(n, dtype=np.int64), link=np.array([row.link for row in rows], np.uint16), interface=np.zeros(n, np.uint16),
        pseudo=np.array(pseudo, np.int64),
    )  # fmt: skip
