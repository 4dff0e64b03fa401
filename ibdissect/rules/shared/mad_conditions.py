"""Conditions under which the bytes of an attribute mean something, shared by rules about attribute content.

A Get carries no attribute, a response with an error status undefined data.
Each condition is cheap only after the fault itself: `when = PortInfo.vl_cap > 5` first, then `& HAS_CONTENT`.
"""

from __future__ import annotations

from typing import Any

from ibdissect.lint.rule import Rule, Seen
from ibdissect.wire import numbers
from ibdissect.wire.expr import Expr
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.sa import SAFormat, mask_for
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Struct

BY_SMP = MAD.mgmt_class.isin(numbers.SMP_CLASSES)
BY_SA = MAD.mgmt_class == numbers.SA_CLASS
NO_ERROR = (MAD.status & numbers.STATUS) == 0
ANSWER = (MAD.method >= numbers.RESPONSE_BIT) | (
    (MAD.mgmt_class == numbers.BM_CLASS) & (MAD.method == numbers.SEND) & ((MAD.attribute_modifier & 1) == 1)
)
"""A response; a baseboard Send says so in its modifier (`wire.mad.is_response`)."""
REFUSED = (MAD.method >= numbers.RESPONSE_BIT) & ~NO_ERROR
"""An answer that refuses a request: what it repeats of that is not its fault."""
OTHER_VERSION = REFUSED & (MAD.status_code == 1)
"""An answer that refuses the version of its request, and names its own (IBA 13.4.7)."""
SMP_SET = (MAD.method == numbers.SET) & BY_SMP
"""A request that writes an attribute by SMP."""
SMP_ANSWER = (MAD.method == numbers.GET_RESP) & BY_SMP & NO_ERROR
"""A response by SMP that holds the attribute."""
FIRST_RECORD = (RMPP.rmpp_type == 1) & (RMPP.segment_number == 1) & (RMPP.payload_length > 20)
"""An RMPP segment that begins with a whole record, after 20 bytes from SM_Key to ComponentMask (IBA 13.6.2, 15.2.1.1)."""
_TABLE = MAD.method.isin(numbers.TABLE_RESPONSES)
SA_ANSWER = BY_SA & (MAD.status == 0) & ((MAD.method == numbers.GET_RESP) | (_TABLE & (RMPP.rmpp_type == numbers.DATA)))
"""A response of subnet administration that holds records: one, or a segment of a table."""
SA_TABLE = (MAD.status == 0) & _TABLE & BY_SA & FIRST_RECORD
"""The beginning of a table of records."""
_SA_REQUESTS = frozenset({numbers.GET, numbers.SET, numbers.GET_TABLE, numbers.GET_TRACE, numbers.GET_MULTI, numbers.DELETE})
SA_REQUEST = MAD.method.isin(_SA_REQUESTS) & BY_SA & (RMPP.rmpp_type < 2)
"""A request of subnet administration; an RMPP ACK of a table looks like one, but for its type."""
HAS_CONTENT = SMP_SET | SMP_ANSWER | SA_ANSWER
"""The attribute is written or answered, by SMP or inside an SA record."""
READ = SMP_ANSWER | SA_ANSWER
"""The attribute is answered, by SMP or inside an SA record."""
DOWN = 1
"""PortState without a link."""
HAS_LINK = PortInfo.port_state != DOWN
"""What is active on a link (speed, width) means nothing where there is none."""
ON_LINK = SMP_SET | (READ & HAS_LINK)
"""What a link uses (MTU, lanes) is written, or answered by a port that has a link; another one shows what its last link had, or nothing."""
METHODS_WITH_CONTENT = frozenset({numbers.SET, numbers.GET_RESP, numbers.GET_TABLE_RESP})
"""A Get may carry anything (infiniband-diags leave old bytes there)."""
_BASIC, _TRAPS = frozenset({numbers.GET, numbers.SET, numbers.GET_RESP}), frozenset({numbers.TRAP, numbers.TRAP_REPRESS})
METHODS_OF = {
    **dict.fromkeys((*numbers.SMP_CLASSES, numbers.DM_CLASS, numbers.CC_CLASS), _BASIC | _TRAPS),
    **dict.fromkeys((numbers.CM_CLASS, numbers.SNMP_CLASS), _BASIC | {numbers.SEND}),
    numbers.PM_CLASS: _BASIC, numbers.BM_CLASS: _BASIC | _TRAPS | {numbers.SEND},
    numbers.SA_CLASS: _BASIC | _SA_REQUESTS | {numbers.REPORT, numbers.REPORT_RESP, numbers.DELETE_RESP, *numbers.TABLE_RESPONSES},
}  # fmt: skip
"""Methods by class (IBA 13.4.5; attributes.csv); others are SMP002, PM009 and MAD003."""


def request_text(seen: Seen) -> str:
    """`PerfGet(PortCounters)`: the MAD of a frame."""
    mad = seen.first(MAD)
    assert mad is not None
    return seen.table.catalog.request_text(mad.mgmt_class, mad.method, mad.attribute_id, mad.base_version)


class NamesRequest(Rule):
    """Its message names the MAD of the frame: `{what}`."""

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"what": request_text(seen)}


def chosen(record: type[Struct], *names: str) -> Expr:
    """The component mask of an SA MAD selects all of these fields of a record."""
    mask = mask_for(record, names)
    return (SAFormat.component_mask & mask) == mask
