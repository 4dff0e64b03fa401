"""Proofs of the rules about answers that do not fit their request."""

from __future__ import annotations

from ibdissect.wire.classport import ClassPortInfo
from ibdissect.wire.pm import PortCounters, PortCountersExtended
from ibdissect.wire.spec import Struct
from tests.craft import build, gmp, smp
from tests.fabric.made import node
from tests.rules.cases import case

PERF, GET, RESPONSE = 0x04, 0x01, 0x81
ASK = gmp(PERF, GET, 0x12, build(PortCounters, port_select=1), slid=1, dlid=2)


def counters(attribute: int, struct: type[Struct]) -> bytes:
    """What LID 2 answers."""
    return gmp(PERF, RESPONSE, attribute, build(struct, port_select=1), slid=2, dlid=1)


case("MAD005", [ASK, counters(0x1D, PortCountersExtended)], [ASK, counters(0x12, PortCounters)], frames=[2])
# two requests with one transaction id: which of them is answered?
OTHER = gmp(PERF, GET, 0x1D, build(PortCountersExtended, port_select=1), slid=1, dlid=2)
case("MAD005", [ASK, counters(0x1D, PortCountersExtended)], [OTHER, ASK, counters(0x1D, PortCountersExtended)],
     frames=[2], twin_also=["TXN001"])  # fmt: skip
# it sends the asker elsewhere
WHERE = gmp(PERF, RESPONSE, 1, build(ClassPortInfo, base_version=1, class_version=1), header={"status": 2}, slid=2, dlid=1)
case("MAD005", [ASK, counters(0x1D, PortCountersExtended)], [ASK, WHERE], frames=[2])

ASKED = smp(GET, 0x11, slid=1, dlid=2)
case("SMP016", [ASKED, smp(RESPONSE, 0x11, node(2), slid=900, dlid=1)], [ASKED, smp(RESPONSE, 0x11, node(2), slid=2, dlid=1)], frames=[2])
