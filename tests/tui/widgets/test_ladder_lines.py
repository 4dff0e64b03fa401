"""The lines of a ladder are drawn between the right ends, in the width there is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ibdissect.screen_model.ladder import Ladder
from ibdissect.screen_model.stalls import stalls
from ibdissect.tui.widgets.ladder_lines import LadderColumns
from tests import craft
from tests.diagnosis.lab import MS, SEC
from tests.screen_model.test_ladder import ladder, ladder_of, send

START, MARGIN = 1_700_000_000 * SEC, 22


def ack(psn: int) -> bytes:
    return craft.rc(0x11, slid=2, dlid=1, bth={"psn": psn, "destqp": 8}, ext={"AETH": {"syndrome": 31, "msn": 1}})


@pytest.fixture
def some(tmp_path: Path) -> Ladder:
    """A request, its answer, the request again, one behind two that are missing, and a packet of the last host to itself, 17 ms later."""
    alone = craft.rc(0x04, bytes(4), slid=3, dlid=3, bth={"psn": 1, "destqp": 9})
    times = [START + time for time in (0, 5000, 9000, 9999, 9999 + 17 * MS)]
    return ladder([send(1), ack(1), send(1), send(4), alone], tmp_path, times=times)


def test_lines_of_a_narrow_screen(some: Ladder) -> None:
    lanes = LadderColumns(some, 60)
    assert lanes.head() == "   frame     seconds        LID 1     LID 2      LID 3"
    assert [line for step in some.steps for line in lanes.rows(step)] == [
        "       1    0.000000          │────────▶│ SEND Only PSN 1",
        "       2    0.000005          │◀────────│ ACK PSN 1 MSN 1",
        "       3    0.000009          │════════▶│ SEND Only PSN 1",
        "                              │╌╌╌╌╌╌╌╌✕│ ✕ 2 packets bef…",
        "       4    0.000010          │────────▶│ SEND Only PSN 4",
        "       5    0.017010         SEND Only PSN 1 len 4 │",
    ]


@pytest.mark.parametrize(("width", "inside", "beside"), [
    (80, ["◀ ACK PSN 1 MSN 1 ─│"], ["▶│ SEND Only PSN 1 len 4\n", "▶│ SEND Only PSN 1 len 4 (se…\n", "╌✕│ ✕ 2 packets before it are…\n"]),
    (100, ["│─── SEND Only PSN 1 len 4 ──▶│", "│◀───── ACK PSN 1 MSN 1 ──────│"],
     ["═▶│ SEND Only PSN 1 len 4 (sent again)\n", "╌✕│ ✕ 2 packets before it are missing\n"]),
    (200, ["─ SEND Only QP 0x000009 PSN 1 len 4 ─", "─ ACK QP 0x000008 PSN 1 MSN 1 ─", "═ SEND Only QP 0x000009 PSN 1 len 4 (sent again) ═",
           "╌ ✕ 2 packets before it are missing ╌"], []),
])  # fmt: skip
def test_lines(some: Ladder, width: int, inside: list[str], beside: list[str]) -> None:
    """What has no room on its arrow stands beside it; where it has none there either, the PSN stays, and the queue pair goes first."""
    lanes = LadderColumns(some, width)
    lines = [line for step in some.steps for line in lanes.rows(step)]
    a, b, c = (MARGIN + at for at in lanes.at.values())
    assert all(line[a] == line[b] == "│" for line in lines[:5]) and lines[5].endswith("PSN 1 len 4 │") and len(lines[5]) == c + 1
    assert [line[a + 1] for line in lines[:5]] == ["─", "◀", "═", "╌", "─"] and [lines[i][b - 1] for i in (0, 2, 3, 4)] == list("▶▶✕▶")
    assert all(len(line) <= width for line in lines) and lanes.head().split()[2:] == ["LID", "1", "LID", "2", "LID", "3"]
    text = "\n".join(line.rstrip(" │") for line in lines) + "\n"
    assert all(part in "\n".join(lines) for part in inside) and all(part in text for part in beside)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("high", [1, 2, 8])
def test_stalls(some: Ladder, width: int, high: int) -> None:
    lanes, found = LadderColumns(some, width), stalls(some.steps)
    assert found.keys() == {4}
    a, *_, c = lanes.at.values()
    drawn = [line[MARGIN:] for line in lanes.stall(msgspec.structs.replace(found[4], lines=high))]
    assert len(drawn) == high and all(line[a] == "┊" and len(line) <= width - MARGIN for line in drawn)
    assert [place for place, line in enumerate(drawn) if "17 ms no packet" in line] == [high // 2]
    assert high == 1 or drawn[0][c] == "┊"


def test_all_lines_with_the_stalls_before_their_steps(some: Ladder) -> None:
    stall = msgspec.structs.replace(stalls(some.steps)[4], lines=3)
    drawn = [*LadderColumns(some, 100).lines(some.steps, {2: stall})]
    assert [(i, found) for i, _, found in drawn] == [(0, None), (1, None), *[(2, stall)] * 3, (2, None), (3, None), (3, None), (4, None)]
    assert "17 ms no packet" in drawn[3][1] and "┊" in drawn[2][1]


def test_names_are_distinguished_in_little_room(tmp_path: Path) -> None:
    frames = [craft.roce2(0x04, ip={"source": bytes([192, 168, 77, n]), "destination": bytes([192, 168, 77, n + 1])}) for n in range(1, 6)]
    (tmp_path / "x.pcap").write_bytes(craft.ethernet_pcap(frames))
    found = ladder_of(tmp_path / "x.pcap")
    head = LadderColumns(found, 80).head().split()[2:]
    assert len(set(head)) == 6 and head[0] == "…8.77.1"
    assert LadderColumns(found, 80, start_ns=1).start_ns == 1 and LadderColumns(found, 80).start_ns == found.steps[0].time_ns


def test_a_narrow_ladder_keeps_the_psn(tmp_path: Path) -> None:
    """What there is no room for is the queue pair; a wide ladder has it."""
    middle = craft.rc(0x01, bytes(1024), slid=1, dlid=2, bth={"psn": 7255059, "destqp": 0x73})
    found = ladder([middle, ack(7255059)], tmp_path)
    narrow, wide = (["".join(LadderColumns(found, width).rows(step)) for step in found.steps] for width in (80, 132))
    assert "SEND Middle PSN 7255059 len" in narrow[0] and " ACK PSN 7255059 " in narrow[1]
    assert "QP 0x000073 PSN 7255059 len 1024" in wide[0]
