"""Pause frames are counted by sender and priority, wherever chunks end."""

from __future__ import annotations

import struct

import pytest

from ibdissect.transport.pause_frames import Pauses
from tests.craft import ethernet_pcap
from tests.decode.made import tables_of

MAX_SENDERS, WHOLE_LINK = 4096, -1


def frame(sender: int, opcode: int, *numbers: int) -> bytes:
    return bytes.fromhex("0180c2000001") + sender.to_bytes(6, "big") + b"\x88\x08" + struct.pack(f">{1 + len(numbers)}H", opcode, *numbers)


def asked(sender: int, **quanta: int) -> bytes:
    """A PFC frame; `p3=5` pauses priority 3 for 5 quanta."""
    times = [quanta.get(f"p{priority}", 0) for priority in range(8)]
    return frame(sender, 0x0101, sum(1 << int(name[1]) for name in quanta), *times)


@pytest.mark.parametrize("window", [120, 1 << 20])
def test_counts(window: int) -> None:
    pauses = Pauses()
    for table in tables_of(ethernet_pcap([asked(1, p3=5, p4=9), asked(1, p3=0), asked(2, p7=1), asked(1, p3=7), frame(1, 1, 3)]), window):
        pauses.feed(table)
    found = {(entry["source"][-2:], entry["priority"]): entry for entry in pauses.result()}
    assert set(found) == {("01", 3), ("01", 4), ("02", 7), ("01", None)}
    three = found["01", 3]
    assert [three[key] for key in ("pauses", "resumes", "longest_quanta", "first_frame", "last_frame")] == [2, 1, 7, 1, 4]
    assert found["01", None]["longest_quanta"] == 3 and pauses.result(1) == [three]


def test_senders_are_bounded() -> None:
    pauses = Pauses()
    for table in tables_of(ethernet_pcap([frame(sender, 1, 9) for sender in range(MAX_SENDERS + 2)])):
        pauses.feed(table)
    assert len(pauses.senders) == MAX_SENDERS and pauses.senders.dropped.count == 2
    assert {entry.priority for entry in pauses.senders.values()} == {WHOLE_LINK}
