"""Management answers that come from another port than the request went to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Frame, one_block
from ibdissect.lint.finding import Related, Severity
from ibdissect.lint.rule import INFO, Context, Hit, fault, on_chunk, on_event
from ibdissect.mad.request_outcomes import AnsweredFromElsewhere
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.not_seen import QuotingRule, lowered_severity
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.visible_managers import AGES_NS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import LID_ROUTED, PERMISSIVE, PORT_INFO, SET
from ibdissect.wire.sm_port import PortInfo


class WrongResponderRule(QuotingRule):
    """Base of rules about answers from other LIDs, which may belong to the same port if its LMC is unknown."""

    evidence = (
        "A request, and an answer with its transaction id from another LID. LIDs within one block of 128 may belong to one port: they "
        "count as different only if the port that was asked showed its LID and LMC, and Sets or a later answer show that it "
        "kept them. Silent for answers with a GRH, which may come through another router. An answer that repeats the addresses of its "
        "request counts if no other answer follows. An `info` where the capture misses packets meanwhile, ten seconds after the request, "
        "when its transaction id may have been used again, and for the new LID of a port that the request moves."
    )
    needs = (Transactions, LidWrites)
    explains = ("MAD004", "TXN001")  # of the answer, and of the request
    subnet_management = False
    """Whether the rule judges subnet management by LID, or all other classes."""

    def __init__(self) -> None:
        self.seen: list[AnsweredFromElsewhere] = []
        """Of this chunk."""
        self.silent: set[Frame] | None = None
        """Requests that nobody answered, known at the end."""

    @on_event(AnsweredFromElsewhere)
    def elsewhere(self, event: AnsweredFromElsewhere, _context: Context) -> None:
        if (event.request.mgmt_class == LID_ROUTED) == self.subnet_management:
            self.seen.append(event)

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Native answers with a GRH may come from another subnet, through another router than their request went."""
        for event in self.seen:
            if event.sender.lid is not None and table.located.at("grh")[event.frame - table.chunk.first] >= 0:
                continue
            yield from self._judged(event, context, INFO if _doubtful(event, table) else None)
        self.seen.clear()

    @staticmethod
    def lost(loss: CaptureLoss, shown: int, frame: int) -> bool:
        """By what the card counted alone: an answer from elsewhere by itself looks like one whose request is missing."""
        return loss.counted_between(shown, frame)

    def _judged(self, event: AnsweredFromElsewhere, context: Context, severity: Severity | None) -> Iterator[Hit]:
        request, asked, sender = event.request, event.request.target.lid, event.sender.lid
        hit = fault(
            event, {"what": request.what(context.catalog), "to": request.to, "sender": str(event.sender)}, MAD.transaction_id,
            proof=[(request.frame, "request")], key=(request.source, request.target, event.sender), severity=severity,
        )  # fmt: skip
        hit.mads = (request.frame,)
        if asked == PERMISSIVE:
            return  # nobody's LID: the port at the other end of the cable answers from its own
        if event.sender == request.source or asked is None or sender is None:
            yield hit
            return
        subnet = context.get(FabricFollower).subnet
        port, other = subnet.owner(asked, request.frame)[0], subnet.owner(sender, event.frame)[0]
        if port is not None and other is port:
            return
        if not one_block(asked, sender):
            yield hit
            return
        lids, since = port.lids.at(request.frame) if port is not None else (None, 0)
        if port is None or lids is None or lids[0] <= sender < lids[0] + (1 << lids[1]):
            return
        if port.info_at(request.frame)[1] <= 0:
            return  # a NodeRecord has no LMC
        hit.related = (*hit.related, Related(since, "showed the LIDs of the port that was asked"))
        yield hit

    def stands(self, hit: Hit, context: Context) -> bool:
        """Not if the LIDs of the port that was asked may have changed, or if another answer follows one that goes its request's way."""
        (source, target, sender), asked = hit.key, hit.related[0].frame
        if sender == source:
            if self.silent is None:
                self.silent = {Frame(request.frame) for request in context.get(Transactions).open_requests()}
            return asked in self.silent
        if len(hit.related) == 1:
            return True
        port = context.get(FabricFollower).subnet.owner(target.lid, asked)[0]
        return port is not None and not port.lids.past and context.get(LidWrites).is_certain(port, hit.frame, until=AFTER_ALL)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        source, _, sender = hit.key
        lowered = lowered_severity(context, hit.time_ns) if sender == source else None
        return lowered or super().severity_at_end(hit, context)


def _doubtful(event: AnsweredFromElsewhere, table: ChunkTable) -> bool:
    """Whether an answer may be to another request with that transaction id, after a restart, or is from the LID that its request gave."""
    request = event.request
    if event.time_ns - request.last_ns > AGES_NS:
        return True
    moves = (request.mgmt_class, request.method, request.attribute) == (LID_ROUTED, SET, PORT_INFO)
    return moves and event.sender.lid in table.values_at(PortInfo.lid, np.array([event.frame - table.chunk.first]))
