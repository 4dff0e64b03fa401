"""CSV is written without pyarrow, harmless to spreadsheets, and with the cells that `str` makes one by one."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.cli import run
from ibdissect.dissect.named_values import seconds_text
from ibdissect.export import csv as ours
from ibdissect.export.csv import cell, write
from tests.cases import every


def test_cells_are_no_formulas() -> None:
    assert [cell(f"{start}1")[:2] for start in "=+-@|%\uff1d\uff0b\uff0d\uff20"] == ["\"'"] * 10
    found = [cell(text) for text in ("=1+1", " @x", "-2", "plain", "a\x1b[m", 'a "b"')]
    assert found == ['"\'=1+1"', '"\' @x"', '"\'-2"', '"plain"', '"a\\x1b[m"', '"a ""b"""']


def test_a_csv_reader_reads_the_written_values() -> None:
    file = io.BytesIO()
    assert write(["a", "b"], [False, True], [[["1", ""], ["x,y", ""]], [["3"], ['"\n']]], file) == 3
    assert list(csv.reader(io.StringIO(file.getvalue().decode()))) == [["a", "b"], ["1", "x,y"], ["", ""], ["3", '"\\x0a']]


def test_columns_need_no_pyarrow(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    for name in ("pyarrow", "ibdissect.export.writers", "ibdissect.tables.arrow"):
        monkeypatch.setitem(sys.modules, name, None)
    names = ("frame.number", "frame.time", "frame.time_relative", "bth.p_key", "bth.a", "ibdissect.code", "_ws.col.info", "ip.src")
    assert run(["export", lab, "--output", str(tmp_path / "x.csv"), "-q", *(word for name in names for word in ("-e", name))]) == 0
    line = (tmp_path / "x.csv").read_text().splitlines()[32]
    assert line == '32,2023-11-14 22:13:20.003100000Z,0.003100000,291,false,"PKY001,PKY021","ACK QP 0x000202 PSN 20 MSN 1",'


EDGES = [0, 9, 10, 999, 1000, 9999, 10_000, 10_001, 99_999_999, 100_000_000, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]
NANOSECONDS = [0, 1, 9_999, 10_000, 99_999_999, 100_000_000, 999_999_999, 1_000_000_000, 1_700_000_000_123_456_789]


def _read(*columns: ours.Words) -> list[str]:
    return ours.lines(list(columns)).decode().splitlines()


@given(st.lists(st.one_of(st.sampled_from(EDGES), st.integers(0, (1 << 63) - 1))))
def test_numbers(numbers: list[int]) -> None:
    assert _read(ours.of_numbers(np.array(numbers, np.int64))) == list(map(str, numbers))


@every("kind", ["uint8", "uint16", "uint32", "uint64", "int32", "int64"])
def test_every_width(kind: Any) -> None:
    most = int(np.iinfo(kind).max)
    numbers = [0, 7, most // 3, most - 1, most]
    assert _read(ours.of_numbers(np.array(numbers, kind))) == list(map(str, numbers))


@given(st.lists(st.one_of(st.sampled_from(NANOSECONDS), st.integers(0, (1 << 63) - 1))))
def test_seconds(times: list[int]) -> None:
    assert _read(ours.of_seconds(np.array(times, np.int64))) == list(map(seconds_text, times))


@given(st.lists(st.text(st.characters(exclude_characters="\0\r\n,", exclude_categories=["Zl", "Zp", "Cc", "Cs"])), min_size=1))
def test_texts(texts: list[str]) -> None:
    assert _read(ours.of_texts(texts)) == texts


def test_lone_surrogates_are_escaped() -> None:
    assert _read(ours.of_texts(["a\udc80", ""])) == ["a\\udc80", ""]


def test_wide_rows_are_joined_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell wider than a piece, and columns of texts and of numbers side by side: the same rows, in order."""
    texts, numbers = ["x" * (i % 7) for i in range(100)], np.arange(100)
    texts[50] = "y" * 5000
    whole, pieced = io.BytesIO(), io.BytesIO()
    for file, size in ((whole, 1 << 30), (pieced, 64)):
        monkeypatch.setattr(ours, "AT_ONCE", size)
        columns = [ours.of_numbers(numbers), texts]
        assert size > 64 or len(list(ours.pieces(columns))) == 100
        assert write(["number", "text"], [False, True], [columns], file) == 100
    assert whole.getvalue() == pieced.getvalue()
    rows = list(csv.reader(io.StringIO(whole.getvalue().decode())))
    assert rows[1:] == [[str(i), text] for i, text in enumerate(texts)]
