"""What a frame completes is shown with the frames that its bytes came from."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from ibdissect.cli.show import command as show
from ibdissect.decode.services import Services
from ibdissect.dissect.shown_value import Presenter
from ibdissect.mad.rmpp_reassembly import Transfers, records
from ibdissect.transport.completed import completed, completed_json, record_nodes, transfer_text
from ibdissect.wire.catalog import builtin
from tests.craft import erf_pcap
from tests.decode.made import native_table
from tests.mad.test_rmpp_records import ABORT, FIRST, FRAMES, LAST, STEP, TABLE, segment


def test_tree_of_a_transfer() -> None:
    (transfer,) = Transfers().feed(native_table(FRAMES)).values()
    found = [node for _, node in record_nodes(transfer, builtin(), Services(), Presenter())]
    assert [node.label for node in found] == [f"NodeRecord[{i}]" for i in range(5)]
    assert found[1].text == "frame 1 bytes 196-283, frame 4 bytes 84-107"
    assert [child.text for child in found[4].children if child.name == "infiniband.sa.lid"] == ["5"]


def test_a_transfer_that_was_given_up() -> None:
    (transfer,) = Transfers().feed(native_table([FIRST, LAST, ABORT])).values()
    said = transfer_text(transfer, builtin())
    assert said.endswith("missing segments 2, aborted: Too many retries")
    assert [record.number for record in records(transfer, builtin())] == [0, 4]


def test_one_segment_is_no_reassembly() -> None:
    whole = segment(1, 7, 20 + STEP, TABLE[:STEP])
    table = native_table([whole])
    (transfer,) = Transfers().feed(table).values()
    assert completed(table, 0, Presenter(), transfer) == [] and completed_json(table, 0, Presenter(), transfer) == {}


def test_show_prints_the_records_behind_the_frame_that_completed_them(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap(FRAMES))
    out = CliRunner().invoke(show, [str(path), "--format", "tree", "--frames", "4"], standalone_mode=False).output
    assert "Reassembled  SubnAdmGetTableResp(NodeRecord), 5 records in 3 segments, frames 1-4" in out
    assert "NodeRecord[4]:" in out
    assert "Reassembled" not in CliRunner().invoke(show, [str(path), "--format", "tree", "--frames", "1-3"], standalone_mode=False).output
    for form in ("json", "jsonl"):
        text = CliRunner().invoke(show, [str(path), "--format", form], standalone_mode=False).output
        shown = json.loads(text if form == "json" else f"[{','.join(text.splitlines())}]")
        assert [one["frame"] for one in shown if "reassembled" in one] == [4]
        whole = shown[3]["reassembled"]
        assert whole["frames"] == [1, 4, 2] and [record["layer"] for record in whole["records"]] == ["NodeRecord"] * 5
        assert whole["records"][1]["pieces"] == [{"frame": 1, "offset": 196, "length": 88}, {"frame": 4, "offset": 84, "length": 24}]
        lids = [field["value"] for record in whole["records"] for field in record["fields"] if field["name"] == "infiniband.sa.lid"]
        assert lids == [1, 2, 3, 4, 5]
