"""Component masks, offsets, statuses and keys of SA MADs that are wrong by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.equal_rows import by_value
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, each, fault, on_chunk
from ibdissect.rules.shared.mad_conditions import BY_SA, SA_REQUEST, SA_TABLE, NamesRequest, request_text
from ibdissect.wire.expr import Expr
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD, SA_STATUS
from ibdissect.wire.numbers import (
    DELETE_RESP,
    GET,
    GET_RESP,
    GET_TABLE,
    GET_TRACE,
    P_KEY_TABLE_RECORD,
    REPORT_RESP,
    SA_CLASS,
    TABLE_RESPONSES,
)
from ibdissect.wire.sa import SAFormat, components_of
from ibdissect.wire.spec import Struct

COMMON = frozenset({0x0001, 0x0002, 0x0003})
"""ClassPortInfo, Notice and InformInfo: attributes without components."""
INCOMPLETE = frozenset({0x0019, 0x003E})
"""Records whose components or length no public source gives in full."""
OFFSETS = {0x0012: frozenset({8, 9}), 0x003A: frozenset({8}), 0x00F3: frozenset({8, 10})}
"""Lengths in 8-byte words where sources differ: PortInfoRecord (PortInfo of 60 or 64 bytes), InformInfoRecord (64 or 80). A table that
answers a MultiPathRecord holds PathRecords, whichever of the two its AttributeID names.
"""


BEFORE_RECORDS = 20
"""Bytes of a segment from SM_Key to ComponentMask."""


def of_records(table: ChunkTable, when: Expr) -> Iterator[tuple[int, type[Struct], Bool]]:
    """SA attributes that are fully known records, their structures, and the SA MADs about each that meet a condition."""
    found = table.occurrences(SAFormat)
    if not len(found):
        return
    some = occurrences_where(when, table, SAFormat)
    attrs = table.values_at(MAD.attribute_id, found.rows)
    for attr_id, _ in by_value(attrs[some]):
        known = table.catalog.attributes.get((SA_CLASS, attr_id), ()) if attr_id not in COMMON | INCOMPLETE else ()
        for struct in [struct for place, struct in known if place.base_version == 1][:1]:
            yield attr_id, struct, some & (attrs == attr_id)


class MaskBeyondRecord(Rule):
    """A component mask chooses components that the record does not have.

    The SA refuses the query, or ignores the bits and returns more than was asked for. The mask may be in the wrong byte order.

    Correct the client: bit 0 is the first field of the record, counted from the least significant bit of the mask.

    One request is enough. Silent for GetTraceTable, whose request holds a MultiPathRecord.
    """

    code, name, severity = "SA001", "compmask-beyond-attr", ERROR
    reference = "IBA 15.2.1.4, 15.2.5; python-rdma iba.xml"
    at = SAFormat.component_mask
    message = "component mask 0x{component_mask:x} of {record}, which has {known} components"
    example = "SubnAdmGetTable(NodeRecord) with bit 63 of the mask set"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """Requests only: responses repeat the mask."""
        for _, struct, requests in of_records(table, SA_REQUEST & (MAD.method != GET_TRACE)):
            known = len(components_of(struct))
            beyond = requests & (table.values(SAFormat.component_mask) >> np.uint64(known) != 0)
            for _, seen, view in each(table, SAFormat, beyond) if 0 < known < 64 else ():
                yield fault(seen, {"component_mask": view.component_mask, "record": struct.title, "known": known}, self.at, of=view)


class MaskEmpty(NamesRequest):
    """A SubnAdmGet selects no component.

    It asks for any record at all. As Get has room for one, the SA answers "too many records", or with any one of them.

    Select a component in the mask, or use GetTable if the whole table is wanted.
    """

    code, name, severity = "SA002", "compmask-multiple-instances", INFO
    reference = "IBA 15.4.2; opensm"
    when = (SAFormat.component_mask == 0) & (MAD.method == GET) & ~MAD.attribute_id.isin(COMMON) & SA_REQUEST
    flow = (LRH.slid, MAD.attribute_id)
    message = "{what} with an empty component mask, which asks for any record"
    example = "SubnAdmGet(NodeRecord) with component mask 0"


class ClassStatus(Rule):
    """The SA refuses a SubnAdmGet or SubnAdmSet with a class-specific status.

    The reason is 1 no resources, 2 request invalid, 3 no records, 4 too many records, 5 invalid GID, 6 insufficient components, 7 denied.

    Compare the request with what the SA needs; for "too many records" use GetTable, and "no records" is often no fault.
    """

    code, name, severity = "SA003", "sa-request-refused", INFO
    reference = "IBA 15.2.3; opensm C15-0.1.30"
    when = MAD.status_class_specific.isin(SA_STATUS) & BY_SA & (MAD.method == GET_RESP)
    at = MAD.status
    flow = (MAD.attribute_id, MAD.status, LRH.dlid)
    message = "{what} with status {reason} ({status_class_specific})"
    example = "SubnAdmGetResp with status 0x0400"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"what": request_text(seen), "reason": SA_STATUS[seen.value(MAD.status_class_specific)]}


class AttributeOffset(Rule):
    """The AttributeOffset of an SA table does not fit its records.

    The requester steps through the table by AttributeOffset (in words of 8 bytes) and reads every record after the first from the wrong
    place.

    Correct the SA, or check whether both ends use different versions of the record.

    The first segment of a table that holds at least one record. An `info` for offset 0 in a table of one: there is nothing to step over.
    """

    code, name, severity = "SA004", "sa-attr-offset-wrong", ERROR
    explains = ("LNK025", "MKY", "PKY", "SA011", "SA012", "SA015", "SA018", "SEM")  # what is read from the records
    reference = "IBA 15.2.1.1; opensm ib_get_attr_offset; python-rdma"
    at = SAFormat.attribute_offset
    message = "AttributeOffset {words} words for {record}, which takes {expected}"
    example = "SubnAdmGetTableResp(NodeRecord) with AttributeOffset 3"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        for attr_id, struct, answers in of_records(table, SA_TABLE):
            offsets = table.values(SAFormat.attribute_offset)
            expected = sorted(OFFSETS.get(attr_id, {-(-struct.size // 8)}))
            words = " or ".join(map(str, expected))
            for _, seen, view in each(table, SAFormat, answers & ~np.isin(offsets, expected)):
                single = not view.attribute_offset and view.rmpp.payload_length - BEFORE_RECORDS <= 8 * expected[-1]
                yield fault(
                    seen, {"words": view.attribute_offset, "record": struct.title, "expected": words}, self.at, of=view,
                    severity=INFO if single else None,
                )  # fmt: skip


class ClassStatusUnknown(Rule):
    """An SA response has a class status that is not defined.

    The requester learns that it failed but not why. Codes are 1 to 7, and 8 in OpenSM.

    Correct or update the SA; check for a status written in the wrong byte order.
    """

    code, name, severity = "SA005", "sa-status-undefined", WARNING
    reference = "IBA 15.2.3; opensm"
    when = (MAD.status_class_specific > max(SA_STATUS)) & BY_SA & ((MAD.method & 0x80) != 0)
    at = MAD.status
    message = "class status {status_class_specific} is not defined for subnet administration"
    example = "SubnAdmGetResp with status 0x0900"


class KeyInResponse(Rule):
    """An SA response carries an SM_Key.

    The key proves that a request is trusted; a response needs none, and one that repeats it shows the key to everybody on the way.

    Update the SA; treat the capture as secret.
    """

    code, name, severity = "SA007", "sa-response-smkey-nonzero", INFO
    reference = "IBA 15.4.1; opensm C15-0.1.5"
    when = (SAFormat.sm_key != 0) & MAD.method.isin({GET_RESP, REPORT_RESP, DELETE_RESP, *TABLE_RESPONSES})
    flow = (LRH.slid, SAFormat.sm_key)
    message = "an SA response reveals {sm_key}"
    example = "SubnAdmGetResp with SM_Key 1"


class UntrustedPKeyQuery(Rule):
    """A request for partition tables carries no SM_Key.

    The SA gives them only to trusted requesters: the answer is empty or an error, as if there were no partitions.

    Give the tool the key (`saquery --smkey`), or do not rely on the answer.
    """

    code, name, severity = "SA008", "trusted-request-untrusted", INFO
    reference = "IBA 15.4.1.2; opensm osm_sa_pkey_record"
    when = (SAFormat.sm_key == 0) & (MAD.attribute_id == P_KEY_TABLE_RECORD) & MAD.method.isin({GET, GET_TABLE}) & SA_REQUEST
    flow = (LRH.slid,)
    message = "P_KeyTableRecord asked for without SM_Key"
    example = "SubnAdmGetTable(P_KeyTableRecord) with SM_Key 0"


class Redirected(Rule):
    """The SA redirects a requester to another address.

    The request is not done; the requester has to ask at the address in ClassPortInfo. Clients that do not support redirection fail.

    Check that the client follows: a Get(ClassPortInfo) should be next.
    """

    code, name, severity = "SA025", "sa-redirect", INFO
    reference = "IBA 13.5.2, 13.4.7; python-rdma"
    when = (MAD.status_redirect == 1) & BY_SA & ((MAD.method & 0x80) != 0)
    at = MAD.status
    flow = (LRH.slid, LRH.dlid)
    message = "status 0x{status:04x} asks the requester to follow a redirection"
    example = "SubnAdmGetResp with status 0x0002"
