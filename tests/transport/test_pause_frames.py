"""Pause frames are counted by sender and priority, wherever chunks end."""

from __future__ import annotations

import struct

import pytest

from tests.craft import ethernet_pcap
from tests.traffic.test_statistics import counted

MAX_SENDERS = 4096


def frame(sender: int, opcode: int, *numbers: int) -> bytes:
    return bytes.fromhex("0180c2000001") + sender.to_bytes(6, "big") + b"\x88\x08" + struct.pack(f">{1 + len(numbers)}H", opcode, *numbers)


def asked(sender: int, **quanta: int) -> bytes:
    """A PFC frame; `p3=5` pauses priority 3 for 5 quanta."""
    times = [quanta.get(f"p{priority}", 0) for priority in range(8)]
    return frame(sender, 0x0101, sum(1 << int(name[1]) for name in quanta), *times)


@pytest.mark.parametrize("window", [120, 1 << 20])
def test_counts(window: int) -> None:
    capture = ethernet_pcap([asked(1, p3=5, p4=9), asked(1, p3=0), asked(2, p7=1), asked(1, p3=7), frame(1, 1, 3)])
    found = {(entry["source"][-2:], entry["priority"]): entry for entry in counted(capture, window)["pauses"]}
    assert set(found) == {("01", 3), ("01", 4), ("02", 7), ("01", None)}
    three = found["01", 3]
    assert [three[key] for key in ("pauses", "resumes", "longest_quanta", "first_frame", "last_frame")] == [2, 1, 7, 1, 4]
    assert found["01", None]["longest_quanta"] == 3 and counted(capture, window, top=1)["pauses"] == [three]


def test_senders_are_bounded() -> None:
    found = counted(ethernet_pcap([frame(sender, 1, 9) for sender in range(MAX_SENDERS + 2)]))["pauses"]
    assert len(found) == MAX_SENDERS and {entry["priority"] for entry in found} == {None}
