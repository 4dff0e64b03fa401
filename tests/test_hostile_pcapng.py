"""Hostile pcapng blocks are handled: hostile options, thousands of interfaces, changing byte order, absurd clocks."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import pytest

from ibdissect import Capture
from ibdissect.capture import pcapng
from ibdissect.capture.opening import open_capture
from tests import commands
from tests.capture.built import block, option, section
from tests.craft import smp
from tests.test_hostile import TEXTS, harmless

pytestmark = pytest.mark.slow

FRAME = smp(1, 0x10, modifier=9)
HOSTILE = b"\n".join(TEXTS.values())


def interface(order: str = "<", options: bytes = b"", link: int = 247) -> bytes:
    return block(order, 1, struct.pack(f"{order}HHI", link, 0, 0) + options)


def packet(order: str = "<", number: int = 0, ticks: int = 0, options: bytes = b"", frame: bytes = FRAME) -> bytes:
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(order, 6, head + frame + bytes(-len(frame) % 4) + options)


def run(*words: str, status: int = 0) -> str:
    done = commands.run(*words)
    assert done.returncode == status and b"Traceback" not in done.stderr, done.stderr
    harmless(done.stderr.decode())
    return harmless(done.stdout.decode())


OUTPUTS = [("show",), ("show", "--format", "tree"), ("show", "--format", "jsonl"), ("stats",), ("lint", "--fail-on", "never")]


@pytest.mark.parametrize("order", "<>")
def test_options_and_unknown_blocks(order: str, tmp_path: Path) -> None:
    """Options with hostile text, too long for their block, or without end; name, secrets, statistics and custom blocks."""
    every = b"".join(option(order, code, HOSTILE) for code in range(1, 16) if code not in (9, 14))
    data = section(order, every) + interface(order, every) + packet(order, options=every)
    data += block(order, 4, HOSTILE) + block(order, 10, struct.pack(f"{order}II", 0x544C534B, 0xFFFFFFFF) + HOSTILE)
    data += block(order, 5, bytes(8)) + block(order, 0xBAD, HOSTILE) + block(order, 0x7FFFFFFF, HOSTILE)
    data += interface(order, struct.pack(f"{order}HH", 2, 0xFFFF)) + packet(order, 1, options=struct.pack(f"{order}HH", 1, 0xFFFF))
    path = tmp_path / "o.pcapng"
    path.write_bytes(data)
    for command, *words in OUTPUTS:
        out = run(command, str(path), *words)
        if command == "show":
            assert len(out.splitlines()) >= 2
    for command, name in (("annotate", "a.pcapng"), ("scrub", "s.pcapng")):
        run(command, str(path), "--output", str(tmp_path / name))
        with Capture(str(tmp_path / name)) as again:
            assert sum(map(len, again.tables())) == 2
    assert b"jndi" in (tmp_path / "a.pcapng").read_bytes() and b"jndi" not in (tmp_path / "s.pcapng").read_bytes()


def test_sections_that_turn_round(tmp_path: Path) -> None:
    """Interface numbers restart in each section, whatever its byte order; a packet of an undeclared interface is damage."""
    frames = [smp(1, 0x10, modifier=9, header={"transaction_id": 1 + i}) for i in range(40)]  # equal ones would be copies of a mirror
    data = b"".join(section(o) + interface(o) * (i + 1) + packet(o, i, 1000 * i, frame=frames[i]) + packet(o, i + 1)
                    for i, o in enumerate("<>" * 20))  # fmt: skip
    path = tmp_path / "s.pcapng"
    path.write_bytes(data)
    report = json.loads(run("lint", str(path), "--format", "json", "--max-findings", "none", "--fail-on", "never"))
    assert report["captures"][0]["frames"] == 40 and report["captures"][0]["status"] == "damaged"
    assert report["by_rule"]["AM001"] == 40


@pytest.mark.parametrize("count", [65536, 65537, 200_000])
def test_thousands_of_interfaces(count: int, tmp_path: Path) -> None:
    path = tmp_path / "i.pcapng"
    path.write_bytes(section() + interface() * count + packet(number=min(count, 65536) - 1) + packet(number=0xFFFFFFFF))
    report = json.loads(run("lint", str(path), "--format", "json", "--fail-on", "never"))
    assert report["captures"][0]["status"] == "damaged" and report["captures"][0]["frames"] == 1


TICKS = (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 253_402_300_800 * 10**6)


@pytest.mark.parametrize("resolution", [0, 6, 9, 0x80, 0xFF])
def test_clocks(resolution: int, tmp_path: Path) -> None:
    """After the year 9999 and before 1970: every output shows some time, JSON also an integer."""
    path = tmp_path / "c.pcapng"
    offsets = (0, (1 << 63) - 1, -(1 << 63))
    head = b"".join(interface(options=option("<", 9, bytes([resolution])) + option("<", 14, struct.pack("<q", o))) for o in offsets)
    path.write_bytes(section() + head + b"".join(packet(number=n, ticks=ticks) for n in range(len(offsets)) for ticks in TICKS))
    for command, *words in OUTPUTS:
        out = run(command, str(path), *words)
        if "jsonl" in words:
            lines = [json.loads(line) for line in out.splitlines()]
            assert len(lines) == 18 and all(isinstance(line["time_ns"], int) and line["time"] for line in lines)


def test_times_of_both_signs(tmp_path: Path) -> None:
    """Two interfaces, one far in the future and one far in the past: no difference wraps, and what cannot be written is named."""
    path = tmp_path / "far.pcapng"
    head = b"".join(interface(options=option("<", 14, struct.pack("<q", offset))) for offset in (1 << 62, -1 << 62))
    path.write_bytes(section() + head + b"".join(packet(number=n % 2, ticks=n * 1000) for n in range(40)))
    more = (("fabric",), ("show", "-t", "r"), ("show", "-t", "d"), ("lint", "--format", "json", "--fail-on", "never"))
    for command, *words in (*OUTPUTS, *more):
        assert "46744073" not in run(command, str(path), *words)
    steps = [float(line) for line in run("show", str(path), "-e", "frame.time_delta").splitlines()]
    assert steps[0] == 0 and all(abs(step) > 9e9 and (step < 0) == (n % 2 == 0) for n, step in enumerate(steps[1:]))
    assert run("show", str(path), "-Y", "frame.time_delta < 0", "--count").strip() == "20"
    assert run("show", str(path), "-Y", "frame.time_relative < 0.1", "--count").strip() == "40"
    for command, name in (("annotate", "a.pcapng"), ("scrub", "s.pcapng"), ("export", "e.pcapng"), ("export", "e.pcap")):
        done = commands.run(command, str(path), "--output", str(tmp_path / name), text=True)
        assert done.returncode == 2 and done.stderr.startswith(f"error: {tmp_path / name}: time "), done.stderr
        assert not (tmp_path / name).exists()


def test_more_comments_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with comments; an incomplete copy is refused."""
    path = tmp_path / "c.pcapng"
    path.write_bytes(section() + interface() + packet(options=option("<", 1, b"x" * 1000)) * 50)
    monkeypatch.setattr("ibdissect.capture.chunk.MAX_COMMENTS", 10_000)
    with Capture(str(path)) as capture:
        assert sum(map(len, capture.tables())) == 50
        comments = capture.reader.comments
        assert sum(len(text) for texts in comments.values() for text in texts) == 9000 and comments.lost == 41
    for ending, status, said in (("pcapng", 2, "more comments"), ("pcap", 0, "50 frames written")):
        done = commands.run("export", str(path), "--output", str(tmp_path / f"copy.{ending}"), text=True, here=True)
        assert done.returncode == status and said in done.stderr


def test_empty_options_of_interfaces_cost_room_as_well() -> None:
    """Empty options take memory, too: only MAX_KEPT of millions are kept, and later blocks are still read."""
    kept = []
    for number in (300, 400):
        with Capture(io.BytesIO(section() + interface(options=option("<", 2, b"") * 5000) * number + packet())) as capture:
            assert sum(map(len, capture.tables())) == 1
            known = capture.reader.interfaces
        assert known is not None and len(known) == number and 0 < len(known.options[0]) < 5000
        kept.append(sum(map(len, known.options)))
    assert kept[0] == kept[1] < 300 * 5000


def test_a_byte_order_that_changes_without_end_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng, "MAX_ORDERS", 10)
    turning = b"".join(section(order) + interface(order) + packet(order) for order in "<>" * 20)
    with open_capture(io.BytesIO(turning)) as reader:
        frames = sum(map(len, reader.chunks()))
        assert [damage.reason for damage in reader.damage] == ["the byte order changed more than 10 times"]
    assert 10 <= frames <= 12
