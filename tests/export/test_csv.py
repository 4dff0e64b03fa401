"""Is CSV written without pyarrow, and harmless to spreadsheets?"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pytest

from ibdissect.cli import run
from ibdissect.export.csv import cell, write


def test_cells_are_no_formulas() -> None:
    found = [cell(text) for text in ("=1+1", " @x", "-2", "plain", "a\x1b[m", 'a "b"')]
    assert found == ['"\'=1+1"', '"\' @x"', '"\'-2"', '"plain"', '"a\\x1b[m"', '"a ""b"""']


def test_a_csv_reader_reads_the_written_values() -> None:
    file = io.BytesIO()
    assert write(["a", "b"], [False, True], [[["1", ""], ["x,y", ""]], [["3"], ['"\n']]], file) == 3
    assert list(csv.reader(io.StringIO(file.getvalue().decode()))) == [["a", "b"], ["1", "x,y"], ["", ""], ["3", '"\\x0a']]


def test_columns_need_no_pyarrow(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    for name in ("pyarrow", "ibdissect.export.tables", "ibdissect.session.arrow"):
        monkeypatch.setitem(sys.modules, name, None)
    names = ("frame.number", "frame.time", "frame.time_relative", "bth.p_key", "bth.a", "ibdissect.code", "_ws.col.info", "ip.src")
    assert run(["export", lab, "--to", str(tmp_path / "x.csv"), "-q", *(word for name in names for word in ("-e", name))]) == 0
    line = (tmp_path / "x.csv").read_text().splitlines()[32]
    assert line == '32,2023-11-14 22:13:20.003100000Z,0.003100000,291,false,"PKY001,PKY021","ACK QP 0x000202 PSN 20 MSN 1",'
