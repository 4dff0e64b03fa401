"""The memory that a refused request wants is told, wherever in the capture it was refused, and never its key."""

from __future__ import annotations

import pytest

from ibdissect.capture import records
from ibdissect.diagnosis import refused_accesses
from tests.diagnosis.lab import MS, READ, US, WRITE_ONLY, Lab, joined


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


@pytest.mark.parametrize(("most", "told"), [(4, True), (3, True), (2, False)])
@pytest.mark.parametrize("rows", [1, 1 << 17])
def test_only_what_was_refused_is_remembered_for_long(most: int, told: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more requests come before the refusal, each in a window of its own, and many after it."""
    monkeypatch.setattr(refused_accesses, "KEPT_REQUESTS", most)
    monkeypatch.setattr(records, "ROWS", rows)
    lab, other = Lab(), Lab(qa=0x333, qb=0x444)
    time = lab.good(lab.up(), 100, 3)
    lab.ask(time, 103, 640, WRITE_ONLY, dma=640)
    for n in range(2):
        other.ask(time + (1 + n) * US, 500 + n, 64, WRITE_ONLY)
    lab.answer(time + 5 * US, 103, 0x62)
    for n in range(6):
        other.ask(time + MS + n * US, 600 + n, 64, WRITE_ONLY)
    one, _ = sorted(joined(lab, other).diagnosis().connections, key=lambda found: found.ends[1].qpn or 0)
    assert ("it asks for 640 bytes" in one.why) is (told or rows > 1)
