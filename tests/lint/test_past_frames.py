"""Are findings about packets from before what was learnt infos, in files that were joined wrongly or whose clock was set back?"""

from __future__ import annotations

import pytest

from ibdissect.lint import past_frames
from ibdissect.lint.engine import Linter
from ibdissect.lint.past_frames import PastFrames
from tests.craft import native
from tests.fabric.made import answer, ask, node
from tests.robustness.manipulations import ETHERNET, Pcap, Record
from tests.rules.findings import rules
from tests.table.made import tables_of

SECOND = 1_000_000_000
LINK = 247


def found(*records: tuple[int, bytes], codes: tuple[str, ...]) -> list[tuple[str, int, str]]:
    linter = Linter([rules()[code] for code in codes])
    pcap = Pcap(LINK, tuple(Record(i, time, data, len(data)) for i, (time, data) in enumerate(records, 1)))
    for table in tables_of(pcap.packed()):
        linter.feed(table)
    return [(one.code, one.frame, str(one.severity)) for one in linter.finish()]


def test_what_was_learnt_later_proves_little_about_earlier_packets() -> None:
    shown, asked = answer(2, 0x11, node(2)), ask(2, 0x15, modifier=9)
    assert found((5 * SECOND, shown), (6 * SECOND, asked), codes=("AM007",)) == [("AM007", 2, "error")]
    assert found((5 * SECOND, shown), (3 * SECOND, asked), codes=("AM007",)) == [("AM007", 2, "info")]
    assert found((5 * SECOND, shown), (9 * SECOND // 2, asked), codes=("AM007",)) == [("AM007", 2, "error")]


def test_what_a_packet_shows_itself_counts_at_any_time() -> None:
    faulty = native(bth={"tver": 1})
    assert found((5 * SECOND, native()), (1 * SECOND, faulty), codes=("BTH003",)) == [("BTH003", 2, "error")]


@pytest.mark.parametrize("window", [200, 300, 1 << 20])
@pytest.mark.parametrize(
    ("most", "expected", "lost"), [(4096, [3, 4, 7], 0), (2, [3, 4, 7], 0), (1, [3, 4, 7, 8], 1), (0, [3, 4, 5, 6, 7, 8], 2)]
)
def test_stretches(most: int, expected: list[int], lost: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across chunks; a time of 0 is unknown; if there are too many stretches, all that follows is taken for one."""
    monkeypatch.setattr(past_frames, "MAX_STRETCHES", most)
    past, times = PastFrames(), [10, 20, 12, 13, 0, 21, 15, 22]
    pcap = Pcap(ETHERNET, tuple(Record(i, time * SECOND, bytes(60), 60) for i, time in enumerate(times, 1)))
    for table in tables_of(pcap.packed(), window):
        past.feed(table)
    assert [frame for frame in range(1, 9) if frame in past] == expected
    assert (past.dropped.count, past.dropped.frame) == (lost, {0: 0, 1: 7, 2: 3}[lost])
