"""The engine counts exactly, respects its limits, groups flows and reports the right bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibdissect.decode import crcs
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.failures import Failures
from ibdissect.lint import linter as engine
from ibdissect.lint.finding import Finding, Span
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.subnet.file_lines import KnownFile
from ibdissect.subnet.refuted_facts import Refuted
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm_tables import PKeyEntry
from ibdissect.words import Hit, Rule, Seen, on_chunk, on_end, on_struct
from tests.cases import every, few
from tests.craft import erf_pcap, ethernet_pcap, native, roce2, smp
from tests.decode.made import tables_of


class EveryPsn(Rule):
    """A packet has a PSN above 4."""

    code, name, message = "ZZA001", "high-psn", "PSN {psn} from LID {LRH.slid}"
    on, when, at = BTH, BTH.psn > 4, BTH.psn


class ByFlow(Rule):
    """A flow has a PSN above 4."""

    code, name, message = "ZZA002", "high-psn-flow", "PSN {psn}"
    on, when, at = BTH, BTH.psn > 4, BTH.psn
    flow = (LRH.slid, BTH.destqp)


class Entries(Rule):
    """A table entry is limited."""

    code, name, message = "ZZA003", "limited-entry", "base {p_key_base:#06x}"
    on, when, at = PKeyEntry, (PKeyEntry.membership_type == 0) & (PKeyEntry.p_key_base != 0), PKeyEntry.p_key_base


class Handlers(Rule):
    """Something listens to everything."""

    code, name, message = "ZZA004", "handlers", "{what}"

    @on_struct(LRH)
    def struct(self, view: LRH, seen: Seen) -> Iterator[Hit]:
        if view.dlid == 9:
            yield self.hit(seen, view, LRH.dlid, what="struct")

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        yield Hit(frame=table.chunk.first, time_ns=0, arguments={"what": f"chunk of {len(table)}"})

    @on_end
    def end(self, context: Any) -> Iterator[Hit]:
        yield Hit(frame=0, time_ns=0, arguments={"what": "end"})


class AtEnd(Rule):
    """Speaks of frames when all have gone."""

    code, name, message = "ZZA005", "at-end", "frame"

    @on_end
    def end(self, context: Any) -> Iterator[Hit]:
        for frame in (0, 2, 7, 8, 99):
            yield Hit(frame=frame, time_ns=0, arguments={})


RULES = [EveryPsn, ByFlow, Entries, Handlers, AtEnd]
for _rule in RULES:  # they are this test's own
    REGISTRY.pop(_rule.code)


def run(frames: list[bytes], rules: list[type[Rule]], selected: Any = None, **options: Any) -> tuple[Linter, list[Finding]]:
    linter = Linter(rules, **options)
    for table in tables_of(erf_pcap(frames)):
        linter.feed(table, None if selected is None else np.array(selected))
    return linter, linter.finish()


def packets(count: int) -> list[bytes]:
    return [native(bth={"psn": i, "destqp": 0x10 + i % 2}) for i in range(count)]


def test_every_hit_is_a_finding_at_its_bytes() -> None:
    _, found = run(packets(8), [EveryPsn])
    assert [f.frame for f in found] == [6, 7, 8]
    assert found[0].spans == (Span(6, 8 + 9, 3),)
    found[0].finish(None)
    assert found[0].message == "PSN 5 from LID 1" and found[0].value == 5 and found[0].field == "infiniband.bth.psn"


@every(("limit", "kept"), [(2, 2), (0, 0), (None, 15), (100, 15)])
def test_counts_stay_exact_beyond_the_limit(limit: int | None, kept: int) -> None:
    linter, found = run(packets(20), [EveryPsn], max_findings=limit)
    assert linter.tally["ZZA001"].count == 15
    assert len(found) == kept
    assert [f.frame for f in found] == list(range(6, 6 + kept))


def test_a_flow_is_one_finding_with_a_count() -> None:
    linter, found = run(packets(20), [ByFlow])
    assert [(f.frame, f.count) for f in found] == [(6, 8), (7, 7)]
    assert linter.tally["ZZA002"].count == 2
    linter, found = run(packets(20), [ByFlow], max_findings=1)
    assert [(f.frame, f.count) for f in found] == [(6, 8)] and linter.tally["ZZA002"].count == 2
    assert list(linter.findings.flows.values()) == [found[0], None]


def test_a_row_with_several_faulty_entries_is_one_finding_with_all_spans() -> None:
    data = bytearray(64)
    data[2:4], data[6:8] = b"\x12\x34", b"\x00\x07"
    _, found = run([smp(0x81, 0x16, bytes(data))], [Entries])
    assert len(found) == 1 and [s.offset for s in found[0].spans] == [28 + 64 + 2, 28 + 64 + 6]
    found[0].finish(None)
    assert found[0].message == "base 0x1234"


def test_what_is_not_shown_is_not_reported_and_not_counted() -> None:
    linter, found = run(packets(8), [EveryPsn, ByFlow], selected=[False] * 6 + [True, False])
    assert [(f.code, f.frame) for f in found] == [("ZZA001", 7), ("ZZA002", 7)]
    assert linter.tally["ZZA001"].count == 1


def test_what_is_found_at_the_end_is_limited_too() -> None:
    _, found = run(packets(8), [AtEnd], selected=[False] * 6 + [True, False])
    assert [finding.frame for finding in found] == [0, 7, 99], "frames that no chunk held belong to the capture as a whole"
    _, found = run(packets(8), [AtEnd])
    assert len(found) == 5


def test_handlers_get_structures_chunks_and_the_end() -> None:
    _, found = run([native(dlid=9), native(dlid=8)], [Handlers])
    assert [(f.frame, f.arguments["what"]) for f in found] == [(0, "end"), (1, "struct"), (1, "chunk of 2")]
    assert found[1].field == "infiniband.lrh.dlid" and found[1].value == 9


class Falls(Rule):
    """A rule raises at the end."""

    code, name, message = "ZZA091", "falls", "x"

    @on_end
    def end(self, context: Any) -> Iterator[Hit]:
        raise KeyError("nothing")
        yield


def test_what_fails_at_the_end_names_no_frames() -> None:
    """The last window is over by then."""
    failures = Failures()
    linter = Linter((Falls,), failures=failures)
    for table in tables_of(erf_pcap([native(), native()])):
        linter.feed(table)
    assert not linter.finish() and failures.text().startswith("rule ZZA091 failed at the end of the capture: KeyError")


class Raises(Rule):
    """Raises at every chunk, or at one frame."""

    code, name, message = "ZZA092", "raises", "x"

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        raise KeyError("nothing")
        yield


class RaisesAtEvent(Raises):
    """Raises at each structure."""

    code, name = "ZZA093", "raises-at-event"

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        yield from ()

    @on_struct(MAD)
    def mad(self, view: MAD, seen: Seen) -> Iterator[Hit]:
        raise KeyError("nothing")
        yield


class EveryPacket(Rule):
    """Each packet."""

    code, name, message = "ZZA094", "every-packet", "x"
    when = BTH.opcode >= 0


for later in (Falls, Raises, RaisesAtEvent, EveryPacket):
    REGISTRY.pop(later.code, None)


def test_what_fails_names_its_frames() -> None:
    """Those of the window, or the one that was looked at."""
    failures = Failures()
    linter = Linter((Raises, RaisesAtEvent), failures=failures)
    for table in tables_of(erf_pcap([native(), native(), smp(1, 0x11)])):
        linter.feed(table)
    linter.finish()
    assert (
        failures.text().startswith("rule ZZA093 failed in frame 3: KeyError")
        and "rule ZZA092 failed in frames 1 to 3: Key" in failures.text()
    )
    with pytest.raises(KeyError):
        Linter((Raises,)).feed(table)
    failures = Failures()
    linter = Linter((Raises,), failures=failures)
    *_, last = tables_of(erf_pcap([native()] * 9), 300)
    linter.feed(last)
    assert last.chunk.first > 1 and f"failed in frames {last.chunk.first} to 9: KeyError" in failures.text()


def test_a_follower_that_fails_is_dropped_and_named() -> None:
    class Stumbles:
        """Fails at its second chunk."""

        def __init__(self) -> None:
            self.chunks = 0

        def feed(self, table: ChunkTable) -> list[object]:
            self.chunks += 1
            assert self.chunks != 2, "stumbled"
            return []

    linter = Linter((EveryPacket,), failures=(failures := Failures()))
    linter.follow(Stumbles)
    for table in tables_of(erf_pcap([native()] * 9), 300):
        linter.feed(table)
    assert linter.context.get(Stumbles).chunks == 2 and not any(isinstance(one, Stumbles) for one in linter.followers)
    assert "Stumbles failed in frames" in failures.text() and len(linter.finish()) == 9


class Heard:
    """Windows that were learnt, and rows of each."""

    learns_from = ChunkTable

    def __init__(self) -> None:
        self.rows = list[int]()

    def take(self, table: ChunkTable) -> None:
        self.rows.append(len(table))
        assert len(self.rows) != 3, "misheard"


class AsksHeard(Rule):
    """What was learnt when a window is judged."""

    code, name, message, needs = "ZZA097", "asks-heard", "x", (Heard,)

    def __init__(self) -> None:
        self.known = list[int]()

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        self.known.append(sum(context.get(Heard).rows))
        yield from ()


class AsksHeardToo(AsksHeard):
    """The same."""

    code, name = "ZZA098", "asks-heard-too"


for asking in (AsksHeard, AsksHeardToo):
    REGISTRY.pop(asking.code, None)


def test_state_learns_once_before_rules_judge_a_window() -> None:
    """What fails is named, and learns on."""
    linter, seen = Linter((AsksHeard, AsksHeardToo), failures=(failures := Failures())), list[int]()
    for table in tables_of(erf_pcap([native()] * 9), 200):
        linter.feed(table)
        seen.append(seen[-1] + len(table) if seen else len(table))
    assert len(seen) > 2 and all(isinstance(rule, AsksHeard) and rule.known == seen for rule in linter.rules)
    assert linter.context.get(Heard).rows == [b - a for a, b in pairwise([0, *seen])]
    assert failures.text().startswith("Heard failed in frames") and "misheard" in failures.text()


def fed(frames: list[bytes], *, prepared: bool, step_ns: int = 1000) -> tuple[list[int], bool]:
    linter = Linter((EveryPacket,))
    for table in tables_of(ethernet_pcap(frames, step_ns=step_ns)):
        if prepared:
            linter.prepare(table)
        linter.feed(table)
        left = linter.left_out(table)
    return [one.frame for one in linter.finish()], left


@few("prepared", [False, True], fast=(1,))
def test_copies_of_a_mirror_and_other_datagrams_are_no_packets(prepared: bool) -> None:
    first, second = roce2(payload=b"12345678", bth={"psn": 1}), roce2(payload=b"23456789", bth={"psn": 2})
    other = first[:42] + bytes(range(0x11, 0x11 + len(first) - 42))
    assert fed([first, second], prepared=prepared) == ([1, 2], False)
    assert fed([first, second, first], prepared=prepared) == ([1, 2], True)
    assert fed([first, other, second], prepared=prepared) == ([1, 3], True)


def test_what_subnet_files_say_is_known_before_the_first_frame() -> None:
    linter = Linter((EveryPacket,))
    files = [KnownFile("a", 5)]
    linter.know(files)
    assert linter.context.files is files and any(isinstance(one, Refuted) for one in linter.followers)
    number = len(linter.followers)
    linter.follow(Refuted)
    assert len(linter.followers) == number, "once"


def test_what_a_chunk_was_does_not_stay() -> None:
    linter = Linter((EveryPacket,))
    for table in tables_of(erf_pcap([smp(1, 0x11), native()])):
        linter.feed(table)
        assert linter.context.catalog is table.catalog
    assert linter.context.table is None and linter.port_facts is None and linter.awaited() == []
    assert [(one.frame, one.count) for one in linter.finish()] == [(1, 1), (2, 1)]
    linter.close()
    assert not vars(linter)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "hits returned nothing"), ([3], "hits gave int, which is no hit"), ([Hit(frame=-1, time_ns=0, arguments={})],
        "reports frame -1, which"),
        ([Hit(frame=13, time_ns=0, arguments={})], "reports frame 13, which was not read"), ([Hit(frame=12, time_ns=0, arguments={})], ""),
        ([Hit(frame=0, time_ns=0, arguments={})], ""), ([Hit(frame=1, time_ns=0, arguments={})] * 3, "hits gave more than a million hits"),
    ],
)  # fmt: skip
def test_what_a_plugin_gives_is_checked(given: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames 11 and 12 were read; 0 is the whole capture."""

    def hits() -> None:
        pass

    monkeypatch.setattr(engine, "MOST_HITS", 2)

    class Two:
        chunk = SimpleNamespace(first=11)

        def __len__(self) -> int:
            return 2

    linter: Any = SimpleNamespace(context=SimpleNamespace(table=Two()))
    if not said:
        assert list(Linter._checked(linter, hits, given)) == given
        return
    with pytest.raises((TypeError, ValueError), match=said):
        list(Linter._checked(linter, hits, given))


class Inherits(Rule):
    """A plugin's rule inherits a handler of ours that only learns."""

    code, name, message = "ZZA095", "inherits", "x"

    @on_chunk
    def learn(self, table: ChunkTable, context: Any) -> None:
        return None

    learn.__module__ = "ibdissect.rules.shared.made"


class Forgets(Rule):
    """A plugin's rule forgets to yield."""

    code, name, message = "ZZA096", "forgets", "x"

    @on_chunk
    def look(self, table: ChunkTable, context: Any) -> None:
        return None


for plugin in (Inherits, Forgets):
    REGISTRY.pop(plugin.code)


def test_only_what_a_plugin_writes_itself_must_give_hits() -> None:
    failures = Failures()
    linter = Linter((Inherits, Forgets), failures=failures)
    for table in tables_of(erf_pcap([native()])):
        linter.feed(table)
    assert not linter.finish() and "rule ZZA096" in failures.text() and "look returned nothing" in failures.text()
    assert "ZZA095" not in failures.text()


class Explains(Rule):
    """A hit stands for several frames."""

    code, name, message, explains = "ZZA097", "explains", "x", ("ZZA098",)


REGISTRY.pop(Explains.code)


def test_a_hit_of_several_frames_explains_those_of_its_window_that_are_mads() -> None:
    """Frames of earlier windows, and packets that are no MADs, are not among them."""
    early, late = [smp(1, 0x11)] * 3, [native(), smp(1, 0x11), smp(1, 0x11)]
    *_, table = tables_of(erf_pcap([*early, *late]), len(erf_pcap(early)) + 30)
    first = table.chunk.first
    assert (first, len(table)) == (4, 3)
    linter = Linter((Explains,))
    linter.context.table = table
    for frames in ([first - 1, 4, 5, 6], [4, 5, 6, 7], [first - 2, first - 1, 4, 5, 6, 99]):
        hit = linter._with_mads(Hit(frame=6, time_ns=0, arguments={}, frames=frames))
        assert isinstance(hit, Hit) and hit.mads == [6, 5, 6]
    (first_table,) = tables_of(erf_pcap([smp(1, 0x11), native(), smp(1, 0x11)]))
    linter.context.table = first_table
    hit = linter._with_mads(Hit(frame=3, time_ns=0, arguments={}, frames=[1, 2, 3, 4]))
    assert isinstance(hit, Hit) and hit.mads == [3, 1, 3]
    alone = linter._with_mads(Hit(frame=6, time_ns=0, arguments={}, frames=[6]))
    assert isinstance(alone, Hit) and not len(alone.mads)


class WithSums(Rule):
    """Each packet whose ICRC was checked."""

    code, name, message, needs_crc = "ZZA095", "with-sums", "x", True

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        for row in crcs.icrc(table).rows.tolist():
            yield Hit(frame=table.chunk.first + row, time_ns=0, arguments={})


REGISTRY.pop(WithSums.code)


@pytest.mark.parametrize("prepared", [False, True])
def test_checksums_are_those_of_packets(prepared: bool) -> None:
    """Not of copies, nor of what is no RoCE, whoever asks first."""
    first, second = roce2(payload=b"12345678", bth={"psn": 1}), roce2(payload=b"23456789", bth={"psn": 2})
    linter = Linter((WithSums,))
    for table in tables_of(ethernet_pcap([first, second, first, first[:42] + bytes(range(0x11, 0x11 + len(first) - 42))], step_ns=1000)):
        if prepared:
            linter.prepare(table)
        linter.feed(table)
    assert [one.frame for one in linter.finish()] == [1, 2]
