"""Columns of selected frames are passed on as Arrow to pandas, polars and DuckDB."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import ibdissect
from ibdissect.errors import ConfigError, FilterError
from tests.craft import erf_pcap, native, smp, ud
from tests.dissect.frames import all_frames

DATA = erf_pcap(all_frames())


def test_filters_narrow_the_frames() -> None:
    with ibdissect.open(io.BytesIO(DATA)) as capture:
        table = capture.table()
        mads = table.filter("infiniband.mad")
        answers = mads.filter("mad.method == 0x81 or mad.method == 0x05")
        assert table.frames().tolist() == list(range(1, 18))
        assert mads.frames().tolist() == [1, 2, 3, 4, 5, 6, 17] and answers.frames().tolist() == [2, 3, 4]
        method = answers["mad.method"]
        assert (method.frame.tolist(), method.value.tolist()) == ([2, 3, 4], [0x81, 0x81, 0x05])
        assert len(table["mad.method"]) == 7  # the whole is as it was
        with pytest.raises(FilterError, match=r"column 1: .mad\.no_such"):
            mads.filter("mad.no_such == 1")


@pytest.mark.slow
def test_filters_that_ask_for_findings() -> None:
    with ibdissect.open(io.BytesIO(DATA)) as capture:
        found = {finding.frame for finding in capture.lint() if finding.frame}
        assert set(capture.table().filter("ibdissect.code").frames().tolist()) == found and found


@pytest.fixture
def frames() -> bytes:
    return erf_pcap([ud(b"x", slid=7, q_key=0xC0FFEE), native(0x04)[:9], native(0x04, b"y", slid=9)])


def test_arrow_has_the_types_of_the_fields(frames: bytes) -> None:
    pa = pytest.importorskip("pyarrow")
    with ibdissect.open(io.BytesIO(frames)) as capture:
        table = capture.table().to_arrow("frame.number", "frame.time", "lrh.slid", "bth.m", "deth.q_key", "grh.sgid")
        assert isinstance(table, pa.Table)
        assert table.schema.names[2:] == ["infiniband.lrh.slid", "infiniband.bth.m", "infiniband.deth.q_key", "infiniband.grh.sgid"]
        assert [str(kind) for kind in table.schema.types] == ["int64", "timestamp[ns, tz=UTC]", "uint16", "bool", "uint32", "string"]
        assert table["frame.number"].to_pylist() == [1, 2, 3]
        assert table["infiniband.lrh.slid"].to_pylist() == [7, 1, 9]
        assert table["infiniband.deth.q_key"].to_pylist() == [None, None, None]  # a key
        assert capture.table().filter("lrh.slid == 9").to_arrow("frame.number").to_pydict() == {"frame.number": [3]}
        assert capture.table().filter("lrh.slid == 99").to_arrow("frame.number").num_rows == 0
        assert "_ws.col.info" in capture.table().to_arrow().schema.names
        assert [batch.num_rows for batch in capture.table().batches("bth.psn")] == [3]
        with pytest.raises(FilterError):
            capture.table().to_arrow("no.such")
    with ibdissect.open(io.BytesIO(frames), show_keys=True) as capture:
        assert capture.table().to_arrow("deth.q_key")["infiniband.deth.q_key"].to_pylist() == [0xC0FFEE, None, None]


@pytest.mark.skipif(find_spec("pandas") is None, reason="needs pandas")
def test_pandas(frames: bytes) -> None:
    pytest.importorskip("pyarrow")
    with ibdissect.open(io.BytesIO(frames)) as capture:
        assert capture.table().to_arrow("lrh.slid").to_pandas()["infiniband.lrh.slid"].tolist() == [7, 1, 9]


@pytest.mark.slow
def test_polars_and_duckdb_read_tables_and_files(frames: bytes, tmp_path: Path) -> None:
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    from pyarrow import parquet

    names = ("frame.time", "lrh.slid", "infiniband.smp.initialpath", "grh.sgid")
    with ibdissect.open(io.BytesIO(frames)) as capture:
        known = [name for name in names if name.startswith("frame.") or capture.catalog.fields(name)]
        arrow = capture.table().to_arrow(*known)
        direct = pl.DataFrame(capture.table().filter("lrh.slid == 9").to_arrow())
    assert direct["_ws.col.source"].to_list() == ["LID 9"]
    assert pl.DataFrame(arrow)["infiniband.lrh.slid"].to_list() == [7, 1, 9]
    assert duckdb.sql('select sum("infiniband.lrh.slid") from arrow').fetchall() == [(17,)]
    parquet.write_table(arrow, tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").equals(pl.DataFrame(arrow))


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, frames: bytes) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ibdissect.tables.arrow", None)
    with (
        ibdissect.open(io.BytesIO(frames)) as capture,
        pytest.raises(ConfigError, match=r"not installed; install it: python -m pip install 'ibdissect\[export\]'"),
    ):
        assert np.array_equal(capture.table().frames(), [1, 2, 3])
        capture.table().to_arrow()


def test_a_column_without_entries_has_the_shape_of_others() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([bytes(4)]))) as capture:
        table = capture.table()
        values = {name: table[name].value for name in ("grh.sgid", "bth.a", "bth.psn", "infiniband.payload")}
    assert {name: (value.dtype, value.shape) for name, value in values.items()} == {
        "grh.sgid": (np.uint8, (0, 16)), "bth.a": (np.bool_, (0,)), "bth.psn": (np.uint64, (0,)), "infiniband.payload": (object, (0,)),
    }  # fmt: skip


def test_a_filter_compares_keys_only_where_they_are_shown(repo: Path) -> None:
    path = repo / "captures" / "rxe-rping.pcap"
    with ibdissect.open(path, show_keys=True) as opened:
        key = int(opened.table()["infiniband.reth.r_key"].value[0])
        assert len(opened.table().filter(f"infiniband.reth.r_key == {key}")["infiniband.reth.r_key"])
    with ibdissect.open(path) as opened, pytest.raises(FilterError, match="hidden R_Key"):
        opened.table().filter(f"infiniband.reth.r_key == {key}")


def test_arrays_hide_keys_and_what_reveals_one(frames: bytes) -> None:
    with ibdissect.open(io.BytesIO(frames)) as capture:
        table = capture.table()
        for name in ("deth.q_key", "infiniband.invariant.crc", "frame"):
            values = table[name].value
            assert values.tolist()[0] is None, name
            assert not values.data[0], name  # nothing is left under the mask
        assert [value is None for value in table["frame"].value.tolist()] == [True, True, False]  # the second may be cut inside a key
        assert table["lrh.slid"].value.tolist() == [7, 1, 9]
    with ibdissect.open(io.BytesIO(frames), show_keys=True) as capture:
        assert capture.table()["deth.q_key"].value.tolist() == [0xC0FFEE]


def test_columns_are_read_once_and_of_the_selected_frames(frames: bytes) -> None:
    with ibdissect.open(io.BytesIO(frames)) as capture:
        table = capture.table()
        slid = table["lrh.slid"]
        assert (
            table["infiniband.lrh.slid"] is slid and len(slid) == 3 and (slid.frame.tolist(), slid.value.tolist()) == ([1, 2, 3], [7, 1, 9])
        )
        table.read(["bth.psn", "frame.number", "lrh.slid"])
        assert table["frame.number"].value.tolist() == [1, 2, 3] and table["lrh.slid"] is slid
        assert table["bth.psn"].frame.tolist() == [1, 3]
        some = table.filter("lrh.slid != 1")
        assert [(some[name].frame.tolist()) for name in ("lrh.slid", "bth.psn", "frame.len")] == [[1, 3]] * 3
        assert some.filter("lrh.slid == 9")["frame.number"].value.tolist() == [3]
        none = table.filter("lrh.slid == 99")
        assert none.frames().tolist() == [] and none["frame.number"].value.tolist() == [] and none["lrh.slid"].value.dtype == np.uint64
        assert "lrh.slid" in table and "infiniband.lrh.slid" in table and "lrh.slidd" not in table


def test_windows_of_a_capture_are_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    data = erf_pcap([native(0x04, slid=slid) for slid in range(1, 8)])
    with ibdissect.open(io.BytesIO(data)) as capture:
        whole = capture.table()["lrh.slid"]
    monkeypatch.setattr("ibdissect.capture.opening.WINDOW", 100)
    with ibdissect.open(io.BytesIO(data)) as capture:
        table = capture.table()
        assert table["lrh.slid"].value.tolist() == whole.value.tolist() == [*range(1, 8)]
        assert table["lrh.slid"].frame.tolist() == table.frames().tolist() == [*range(1, 8)]
        assert table.filter("lrh.slid > 4")["lrh.slid"].frame.tolist() == [5, 6, 7]


def test_a_frame_has_one_value_where_the_first_is_asked_for() -> None:
    pytest.importorskip("pyarrow")
    data = erf_pcap([smp(0x81, 0x16, bytes(range(64))), native(0x04), smp(0x81, 0x16, bytes(range(64, 128)))])
    with ibdissect.open(io.BytesIO(data)) as capture:
        table = capture.table().filter("infiniband.p_keytable")
        lists = table.to_arrow("p_keytable.p_key")[0].to_pylist()
        assert [(len(one), one[0]) for one in lists] == [(32, 0x0001), (32, 0x4041)]
        assert table.to_arrow("p_keytable.p_key", first=True)[0].to_pylist() == [one[0] for one in lists]
        assert [one for batch in table.batches("p_keytable.p_key", first=True) for one in batch.column(0).to_pylist()] == [0x0001, 0x4041]


def test_text_and_bytes_of_any_length() -> None:
    with ibdissect.open(io.BytesIO(DATA), show_keys=True) as capture:
        table = capture.table()
        for name in ("nodedescription.nodestring", "infiniband.payload", "grh.sgid", "bth.a"):
            found = table[name]
            assert len(found.value) == len(found.frame) and (np.diff(found.frame) >= 0).all(), name
        assert all(isinstance(one, str) for one in table["nodedescription.nodestring"].value)
        assert all(isinstance(one, bytes) for one in table["infiniband.payload"].value)
        assert table["grh.sgid"].value.shape[1:] == (16,) and table["bth.a"].value.dtype == np.bool_


def test_what_a_notebook_and_a_prompt_show(frames: bytes) -> None:
    with ibdissect.open(io.BytesIO(frames)) as capture:
        table = capture.table().select("frame.number", "lrh.slid")
        html = table._repr_html_()
        assert html.count("<tr>") == 4 and '<th style="text-align:left">infiniband.lrh.slid</th>' in html and ">9</td>" in html
        assert repr(table) == f"<Columns of frames of {capture.path}: frame.number, lrh.slid>"
        assert table.select().names == table.names
        with pytest.raises(FilterError):
            table.select("no.such")
