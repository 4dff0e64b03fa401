"""The frames of a set are named by file, in findings and in texts."""

from __future__ import annotations

import json
from pathlib import Path

from ibdissect.wire.sm import SMInfo
from tests import commands
from tests.craft import build, erf_pcap, rc
from tests.subnet.made import answer, node, p_keys

SHOWN = [answer(lid, 0x11, node(lid)) for lid in (5, 6)] + [answer(lid, 0x16, p_keys(0xFFFF, 0x1234)) for lid in (5, 6)]
SENT = rc(0x04, bytes(8), slid=6, dlid=5, bth={"p_key": 0x1234})


def test_texts(tmp_path: Path) -> None:
    """Of each frame that is named; a name cannot steer the terminal."""
    manager = [answer(5, 0x20, build(SMInfo, 64, guid=7, sm_state=3)), answer(5, 0x20, build(SMInfo, 64, guid=7, sm_state=3))]
    files = {"a.pcap": [*SHOWN, manager[0]], "b\x1b.pcap": [manager[1]]}
    for number, (name, frames) in enumerate(files.items()):
        (tmp_path / name).write_bytes(erf_pcap(frames, start_ns=1_700_000_000_000_000_000 + number * 10_000_000))
    text = commands.run("fabric", "--set", *files, cwd=tmp_path, text=True).stdout
    assert "[a.pcap:5, last seen b\\x1b.pcap:1]" in text and "[a.pcap:1]" in text and "frame 5" not in text
    alone = commands.run("fabric", "a.pcap", cwd=tmp_path, text=True).stdout
    assert "[frame 5, last seen 5]" in alone


def test_findings_name_file_and_frame(tmp_path: Path) -> None:
    """Of the first packet of the last file, behind one without frames; what proves it is in the first file."""
    files = {"cap_00001_20261121120000.pcap": SHOWN, "cap_00002_20261121120001.pcap": [], "cap_00003_20261121120002.pcap": [SENT]}
    for number, (name, frames) in enumerate(files.items()):
        (tmp_path / name).write_bytes(erf_pcap(frames, start_ns=1_700_000_000_000_000_000 + number * 10_000_000))
    words = ("lint", "--set", *files, "--select", "PKY001", "--format")
    told = json.loads(commands.run(*words, "json", cwd=tmp_path, text=True).stdout)
    (finding,) = told["findings"]
    assert (finding["frame"], finding["file"], finding["file_frame"]) == (5, "cap_00003_20261121120002.pcap", 1)
    proofs = [(one["frame"], one["file"], one["line"]) for one in finding["related"]]
    assert proofs and proofs == [(frame, "cap_00001_20261121120000.pcap", frame) for frame, *_ in proofs]
    assert [(Path(one["path"]).name, one["first"]) for one in told["captures"][0]["members"]] == list(zip(files, (1, 5, 5), strict=True))
    text = commands.run(*words, "text", cwd=tmp_path, text=True).stdout
    assert "cap_00003_20261121120002.pcap:1" in text
