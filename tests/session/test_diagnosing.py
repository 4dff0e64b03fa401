"""Does a diagnosis name keys by the numbers that they have everywhere, and leave the reading as it was?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ibdissect.session.diagnosing import diagnosed
from ibdissect.session.reading import open_reading
from ibdissect.table import ChunkTable
from tests import commands
from tests.diagnosis.lab import US, WRITE_ONLY
from tests.diagnosis.test_accesses import refused


def test_its_key_has_the_number_that_it_has_elsewhere(tmp_path: Path) -> None:
    """Other keys come before it: in a file, from a pipe, in a finding as in the tree; --show-keys shows its value."""
    lab = refused()
    for n, key in enumerate((9, 8)):
        lab.put(n * US, lab.a, bytes([10, 0, 0, 9]), WRITE_ONLY, 5, n, ext={"RETH": {"va": 0, "r_key": key, "dmalen": 0}})
    path = tmp_path / "a.pcap"
    path.write_bytes(lab.pcap())
    assert "its R_Key is R_Key#4" in commands.run("diagnose", str(path), text=True).stdout
    assert "its R_Key is 0x00000007" in commands.run("diagnose", "--show-keys", str(path), text=True).stdout
    tree = commands.run("show", "--format", "tree", "--frames", "12", str(path), text=True).stdout
    assert re.search(r"Remote Key: +R_Key#4", tree)
    (found,) = json.loads(commands.run("lint", "--select", "CNX011", "--format", "json", str(path), text=True).stdout)["findings"]
    assert found["message"].endswith("its R_Key is R_Key#4")
    with path.open("rb") as file, open_reading(file) as reading:
        assert "its R_Key is R_Key#4" in " ".join(one.why for one in diagnosed(reading, "pipe").connections)


def test_whoever_watches_may_end_it(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(refused().pcap())

    def stop(table: ChunkTable) -> None:
        raise KeyboardInterrupt

    with open_reading(str(path)) as reading:
        with pytest.raises(KeyboardInterrupt):
            diagnosed(reading, "a", each=stop)
        assert reading.joins
