"""When do the bytes of an attribute mean something? Conditions that rules about attribute content share.

A Get carries no attribute, a response with an error status undefined data.
Each condition is cheap only after the fault itself: `when = PortInfo.vl_cap > 5` first, then `& HAS_CONTENT`.
"""

from __future__ import annotations

from ibdissect.lint.rule import Seen
from ibdissect.wire.component_mask import mask_for
from ibdissect.wire.expr import Expr
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.numbers import DATA, DELETE, GET, GET_RESP, GET_TABLE, SA_CLASS, SET, SMP_CLASSES, STATUS
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.spec import Struct

TABLE_ANSWERS = frozenset({0x92, 0x93, 0x94})
"""GetTableResp, GetTraceTableResp and GetMultiResp: records in a table."""
BY_SMP = MAD.mgmt_class.isin(SMP_CLASSES)
BY_SA = MAD.mgmt_class == SA_CLASS
NO_ERROR = (MAD.status & STATUS) == 0
SMP_SET = (MAD.method == SET) & BY_SMP
"""A request that writes an attribute by SMP."""
SMP_ANSWER = (MAD.method == GET_RESP) & BY_SMP & NO_ERROR
"""A response by SMP that holds the attribute."""
FIRST_RECORD = (RMPP.rmpp_type == 1) & (RMPP.segment_number == 1) & (RMPP.payload_length > 20)
"""An RMPP segment that begins with a whole record, after 20 bytes from SM_Key to ComponentMask (IBA 13.6.2, 15.2.1.1)."""
SA_ANSWER = BY_SA & (MAD.status == 0) & ((MAD.method == GET_RESP) | (MAD.method.isin(TABLE_ANSWERS) & (RMPP.rmpp_type == DATA)))
"""A response of subnet administration that holds records: one, or a segment of a table."""
SA_TABLE = (MAD.status == 0) & MAD.method.isin(TABLE_ANSWERS) & BY_SA & FIRST_RECORD
"""The beginning of a table of records."""
SA_REQUEST = MAD.method.isin({GET, SET, GET_TABLE, 0x13, 0x14, DELETE}) & BY_SA & (RMPP.rmpp_type < 2)
"""A request of subnet administration; an RMPP ACK of a table looks like one, but for its type."""
HAS_CONTENT = SMP_SET | SMP_ANSWER | SA_ANSWER
"""The attribute is written or answered, by SMP or inside an SA record."""
READ = SMP_ANSWER | SA_ANSWER
"""The attribute is answered, by SMP or inside an SA record."""
OF_EXTERNAL_PORT = (MAD.attribute_modifier & 0xFF) != 0
"""A PortInfo of a numbered port: of a switch's port 0 some components mean nothing."""
METHODS_WITH_CONTENT = frozenset({SET, 0x81, 0x92})
"""Set, GetResp, GetTableResp: a Get may carry anything (infiniband-diags leave old bytes there)."""
METHODS_OF = {
    0x01: frozenset({0x01, 0x02, 0x05, 0x07, 0x81}),
    0x03: frozenset({0x01, 0x02, 0x06, 0x12, 0x13, 0x14, 0x15, 0x81, 0x86, 0x92, 0x93, 0x94, 0x95}),
    0x04: frozenset({0x01, 0x02, 0x81}),
    0x05: frozenset({0x01, 0x02, 0x03, 0x05, 0x07, 0x81}),
    0x06: frozenset({0x01, 0x02, 0x05, 0x07, 0x81}),
    0x07: frozenset({0x01, 0x02, 0x03, 0x81}),
    0x08: frozenset({0x01, 0x02, 0x03, 0x81}),
    0x21: frozenset({0x01, 0x02, 0x05, 0x07, 0x81}),
    0x81: frozenset({0x01, 0x02, 0x05, 0x07, 0x81}),
}
"""Methods by class (IBA 13.4.5; attributes.csv); others are SMP002, PM009 and MAD003."""


def request_text(seen: Seen) -> str:
    """`PerfGet(PortCounters)`: the MAD of a frame."""
    mad = seen.first(MAD)
    assert mad is not None
    return seen.table.catalog.request_text(mad.mgmt_class, mad.method, mad.attribute_id, mad.base_version)


def chosen(record: type[Struct], *names: str) -> Expr:
    """The component mask of an SA MAD selects all of these fields of a record."""
    mask = mask_for(record, names)
    return (SAFormat.component_mask & mask) == mask
