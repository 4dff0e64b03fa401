"""Ladders show the packets around a fault, between the right ends."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ibdissect.dfilter.compile import compile_filter
from ibdissect.pictures.ladders import ladders

from .looks import portrait

STEP = 26


@pytest.mark.slow
def test_the_conversation_of_the_worst_finding(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as found:
        first, *_ = made = ladders(found)
    assert first.title == "PKY001 limited-to-limited, frame 31" and 1 < len(made) <= 4
    assert [name for _, name in first.ends] == ["LID 2", "LID 3"] and [x for x, _ in first.ends] == [150, 790]
    assert [(arrow.frame, arrow.level, arrow.title, arrow.x1 < arrow.x2) for arrow in first.arrows] == [
        (31, "error", "PKY001, PKY021", True), (32, "error", "PKY001, PKY021", False), (36, "error", "PKY021", True), (37, "", "", False),
    ]  # fmt: skip
    assert first.arrows[1].when == "+100 µs" and first.arrows[0].text.startswith("SEND Only")
    compile_filter(first.filter)
    assert len({one.filter for one in made}) == len(made)


def test_the_fault_is_among_the_packets_of_a_long_conversation(repo: Path) -> None:
    with portrait(repo / "captures/rxe-nak-bad-rkey.pcap") as found:
        first = ladders(found)[0]
    assert len(first.arrows) <= 20 and any(arrow.title and arrow.level == "error" for arrow in first.arrows)


@pytest.mark.slow
def test_a_clean_capture_has_none(repo: Path) -> None:
    with portrait(repo / "captures/rxe-rping.pcap") as found:
        assert ladders(found) == []


def test_stalls_are_drawn_to_scale_and_say_what_was_waited_for(repo: Path) -> None:
    with portrait(repo / "captures/slow-lab.pcap") as found:
        made = ladders(found)
    stills = [(one, still) for one in made for still in one.stills]
    assert any("17 ms waiting for a time-out" in still.text for _, still in stills)
    for one in made:
        places = sorted([(arrow.y - STEP / 2, STEP) for arrow in one.arrows] + [(still.y, still.height) for still in one.stills])
        assert all(y + height == pytest.approx(after) for (y, height), (after, _) in pairwise(places))  # nothing overlaps
        assert one.height == pytest.approx(places[-1][0] + places[-1][1] + STEP / 2)
