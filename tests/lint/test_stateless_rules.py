"""Conditions of rules judge records that straddle RMPP segments, once, at the frame that completes them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ibdissect.failures import Failures
from ibdissect.lint.finding import Finding, Severity
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.python_interface import Capture
from ibdissect.wire.expr import Where
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo, SMPDirected
from ibdissect.wire.ulp import rpcrdma
from ibdissect.words import Rule, Seen
from tests.acme import connection
from tests.cases import every, few
from tests.craft import build, erf_pcap, smp
from tests.decode.made import native_table as table_of_frames
from tests.mad.transfers import ROOM, segment
from tests.subnet.made import answer, port_info
from tests.transport.test_reassembled_messages import NFS, packets

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


@few("bad", range(5), fast=(0, 4))
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


@every(("status", "codes"), [(0, GOOD), (0x1C, set()), (0x8000, GOOD), (0x02, {"LNK025"})])
def test_what_a_failed_answer_carries_is_not_judged(status: int, codes: set[str]) -> None:
    """Whatever the rule says of it; one that also asks for a good answer is silent at a redirection."""
    frames = [answer(5, 0x15, port_info(5, lmc=1, diag_code=4), header={"status": status})]
    with Capture(io.BytesIO(erf_pcap(frames))) as opened:
        assert sorted(one.code for one in opened.lint(select="LNK025,SEM058")) == sorted(codes)


@pytest.mark.parametrize("bad_first", [False, True])
def test_nor_is_it_where_another_answer_is_good(bad_first: bool) -> None:
    """The condition holds for one of two: only for what the failed answer carries."""
    failed, fine = answer(5, 0x15, port_info(5, lmc=1, diag_code=4), header={"status": 0x1C}), answer(6, 0x15, port_info(6))
    with Capture(io.BytesIO(erf_pcap([failed, fine] if bad_first else [fine, failed]))) as opened:
        assert not opened.lint(select="LNK025,SEM058")


class Described(Rule):
    """A record of a table of nodes."""

    code, name, message = "ZZD008", "described", "node {NodeRecord.lid}"
    on, when, at = NodeRecord, NodeRecord.lid > 0, NodeRecord.node_description


class Header(Rule):
    """A message of RPC-over-RDMA."""

    code, name, message, when = "ZZD009", "header", "version {version}", rpcrdma.RPCRDMA.version == 1


class Segment(Rule):
    """A segment of a write chunk in it."""

    code, name, message, when = "ZZD010", "segment", "at {offset_}", rpcrdma.RPCRDMASegment.offset_ >= 0


for _one in (Described, Header, Segment):
    REGISTRY.pop(_one.code)


def hits(frames: list[bytes], *rules: type[Rule]) -> list[Finding]:
    linter = Linter(rules, max_findings=None)
    with Capture(io.BytesIO(erf_pcap(frames))) as opened:
        for table in opened.tables():
            linter.feed(table)
    return linter.finish()


def test_bytes_that_lie_in_several_frames() -> None:
    """The description of a record that is cut is marked in both; a frame with two records marks both."""
    frames = table_of(1, 1, 1, 1, 1)
    begin = frames[0].index(record(1, 1))
    marked = [[(span.frame, span.offset - begin, span.length) for span in one.spans] for one in hits(frames, Described)]
    assert marked == [[(1, 44, 64)], [(1, 156, 44), (2, 0, 20), (2, 68, 64)], [(2, 180, 20), (3, 0, 44), (3, 92, 64)]]


def test_a_message_of_several_packets_is_not_judged_a_second_time() -> None:
    """Its first packet shows its header; the whole shows it again, where it ends, with what only the whole has."""
    frames = [*connection(rpcrdma.SERVICE), *packets(NFS)]
    found = hits(frames, Header, Segment)
    assert len(frames) == 5 and {(one.code, one.frame) for one in found} == {("ZZD009", 3), ("ZZD010", 3)}


class Two(Rule):
    """A hit names the first of the occurrences in its frame."""

    code, name, message, severity = "ZZD001", "two", "node {node_guid} of {NodeRecord.lid}, {which}", Severity.WARNING
    when = NodeInfo.node_type == 9

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"which": i}


class Unknown(Two):
    """Names what nobody declares."""

    code, name, message = "ZZD002", "unknown", "{NoSuchThing}"


for one in (Two, Unknown):
    REGISTRY.pop(one.code)


def test_a_hit_is_about_the_first_of_its_entries() -> None:
    """It has the place and the value of each in its frame."""
    table = answer(2, 0x11, build(NodeInfo, **NODE | {"node_type": 9}))
    (one,) = hits([table, answer(3, 0x11, build(NodeInfo, **NODE))], Two)
    one.finish(None)
    assert (one.frame, one.message, one.value, one.field) == (1, "node 2 of ?, 0", 9, "infiniband.nodeinfo.nodetype")
    assert [(span.frame, table[span.offset]) for span in one.spans] == [(1, 9)]
    with pytest.raises(KeyError, match="message names 'NoSuchThing', which is not a field of NodeInfo"):
        hits([table], Unknown)


class Hop(Rule):
    """A directed route leads somewhere."""

    code, name, message, when = "ZZD011", "hop", "{{hops}}: {hop_count:04x}, {hop_count}", SMPDirected.hop_count > 0


REGISTRY.pop(Hop.code)


def test_a_message_quotes_a_field_in_a_form_and_again() -> None:
    (one,) = hits([smp(1, 0x11, path=[7, 8])], Hop)
    one.finish(None)
    assert one.message == "{hops}: 0002, 2"


class Breaks(Rule):
    """Raises."""

    code, name, message, on = "ZZD003", "breaks", "x", NodeInfo
    when = Where(NodeInfo, lambda table: 1 // 0)


class Holds(Breaks):
    """Holds everywhere."""

    code, name = "ZZD004", "holds"
    when = NodeInfo.base_version == 1


for other in (Breaks, Holds):
    REGISTRY.pop(other.code)


@pytest.mark.parametrize("kinds", [(Breaks, Holds), (Holds, Breaks)])
def test_a_rule_that_raises_does_not_stop_others_about_its_structure(kinds: tuple[type[Rule], ...]) -> None:
    failures = Failures()
    linter = Linter(kinds, failures=failures)
    linter.feed(table_of_frames([answer(2, 0x11, build(NodeInfo, **NODE))]))
    assert [(one.code, one.frame) for one in linter.finish()] == [("ZZD004", 1)]
    assert "rule ZZD003" in (failures.text()) and "ZZD004" not in (failures.text())


class Nine(Rule):
    """A rule that nothing explains."""

    code, name, message, when = "ZZD005", "nine", "nine", NodeInfo.node_type == 9


class Explained(Nine):
    """One that another explains."""

    code, name = "ZZD006", "explained"


class Explains(Nine):
    """It, where both hold."""

    code, name, explains, when = "ZZD007", "explains", ("ZZD006",), NodeInfo.node_guid == 2


for another in (Nine, Explained, Explains):
    REGISTRY.pop(another.code)


def test_records_that_straddle_segments_are_judged_by_rules_of_every_rank() -> None:
    """The second record lies in two segments; what explains it in both."""
    told = [(one.code, one.frame) for one in hits(table_of(9, 9, 1, 1, 9), Explained, Nine, Explains)]
    assert told == [("ZZD005", 1), ("ZZD006", 1), ("ZZD005", 2), ("ZZD007", 2), ("ZZD005", 3), ("ZZD006", 3)]
