"""The changes between two captures are the lines that `ibdissect diff` prints."""

from __future__ import annotations

from pathlib import Path

from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.comparing import compared
from tests import craft
from tests.commands import run


def test_the_lines_of_diff(tmp_path: Path) -> None:
    before, after = tmp_path / "before.pcap", tmp_path / "after.pcap"
    before.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))] * 3))
    after.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8), slid=9)] * 3))
    lines = compared(str(before), str(after), CheckOptions(rules=load()), lambda: True)
    assert lines and run("diff", str(before), str(after), text=True).stdout.splitlines()[:-1] == lines
    assert compared(str(before), str(after), CheckOptions(rules=[]), lambda: False) is None
    assert compared(str(before), str(before), CheckOptions(rules=[]), lambda: True) == []
