"""Arrow, polars, DuckDB, pandas and notebooks read tables as they are, with all text escaped."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pytest

import ibdissect
from tests.cases import every
from tests.craft import erf_pcap, native, smp
from tests.subnet.made import answer

FRAMES = [native(payload=bytes(8), slid=7), smp(1, 0x11), native(payload=bytes(8), slid=9)]


@pytest.fixture
def capture() -> ibdissect.Capture:
    return ibdissect.open(io.BytesIO(erf_pcap(FRAMES)))


def test_arrow_reads_a_table(capture: ibdissect.Capture) -> None:
    pa = pytest.importorskip("pyarrow")
    table = capture.table().select("frame.number", "lrh.slid")
    assert pa.table(table).to_pydict() == {"frame.number": [1, 2, 3], "infiniband.lrh.slid": [7, 1, 9]}
    assert pa.table(table.filter("lrh.slid == 9")).num_rows == 1
    assert list(table)[2] == {"frame.number": 3, "infiniband.lrh.slid": 9}
    assert list(table.select()) == list(table)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["polars", "duckdb", "pandas"])
def test_others_read_it(capture: ibdissect.Capture, library: str) -> None:
    pytest.importorskip("pyarrow")
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    x = capture.table().select("frame.number", "lrh.slid")
    if library == "polars":
        import polars

        found = polars.DataFrame(x)["infiniband.lrh.slid"].to_list()
    elif library == "duckdb":
        import duckdb

        found = [row[1] for row in duckdb.sql("from x").fetchall()]
    else:
        import pandas

        found = pandas.DataFrame(x)["infiniband.lrh.slid"].tolist()
    assert found == [7, 1, 9]


def test_notebooks_show_captures_frames_and_trees(capture: ibdissect.Capture) -> None:
    shown = capture._repr_html_()
    assert shown.count("<tr>") == 1 + len(FRAMES) and "SubnGet(NodeInfo)" in shown
    assert ">2</td>" in capture.table().select("frame.number").filter("infiniband.mad")._repr_html_()
    assert "NodeInfo" in capture.dissect(2)._repr_html_() and "link type" in capture.frame(1)._repr_html_()
    pipe = ibdissect.open(Once(erf_pcap(FRAMES)))
    assert "pipe" in pipe._repr_html_() and len(list(pipe)) == len(FRAMES)  # showing it has read nothing


def test_what_a_prompt_shows(capture: ibdissect.Capture) -> None:
    assert repr(capture) == f"<ibdissect.Capture {capture.path}>"
    table = capture.table().filter("mad").select("frame.number")
    assert repr(table) == f"<Columns of frames of {capture.path} with mad: frame.number>"
    assert repr(capture.findings()) == "<FindingsTable: 0 findings>"


def test_text_is_escaped_and_tables_are_short() -> None:
    named = [answer(2, 0x10, f"<script>{number}\x1b".encode().ljust(64, b"\0")) for number in range(99)]
    with ibdissect.open(io.BytesIO(erf_pcap(named))) as opened:
        html = (
            opened.table().select("frame.number", "nodedescription.nodestring").filter('nodedescription.nodestring != "<b>"')._repr_html_()
        )
    assert "<script>" not in html and "&lt;script&gt;9" in html and "<b>" not in html and "&lt;b&gt;" in html and "\x1b" not in html
    assert html.count("<tr>") == 11 and html.endswith("<p>...</p>")


class Once(io.BytesIO):
    """A pipe."""

    def seekable(self) -> bool:
        return False


def test_messages_records_and_lengths_keep_columns_without_rows(capture: ibdissect.Capture) -> None:
    pytest.importorskip("pyarrow")
    assert (len(capture), bool(capture)) == (3, True)
    none = capture.table().filter("lrh.slid == 1000").select("lrh.slid")
    assert (len(none.frames()), str(none.to_arrow().schema.types[0])) == (0, "uint16")
    for table in (capture.records(), capture.findings(select="PKY001"), capture.messages()):
        found = table.to_arrow()
        assert found.num_rows == len(list(table)) and found.schema == table.schema() and len(found.schema) > 10
    assert "CaptureTable: records" in repr(capture.records()) and "<th" in capture.records()._repr_html_()


def test_pandas_keeps_types_without_rows(capture: ibdissect.Capture) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    found = capture.table().filter("lrh.slid == 1000").select("frame.number", "lrh.slid").to_pandas()
    assert [str(kind) for kind in found.dtypes] == ["Int64", "UInt16"]


class Enough(Exception):
    """The program has seen enough."""


@every("ask", ["lint", "connections", "frames", "messages"])
def test_a_program_cancels_by_raising_in_progress(capture: ibdissect.Capture, ask: str) -> None:
    seen = []

    def progress(frame: int, read: int) -> None:
        seen.append((frame, read > 0))
        raise Enough

    capture.progress = progress
    asked = {"lint": capture.lint, "connections": capture.connections, "frames": capture.table().frames}
    with pytest.raises(Enough):
        asked.get(ask, lambda: [*capture.requests()])()
    assert seen == [(3, True)]
