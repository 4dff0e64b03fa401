"""A finding's bytes are marked in its frame, its text is cut to size, and its keys are hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.lint.finding import Span
from ibdissect.pictures.frames import chosen, decoded
from tests import test_secrets
from tests.craft import LINK_INFINIBAND
from tests.fuzz.container import pcapng
from tests.report.test_formats import finding

from .looks import portrait


def test_the_bytes_of_a_finding_are_marked(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as lab:
        one = next(one for one in lab.report.findings if one.code == "PKY003")
        frame = decoded(lab.model.tree(one.frame), one)
        assert [line.label for line in frame.lines if line.marked] == ["Partition Key"]
        assert [text for _, runs in frame.rows for text, marked in runs if marked] == ["89 99"]
        assert [line.label for line in frame.lines if not line.depth][:2] == ["ERF", "LRH"] and frame.head.startswith("Frame 33: ")
        assert " ".join(text for _, runs in frame.rows for text, _ in runs).replace(" ", "") == lab.model.tree(33).data.hex()


def test_the_first_findings_of_each_rule_are_chosen() -> None:
    found = [finding("A", frame=0), *(finding("A", frame=i) for i in range(1, 10)), finding("B", frame=4)]
    assert [(one.code, one.frame) for one in chosen(found, 99)] == [("A", 1), ("A", 2), ("A", 3), ("B", 4)]
    assert len(chosen(found, 2)) == 2


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
