"""Do the small pure parts say the right thing: filters from fields, columns, text in cells, history, panes?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibdissect.dfilter.compile import compile_filter
from ibdissect.table.table import ChunkTable
from ibdissect.tui import columns
from ibdissect.tui.columns import COLUMNS, TimeFormat, seconds_text, time_text, widths
from ibdissect.tui.conversation_screen import exchange_filter
from ibdissect.tui.exchanges import ROUTES, Exchange
from ibdissect.tui.fabric_view import FabricView
from ibdissect.tui.filters import as_filter, checked
from ibdissect.tui.ink import cut, duration, fit, octets, spark, squeeze, width_of
from ibdissect.tui.memory import History
from ibdissect.tui.model import CaptureModel, Line
from ibdissect.tui.panes import Panes
from ibdissect.tui.talks import Talk, talk_filter
from ibdissect.tui.tally import TimeLine
from ibdissect.tui.workers import overwrites, unwritable
from tests.conftest import REPO
from tests.tui import made


@pytest.mark.parametrize("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap"])
def test_every_field_as_filter_selects_its_own_frame(name: str) -> None:
    model = CaptureModel(str(REPO / "captures" / name))
    model.scan(lambda: None)
    tried: set[str] = set()
    for frame in range(1, min(model.index.frames, 60) + 1):
        table = ChunkTable(model.index.chunk([frame]))
        for node in model.tree(frame).walk():
            text = as_filter(node)
            if text is None or text in tried or node.in_front:
                continue
            tried.add(text)
            assert compile_filter(text).rows(table)[0], (frame, text)
    assert len(tried) > 50
    model.close()


def test_masked_fields_and_layers_make_no_filter(tmp_path: Path) -> None:
    model = CaptureModel(str(made.capture(tmp_path)))
    model.scan(lambda: None)
    nodes = list(model.tree(7).walk())
    assert as_filter(next(node for node in nodes if node.name == "infiniband.deth.q_key")) is None
    assert as_filter(next(node for node in nodes if node.label == "BTH")) is None
    assert as_filter(None) is None
    model.close()


def test_checked() -> None:
    assert checked("  ", None, 0) == (None, None)
    good, none = checked("infiniband", None, 0)
    assert good is not None and none is None
    nothing, error = checked("infiniband.bth.psnn == 1", None, 0)
    assert nothing is None and error is not None and "psn" in error.hint + error.reason


def test_history(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "filters"
    history = History(path)
    for text in ("a", "b  c", "a", " "):
        history.add(text)
    assert history.texts == ["b c", "a"] and History(path).texts == ["b c", "a"]
    blocked = History(tmp_path / "deep" / "filters" / "below a file")
    blocked.add("x")
    assert blocked.texts == ["x"]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字漢字", 5, "漢字…"), ("漢字", 3, "漢…"), ("abc", 0, ""), ("a", 1, "a"), ("ab", 1, "…")],
)
def test_cut(text: str, width: int, expected: str) -> None:
    assert cut(text, width) == expected
    assert width_of(fit(text, width)) == width


def test_numbers_for_people() -> None:
    assert [octets(n) for n in (0, 999, 1500, 123_456, 5_000_000_000)] == ["0 B", "999 B", "1.5 kB", "123 kB", "5.0 GB"]
    assert [duration(n) for n in (5, 61_000, 2_500_000)] == ["5 ns", "61 µs", "2.5 ms"]
    assert [duration(n) for n in (3_100_000_000, 90_000_000_000)] == ["3.10 s", "1 min 30 s"]
    assert spark([0, 1, 8]) == " ▁█" and spark([]) == "" and spark([0, 0]) == "  "
    assert squeeze([1, 2, 3, 4], 2) == [3, 7] and squeeze([5], 3) == [5, 5, 5] and squeeze([], 2) == [0, 0]


def test_times() -> None:
    line = Line(1, 1_700_000_000_214_031_500, "", "", "", None, 0, "", False)
    first = 1_700_000_000_000_000_000
    assert time_text(line, TimeFormat.RELATIVE, first, None) == "0.214 031"
    assert time_text(line, TimeFormat.DELTA, first, line.time_ns - 2_000) == "0.000 002"
    assert time_text(line, TimeFormat.DELTA, first, None) == "0.000 000"
    assert time_text(line, TimeFormat.ABSOLUTE, first, None) == "22:13:20.214 031"
    assert time_text(line, TimeFormat.DATE, first, None) == "2023-11-14 22:13:20.214 031"
    assert seconds_text(-1_500_000) == "-0.001 500"


def test_columns_go_in_order_when_space_is_short() -> None:
    wanted = {"number": 4, "time": 9, "source": 9, "destination": 9, "protocol": 3}
    full = widths(COLUMNS, wanted, 160)
    assert list(full) == [column.key for column in COLUMNS] and full["info"] > 60
    gone = []
    for width in range(120, 50, -1):
        now = widths(COLUMNS, wanted, width)
        assert columns.GUTTER + sum(now.values()) + 2 * len(now) <= width
        gone += [key for key in full if key not in now and key not in gone]
    assert gone == ["length", "p_key", "time"]
    assert widths(COLUMNS, {**wanted, "source": 39, "destination": 39}, 100)["info"] >= columns.LEAST_INFO


@pytest.mark.parametrize(
    ("panes", "size", "shown"),
    [
        (Panes(), (120, 40), {"tree": True, "bytes": True, "findings": True}),
        (Panes(), (80, 24), {"tree": True, "bytes": False, "findings": False}),
        (Panes(bytes_wanted=True), (80, 24), {"tree": False, "bytes": True, "findings": False}),
        (Panes(findings_wanted=True), (80, 24), {"tree": False, "bytes": False, "findings": True}),
        (Panes(bytes_wanted=False, findings_wanted=False), (250, 80), {"tree": True, "bytes": False, "findings": False}),
    ],
)
def test_panes(panes: Panes, size: tuple[int, int], shown: dict[str, bool]) -> None:
    assert panes.shown(*size) == shown


def test_time_line_stretches_and_keeps_the_sum() -> None:
    line = TimeLine()
    times = np.arange(0, 10**12, 10**9, dtype=np.int64) + 1_700_000_000 * 10**9
    for part in np.array_split(times, 7):
        line.feed(part, np.full(len(part), 100, np.int64))
    line.feed(times[:1] - 10**9, np.full(1, 100, np.int64))  # time runs backwards
    assert line.packets.sum() == len(times) + 1 and line.octets.sum() == 100 * (len(times) + 1)
    assert line.used <= 4096 and line.bucket(int(times[-1])) == line.used - 1


def test_filters_of_conversations_compile() -> None:
    for near, far in (("LID 1", "LID 2"), ("10.0.0.1", "10.0.0.2"), ("fe80::1", "fe80::2")):
        for service, qp in (("RC", 0x11), ("UD", 0x11), ("UC", -1)):
            compile_filter(talk_filter(Talk(service, near, qp, far, 0x12, (1, 1), (9, 9), (), 1)))
        compile_filter(exchange_filter(Exchange(near, far, 3)))
    assert exchange_filter(Exchange("LID 65535", ROUTES, 0x81)) == "infiniband.mad.mgmtclass == 0x81"


def test_where_frames_may_be_written(tmp_path: Path) -> None:
    source = made.capture(tmp_path)
    other = tmp_path / "other.pcap"
    assert unwritable(str(other), str(source)) is None and overwrites(str(other)) is None
    other.write_bytes(b"")
    assert unwritable(str(other), str(source)) is None and "overwrites" in (overwrites(str(other)) or "")
    assert unwritable(str(source), str(source)) == "that is the capture itself"
    assert unwritable(str(tmp_path / "no" / "x.pcap"), str(source)) is not None
    assert unwritable("x.txt", str(source)) is not None and unwritable("", str(source)) is not None


def test_an_empty_fabric_has_no_lines() -> None:
    assert FabricView([]).entries == []
