"""The work a packet stays the same however many there are. Counted in lines of Python that run, not in seconds.

`benchmarks/floods.py` measures time and memory of the proofs of all rules under ever new identities.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from tests.craft import erf_pcap, ethernet_pcap, rc, roce2
from tests.rules.made.connections import ACTIVE, reply, request
from tests.rules.SA.cases import ASSIGNED, KNOWN, gsi_path

pytestmark = pytest.mark.slow
load()


def connections(number: int) -> list[bytes]:
    """So many connections between two hosts, each with a first packet that is not the agreed one and is too long."""
    frames = []
    for i in range(number):
        ids = {"local_communication_id": 0x10000 + i, "remote_communication_id": 0x90000 + i}
        frames += [
            request(local_communication_id=0x90000 + i, local_qpn=0x10000 + i),
            reply(**ids, local_qpn=0x50000 + i),
            rc(0x00, bytes(512), bth={"destqp": 0x50000 + i, "psn": 500}, **ACTIVE),
        ]
    return frames


def paths(number: int) -> list[bytes]:
    """A port that told its LID so often, and as many PathRecords with as many others."""
    return [*KNOWN, ASSIGNED, *KNOWN * number, *(gsi_path(0x81, dlid=0x1000 + i) for i in range(number))]


def wrong_icrcs(number: int) -> list[bytes]:
    """Ever new hosts of RoCE, of which each sends a packet with a wrong ICRC."""
    frames = []
    for i in range(number):
        frame = roce2(ip={"source": bytes([10, 1, i >> 8, i & 255])}, bth={"destqp": 0x100 + i}, udp={"source_port": 0xC000 + i})
        frames.append(frame[:-1] + bytes([frame[-1] ^ 1]))
    return frames


COUNTED = re.compile("/rules/|/transport/psn_streams|/numpy/lib/|/diagnosis/(judge|stories)")
FLOODS: list[tuple[str, Callable[[int], list[bytes]]]] = [
    ("CM008", connections), ("CM009", connections), ("SA015", paths), ("ROC004", wrong_icrcs),
]  # fmt: skip


@pytest.mark.parametrize(("code", "flood"), FLOODS, ids=[code for code, _ in FLOODS])
def test_twice_the_packets_are_twice_the_work(code: str, flood: Callable[[int], list[bytes]]) -> None:
    few, many = (lines(code, flood(number)) for number in (150, 450))
    assert many < 3.3 * few


def lines(code: str, frames: list[bytes]) -> int:
    """Lines of Python that run while one rule judges a capture, which must have findings."""
    count = 0

    def line(frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        if not COUNTED.search(frame.f_code.co_filename):
            return None
        count += 1
        return line

    before, capture = sys.gettrace(), io.BytesIO((ethernet_pcap if code.startswith("ROC") else erf_pcap)(frames))
    sys.settrace(line)
    try:
        report = check(capture, CheckOptions(rules=[REGISTRY[code]]))
    finally:
        sys.settrace(before)
    assert report.by_rule.get(code, 0) >= len(frames) // 6
    return count
