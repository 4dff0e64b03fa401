"""A capture says who sends and receives, in every command; of a pipe that is asked only with files."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibdissect
from ibdissect.errors import CaptureError
from tests.capture.built import Pipe
from tests.commands import run
from tests.craft import erf_pcap, native
from tests.screen_model.made import written
from tests.subnet.made import answer, node

SHOWN = [native(slid=5), answer(5, 0x11, node(5)), answer(5, 0x10, b"host".ljust(64, b"\0")), native(slid=6, bth={"p_key": 0x9999})]
ASKED = 'ibdissect.src.node == "host"'


def test_ends_of_a_capture(tmp_path: Path) -> None:
    with ibdissect.open(str(written(tmp_path, *SHOWN))) as capture:
        assert capture.table().filter(ASKED).frames().tolist() == [1, 2, 3]
        (table,) = capture.tables()
        assert capture.ends().of(table)[0] == {0: ["host"], 1: ["host"], 2: ["host"]}


def test_a_pipe_can_be_read_only_once() -> None:
    with ibdissect.open(Pipe(erf_pcap(SHOWN))) as capture, pytest.raises(CaptureError, match="only once"):
        capture.ends()


def test_commands_know_who_is_who(tmp_path: Path) -> None:
    path = str(written(tmp_path, *SHOWN))
    assert len(run("show", path, "-Y", ASKED).stdout.splitlines()) == 3
    assert len(run("show", path, "-Y", f"not {ASKED}").stdout.splitlines()) == 1
    table = tmp_path / "x.csv"
    run("export", path, "-Y", ASKED, "-e", "frame.number", "-e", "ibdissect.node", "-o", str(table))
    assert [line.split(",")[0] for line in table.read_text().splitlines()[1:]] == ["1", "2", "3"]
    assert b"1 frame in" in run("lint", path, "-Y", f"not {ASKED}").stdout.replace(b"1 of 4 frames", b"1 frame")
