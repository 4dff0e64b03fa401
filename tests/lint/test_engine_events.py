"""Rules receive the followers' events, their hits are kept completely, and the engine respects its limits."""

from __future__ import annotations

import io
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from ibdissect.bounded import Dropped
from ibdissect.capture.chunk import Damage
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint import findings_from_hits
from ibdissect.lint.finding import Evidence, Finding, Related, Span
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.wire.encapsulation import Ethernet
from ibdissect.wire.headers import BTH, GRH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm_tables import PKeyEntry
from ibdissect.words import INFO, Hit, Rule, on_chunk, on_end, on_event
from tests.cases import every
from tests.craft import erf_pcap, ethernet_pcap, native, roce2, smp


class Packets:
    """Counts packets, and emits an event for each."""

    def __init__(self) -> None:
        self.seen = 0

    def feed(self, table: ChunkTable) -> Iterable[object]:
        events = []
        for row in range(len(table)):
            self.seen += 1
            events.append((Odd if row % 2 else Even)(table.chunk.first + row))
        return events


class Even:
    """A packet in an even row."""

    source: ClassVar[type[Any]] = Packets

    def __init__(self, frame: int) -> None:
        self.frame = frame


class Odd(Even):
    """A packet in an odd row."""


class Unhandled:
    """No follower emits it."""


class Listener(Rule):
    """Something happened in an even row."""

    code, name, message, severity, reference = "ZZB001", "even", "row", INFO, "chapter 1"

    @on_event(Even, Unhandled)
    def even(self, event: Even, context: Any) -> Iterator[Hit]:
        packets: Packets = context.get(Packets)
        yield Hit(frame=event.frame, time_ns=7, arguments={"seen": packets.seen})


class Asker(Rule):
    """The end knows how many packets there were, as the rule needs who counts them."""

    code, name, message = "ZZB002", "how-many", "{count} packets"
    needs = (Packets,)

    @on_end
    def end(self, context: Any) -> Iterator[Hit]:
        yield Hit(frame=1, time_ns=0, arguments={"count": context.get(Packets).seen})


class Complete(Rule):
    """One finding that says all that a finding may say, for every chunk again."""

    code, name, message, severity, reference = "ZZB003", "complete", "usual", INFO, "chapter 2"

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        yield Hit(
            frame=table.chunk.first, time_ns=5, arguments={"a": 1}, spans=(Span(1, 2, 3),), field=LRH.slid, value=9,
            related=(Related(4, "proof"),), evidence=Evidence.INFERRED, count=3, key="same", message="special",
        )  # fmt: skip


class Many(Rule):
    """Five hits at the end, of five flows or of none."""

    code, name, message = "ZZB004", "many", "hit"
    keyed: ClassVar[bool] = False

    @on_end
    def end(self, context: Any) -> Iterator[Hit]:
        for frame in range(1, 6):
            yield Hit(frame=frame, time_ns=0, arguments={}, key=frame if self.keyed else None)


class ManyFlows(Many):
    """The same by flow."""

    code, name = "ZZB005", "many-flows"
    keyed = True


class ByGid(Rule):
    """A packet with a GRH, by its destination GID."""

    code, name, message = "ZZB006", "by-gid", "to {dgid}"
    on, when, at, flow = GRH, GRH.ipver == 6, GRH.dgid, (GRH.dgid,)


class ByMac(Rule):
    """A frame by its destination."""

    code, name, message = "ZZB007", "by-mac", "frame"
    on, when, flow = Ethernet, Ethernet.type != 0, (Ethernet.destination,)


class Elsewhere(Rule):
    """An entry of a table is at fault because of the header in front of it."""

    code, name, message = "ZZB008", "elsewhere", "entry {p_key:#x} of block {MAD.attribute_modifier}"
    on, when, at = PKeyEntry, PKeyEntry.p_key != 0, MAD.attribute_modifier


class Absent(Rule):
    """The field at fault is in a header that not every packet has."""

    code, name, message = "ZZB009", "absent", "PSN {psn}, next {psn}"
    on, when, at = BTH, BTH.psn > 0, GRH.hop_lmt


class Frames(Rule):
    """A whole frame is at fault."""

    code, name, message = "ZZB010", "frames", "a frame"
    when = LRH.slid > 1

    def of_frame(self, seen: Any) -> Hit:
        return Hit(frame=seen.frame, time_ns=seen.time_ns, arguments={})


class Unclear(Rule):
    """Its message names what is not there."""

    code, name, message = "ZZB011", "unclear", "{nothing} here"
    on, when = BTH, BTH.psn > 0


class Forgetful(Many):
    """It has two limits, of which one was reached."""

    code, name = "ZZB013", "forgetful"

    def __init__(self) -> None:
        self.dropped = (Dropped("doors"), Dropped("keys"))
        self.dropped[1].add(8, 80)


class Memory:
    """So does what rules share; what is no count is none."""

    def __init__(self) -> None:
        self.dropped = Dropped("names")
        self.dropped.add(3, 30, 4)


class Counters:
    """Something else by that name."""

    dropped = 17


class Telling:
    """It may say less when it knows who look it."""

    wanted: Container[type[Any]] = ()

    def emit_only(self, events: Container[type[Any]]) -> None:
        self.wanted = events

    def feed(self, table: ChunkTable) -> Iterable[object]:
        return [event() for event in (Wanted, Other) if event in self.wanted]


class Wanted:
    """A rule asks for it."""

    source: ClassVar[type[Any]] = Telling


class Other(Wanted):
    """No rule does."""


class OneEvent(Rule):
    """It handles one kind of event."""

    code, name, message = "ZZC002", "one-event", "event"

    @on_event(Wanted)
    def look(self, event: Wanted, context: Any) -> Iterator[Hit]:
        yield Hit(frame=1, time_ns=0, arguments={"event": type(event)})


for _rule in (
    OneEvent,
    Listener,
    Asker,
    Complete,
    Many,
    ManyFlows,
    ByGid,
    ByMac,
    Elsewhere,
    Absent,
    Frames,
    Unclear,
    Forgetful,
):  # they are this test's own
    REGISTRY.pop(_rule.code)


def lint(
    frames: Sequence[bytes],
    *rules: type[Rule],
    window: int = 1 << 20,
    selected: Sequence[Sequence[bool]] = (),
    file: Any = erf_pcap,
    **options: Any,
) -> tuple[Linter, list[Finding]]:
    """The linter and its findings; `selected` by chunk."""
    linter = Linter(rules, **options)
    for i, chunk in enumerate(open_capture(io.BytesIO(file(frames)), window=window).chunks()):
        linter.feed(ChunkTable(chunk), np.array(selected[i]) if selected else None)
    return linter, linter.finish()


def test_rules_get_the_events_that_they_handle() -> None:
    """Rules get only their events, after the source has processed the chunk; an event without source is no error."""
    linter, found = lint([native()] * 5, Listener)
    assert [(f.frame, f.time_ns, f.arguments["seen"]) for f in found] == [(1, 7, 5), (3, 7, 5), (5, 7, 5)]
    assert linter.tally["ZZB001"].count == 3


def test_a_follower_that_is_asked_at_the_end_is_fed() -> None:
    assert [f.arguments["count"] for f in lint([native()] * 5, Asker)[1]] == [5]
    linter, _ = lint([native()], Many)
    assert Packets not in linter.context.sources


def test_a_finding_keeps_what_the_hit_says() -> None:
    (found,) = lint([native()], Complete)[1]
    assert (found.code, found.name, found.severity, found.reference) == ("ZZB003", "complete", INFO, "chapter 2")
    assert (found.frame, found.time_ns, found.template, found.arguments) == (1, 5, "special", {"a": 1})
    assert (found.field, found.value, found.spans) == ("infiniband.lrh.slid", 9, (Span(1, 2, 3),))
    assert (found.related, found.evidence, found.count) == ((Related(4, "proof"),), Evidence.INFERRED, 3)


def test_hits_of_one_key_are_one_finding() -> None:
    frames = [native()] * 9
    chunks = len(list(open_capture(io.BytesIO(erf_pcap(frames)), window=200).chunks()))
    linter, found = lint(frames, Complete, window=200)
    assert chunks > 1 and [(f.frame, f.count) for f in found] == [(1, 3 * chunks)] and linter.tally["ZZB003"].count == 1


@every("rule", [Many, ManyFlows])
@every(("limit", "kept"), [(0, 0), (2, 2), (5, 5), (None, 5)])
def test_what_handlers_find_is_limited_and_counted(rule: type[Rule], limit: int | None, kept: int) -> None:
    passed_on: list[int] = []
    linter, found = lint([native()], rule, max_findings=limit, on_finding=lambda finding: passed_on.append(finding.frame))
    assert linter.tally[rule.code].count == 5
    assert [f.frame for f in found] == passed_on == list(range(1, kept + 1))


def test_a_hundred_findings_of_a_rule_are_kept_unless_told_otherwise() -> None:
    linter, found = lint([native(slid=2)] * 120, Frames, window=2000)
    assert linter.tally["ZZB010"].count == 120 and [f.frame for f in found] == list(range(1, 101))


def test_the_oldest_flow_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two flows, the evicted first one becomes a new finding, and the latest one continues."""
    monkeypatch.setattr(findings_from_hits, "MAX_FLOWS", 2)
    gids = [bytes(15) + bytes([last]) for last in (1, 2, 3, 3, 1)]
    linter, found = lint([native(grh={"dgid": gid}) for gid in gids], ByGid, window=1)
    assert [(f.frame, f.count) for f in found] == [(1, 1), (2, 1), (3, 2), (5, 1)] and linter.tally["ZZB006"].count == 4
    assert [(one.what, one.count, one.frame) for one in linter.context.dropped()] == [("flows with findings", 2, 3)]


@pytest.mark.slow
def test_flows_are_distinguished_by_every_byte() -> None:
    gids = [bytes([first, *bytes(6), middle, *bytes(7), last]) for first in (0, 1) for middle in (0, 1) for last in (0, 1)]
    for window in (1, 1 << 20):  # a chunk for each packet, and one for all
        linter, found = lint([native(grh={"dgid": gid}) for gid in [*gids, *gids, *gids]], ByGid, window=window)
        assert [(f.frame, f.count) for f in found] == [(i, 3) for i in range(1, 9)]
        assert linter.tally["ZZB006"].count == 8
    frames = [bytes([first, *bytes(4), last]) + roce2()[6:] for first in (0, 2) for last in (1, 2)]
    assert [(f.frame, f.count) for f in lint([*frames, *frames], ByMac, file=ethernet_pcap)[1]] == [(i, 2) for i in range(1, 5)]


def test_a_fault_may_lie_in_another_header() -> None:
    (found,) = lint([smp(0x81, 0x16, bytes.fromhex("8001 8002") + bytes(60), modifier=3)], Elsewhere)[1]
    assert found.spans == (Span(1, 28 + MAD.attribute_modifier.span[0], 4),) and found.value == 3
    found.finish(None)
    assert found.message == "entry 0x8001 of block 3"


def test_a_fault_may_lie_in_a_header_that_is_missing() -> None:
    with_grh, without = lint([native(grh={"hop_lmt": 9}), native()], Absent)[1]
    assert (with_grh.spans, with_grh.value) == ((Span(1, 8 + 7, 1),), 9)
    assert (without.spans, without.value, without.field) == ((), None, with_grh.field)


def test_a_message_that_names_nothing_is_a_mistake_of_its_rule() -> None:
    with pytest.raises(KeyError, match=r"ZZB011.*nothing"):
        lint([native()], Unclear)


def test_frames_that_are_not_shown_are_not_reported() -> None:
    """Frames that are not selected are not reported, at the end neither; hits outside all chunks belong to the whole capture."""
    frames = [native(slid=2)] * 12
    selected = [[row % 3 == 0 for row in range(12)]]
    linter, found = lint(frames, Frames, selected=selected)
    assert [f.frame for f in found] == [1, 4, 7, 10] and linter.tally["ZZB010"].count == 4

    class AtEnd(Many):
        """Every frame."""

        code = "ZZB012"

        @on_end
        def end(self, context: Any) -> Iterator[Hit]:
            yield from (Hit(frame=frame, time_ns=0, arguments={}) for frame in range(15))

    REGISTRY.pop(AtEnd.code)
    assert [f.frame for f in lint(frames, AtEnd, selected=selected)[1]] == [0, 1, 4, 7, 10, 13, 14]
    sizes = [len(chunk) for chunk in open_capture(io.BytesIO(erf_pcap(frames)), window=200).chunks()]
    rows = iter(selected[0])
    parts = [[next(rows) for _ in range(size)] for size in sizes]
    assert len(parts) > 2 and [f.frame for f in lint(frames, AtEnd, selected=parts, window=200)[1]] == [0, 1, 4, 7, 10, 13, 14]


def test_time_is_taken_by_rule_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With timing, rules without findings have a time, too; without it, no entry. Condition and findings are timed separately."""
    clock = iter(range(7, 1000, 2))
    monkeypatch.setattr("ibdissect.lint.linter.time.perf_counter", lambda: next(clock))
    linter, found = lint([native(slid=2)], Frames, ByGid, Many, timing=True)
    assert {code: tally.seconds for code, tally in linter.tally.items()} == {"ZZB010": 4, "ZZB006": 0, "ZZB004": 0}
    assert linter.tally["ZZB010"].count == 1 and len(found) == 6
    linter, _ = lint([native(slid=2)], Frames, ByGid)
    assert {code: tally.seconds for code, tally in linter.tally.items()} == {"ZZB010": 0}


def test_evictions_of_every_state_are_known() -> None:
    linter = Linter([Forgetful, Many])
    for kind in (Memory, Counters):
        linter.context.get(kind)
    assert [(one.what, one.count, one.frame, one.time_ns) for one in linter.context.dropped()] == [("names", 4, 3, 30), ("keys", 1, 8, 80)]


def test_rules_know_where_the_file_is_broken() -> None:
    damage = [Damage("damaged", 1, 2, "why")]
    assert Linter([Many], damage=damage).context.damage is damage


def test_followers_know_which_events_rules_handle() -> None:
    linter, found = lint([native()], OneEvent)
    assert [f.arguments["event"] for f in found] == [Wanted]
    wanted = linter.context.get(Telling).wanted
    assert Wanted in wanted and Other not in wanted


def test_frames_that_are_only_counted_are_told_too() -> None:
    """Also in a later window."""
    told: list[list[int]] = []
    lint(
        [native(slid=2)] * 6, Frames, window=200, max_findings=1, on_occurrence=lambda _rule, _low, _one, frames, *_: told.append([*frames])
    )
    assert told[0] == [1] and [frame for frames in told for frame in frames] == [1, 2, 3, 4, 5, 6]


class Broken:
    """Its state proves unreliable at the end."""

    unreliable = True

    def feed(self, table: ChunkTable) -> list[object]:
        return [Sighted(table.chunk.first)]


class Sighted:
    """An event of it."""

    concludes = True
    source: Any = Broken

    def __init__(self, frame: int) -> None:
        self.frame = frame


class Concludes(Rule):
    """A conclusion, which is judged at the end."""

    code, name, message, waits = "ZZC011", "concludes", "hit", True

    @on_event(Sighted)
    def seen(self, event: Sighted, context: Any) -> Iterator[Hit]:
        yield Hit(frame=event.frame, time_ns=0, arguments={})


REGISTRY.pop(Concludes.code)


@pytest.mark.parametrize("unreliable", [False, True])
def test_what_waits_falls_with_the_facts_that_it_rests_on(unreliable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "unreliable", unreliable)
    linter, found = lint([native()], Concludes)
    assert [one.frame for one in found] == ([] if unreliable else [1])
    assert linter.tally["ZZC011"].count == (0 if unreliable else 1)
