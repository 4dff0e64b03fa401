"""Wrong fields of the common MAD header and of the RMPP header: version, method, attribute, reserved bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import is_in
from ibdissect.lint.finding import Span
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, each, fault, on_chunk
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.mad_conditions import ANSWER, METHODS_OF, OTHER_VERSION, REFUSED, NamesRequest
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.wire.expr import Expr, Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, CLASS_VERSION, MAD, RMPP, RMPP_CLASSES, class_text
from ibdissect.wire.numbers import ABORT, CC_CLASS, DATA, FIRST_VENDOR, PM_CLASS, RESPONSE_BIT, SA_CLASS, SMP_CLASSES, STATUS, TRAP_REPRESS
from ibdissect.wire.pm import PerfMgtFormat
from ibdissect.wire.undecoded import UNDECODED

JUDGED = frozenset({0x01, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x21, 0x81})
"""Classes whose attributes the standard lists."""
GENERAL = sorted(METHODS_OF.keys() - {*SMP_CLASSES, PM_CLASS})
"""Classes whose methods MAD003 judges; the others have rules of their own."""
_IB = MAD.base_version == BASE_VERSION_IB
_RESPONSE = (MAD.method & 0x80) != 0
"""The status has no meaning in requests."""


def is_unknown(table: ChunkTable, mgmt_class: int, attr_id: int) -> bool:
    """Whether a class of the standard has no such attribute."""
    key = mgmt_class, attr_id
    if mgmt_class not in JUDGED or attr_id >= FIRST_VENDOR or key in UNDECODED:
        return False
    return not any(place.base_version == BASE_VERSION_IB for place, _ in table.catalog.attributes.get(key, ()))


def _versions() -> Expr:
    """A class whose version is not the one in use; congestion control has CC002."""
    parts: list[Expr] = []
    for version in sorted(set(CLASS_VERSION.values())):
        classes = {number for number, known in CLASS_VERSION.items() if known == version and number != CC_CLASS}
        parts.append((MAD.class_version != version) & MAD.mgmt_class.isin(classes))
    return Or(tuple(parts))


class BaseVersion(Rule):
    """A MAD has a base version that neither InfiniBand nor Omni-Path uses.

    Receivers answer with status 1 (bad version) or discard the datagram. Random values mean that the bytes are not a MAD at all.

    Correct the sender; if the ICRC is wrong too, look for the damage on the link instead.

    One packet is enough. Silent for an answer with status 1: it may repeat the header that it refuses.
    """

    code, name, severity = "MAD001", "base-version-unknown", ERROR
    reference = "IBA 13.4.3; kernel OPA_MGMT_BASE_VERSION"
    when = ~MAD.base_version.isin({BASE_VERSION_IB, BASE_VERSION_OPA}) & ~OTHER_VERSION
    message = "base version 0x{base_version:02x}, InfiniBand has 0x01 and Omni-Path 0x80"
    example = "a SubnGet with BaseVersion 2"


class ClassVersion(Rule):
    """A MAD has a class version that is not in use for its class.

    The receiver answers with status 1 or misreads the fields: subnet administration version 1, for example, has them in other places.

    Bring both ends to the same version of the class; find the outdated or faulty sender by its LID.

    One packet is enough. Silent for an answer with status 1: it names the version that its sender has.
    """

    code, name, severity = "MAD002", "class-version-unknown", ERROR
    reference = "IBA 13.4.3; kernel ib_mad.h; opensm; libibmad"
    when = _versions() & _IB & ~OTHER_VERSION
    message = "class version {class_version} of {mgmt_class!t}, it has version {right}"
    example = "a SubnAdmGet with ClassVersion 9"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"right": CLASS_VERSION[seen.value(MAD.mgmt_class)]}


class MethodOfClass(Rule):
    """A general-services MAD has a method that its class does not define.

    Nobody answers it, or only with status 2 (method not supported). If the method is a known one, its byte or the class is wrong.

    Compare with the methods that the standard gives this class, and correct the sender.

    One packet is enough. Silent for an answer that refuses such a method.
    """

    code, name, severity = "MAD003", "method-not-valid-for-class", ERROR
    explains = ("TXN006", "TXN008")
    reference = "IBA 13.4.5; python-rdma"
    when = Or(tuple((MAD.mgmt_class == one) & ~MAD.method.isin(METHODS_OF[one]) for one in GENERAL)) & _IB & ~REFUSED
    at = MAD.method
    message = "method 0x{method:02x} does not exist in {mgmt_class!t}"
    example = "a SubnAdm MAD with method 0x20"


class StatusReservedBits(Rule):
    """A response's status has reserved bits 7-5 set.

    A receiver that compares the whole status with zero takes the answer for an error; one that looks only at the code does not. They then
    disagree about whether a Set was done.

    Correct the responder; compare with the status it sends for the same error in other classes.
    """

    code, name, severity = "MAD006", "status-reserved-bits", WARNING
    reference = "IBA 13.4.7"
    when = ((MAD.status & 0x00E0) != 0) & _RESPONSE & _IB
    message = "status 0x{status:04x} has reserved bits (7-5) set"
    example = "a SubnAdmGetResp with status 0x0020"


class StatusInRequest(NamesRequest):
    """A request carries a status.

    The status belongs to answers; requests have 0 there. A request with another value is a copied answer, or its sender did not clear the
    header: receivers may take it for an answer with an error.

    Clear the header before a request is sent; find out who builds it.

    One request of a class of the standard is enough. The direction bit of directed routes is no status, acknowledgements of RMPP repeat
    the header of what they acknowledge, and a baseboard Send with bit 0 of the modifier is an answer.
    """

    code, name, severity = "MAD021", "status-in-request", WARNING
    reference = "IBA 13.4.3, 13.4.7"
    when = (
        ((MAD.status & STATUS) != 0) & ~ANSWER & MAD.mgmt_class.isin(METHODS_OF) & _IB
        & (~MAD.mgmt_class.isin(RMPP_CLASSES) | (RMPP.rmpp_type <= DATA))
    )  # fmt: skip
    on, at = MAD, MAD.status
    flow = (LRH.slid, LRH.dlid, MAD.mgmt_class, MAD.method, MAD.attribute_id)
    message = "{what} has status 0x{status:04x}, which only answers have"
    example = "a SubnGet(NodeInfo) with status 0x001c"


class StatusUnknownCode(Rule):
    """A response has one of the reserved status codes 4, 5 and 6.

    The requester learns that something failed but not what, and may retry in vain.

    Correct the responder; the codes are 0 (fine), 1 (version), 2 (method), 3 (method and attribute), 7 (invalid value).
    """

    code, name, severity = "MAD008", "status-unknown-code", WARNING
    reference = "IBA 13.4.7; kernel ib_mad.h"
    when = MAD.status_code.isin({4, 5, 6}) & _RESPONSE & _IB
    at = MAD.status
    message = "status 0x{status:04x} holds the reserved code {status_code}"
    example = "a SubnGetResp with status 0x0014"


class HeaderReserved(Rule):
    """The reserved bytes 18-19 of a MAD header are not zero.

    They lie between attribute and modifier. The sender takes the attribute for 32 bits, or did not clear its buffer. A strict receiver may
    refuse the MAD.

    Correct the sender.
    """

    code, name, severity = "MAD009", "mad-reserved-field", WARNING
    reference = "IBA 13.4.3; python-rdma MADHeader"
    when = (MAD.reserved != 0) & _IB
    message = "the reserved bytes behind the attribute id hold 0x{reserved:04x} instead of 0"
    example = "a SubnGet with 0x0001 after the attribute id"


class ClassSpecificReserved(Rule):
    """The class-specific bytes 6-7 of an SA or performance management MAD are not zero.

    These classes do not use them; directed-route SMPs keep hop pointer and count there. The values are left over from such a packet.

    Clear the header before reusing it for another class.
    """

    code, name, severity = "MAD010", "class-specific-reserved", INFO
    reference = "IBA 13.4.3, 15.2.1.1, 16.1.1; python-rdma"
    when = (MAD.class_specific != 0) & MAD.mgmt_class.isin({SA_CLASS, PM_CLASS}) & _IB
    flow = (LRH.slid, MAD.mgmt_class)
    message = "the class-specific bytes (6-7) hold 0x{class_specific:04x}, {mgmt_class!t} does not use them"
    example = "a PerformanceGet with ClassSpecific 7"


class UnknownAttribute(LearntFactRule):
    """A MAD names an attribute that its class does not define.

    Nodes answer with status 3, if at all.

    Check the sender: the usual cause is a wrong class with a right attribute. A plugin can declare the attribute.

    One packet is enough. Ids from 0xff00 on belong to vendors and are not reported. An `info` if such a request is answered with status 0:
    then the attribute comes from a newer standard. An answer repeats the id of its request, and is judged only if it names another one.
    """

    code, name, severity = "MAD011", "attr-unknown-for-class", WARNING
    explains = ("MAD005",)
    reference = "IBA 14.2.5, 15.2.5, 16; attributes.csv"
    at = MAD.attribute_id
    message = "{mgmt_class} has no attribute 0x{attribute_id:04x}"
    example = "a SubnGet of attribute 0x0044"
    refutable = True

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        for key, rows in table.attributes().items():
            mgmt_class, attr_id = key
            if not is_unknown(table, mgmt_class, attr_id):
                continue
            rows = rows[table.chunk.data[table.located.at("mad")[rows]] == BASE_VERSION_IB]
            event, answers = context.get(Transactions).matched, table.values_at(MAD.method, rows) >= RESPONSE_BIT
            if event is not None and answers.any():
                answers &= ~is_in(rows + table.chunk.first, event.frames[event.attribute != attr_id])
            rows = rows[~answers]
            if rows.size:
                seen = Seen(table, int(rows[0]))
                arguments = {"mgmt_class": class_text(mgmt_class), "attribute_id": attr_id}
                yield fault(seen, arguments, self.at, of=seen.first(MAD), key=key, rows=rows)


class TransactionZero(NamesRequest):
    """A request has transaction id 0.

    Zero is legal, but such an answer looks like a cleared buffer, and several senders of zero behind one LID cannot be told apart.

    Nothing, unless answers go to the wrong requester; then let the sender number its requests.
    """

    code, name, severity = "MAD012", "tid-zero", INFO
    is_note = True
    reference = "IBA 13.4.6.4; opensm skips TID 0"
    when = (MAD.transaction_id == 0) & ((MAD.method & 0x80) == 0) & (MAD.method != TRAP_REPRESS) & _IB
    flow = (LRH.slid, MAD.mgmt_class)
    message = "{what} has transaction id 0"
    example = "a SubnTrap with TransactionID 0"


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
    """A performance management MAD has RMPP flags in its reserved bytes.

    The class does not use RMPP: a receiver reads one MAD and does not notice that the sender meant a transfer of several.

    Look at the sender's MAD library; it assumes that the class uses RMPP.

    One packet is enough. Silent if the reserved bytes behind the RMPP header are not zero: then they hold no such header.
    """

    code, name, severity = "MAD016", "rmpp-flags-not-rmpp-mad", INFO
    reference = "IBA 13.6.1, 16.1.1; kernel core/mad.c"
    flow = (LRH.slid,)
    message = "an RMPP header (type {rmpp_type}) in a performance management MAD, which has none"
    example = "a PerformanceGet with RMPPVersion 1, RMPPType 1 and the active flag"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """After the common header: version 0 or 1, a type, flags, and nothing behind the header."""
        found = table.occurrences(PerfMgtFormat)
        if not len(found):
            return
        fields = (RMPP.rmpp_version, RMPP.rmpp_type, RMPP.rmpp_flags)
        version, kind, flags = (value_at(table.chunk.data, found.at + MAD.size, field) for field in fields)
        odd = (version <= 1) & (kind <= ABORT) & (flags != 0)
        low, high = MAD.size + RMPP.size, PerfMgtFormat.data.bit // 8
        odd[odd] = ~gather(table.chunk.data, found.at[odd] + low, high - low).any(axis=1)
        slid = table.values_at(LRH.slid, found.rows) if odd.any() else odd
        for i, seen, view in each(table, PerfMgtFormat, odd):
            spans = (Span(seen.frame, view.offset + MAD.size, RMPP.size),)
            yield fault(seen, {"rmpp_type": int(kind[i])}, spans=spans, key=int(slid[i]))
