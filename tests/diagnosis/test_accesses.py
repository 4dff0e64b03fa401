"""The memory that a refused request wants is told, wherever in the capture it was refused, and never its key."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from ibdissect.diagnosis import accesses
from ibdissect.diagnosis.accesses import Access, Accesses
from ibdissect.diagnosis.follow import ConnectionFollower
from ibdissect.pipeline.reading import open_reading
from tests.diagnosis.lab import MS, READ, US, WRITE_ONLY, Lab


def refused(code: int = 0x62) -> Lab:
    lab = Lab()
    time = lab.good(lab.up(), 100, 3)
    lab.ask(time, 103, 640, WRITE_ONLY, dma=640)
    lab.answer(time + 5 * US, 103, code)
    return lab


def test_it_is_told_without_the_key() -> None:
    why = refused().only().why
    assert "10.0.0.2 refused the WRITE of 10.0.0.1" in why and "it asks for 640 bytes at 0x0000000000001000 (frame 10);" in why
    assert "it asks for" not in refused(0x63).only().why


@pytest.mark.parametrize(("header", "opcode", "said"), [
    ("AtomicETH", 0x13, "CmpSwap"), ("AtomicETH", 0x14, "FetchAdd"), ("RETH", READ, "READ"),
])  # fmt: skip
def test_the_operation_is_named(header: str, opcode: int, said: str) -> None:
    lab = Lab()
    time = lab.good(lab.up(), 100, 3)
    size = {"dmalen": 8} if header == "RETH" else {}
    lab.put(time, lab.a, lab.b, opcode, lab.qb, 103, ext={header: {"va": 0x1000, "r_key": 7, **size}}, bth={"a": 1})
    lab.answer(time + 5 * US, 103, 0x62)
    assert f"refused the {said} of 10.0.0.1" in lab.only().why and "it asks for 8 bytes at 0x0000000000001000" in lab.only().why


def follower(data: bytes) -> ConnectionFollower:
    found = ConnectionFollower()
    with open_reading(io.BytesIO(data)) as reading:
        reading.joins = False
        for table in reading.tables(keys=False):
            found.feed(table)
    return found


@pytest.mark.parametrize("change", [lambda frames: frames, lambda frames: frames[:-2]])
def test_only_what_was_refused_is_remembered_for_long(change: Callable[[list[tuple[int, bytes]]], list[tuple[int, bytes]]]) -> None:
    lab = refused()
    lab.frames = change(lab.frames)
    found = follower(lab.pcap()).accesses
    found._newest.clear()
    whole = len(lab.frames) == len(refused().frames)
    assert found.of(10) == (Access(0x1000, 640, 7) if whole else None)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accesses, "KEPT_REQUESTS", 2)
    lab, kept = Lab(), Accesses()
    for n in range(3):
        lab.ask(n * MS, 100 + n, 64, WRITE_ONLY)
    with open_reading(io.BytesIO(lab.pcap())) as reading:
        (table,) = list(reading.tables(keys=False))
        lanes = ConnectionFollower().lanes
        for _ in range(4):
            kept.feed(table, lanes)
    assert len(kept._newest) == 2 - 1 and kept.of(3) == Access(0x1000, 64, 7) and kept.of(4) is None
