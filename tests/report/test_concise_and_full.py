"""There is one line a finding for editors and grep, and the full text with frames and proofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ibdissect.lint.finding import Related
from ibdissect.report import Run, render
from tests.commands import run
from tests.craft import erf_pcap, smp

from .test_text import INFO, MIXED, RULES, RUN, finding, report


def test_concise_is_path_frame_severity_code_and_message() -> None:
    assert render("concise", [report(*MIXED)], RUN).splitlines()[:-1] == [
        "a.pcap:5: info TXN001 no answer from LID 9",
        "a.pcap:7: warning PKY008 the first entry of LID 4 is empty",
        "a.pcap:1082: error MKY002 node0003 sends M_Key#3 to leaf02",
        "a.pcap:1121: error MKY002 node0003 sends M_Key#3 to leaf00",
    ]
    assert "AM009" in render("concise", [report(*MIXED)], Run(rules=RULES, infos=True))
    assert "TXN001" not in render("concise", [report(*MIXED)], Run(rules=RULES, infos=False))
    member = replace(MIXED[2], file="b.pcap", file_frame=4)
    assert render("concise", [report(member, finding("CAP018", INFO, 0, "none"))], RUN).splitlines()[:2] == [
        "b.pcap:4: error MKY002 node0003 sends M_Key#3 to leaf02", "a.pcap: info CAP018 none"
    ]  # fmt: skip


def test_full_has_frame_and_proof() -> None:
    one = replace(MIXED[2], context="LID 1 → LID 2  SMP  x", related=(Related(3, "showed the key"), Related(4, "came before")))
    assert render("full", [report(one)], RUN).splitlines() == [
        "a.pcap:1082: ✖ error MKY002 some-fault ×3: node0003 sends M_Key#3 to leaf02",
        "    frame 1082: LID 1 → LID 2  SMP  x",
        "    see frame 3 (showed the key), frame 4 (came before)",
        f"Found 1 error: 3,790 frames in 1 capture checked with {len(RULES)} rules.",
        "Explain a rule: ibdissect rules MKY002",
    ]
    assert render("full", [report(*MIXED)], RUN).count(": ℹ info") == 2 > render("full", [report(*MIXED)], Run(infos=False)).count("info ")
    assert "7 more findings not shown" in render("full", [report(MIXED[2], by_rule={"MKY002": 8})], RUN)


def test_printed_as_they_come_or_at_once_is_the_same(tmp_path: Path) -> None:
    """On standard output each capture is printed when it is checked; a file is written at the end."""
    for name in "ab":
        (tmp_path / name).write_bytes(erf_pcap([smp(1, 0x10, modifier=7)]))
    for form in ("text", "concise", "full"):
        printed = run("lint", "--select", "AM001", "a", "b", "--format", form, "--output-file", f"{form}=x", cwd=tmp_path, text=True).stdout
        assert printed.count("AM001") > 1 and printed == (tmp_path / "x").read_text(encoding="utf-8"), form
