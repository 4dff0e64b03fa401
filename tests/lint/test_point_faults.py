"""Sightings of a chunk are those of its frames, and one that is not certain is an info."""

from __future__ import annotations

import io

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.finding import Related, Severity, Span
from ibdissect.lint.linter import Linter
from ibdissect.lint.point_faults import PointFault, PointFaults, PointRule
from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.wire.headers import BTH, DETH
from tests.cases import every
from tests.craft import erf_pcap, rc
from tests.decode.made import native_table


def test_only_what_is_certain_is_a_fault() -> None:
    known = PointFaults({"PTS002": [PointFault(frame, {"before": "A", "point": "B"}, sure=frame == 2) for frame in (2, 3, 9)]})
    options = CheckOptions(rules=[rule for rule in load() if rule.code == "PTS002"], policy=known)
    report = check(io.BytesIO(erf_pcap([rc(0x04, bytes(8), bth={"psn": psn}) for psn in range(4)])), options)
    assert [(one.frame, one.severity) for one in report.findings] == [(2, Severity.WARNING), (3, Severity.INFO)]


@every(("frame", "within"), [(0, False), (1, True), (3, True), (4, False), (-1, False)])
def test_faults_of_the_frames_of_a_chunk(frame: int, within: bool) -> None:
    table = native_table([rc(0x04)] * 3)
    known = PointFaults({"PTS002": [PointFault(frame, {})]})
    assert bool([*known.within("PTS002", table)]) is within and not [*known.within("PTS001", table)]


def test_what_a_finding_says_of_other_points() -> None:
    """The field at fault is marked where the frame has it."""

    class OfPoints(PointRule):
        """Something happened between two points."""

        code, name, message = "ZZP001", "of-points", "x"

        def holds(self, one: PointFault, table: ChunkTable) -> bool:
            return one.frame != 3

    REGISTRY.pop("ZZP001")
    faults = [
        PointFault(1, {}, (Related(7, "there", "b.pcap", 7),), BTH.psn),
        PointFault(2, {}, at=DETH.srcqp),
        PointFault(3, {}, at=BTH.psn),
    ]
    linter = Linter([OfPoints])
    linter.context.sources[PointFaults] = PointFaults({"ZZP001": faults})
    linter.feed(native_table([rc(0x04)] * 3))
    one, other = linter.finish()
    assert (one.frame, one.spans, one.related, one.evidence) == (1, (Span(1, 17, 3),), (Related(7, "there", "b.pcap", 7),), "inferred")
    assert (other.frame, other.spans, other.field, other.related) == (2, (), None, ())
