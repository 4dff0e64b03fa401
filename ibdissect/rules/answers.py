"""Answers that do not fit the request of their transaction (MAD, SMP)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.fabric import Follower
from ibdissect.flow.datagrams import address_text
from ibdissect.flow.requests import AnsweredFromElsewhere, AnsweredMany
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import ERROR, WARNING, Hit, Rule, on_chunk, on_event
from ibdissect.table.locate import Int, u16
from ibdissect.table.table import ChunkTable
from ibdissect.wire.mad import MAD, method_name

LID_ROUTED = 0x01
SA, MULTI_PATH, PATH, GET_TRACE = 0x03, 0x3A, 0x35, 0x13
CLASS_PORT_INFO, REDIRECTED = 0x0001, 0x0002
"""Who redirects (bit 1 of the status) shows where to in a ClassPortInfo, whatever was asked; eHCA does so (opensm osm_perfmgr.c)."""
KNOWN_CLASSES = (0x01, 0x81, 0x03, 0x04, 0x06, 0x21)
"""Classes whose answers carry the attribute that was asked for; vendors may define otherwise."""


class OtherAttribute(Rule):
    """An answer carries another attribute than its request asked for.

    ## Why it matters
    The requester matches answers by transaction id and reads the data as what it asked for: it gets numbers that mean
    something else.

    ## What to do
    Correct the responder. Judged where request and answer follow each other with nothing of that transaction in between; a
    request for MultiPathRecords may be answered with PathRecords, a redirection is a ClassPortInfo.
    """

    code, name, severity = "MAD005", "method-response-attr-mod", WARNING
    reference = "IBA 13.4.5; opensm o15-0.2.7"
    message = "{what} asks for attribute 0x{asked:04x}, the answer carries 0x{attribute:04x}"
    example = "a PerformanceGet of attribute 0x12, answered with attribute 0x1d and the same transaction id"
    at = MAD.attribute_id

    def __init__(self) -> None:
        self.answers: AnsweredMany | None = None
        """Of the present chunk."""

    @on_event(AnsweredMany)
    def answered(self, event: AnsweredMany, context: Context) -> None:
        self.answers = event

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        event, self.answers = self.answers, None
        if event is None:
            return
        mad: Int = table.located.at("mad")[event.frames - table.chunk.first]
        told = u16(table.chunk.data, mad + MAD.attribute_id.bit // 8)
        other = (told != event.attribute) & np.isin(event.mgmt_class, KNOWN_CLASSES)
        other &= ~((event.mgmt_class == SA) & (event.attribute == MULTI_PATH) & (told == PATH))
        other &= event.request_method != GET_TRACE  # asks with paths, and gets TraceRecords
        other &= ~((told == CLASS_PORT_INFO) & (event.status & REDIRECTED != 0))
        # Those found one by one were not asked twice, nor was another request of that transaction open.
        other[[k for k, request in event.singles.items() if request.tries > 1 or not request.alone]] = False
        low, high = MAD.attribute_id.span
        for i in np.flatnonzero(other).tolist():
            frame = int(event.frames[i])
            mgmt_class, method = int(event.mgmt_class[i]), int(event.request_method[i])
            yield Hit(
                frame=frame,
                time_ns=int(event.times_ns[i]),
                arguments={"what": method_name(mgmt_class, method), "asked": int(event.attribute[i]), "attribute": int(told[i])},
                spans=(Span(frame, int(mad[i] - table.chunk.offset[frame - table.chunk.first]) + low, high - low),),
                field=MAD.attribute_id,
                value=int(told[i]),
                related=(Related(int(event.last_frames[i]), "request"),),
                evidence=Evidence.LEARNT,
            )


class AnswerFromOtherLid(Rule):
    """The answer to a subnet management request by LID comes from another port than was asked.

    ## Why it matters
    A responder swaps the LIDs of the request. The requester's stack does not take an answer from elsewhere for its own and
    waits until its timer runs out.

    ## What to do
    Correct the responder; look whether two ports share a LID.
    """

    code, name, severity = "SMP016", "getresp-lid-swap", ERROR
    reference = "IBA 13.5.4; seed001"
    message = "{what} went to {to}, the answer comes from {sender}"
    example = "SubnGet(NodeInfo) to LID 2, answered by LID 900 with the same transaction id"

    @on_event(AnsweredFromElsewhere)
    def elsewhere(self, event: AnsweredFromElsewhere, context: Context) -> Iterator[Hit]:
        request, sender = event.request, event.sender
        if request.mgmt_class != LID_ROUTED or not isinstance(request.target, int) or not isinstance(sender, int):
            return
        if request.target >> 7 == sender >> 7:
            return  # may be another LID of the same port (LMC up to 7)
        subnet = context.get(Follower).subnet
        if subnet.by_lid(sender) is not None and subnet.by_lid(sender) is subnet.by_lid(request.target):
            return
        yield Hit(
            frame=event.frame,
            time_ns=event.time_ns,
            arguments={
                "what": f"{method_name(request.mgmt_class, request.method)}(attribute 0x{request.attribute:04x})",
                "to": request.to,
                "sender": address_text(sender),
            },
            field=MAD.transaction_id,
            related=(Related(request.frame, "request"),),
            evidence=Evidence.LEARNT,
            key=(request.source, request.target, sender),
        )
