"""What a frame completes is shown with the frames that its bytes came from."""

from __future__ import annotations

import json
from pathlib import Path

from tests import commands
from tests.craft import erf_pcap
from tests.mad.test_rmpp_records import ABORT, FIRST, FRAMES, LAST, TABLE, reassembled
from tests.mad.transfers import STEP, segment


def test_a_transfer_that_was_given_up(tmp_path: Path) -> None:
    ((frame, whole),) = reassembled(tmp_path / "a.pcap", [FIRST, LAST, ABORT]).items()
    assert frame == 3 and whole["text"].endswith("missing segments 2, aborted: Too many retries")
    assert [record["record"] for record in whole["records"]] == [0, 4]


def test_one_segment_is_no_reassembly(tmp_path: Path) -> None:
    assert reassembled(tmp_path / "a.pcap", [segment(1, 7, 20 + STEP, TABLE[:STEP])]) == {}


def test_show_prints_the_records_behind_the_frame_that_completed_them(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap(FRAMES))

    def shown(*words: str) -> str:
        return str(commands.run("show", str(path), "--format", *words, text=True).stdout)

    out = shown("tree", "--frames", "4")
    assert "Reassembled  SubnAdmGetTableResp(NodeRecord), 5 records in 3 segments, frames 1-4" in out
    records = [line.split(": ", 1)[1].strip() for line in out.splitlines() if line.startswith("    NodeRecord[")]
    assert len(records) == 5 and records[1] == "frame 1 bytes 196-283, frame 4 bytes 84-107"
    assert "Reassembled" not in shown("tree", "--frames", "1-3")
    for form in ("json", "jsonl"):
        text = shown(form)
        frames = json.loads(text if form == "json" else f"[{','.join(text.splitlines())}]")
        assert [one["frame"] for one in frames if "reassembled" in one] == [4]
        whole = frames[3]["reassembled"]
        assert whole["frames"] == [1, 4, 2] and [record["layer"] for record in whole["records"]] == ["NodeRecord"] * 5
        assert whole["records"][1]["pieces"] == [{"frame": 1, "offset": 196, "length": 88}, {"frame": 4, "offset": 84, "length": 24}]
        lids = [field["value"] for record in whole["records"] for field in record["fields"] if field["name"] == "infiniband.sa.lid"]
        assert lids == [1, 2, 3, 4, 5]
