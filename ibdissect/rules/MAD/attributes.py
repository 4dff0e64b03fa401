"""Requests with a method that their attribute does not have, and answers with another modifier than their request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.decode.identity import Code
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Seen, fault, on_chunk
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.MAD.answered_attributes import KNOWN_CLASSES
from ibdissect.rules.shared.mad_conditions import METHODS_OF, NamesRequest
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.second_answers import OwnAnswerRule
from ibdissect.wire.attribute_methods import REQUESTS
from ibdissect.wire.expr import Expr, Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_IB, MAD, RMPP, RMPP_CLASSES, method_name
from ibdissect.wire.numbers import (
    BM_CLASS,
    DATA,
    FIRST_VENDOR,
    GET_RESP,
    NOTICE,
    PM_CLASS,
    PORT_INFO,
    PORT_INFO_RECORD,
    SA_CLASS,
    TRAP,
    TRAP_REPRESS,
)

_IB = MAD.base_version == BASE_VERSION_IB
_NO_CONTROL = ~MAD.mgmt_class.isin(RMPP_CLASSES) | (RMPP.rmpp_type <= DATA)
"""An ACK, STOP or ABORT has the method of the other direction."""


_NO_NOTICE = (MAD.attribute_id != NOTICE) & (MAD.attribute_id < FIRST_VENDOR)
TRAPPING = frozenset(mgmt_class for mgmt_class in REQUESTS if TRAP in METHODS_OF[mgmt_class])
"""Classes with traps."""


def _wrong_method() -> Expr:
    parts: list[Expr] = []
    for mgmt_class, attributes in REQUESTS.items():
        by_methods: dict[frozenset[Code], set[Code]] = {}
        for attribute, known in attributes.items():
            by_methods.setdefault(known.methods, set()).add(attribute)
        asked = {method for method in METHODS_OF[mgmt_class] if method < 0x80}
        for methods, some in by_methods.items():
            wrong = MAD.method.isin(asked - methods - {TRAP, TRAP_REPRESS})
            parts.append((MAD.mgmt_class == mgmt_class) & wrong & MAD.attribute_id.isin(some))
    return Or(tuple(parts))


class MethodOfAttribute(NamesRequest, LearntFactRule):
    """A request has a method that its attribute does not have.

    A read-only attribute is written, a message of connection management is read, a record that only the subnet administration makes is
    deleted, a Trap carries something else than a Notice. The receiver answers with status 3 (method/attribute combination), or not at all.

    Correct the sender; compare with the methods that the standard gives the attribute.

    One request is enough; an `info` if it is answered with status 0. Traps with attributes of a manufacturer, from 0xff00 on, are not
    judged.
    """

    code, name, severity = "MAD018", "method-not-for-attribute", WARNING
    reference = "IBA 13.4.8, 14.2.5, 15.2.5; python-rdma"
    when = (
        (_wrong_method() | (MAD.method.isin({TRAP, TRAP_REPRESS}) & _NO_NOTICE & MAD.mgmt_class.isin(TRAPPING))) & _IB & _NO_CONTROL
    )  # fmt: skip
    on, at = MAD, MAD.method
    refutable = True
    flow = (LRH.slid, LRH.dlid, MAD.mgmt_class, MAD.method, MAD.attribute_id)
    message = "{what} is not possible: the attribute has {methods}"
    example = "SubnSet(NodeInfo)"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        mgmt_class, method, attribute = (seen.value(field) for field in (MAD.mgmt_class, MAD.method, MAD.attribute_id))
        known = REQUESTS[mgmt_class].get(attribute)
        names = [method_name(mgmt_class, one) for one in sorted(known.methods)] if known is not None else []
        if method in (TRAP, TRAP_REPRESS):
            names = names or ["no traps"]
        return {**super().computed(seen, i), "methods": " and ".join(names)}


EXTENDED_SPEEDS = 1 << 31
"""Bit of the modifier of a PortInfo or its record that an old port or SA may not return."""


class OtherModifier(OwnAnswerRule):
    """An answer has another attribute modifier than its request.

    The modifier says which port, block or page the attribute is of. The requester takes the data for those that it asked for.

    Correct the responder.

    A request and its answer, with nothing else of that transaction in between. An `info` if the capture misses packets there: another
    request may have had that transaction id; the same if the request gets another answer, too.
    """

    code, name, severity = "MAD019", "answer-other-modifier", ERROR
    explains = ("AM", "SEM")
    reference = "IBA 13.4.5, 14.2.1"
    message = "{what} with modifier 0x{asked:08x} is answered with modifier 0x{modifier:08x}"
    example = "SubnGet(PortInfo) with AttributeModifier 1, answered with AttributeModifier 2"
    at = MAD.attribute_modifier

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        event = context.get(Transactions).matched
        if event is None or not len(event):
            return
        asked, sure = event.mads.modifier[event.asked].astype(np.int64), np.ones(len(event), np.bool_)
        for k, request in event.singles.items():
            asked[k] = request.modifier
            sure[k] = request.only_one_open and request.earlier is None and request.tries == 1 and not request.settled
        rows = event.frames - table.chunk.first
        carried = table.values_at(MAD.attribute_modifier, rows).astype(np.int64)
        same_attribute = table.values_at(MAD.attribute_id, rows) == event.attribute
        mgmt_class = event.mgmt_class
        unlike = asked ^ carried
        of_ports = event.attribute == np.where(mgmt_class == SA_CLASS, PORT_INFO_RECORD, PORT_INFO)
        unlike &= np.where(of_ports, ~EXTENDED_SPEEDS, -1)
        other = (unlike != 0) & sure & same_attribute & (KNOWN_CLASSES[mgmt_class] | (mgmt_class == PM_CLASS)) & (mgmt_class != BM_CLASS)
        other &= (event.method == GET_RESP) & ((event.status & 0x7FFF) == 0)
        for k in np.flatnonzero(other).tolist():
            seen = Seen(table, int(rows[k]))
            what = context.catalog.request_text(int(mgmt_class[k]), int(event.request_method[k]), int(event.attribute[k]))
            yield fault(
                seen, {"what": what, "asked": int(asked[k]), "modifier": int(carried[k])}, MAD.attribute_modifier, int(carried[k]),
                proof=[(int(event.last_frames[k]), "request")],
            )  # fmt: skip
