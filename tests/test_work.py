"""Each packet more costs only columns. Counts of work, which no busy machine changes: function calls, and bytes held at a time.

The counts are those of a long capture less those of a short one, divided by the packets that it has more: what a window costs anyway
drops out. A rule that makes one Python step per packet adds one call per packet.
"""

from __future__ import annotations

import io
import runpy
import struct
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from ibdissect.c_code import records
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load

START, RECORD = struct.Struct("<IIII"), 24
"""Header of a record, and where the first one begins."""
ERF_TIME = struct.Struct("<Q")
"""At the beginning of an ERF record: its time in units of 2^-32 s."""


def sweeps(repo: Path, number: int) -> tuple[bytes, int]:
    """OpenSM's first sweep of a small subnet, again every 20 seconds; and the number of packets."""
    data = (repo / "captures" / "opensm-first-sweep.pcap").read_bytes()
    found, at = [data[:RECORD]], []
    where = RECORD
    while where < len(data):
        at.append(where)
        where += START.size + START.unpack_from(data, where)[2]
    for again in range(number):
        copy = bytearray(data)
        for one in at:
            seconds = 20 * again
            START.pack_into(copy, one, START.unpack_from(data, one)[0] + seconds, *START.unpack_from(data, one)[1:])
            ERF_TIME.pack_into(copy, one + START.size, ERF_TIME.unpack_from(data, one + START.size)[0] + (seconds << 32))
        found.append(bytes(copy[RECORD:]))
    return b"".join(found), number * len(at)


def traffic(repo: Path, number: int, *, roce: bool) -> tuple[bytes, int]:
    """Packets of RC connections, datagrams and some management, as `benchmarks/generate.py` makes them; and their number."""
    out = io.BytesIO()
    runpy.run_path(str(repo / "benchmarks" / "generate.py"))["write"](out, number, roce=roce)
    return out.getvalue(), number


def calls(data: bytes) -> int:
    """Calls of Python and C functions in one check of a capture."""
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        checked(data)
    finally:
        sys.setprofile(None)
    return count


def peak_memory(data: bytes) -> int:
    """Most bytes allocated at a time during one check."""
    tracemalloc.start()
    try:
        checked(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def checked(data: bytes) -> None:
    assert check(io.BytesIO(data), CheckOptions(rules=load())).error is None


@pytest.mark.slow
@pytest.mark.skipif(records is None, reason="counts the work that is left where the C part is built")
@pytest.mark.parametrize(
    ("made", "short", "long", "most_calls", "most_held"),
    [
        pytest.param(sweeps, 45, 65, 5.6, 2450, id="sweeps"),  # tables of copies grow up to 4096 datagrams
        pytest.param(partial(traffic, roce=False), 12000, 24000, 1.4, 900, id="native"),
        pytest.param(partial(traffic, roce=True), 8000, 16000, 2.3, 840, id="roce"),
    ],
)
def test_work_per_packet(
    repo: Path, made: Callable[[Path, int], tuple[bytes, int]], short: int, long: int, most_calls: float, most_held: float
) -> None:
    """Bounds are a little above what was counted: one more Python step for each packet exceeds them.

    The traffic has many short connections without set-ups; what explains each is judged at the end (`diagnosis`).
    """
    (few, number), (many, more) = made(repo, short), made(repo, long)
    checked(few)  # what is imported or compiled on first use
    more_calls, more_held = ((count(many) - count(few)) / (more - number) for count in (calls, peak_memory))
    print(f"{more_calls:.2f} calls and {more_held:.0f} bytes a packet")
    assert more_calls < most_calls
    assert more_held < most_held
