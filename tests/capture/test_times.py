"""Nothing that is computed from times wraps around, whatever a capture says."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from tests.capture.built import enhanced, erf_record, interface, read, section
from tests.cases import few
from tests.points.world import World, said

NEAR_NS = (1 << 61) - 1
FAR_NS = 4_600_000_000_000_000_000
FAR = 4_600_000_000
SECOND_NS = 1_000_000_000
INTS = st.integers(-(2**63), 2**63 - 1)


def test_the_difference_of_any_two_times_fits() -> None:
    assert 2 * (FAR_NS + SECOND_NS) < 2**63 and FAR_NS > 2**32 * SECOND_NS


@given(st.lists(st.tuples(st.integers(0, 255), INTS, st.integers(0, 2**64 - 1)), min_size=1, max_size=9))
def test_a_pcapng_has_no_other_times(made: list[tuple[int, int, int]]) -> None:
    described = [interface("<", 1, (9, bytes([unit])), (14, struct.pack("<q", offset))) for unit, offset, _ in made]
    packets = [enhanced("<", number, ticks, b"data") for number, (*_, ticks) in enumerate(made)]
    rows, _ = read(section() + b"".join(described + packets))
    assert len(rows) == len(made) and all(abs(row[0]) < FAR_NS + SECOND_NS for row in rows)


@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_a_pcap_has_no_other_times(magic: int) -> None:
    head = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    body = b"".join(struct.pack("<IIII", seconds, rest, 14, 14) + bytes(14) for seconds in (0, 2**32 - 1) for rest in (0, 2**32 - 1))
    (chunk,) = open_capture(io.BytesIO(head + body)).chunks()
    unit = 1000 if magic == 0xA1B2C3D4 else 1
    last = (2**32 - 1) * SECOND_NS
    assert chunk.time_ns.tolist() == [0, (2**32 - 1) * unit, last, last + (2**32 - 1) * unit]
    assert chunk.time_ns.max() <= FAR_NS


def test_nor_has_erf() -> None:
    (chunk,) = open_capture(io.BytesIO(erf_record(bytes(40), second=2**32 - 1))).chunks()
    assert FAR_NS >= int(chunk.time_ns[0]) >= (2**32 - 1) * SECOND_NS


def at_two_points(folder: Path, jumps: list[tuple[int, int]]) -> list[str]:
    """Captures of one conversation. `jumps`: what the stamps of each point say from a packet on, in seconds since 1970."""
    world = World(points=("client", "server"))
    world.conversation(60)
    paths = []
    for point, clock in enumerate(world.points):
        out = [section(), interface("<", 1, (9, b"\x09"), (14, struct.pack("<q", -FAR)))]
        sent = sorted(world.seen[clock])
        for number, (time, frame, _) in enumerate(sent):
            seconds = jumps[min(number * len(jumps) // len(sent), len(jumps) - 1)][point]
            out.append(enhanced("<", 0, (seconds + FAR) * SECOND_NS + time, frame))
        paths.append(str(folder / f"{clock}.pcapng"))
        Path(paths[-1]).write_bytes(b"".join(out))
    return paths


@few(
    "jumps",
    [[(0, 0)], [(FAR, -FAR)], [(-FAR, FAR)], [(-FAR, 0), (FAR, 0)], [(0, -FAR), (1, FAR)], [(FAR, FAR), (-FAR, -FAR), (0, 0)]],
    ids=["near", "late and early", "early and late", "one jumps", "the other jumps", "both jump"],
    fast=(1, 5),
)
def test_clocks_as_far_apart_as_can_be(tmp_path: Path, jumps: list[tuple[int, int]]) -> None:
    """Offsets and latencies are those of the stamps, up to the largest that are computed with."""
    found = said(at_two_points(tmp_path, jumps))
    segments = found["points"][1]["clock"]["segments"]
    latencies = [time for pair in found["pairs"] for time in pair["latency_ns"].values() if time is not None]
    assert latencies and max(map(abs, latencies)) <= 2 * NEAR_NS
    if len(jumps) == 1:
        apart = (jumps[0][1] - jumps[0][0]) * SECOND_NS
        assert abs(segments[0]["offset_ns"] - max(-NEAR_NS, min(NEAR_NS, apart))) < 2 * SECOND_NS
