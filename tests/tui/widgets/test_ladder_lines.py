"""The lines of a ladder are drawn between the right ends, in the width there is."""

from __future__ import annotations

import pytest

from ibdissect.dissect.shown_value import Presenter
from ibdissect.screen_model.ladder import Ladder, LadderStep
from ibdissect.screen_model.stalls import Stall
from ibdissect.tui.widgets.ladder_lines import LadderColumns

STEPS = [
    LadderStep(1, 0, "A", "B", "ask"),
    LadderStep(2, 5000, "B", "A", "answer"),
    LadderStep(3, 9000, "A", "B", "ask", "again", "sent again"),
    LadderStep(4, 9999, "A", "B", "more " * 40, "lost", "2 packets before it are missing"),
    LadderStep(5, 9999, "C", "C", "alone"),
]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lines(width: int) -> None:
    ladder = Ladder(Presenter(None))
    ladder.steps = STEPS
    lanes = LadderColumns(ladder, width)
    a, b, _ = lanes.at.values()
    drawn = [line[22:] for step in STEPS for line in lanes.rows(step)]
    assert drawn[0][a] == "│" and drawn[0][b - 1 : b + 1] == "▶│" and " ask " in drawn[0]
    assert drawn[1][a : a + 2] == "│◀" and ("═ ask (sent again) ═" if width == 200 else "═▶│ ask (sent again)") in drawn[2]
    assert "╌" in drawn[3] and "▶" not in drawn[3] and "…" in drawn[4] and drawn[5].endswith("alone")
    assert all(len(line) <= width - 22 for line in drawn) and lanes.head().split()[2:] == ["A", "B", "C"]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("high", [1, 2, 8])
def test_stalls(width: int, high: int) -> None:
    ladder = Ladder(Presenter(None))
    ladder.steps = STEPS
    lanes = LadderColumns(ladder, width)
    a, *_, c = lanes.at.values()
    drawn = [line[22:] for line in lanes.stall(Stall(17_000_000, "timeout", "waiting for a time-out", high))]
    assert len(drawn) == high and all(line[a] == "┊" and len(line) <= width - 22 for line in drawn)
    assert [place for place, line in enumerate(drawn) if "17 ms waiting" in line] == [high // 2]
    assert high == 1 or drawn[0][c] == "┊"


def test_names_are_distinguished_in_little_room() -> None:
    ladder = Ladder(Presenter(None))
    ladder.steps = [LadderStep(n, n, f"node000{n}", f"node000{n + 1}", "ask") for n in range(1, 6)]
    head = LadderColumns(ladder, 80).head().split()[2:]
    assert len(set(head)) == 6 and head[0] == "…de0001"
    assert LadderColumns(ladder, 80, start_ns=1).start_ns == 1 and LadderColumns(ladder, 80).start_ns == ladder.steps[0].time_ns


def test_a_narrow_ladder_keeps_the_psn() -> None:
    """What there is no room for is the queue pair; a wide ladder has it."""
    ladder = Ladder(Presenter(None))
    said = "SEND Middle QP 0x000073 PSN 7255059 len 1024", "ACK QP 0x000011 PSN 7255059"
    ladder.steps = [LadderStep(1, 0, "A", "B", said[0]), LadderStep(2, 1, "B", "A", said[1])]
    narrow, wide = (["".join(LadderColumns(ladder, width).rows(step)) for step in ladder.steps] for width in (80, 132))
    assert "SEND Middle PSN 7255059 len" in narrow[0] and " ACK PSN 7255059 " in narrow[1]
    assert "QP 0x000073 PSN 7255059 len 1024" in wide[0]


def test_all_lines_with_the_stalls_before_their_steps() -> None:
    ladder = Ladder(Presenter(None))
    ladder.steps = STEPS
    stall = Stall(17_000_000, "", "no packet", 3)
    drawn = [*LadderColumns(ladder, 100).lines(STEPS, {2: stall})]
    assert [(i, found) for i, _, found in drawn] == [(0, None), (1, None), *[(2, stall)] * 3, (2, None), (3, None), (3, None), (4, None)]
    assert "17 ms no packet" in drawn[3][1] and "┊" in drawn[2][1]
