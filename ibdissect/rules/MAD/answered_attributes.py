"""Answers that carry another attribute than their request, or have no request."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.capture.gather import flags
from ibdissect.decode import ChunkTable
from ibdissect.decode.capture_places import Scopes
from ibdissect.lint.rule import INFO, LEARNT, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_end
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.askers import Askers
from ibdissect.rules.shared.not_seen import warm
from ibdissect.rules.shared.second_answers import OwnAnswerRule
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CLASS_PORT_INFO, GET_TRACE, MULTI_PATH, PATH, SA_CLASS

REDIRECTED = 0x0002
"""A redirection (bit 1 of the status) carries a ClassPortInfo, whatever was requested; eHCA does so (opensm osm_perfmgr.c)."""
KNOWN_CLASSES = flags((0x01, 0x81, 0x03, 0x04, 0x06, 0x21))
"""Classes whose answers carry the requested attribute; vendors may define otherwise."""


class OtherAttribute(OwnAnswerRule):
    """An answer carries another attribute than its request asked for.

    The requester matches answers by transaction id and takes the data for what it asked for.

    Correct the responder.

    A request and its answer, with nothing else of that transaction in between. An `info` if the capture misses packets there: another
    request may have had that transaction id; the same if the request gets another answer, too. A MultiPathRecord request answered with
    PathRecords and a redirection (ClassPortInfo) are in order.
    """

    code, name, severity = "MAD005", "answer-other-attribute", WARNING
    explains = ("AM", "CC", "LNK024", "LNK025", "OPA", "PKY009", "PM", "SA", "SEM")  # what is read from an attribute
    reference = "IBA 13.4.5; opensm o15-0.2.7"
    message = "{what} is answered with {carried} (attribute 0x{attribute:04x})"
    example = "a PerformanceGet of attribute 0x12, answered with attribute 0x1d and the same transaction id"
    at = MAD.attribute_id

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        event = context.get(Transactions).matched
        if event is None:
            return
        carried = table.values_at(MAD.attribute_id, event.frames - table.chunk.first)
        other = (carried != event.attribute) & KNOWN_CLASSES[event.mgmt_class]
        other &= ~((event.mgmt_class == SA_CLASS) & (event.attribute == MULTI_PATH) & (carried == PATH))
        other &= event.request_method != GET_TRACE  # asks with paths, and gets TraceRecords
        other &= ~((carried == CLASS_PORT_INFO) & (event.status & REDIRECTED != 0))
        # Of those found one by one, keep requests sent once and not answered yet, without another open request of the transaction.
        other[[k for k, one in event.singles.items() if one.tries > 1 or not one.only_one_open or one.answered_before]] = False
        for i in np.flatnonzero(other).tolist():
            seen = Seen(table, int(event.frames[i]) - table.chunk.first)
            mgmt_class, method = int(event.mgmt_class[i]), int(event.request_method[i])
            what = context.catalog.request_text(mgmt_class, method, int(event.attribute[i]))
            other_name = context.catalog.attribute_name(mgmt_class, int(carried[i]), seen.value(MAD.method))
            yield fault(
                seen, {"what": what, "carried": other_name, "attribute": int(carried[i])},
                MAD.attribute_id, int(carried[i]), proof=[(int(event.last_frames[i]), "request")],
            )  # fmt: skip


class AnswerAlone(Rule):
    """An answer has no request in the capture.

    The capture missed the request, somebody else asked in the receiver's name, or the answer is forged. The receiver drops such answers.

    Rely less on findings about missing packets in this capture. If nothing else is missing, find out who else uses this address.

    The capture shows other requests of the receiver and has run for ten seconds. A request recorded just after its answer counts.
    """

    code, name, severity = "MAD004", "response-bit-without-request", INFO
    reference = "IBA 13.4.2, 13.4.5"
    needs = (Scopes, Askers)
    message = "{what} to {receiver} answers no request of this capture"
    example = "a PerformanceGet and its answer, and eleven seconds later an answer alone"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        askers = context.get(Askers)
        for answer in context.get(Transactions).lone_answers.values():
            if askers.shows(answer.target) and warm(answer, context):
                yield fault(
                    answer, {"what": answer.what(context.catalog), "receiver": answer.to}, MAD.transaction_id, evidence=LEARNT,
                    key=(answer.source, answer.target, answer.mgmt_class),
                )  # fmt: skip
