"""The frames of a set are named by file, in findings and in texts."""

from __future__ import annotations

from ibdissect.capture.chunk import SetMember
from ibdissect.lint.finding import Finding, Related, Severity
from ibdissect.lint.set_members import members_object, name_frames, place, place_text, with_files

MEMBERS = [SetMember("d/a.pcap", 1, 0), SetMember("d/empty.pcap", 11, 500), SetMember("d/b\x1b.pcap", 11, 500)]


def test_places() -> None:
    expected = [("d/a.pcap", 1), ("d/a.pcap", 10), ("d/b\x1b.pcap", 1), ("d/b\x1b.pcap", 20)]
    assert [place(MEMBERS, frame) for frame in (1, 10, 11, 30)] == expected
    assert place_text(MEMBERS, 12) == "b\\x1b.pcap:2" and place_text([], 12) == "12" and place_text(MEMBERS, 0) == "0"
    assert members_object([]) == {} and members_object(MEMBERS)["members"][1] == {"path": "d/empty.pcap", "first": 11}


def test_texts() -> None:
    assert with_files("as in frame 3, last seen 11, keyframe 4", MEMBERS) == "as in a.pcap:3, last seen b\\x1b.pcap:1, keyframe 4"
    assert with_files("frame " + "9" * 5000, MEMBERS).startswith("frame 9") and with_files("frame 3", []) == "frame 3"


def test_findings() -> None:
    proofs = (
        Related(4, "before"),
        Related(0, "said", "partitions.conf", 3),
        Related(0, "the whole"),
        Related(4, "named", "d/c", 9),
    )
    finding = Finding(
        code="X", name="x", severity=Severity.INFO, frame=12, time_ns=0, template="", message="answers frame 4", related=proofs,
        capture="d/*",
    )  # fmt: skip
    assert finding.place == ("d/*", 12)
    name_frames(finding, MEMBERS)
    assert finding.place == (finding.file, finding.file_frame) == ("d/b\x1b.pcap", 2) and finding.frame == 12
    assert finding.message == "answers a.pcap:4"
    assert finding.related == (Related(4, "before", "d/a.pcap", 4), *proofs[1:])
