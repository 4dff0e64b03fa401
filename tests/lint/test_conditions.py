"""Do conditions of rules judge records that straddle RMPP segments, once, at the frame that completes them?"""

from __future__ import annotations

import io

import pytest

from ibdissect.lint.finding import Finding
from ibdissect.session.capture import Capture
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo
from tests.craft import build, erf_pcap
from tests.fabric.made import answer, port_info
from tests.flow.test_transfers import ROOM, segment

NODE = {"base_version": 1, "class_version": 1, "num_ports": 1, "node_guid": 2, "port_guid": 3, "partition_cap": 1, "local_port_num": 1}
STEP = 112


def record(lid: int, node_type: int) -> bytes:
    info = build(NodeInfo, **{**NODE, "node_type": node_type, "node_guid": lid})
    return (build(NodeRecord, lid=lid)[:4] + info + bytes(64)).ljust(STEP, b"\0")


def table_of(*kinds: int) -> list[bytes]:
    """A table of nodes of some types in segments of 200 bytes: the second record lies in the first two."""
    data = b"".join(record(lid, kind) for lid, kind in enumerate(kinds, 1))
    pieces = [data[at : at + ROOM] for at in range(0, len(data), ROOM)]
    lengths = {1: 20 * len(pieces) + len(data), len(pieces): 20 + len(pieces[-1])}
    flags = {1: 3, len(pieces): 5}
    return [segment(number, flags.get(number, 1), lengths.get(number, 0), piece) for number, piece in enumerate(pieces, 1)]


def found(frames: list[bytes], **chosen: str) -> list[Finding]:
    with Capture(io.BytesIO(erf_pcap(frames))) as opened:
        return opened.lint(select="SEM032", **chosen)


@pytest.mark.parametrize("bad", range(5))
def test_each_record_of_a_table(bad: int) -> None:
    """NodeType 9 is reserved, wherever the record lies: in one segment, in two, or last."""
    kinds = [9 if number == bad else 1 for number in range(5)]
    (finding,) = found(table_of(*kinds))
    assert finding.frame == (bad * STEP + STEP - 1) // ROOM + 1
    assert (finding.count, finding.value, f"0x{bad + 1:016x}" in finding.message) == (1, 9, True)
    (span,) = finding.spans
    assert table_of(*kinds)[span.frame - 1][span.offset] == 9
    assert not found(table_of(1, 1, 1, 1, 1))


def test_all_records_of_a_table() -> None:
    """One finding per frame, as for the whole records of a segment; it names each record."""
    assert [(one.frame, len(one.spans)) for one in found(table_of(9, 9, 9, 9, 9))] == [(1, 1), (2, 2), (3, 2)]


def test_a_missing_segment() -> None:
    """Nothing is said about a record whose bytes are not all there."""
    first, _, last = table_of(1, 9, 1, 1, 1)
    assert not found([first, last])


def test_a_selection() -> None:
    frames = table_of(1, 9, 1, 1, 1)
    assert found(frames, filter="frame.number == 2")
    assert not found(frames, filter="frame.number == 1")


GOOD = {"LNK025", "SEM058"}


@pytest.mark.parametrize(("status", "codes"), [(0, GOOD), (0x1C, set()), (0x8000, GOOD), (0x02, {"LNK025"})])
def test_what_a_failed_answer_carries_is_not_judged(status: int, codes: set[str]) -> None:
    """Whatever the rule says of it; one that also asks for a good answer is silent at a redirection."""
    frames = [answer(5, 0x15, port_info(5, lmc=1, diag_code=4), header={"status": status})]
    with Capture(io.BytesIO(erf_pcap(frames))) as opened:
        assert {one.code for one in opened.lint(select="LNK025,SEM058")} == codes


@pytest.mark.parametrize("bad_first", [False, True])
def test_nor_is_it_where_another_answer_is_good(bad_first: bool) -> None:
    """The condition holds for one of two: only for what the failed answer carries."""
    failed, fine = answer(5, 0x15, port_info(5, lmc=1, diag_code=4), header={"status": 0x1C}), answer(6, 0x15, port_info(6))
    with Capture(io.BytesIO(erf_pcap([failed, fine] if bad_first else [fine, failed]))) as opened:
        assert not opened.lint(select="LNK025,SEM058")
