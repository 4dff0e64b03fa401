"""Are sightings of a chunk those of its frames, and is one that is not certain an info?"""

from __future__ import annotations

import io

from ibdissect.lint.finding import Severity
from ibdissect.lint.point_faults import PointFault, PointFaults
from ibdissect.rules import load
from ibdissect.session.check import Options, check
from tests.craft import erf_pcap, rc


def test_only_what_is_certain_is_a_fault() -> None:
    known = PointFaults({"PTS002": [PointFault(frame, {"before": "A", "point": "B"}, sure=frame == 2) for frame in (2, 3, 9)]})
    options = Options(rules=[rule for rule in load() if rule.code == "PTS002"], policy=known)
    report = check(io.BytesIO(erf_pcap([rc(0x04, bytes(8), bth={"psn": psn}) for psn in range(4)])), options)
    assert [(one.frame, one.severity) for one in report.findings] == [(2, Severity.WARNING), (3, Severity.INFO)]
