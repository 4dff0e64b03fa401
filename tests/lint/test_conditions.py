"""Conditions of rules judge records that straddle RMPP segments, once, at the frame that completes them."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibdissect.decode.reassembled import SaRecord
from ibdissect.failures import Failures
from ibdissect.lint.conditions import _flat, _quoted, _spans, hit_at, judged, of_records
from ibdissect.lint.finding import Finding, Severity, Span
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.python_interface import Capture
from ibdissect.wire.expr import Where
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.words import Rule, Seen
from tests.craft import build, erf_pcap
from tests.decode.made import native_table as table_of_frames
from tests.mad.test_rmpp_records import ROOM, segment
from tests.subnet.made import answer, port_info

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
        assert sorted(one.code for one in opened.lint(select="LNK025,SEM058")) == sorted(codes)


@pytest.mark.parametrize("bad_first", [False, True])
def test_nor_is_it_where_another_answer_is_good(bad_first: bool) -> None:
    """The condition holds for one of two: only for what the failed answer carries."""
    failed, fine = answer(5, 0x15, port_info(5, lmc=1, diag_code=4), header={"status": 0x1C}), answer(6, 0x15, port_info(6))
    with Capture(io.BytesIO(erf_pcap([failed, fine] if bad_first else [fine, failed]))) as opened:
        assert not opened.lint(select="LNK025,SEM058")


@pytest.mark.parametrize(
    ("start", "stop", "spans"),
    [
        (0, 4, [Span(2, -50, 4)]), (99, 100, [Span(2, 49, 1)]), (100, 101, [Span(1, 7, 1)]), (106, 108, [Span(1, 13, 2)]),
        (107, 109, [Span(1, 14, 1), Span(3, 9, 1)]), (108, 109, [Span(3, 9, 1)]), (106, 112, [Span(1, 13, 2), Span(3, 9, 2),
        Span(4, 5, 2)]),
        (119, 120, [Span(4, 14, 1)]), (120, 123, [Span(5, 40, 3)]), (127, 128, [Span(5, 47, 1)]),
    ],
)  # fmt: skip
def test_bytes_that_lie_in_several_frames(start: int, stop: int, spans: list[Span]) -> None:
    """Bytes 0 to 99 are the window's, 100 to 119 and 120 to 127 those of two records, the first of them in three frames."""

    def record(*pieces: tuple[int, int, int]) -> tuple[int, Any]:
        return 0, SimpleNamespace(spans=[SimpleNamespace(frame=frame, offset=offset, length=length) for frame, offset, length in pieces])

    table: Any = SimpleNamespace(
        window=100, chunk=SimpleNamespace(offset=[10, 50]), once=lambda _: np.array([100, 120]),
        joined=[record((1, 7, 8), (3, 9, 2), (4, 5, 10)), record((5, 40, 8))],
    )  # fmt: skip
    seen: Any = SimpleNamespace(frame=2, row=1)
    assert list(_spans(table, seen, start, stop)) == spans


@pytest.mark.parametrize(
    ("at", "streams", "expected"),
    [
        ([], False, None), ([99], False, None), ([100], False, [True]), ([99, 100, 139], False, [False, True, True]),
        ([50, 99, 140], False, None), ([50, 139, 140], False, [True, True, False]), ([99, 140], True, [True, True]), ([], True, None),
    ],
)  # fmt: skip
def test_which_occurrences_of_joined_bytes_are_judged(at: list[int], streams: bool, expected: list[bool] | None) -> None:
    """Those in records, which begin at 100, and those that the window itself shows, at 50; not those in a message, which begins at 140."""
    table: Any = SimpleNamespace(catalog="c", occurrences=lambda _: SimpleNamespace(at=np.array([50])))

    class Found:
        def __init__(self) -> None:
            self.at = np.array(at, np.int64)

        def __len__(self) -> int:
            return len(at)

    parts = {"starts": np.array([100, 140]), "of_records": np.array([False, True, False])}
    shown: Any = SimpleNamespace(joined=[1, 2], window=100, occurrences=lambda _: Found(), once=lambda made: parts[made.__name__])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibdissect.lint.conditions.of_streams", lambda _: {NodeInfo} if streams else set())
        found = judged(table, shown, NodeInfo)
        assert found is None if expected is None else found is not None and found.tolist() == expected
        assert judged(table, shown, None) is None
        shown.joined = []
        assert judged(table, shown, NodeInfo) is None


@pytest.mark.parametrize(
    ("width", "columns"), [(1, [[0x01 << 56]]), (8, [[0x0102030405060708]]), (9, [[0x0102030405060708], [0x09 << 56]])]
)
def test_the_bytes_of_a_flow_as_numbers(width: int, columns: list[list[int]]) -> None:
    values = np.arange(1, width + 1, dtype=np.uint8)[None, :]
    assert [one.tolist() for one in _flat(values)] == columns
    (plain,) = _flat(np.array([7, 9], np.uint16))
    assert plain.tolist() == [7, 9] and plain.dtype == np.uint64


@pytest.mark.parametrize(
    ("message", "names"),
    [("no field", ()), ("{b} {a.c} {a[0]} {b!t} {a:04x} {{x}}", ("b", "a")), ("{}", ())],
)
def test_what_a_message_quotes(message: str, names: tuple[str, ...]) -> None:
    assert _quoted(message) == names


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
    frame = segment(1, 7, 20 + STEP + STEP, record(7, 1) + record(8, 9))  # one whole segment would hold one and a part
    table = table_of_frames([answer(2, 0x11, build(NodeInfo, **NODE | {"node_type": 9})), answer(3, 0x11, build(NodeInfo, **NODE)), frame])
    hit = hit_at(Two(), table, np.array([0, 1]))
    assert (hit.frame, hit.arguments["which"], hit.arguments["node_guid"], hit.arguments["NodeRecord"]) == (1, 0, 2, None)
    assert [one.frame for one in hit.spans] == [1, 1] and hit.value == 9 and hit.field is NodeInfo.node_type
    with pytest.raises(KeyError, match="message names 'NoSuchThing', which is not a field of NodeInfo"):
        hit_at(Unknown(), table, np.array([0]))


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


def test_which_joined_bytes_are_records_or_pdus() -> None:
    """Not the window itself, which comes first, nor messages."""
    message, pdu = SimpleNamespace(stream=None), SimpleNamespace(stream="s")
    shown: Any = SimpleNamespace(joined=[(0, message), (1, SaRecord(0, b"", (), None)), (1, pdu), (2, message)])
    assert of_records(shown).tolist() == [False, False, True, True, False]


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
    linter = Linter([Explained, Nine, Explains])
    with Capture(io.BytesIO(erf_pcap(table_of(9, 9, 1, 1, 9)))) as opened:
        for table in opened.tables():
            linter.feed(table)
    told = [(one.code, one.frame) for one in linter.finish()]
    assert told == [("ZZD005", 1), ("ZZD006", 1), ("ZZD005", 2), ("ZZD007", 2), ("ZZD005", 3), ("ZZD006", 3)]
