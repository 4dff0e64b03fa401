"""Memory of a window serves again only when nobody looks at it any more."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ibdissect.capture.opening import open_capture
from tests.capture.built import Packet, Pipe, pcap

MADE = [Packet(1_600_000_000, number, random.Random(number).randbytes(300)) for number in range(60)]


def chunks() -> Iterator[tuple[list[bytes], object]]:
    """The frames of each chunk of a pipe, and its bytes."""
    for chunk in open_capture(Pipe(pcap(MADE)), window=2000).chunks():
        yield [chunk.frame_bytes(row) for row in range(len(chunk))], chunk


def test_views_that_are_kept_do_not_change() -> None:
    held = [*chunks()]
    assert len(held) > 8
    for frames, chunk in held:
        assert [chunk.frame_bytes(row) for row in range(len(chunk))] == frames  # type: ignore[attr-defined]
    assert [frame for frames, _ in held for frame in frames] == [packet.data for packet in MADE]


def test_memory_without_views_is_used_again() -> None:
    places, count = set(), 0
    for chunk in open_capture(Pipe(pcap(MADE)), window=2000).chunks():
        places.add(chunk.data.ctypes.data)
        count += 1
        del chunk
    assert count > 8 and len(places) <= 3
