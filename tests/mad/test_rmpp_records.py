"""The RMPP transfers of a capture are shown with all their records and where their bytes came from."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ibdissect.python_interface import Capture
from ibdissect.wire.sa_records import NodeRecord
from tests import commands
from tests.craft import build, erf_pcap, gmp
from tests.mad.transfers import AT, ROOM, STEP, segment, segments, transfers

TABLE = b"".join(build(NodeRecord, STEP, lid=lid) for lid in range(1, 6))

FIRST = segment(1, 3, 60 + len(TABLE), TABLE[:ROOM])
MIDDLE = segment(2, 1, 0, TABLE[ROOM : 2 * ROOM])
LAST = segment(3, 5, 20 + len(TABLE) - 2 * ROOM, TABLE[2 * ROOM :] + b"not part of it")
ACK = segment(3, 1, 67, b"", kind=2, method=0x12, slid=2, dlid=1)
ABORT = segment(0, 1, 0, b"", kind=4, method=0x12, status=126, slid=2, dlid=1)
FRAMES = [FIRST, LAST, ACK, MIDDLE]


def reassembled(path: Path, frames: list[bytes]) -> dict[int, dict[str, Any]]:
    """What `show --format json` puts together, by the frame that completes it."""
    path.write_bytes(erf_pcap(frames))
    shown = json.loads(commands.run("show", str(path), "--format", "json", text=True).stdout)
    return {one["frame"]: one["reassembled"] for one in shown if "reassembled" in one}


def test_records_of_a_transfer_whose_segments_came_late(tmp_path: Path) -> None:
    ((frame, whole),) = reassembled(tmp_path / "a.pcap", FRAMES).items()
    assert (frame, whole["text"]) == (4, "SubnAdmGetTableResp(NodeRecord), 5 records in 3 segments, frames 1-4")
    found = [
        b"".join(FRAMES[one["frame"] - 1][one["offset"] : one["offset"] + one["length"]] for one in record["pieces"])
        for record in whole["records"]
    ]
    assert found == [TABLE[at : at + STEP] for at in range(0, len(TABLE), STEP)]


def test_an_answer_without_records() -> None:
    body = struct.pack(">BBBBII20x", 1, 1, 7, 0, 1, 20)
    with Capture(io.BytesIO(erf_pcap([gmp(0x03, 0x92, 0x11, body, at=24)]))) as capture:
        transfer = capture.transfer(1)
        assert transfer is not None and transfer.complete and [*transfer.records()] == []


def test_capture_finds_the_transfer_of_any_of_its_frames() -> None:
    with Capture(io.BytesIO(erf_pcap([*FRAMES, ACK, FIRST, MIDDLE]))) as capture:
        for frame in (1, 2, 4):
            transfer = capture.transfer(frame)
            assert transfer is not None and transfer.complete and transfer.holds(frame)
        unfinished = capture.transfer(7)
        assert unfinished is not None and not unfinished.complete
        assert capture.transfer(3) is None


@pytest.mark.slow
def test_where_the_bytes_of_a_long_transfer_came_from_is_found() -> None:
    """A segment that comes last tells of all records at once."""
    table = bytes(range(1, 251)) * 2000
    sent = segments(table, step=8)
    (transfer,), _ = transfers([*sent[1:], sent[0]])
    found = [spans for _, _, spans in transfer.records()]
    assert len(found) == len(table) // 8 and transfer.frames[:2] == [len(sent), 1]
    for number in (0, 25, 24, 12345, len(found) - 1):
        first, at = divmod(8 * number, ROOM)
        ((frame, offset, length),) = ((span.frame, span.offset, span.length) for span in found[number])
        assert (frame, offset, length) == (first or len(sent), AT + at, 8)


ZED = Path(__file__).parents[2] / "docs/examples/zed"
RULE = """
from ibdissect.rules import *
from ibdissect.lint.rule import INFO, Rule, on_struct
from zed import Inventory, Lane

class Up(Rule):
    "A lane is up. Why. What to do."
    code, name, severity = "ZEI001", "lane-up", INFO
    on, when, message, example = Lane, (Lane.state == 1) & (Lane.lane > 50), "lane {lane} is up", "any"
    reference = "ZED 4"

class Seen(Rule):
    "An inventory is there. Why. What to do."
    code, name, severity = "ZEI002", "inventory", INFO
    message, example = "{count} lanes", "any"
    reference = "ZED 3"

    @on_struct(Inventory)
    def look(self, inventory, seen):
        yield self.hit(seen, inventory, Inventory.count, count=len(inventory.lanes))
"""


def vendor_frames() -> list[bytes]:
    """A request, and its answer in three segments (frames 1 to 4 of the vendor's capture)."""
    with Capture(str(ZED / "rmpp.pcap")) as opened:
        return [bytes(opened.frame(number).data) for number in range(1, 5)]


def seen_in(path: Path, frames: list[bytes], *words: str) -> list[str]:
    path.write_bytes(erf_pcap(frames))
    done = commands.run("show", "--plugin", str(ZED / "zed.py"), str(path), *words, text=True)
    assert done.returncode == 0 and "cafebabe" not in done.stdout.lower()
    return done.stdout.splitlines()


@pytest.mark.slow
def test_what_a_vendor_sends_in_segments_is_shown_where_it_is_whole(tmp_path: Path) -> None:
    ask, first, middle, last = vendor_frames()
    path = tmp_path / "a.pcap"
    fields = ("-e", "frame.number", "-e", "zed.lane.peer", "-Y", "zed.lane.peer")
    peers = ",".join(str(number) for number in range(100, 160))
    for frames, at in (([ask, first, middle, last], 4), ([ask, first, last, first, middle], 5), ([first, middle, middle, last, last], 4)):
        assert seen_in(path, frames, *fields) == [f"{at}\t{peers}"]
        assert seen_in(path, frames, "-Y", "zed.tlv.type == 1", "-e", "frame.number", "-e", "zed.optics.temperature") == [f"{at}\t41"]
    for frames in ([ask, first, last], [ask, middle, last], [ask, first, middle]):
        assert seen_in(path, frames, *fields) == [], "a segment is missing"
    tree = seen_in(path, [ask, first, middle, last], "--format", "tree")
    assert sum("Peer LID" in line for line in tree) == 60 and sum("Optics_Key#1" in line for line in tree) == 1


@pytest.mark.slow
def test_rules_and_records_see_it_once(tmp_path: Path) -> None:
    (tmp_path / "zei.py").write_text(RULE)
    given = ("--plugin", str(ZED / "zed.py"), "--plugin", str(tmp_path / "zei.py"))
    done = commands.run("lint", *given, "--select", "ZEI", "--infos", "--format", "json", str(ZED / "rmpp.pcap"), text=True)
    found = [(one["code"], one["frame"], one["message"]) for one in json.loads(done.stdout)["findings"]]
    ends = "VendGetResp(attribute 0x0100) from LID 5 to LID 2"
    assert found[1:] == [("ZEI001", 4, f"{ends}: lane 51 is up"), ("ZEI002", 4, f"{ends}: 60 lanes")] and found[0][1] == 1, "a request"
    rows = commands.run("export", *given[:2], "--records", "--to", str(tmp_path / "r.jsonl"), str(ZED / "rmpp.pcap"), text=True)
    assert rows.returncode == 0, rows
    (record,) = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    assert (record["layer"], record["frames"]) == ("Inventory", [2, 3, 4])
    assert json.loads(record["fields"])["zed.lane.lane"] == list(range(60))
    assert "cafebabe" not in json.dumps(record).lower()
