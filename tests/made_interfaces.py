"""Captures of several interfaces: pcapng files made of native frames."""

from __future__ import annotations

import struct
from collections.abc import Iterable

LINK_INFINIBAND = 247
START_NS = 1_700_000_000_000_000_000


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def pcapng_of(frames: Iterable[tuple[int, bytes]], *, step_ns: int = 1_000_000) -> bytes:
    """A pcapng file of native frames, each with the index of its interface."""
    frames = list(frames)
    found = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    nanoseconds = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    for _ in range(max(interface for interface, _ in frames) + 1):
        found += _block(1, struct.pack("<HHI", LINK_INFINIBAND, 0, 0) + nanoseconds)
    for number, (interface, frame) in enumerate(frames):
        time = START_NS + number * step_ns
        found += _block(6, struct.pack("<IIIII", interface, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame)) + frame)
    return found
