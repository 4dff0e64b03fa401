"""Does the engine count exactly, respect its limits, group flows and report the right bytes?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ibdissect.failures import Failures
from ibdissect.lint.engine import Context, Linter
from ibdissect.lint.finding import Finding, Span
from ibdissect.lint.rule import REGISTRY, Hit, Rule, Seen, on_chunk, on_end, on_struct
from ibdissect.table.table import ChunkTable
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.sm_tables import PKeyEntry
from tests.craft import erf_pcap, native, smp
from tests.table.made import tables_of


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
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        yield Hit(frame=table.chunk.first, time_ns=0, arguments={"what": f"chunk of {len(table)}"})

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        yield Hit(frame=0, time_ns=0, arguments={"what": "end"})


class AtEnd(Rule):
    """Speaks of frames when all have gone."""

    code, name, message = "ZZA005", "at-end", "frame"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
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


@pytest.mark.parametrize(("limit", "kept"), [(2, 2), (0, 0), (None, 15), (100, 15)])
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
    def end(self, context: Context) -> Iterator[Hit]:
        raise KeyError("nothing")
        yield


def test_what_fails_at_the_end_names_no_frames() -> None:
    """The last window is over by then."""
    failures = Failures()
    linter = Linter((Falls,), failures=failures)
    for table in tables_of(erf_pcap([native(), native()])):
        linter.feed(table)
    assert not linter.finish() and failures.text().startswith("rule ZZA091 failed at the end of the capture: KeyError")
