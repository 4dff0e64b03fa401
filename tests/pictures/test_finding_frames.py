"""A finding's bytes are marked in its frame, its text is cut to size, and its keys are hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.lint.finding import Span
from ibdissect.pictures.finding_frames import decoded
from ibdissect.pictures.page import pictures
from tests import test_secrets
from tests.craft import LINK_INFINIBAND, erf_pcap, rc, smp
from tests.fuzz.container import pcapng
from tests.report.test_formats import finding

from .looks import portrait


@pytest.mark.slow
def test_the_bytes_of_a_finding_are_marked(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as lab:
        one = next(one for one in lab.report.findings if one.code == "PKY003")
        frame = decoded(lab.model.tree(one.frame), one)
        assert [line.label for line in frame.lines if line.marked] == ["Partition Key"]
        assert [text for _, runs in frame.rows for text, marked in runs if marked] == ["89 99"]
        assert [line.label for line in frame.lines if not line.depth][:2] == ["ERF", "LRH"] and frame.head.startswith("Frame 33: ")
        assert " ".join(text for _, runs in frame.rows for text, _ in runs).replace(" ", "") == lab.model.tree(33).data.hex()


def test_the_first_findings_of_each_rule_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    bad = [smp(1, 0x10, modifier=9, slid=3, dlid=6 + n) for n in range(9)]
    path.write_bytes(erf_pcap([*bad, *[rc(0x04, bytes(8), bth={"psn": 7})] * 2]))
    with portrait(path) as found:
        findings, detailed = found.report.findings, pictures(found, 1, 99).details
        assert [one.code for one in findings].count("AM001") == 9
        shown = [f"{one.code} {one.frame}" for one in findings if id(one) in detailed]
        assert shown == ["AM001 1", "AM001 2", "AM001 3", "RC002 11"]
        assert len(pictures(found, 1, 2).details) == 2


@pytest.mark.slow
def test_no_frame_shows_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.pcapng"
    path.write_bytes(pcapng([(LINK_INFINIBAND, data, len(data)) for data in test_secrets.FRAMES]))
    said = []
    with portrait(path) as found:
        for number, tree in found.model.trees(sorted({key.frame + 1 for key in test_secrets.PLANTED})).items():
            frame = decoded(tree, finding(frame=number))
            said += [f"{line.label} {line.text}" for line in frame.lines]
            said.append("".join(text for _, runs in frame.rows for text, _ in runs).replace(" ", ""))
    assert len(said) > 1000 and test_secrets.shown("\n".join(said).encode(), test_secrets.PLANTED) == []


def test_spans_of_other_frames_are_not_marked(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as lab:
        one = finding(frame=33)
        one.spans = (Span(12, 0, 4),)
        assert not any(marked for _, runs in decoded(lab.model.tree(33), one).rows for _, marked in runs)
