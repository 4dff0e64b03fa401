"""Which RMPP headers are wrong by themselves?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.lint.finding import Span
from ibdissect.lint.rule import ERROR, INFO, Context, Hit, Rule, each, on_chunk
from ibdissect.table.table import ChunkTable
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.numbers import ABORT, DATA, SA_CLASS
from ibdissect.wire.pm import PerfMgtFormat

RMPP_USERS = frozenset({SA_CLASS, *range(0x30, 0x50)})
"""Classes in which the header is always present; device management may have any data in those bytes."""
IN_USE = (RMPP.active == 1) & (RMPP.rmpp_type != 0) & MAD.mgmt_class.isin(RMPP_USERS)


class RMPPVersion(Rule):
    """An RMPP header that is in use has a version other than 1.

    The receiver aborts the transfer with status 125 (unsupported version). A version of 0 in a MAD that does not use RMPP is legal.

    Correct the sender; the version has always been 1.
    """

    code, name, severity = "MAD015", "rmpp-short-rmpp-version", ERROR
    reference = "IBA 13.6.2.1; kernel IB_MGMT_RMPP_VERSION"
    when = (RMPP.rmpp_version != 1) & IN_USE
    message = "RMPP version {rmpp_version} in a header of type {rmpp_type}, it must be 1"
    example = "a SubnAdmGetTableResp with RMPPVersion 3"


class RMPPInOtherClass(Rule):
    """A performance management MAD has an active RMPP header in its reserved bytes.

    The class does not use RMPP: a receiver reads one MAD and does not notice that the sender meant a transfer of several.

    Look at the sender's MAD library; it assumes that the class uses RMPP.

    One packet is enough.
    """

    code, name, severity = "MAD016", "rmpp-flags-not-rmpp-mad", INFO
    reference = "IBA 13.6.1, 16.1.1; kernel core/mad.c"
    flow = (LRH.slid,)
    message = "RMPP header (type {rmpp_type}) in a class that does not use it"
    example = "a PerformanceGet with RMPPVersion 1, RMPPType 1 and the active flag"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """Bytes 24-26 of the MAD: version 1, a type, the active flag."""
        found, data = table.occurrences(PerfMgtFormat), table.chunk.data
        kind = data[found.at + 25]
        odd = (data[found.at + 24] == 1) & (kind >= DATA) & (kind <= ABORT) & (data[found.at + 26] & 1 == 1)
        slid = table.of_rows(LRH.slid)[0][found.rows] if odd.any() else odd
        for i, seen, view in each(table, PerfMgtFormat, odd):
            spans = (Span(seen.frame, view.offset + MAD.size, RMPP.size),)
            yield seen.found({"rmpp_type": int(kind[i])}, spans=spans, key=int(slid[i]))
