"""Chunks from frames, for tests of the table room."""

from __future__ import annotations

import io
from collections.abc import Iterable

from ibdissect.capture.opening import open_capture
from ibdissect.table.table import ChunkTable
from tests.craft import erf_pcap, ethernet_pcap


def native_table(frames: Iterable[bytes]) -> ChunkTable:
    """One chunk of native InfiniBand frames."""
    return ChunkTable(next(iter(open_capture(io.BytesIO(erf_pcap(frames))).chunks())))


def ethernet_table(frames: Iterable[bytes]) -> ChunkTable:
    """One chunk of Ethernet frames."""
    return ChunkTable(next(iter(open_capture(io.BytesIO(ethernet_pcap(frames))).chunks())))
