"""A diagnosis names keys by the numbers that they have everywhere, and leaves the reading as it was."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ibdissect.capture import records
from ibdissect.capture.file_names import CaptureSet
from ibdissect.decode import ChunkTable
from ibdissect.diagnosis.json_objects import json_text
from ibdissect.pipeline.diagnosing import diagnosed
from ibdissect.pipeline.reading import open_reading
from tests import commands
from tests.capture.built import Pipe
from tests.cli.test_diagnose import parts_of
from tests.diagnosis.lab import MS, US, WRITE_ONLY, Lab, joined
from tests.diagnosis.test_causes import CAUSES
from tests.diagnosis.test_refused_accesses import refused


@pytest.mark.slow
def test_its_key_has_the_number_that_it_has_elsewhere(tmp_path: Path) -> None:
    """Other keys come before it: in a file, from a pipe, in a finding as in the tree; --show-keys shows its value."""
    lab = refused()
    for n, key in enumerate((9, 8)):
        lab.put(n * US, lab.a, bytes([10, 0, 0, 9]), WRITE_ONLY, 5, n, ext={"RETH": {"va": 0, "r_key": key, "dmalen": 0}})
    path = tmp_path / "a.pcap"
    path.write_bytes(lab.pcap())
    assert "with R_Key R_Key#4" in commands.run("diagnose", str(path), text=True).stdout
    assert "with R_Key 0x00000007" in commands.run("diagnose", "--show-keys", str(path), text=True).stdout
    tree = commands.run("show", "--format", "tree", "--frames", "12", str(path), text=True).stdout
    assert re.search(r"Remote Key: +R_Key#4", tree)
    (found,) = json.loads(commands.run("lint", "--select", "CNX011", "--format", "json", str(path), text=True).stdout)["findings"]
    assert found["message"].endswith("the R_Key of that request is R_Key#4")
    with path.open("rb") as file, open_reading(file) as reading:
        assert "with R_Key R_Key#4" in " ".join(one.why for one in diagnosed(reading, "pipe").connections)


def many() -> bytes:
    """100 queue pairs whose packets take turns; every 20th has another fault, every 25th is refused with a key."""
    labs = [Lab(b=bytes([10, 0, n // 50, 1 + n % 50]), qa=0x100 + n, qb=0x1000 + n) for n in range(100)]
    faults = [make for _, _, make in CAUSES.values()]
    for n, lab in enumerate(labs):
        if n % 20 == 0:
            faults[n // 20 % len(faults)](lab)
            continue
        lab.good(n * US, 100, 3, 500 * US)
        if n % 25 == 1:
            lab.ask(2 * MS, 103, 640, WRITE_ONLY, dma=640 + n)
            lab.answer(2 * MS + 5 * US, 103, 0x62)
    return joined(*labs).pcap()


@pytest.mark.slow
def test_many_queue_pairs_in_windows_from_a_pipe_and_as_a_set_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = many()
    path = tmp_path / "a.pcap"
    path.write_bytes(data)
    as_set = CaptureSet("a.pcap", tuple(parts_of(data, tmp_path, 500)))

    def told(source: object) -> str:
        with open_reading(source) as reading:  # type: ignore[arg-type]
            return "".join(json_text([diagnosed(reading, "a")]))

    whole = told(str(path))
    assert whole.count('"capture"') == 0 and whole.count("with R_Key R_Key#") == 4 and whole.count('"qpn"') > 190
    assert told(Pipe(data)) == told(as_set) == whole
    monkeypatch.setattr(records, "ROWS", 97)
    assert told(str(path)) == whole


def test_whoever_watches_may_end_it(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(refused().pcap())

    def stop(table: ChunkTable) -> None:
        raise KeyboardInterrupt

    with open_reading(str(path)) as reading:
        with pytest.raises(KeyboardInterrupt):
            diagnosed(reading, "a", each=stop)
        assert reading.joins
