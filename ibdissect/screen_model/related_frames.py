"""Frames that belong to the selected one: its conversation, its request or answer, its RMPP transfer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ibdissect.decode.addresses import ends_at
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.decode.locate import IS_RESPONSE
from ibdissect.dfilter.answers import REQUEST_FRAME, RESPONSE_FRAME
from ibdissect.mad.rmpp import RmppMessage
from ibdissect.mad.rmpp_reassembly import Reassembled, Transfers, messages
from ibdissect.transport.message_table import MessageTable
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CM_CLASS, DIRECTED, LID_ROUTED, SM_INFO

from .capture_model import CaptureModel
from .conversations import Conversation, addressed, conversation_filter

NEAR = 1 << 12
"""Packets of the message before and after a packet that are searched for its counterpart."""
REACH = 1 << 19
"""Frames before and after a segment that are searched for its transfer."""
STEP = 16384


def filter_for_frame(
    model: CaptureModel, frame: int, conversations: Iterable[Conversation], connections: Iterable[ConnectionSetUp]
) -> str | None:
    """The display filter for the conversation of a frame; None for a frame without InfiniBand transport.

    A datagram of management: its transaction, or for connection management the connection and its data.
    """
    table = model.table([frame])
    if int(table.located.at("bth")[0]) < 0:
        return None
    source, destination = ends_at(table, 0)
    if not len(table.occurrences(MAD)):
        qp = int(table.of_rows(BTH.destqp)[0][0])
        sender, named = table.of_rows(DETH.srcqp)
        source_qp = int(sender[0]) if named[0] else -1
        found = next((one for one in conversations if one.holds(source, destination, qp, source_qp)), None)
        if found is not None:
            return conversation_filter(found)
        return f"{addressed(source, destination)} && infiniband.bth.destqp == 0x{qp:06x}"
    head = table.view(MAD, 0)
    mgmt_class = head.mgmt_class
    both = f"(({addressed(source, destination)}) || ({addressed(destination, source)}))"
    of_class = f"infiniband.mad.mgmtclass == 0x{mgmt_class:02x}"
    if mgmt_class == CM_CLASS:
        one = next((one for one in connections if frame in _frames(one)), None)
        if one is None:
            return f"{of_class} && {both}"
        frames = ", ".join(map(str, sorted(set(_frames(one)))))
        found = next((conversation for conversation in conversations if conversation.since == one.req_frame), None)
        return f"frame.number in {{{frames}}}" + (f" || {conversation_filter(found)}" if found is not None else "")
    transaction = f"infiniband.mad.transactionid == 0x{head.transaction_id:016x}"
    return f"{of_class} && {transaction}" + ("" if mgmt_class == DIRECTED else f" && {both}")


def filter_for_ladder(
    model: CaptureModel, frame: int, conversations: Iterable[Conversation], connections: Iterable[ConnectionSetUp]
) -> str | None:
    """The display filter for what a ladder of a frame shows: its conversation; for SMInfo, what all subnet managers say to each other."""
    table = model.table([frame])
    mads = table.occurrences(MAD)
    if len(mads) and (head := table.view(MAD, 0)).mgmt_class in (LID_ROUTED, DIRECTED) and head.attribute_id == SM_INFO:
        return f"infiniband.mad.mgmtclass in {{0x{LID_ROUTED:02x}, 0x{DIRECTED:02x}}} && infiniband.mad.attributeid == 0x{SM_INFO:04x}"
    return filter_for_frame(model, frame, conversations, connections)


def _frames(one: ConnectionSetUp) -> list[int]:
    return [f for f in (one.req_frame, one.mra_frame, one.rep_frame, one.rtu_frame, one.rej_frame, one.dreq_frame, one.drep_frame) if f]


def counterpart(model: CaptureModel, frame: int) -> int | None:
    """The answer to a request, or the request of an answer; None if there is none or it is not known."""
    found = model.answers.value(REQUEST_FRAME, frame) or model.answers.value(RESPONSE_FRAME, frame)
    if found:
        return found
    messages = model.answers.messages
    assert messages is not None
    if int(model.table([frame]).located.at("mad")[0]) >= 0:
        return next((other for one in messages.connections.all.copy() if (other := _message(one, frame))), None)
    return _acknowledged(model, messages, frame)


def _message(one: ConnectionSetUp, frame: int) -> int:
    """The message of connection management that goes with another, 0 for none."""
    answer = one.rep_frame or one.rej_frame
    pairs = {one.req_frame: answer, one.rep_frame: one.req_frame, one.rej_frame: one.rep_frame or one.req_frame,
             one.rtu_frame: one.rep_frame, one.dreq_frame: one.drep_frame, one.drep_frame: one.dreq_frame}  # fmt: skip
    return pairs.get(frame, 0)


def _acknowledged(model: CaptureModel, messages: MessageTable, frame: int) -> int | None:
    """For a request of RC or XRC the first packet that acknowledges or refuses it, for a response the request of its PSN."""
    at = messages.message_of(frame)
    if at is None:
        return None
    frames, places = messages.packets_of(at)
    here = int(np.searchsorted(frames, frame))
    if frame not in frames[here : here + 1]:
        return None  # a NAK before all that the capture has of its message
    near = slice(max(here - NEAR, 0), here + NEAR)
    place, frames, places = places[here], frames[near], places[near]
    responses = IS_RESPONSE[model.table(frames.tolist()).located.opcode]
    if responses[frames == frame][0]:
        asked = np.flatnonzero(~responses & (frames < frame) & (places <= place))
        return int(frames[asked[places[asked] == places[asked].max()][-1]]) if len(asked) else None
    answers = frames[responses & (frames > frame) & (places >= place)]
    return int(answers[0] if len(answers) else messages.columns().ack_frame[at]) or None


def find_transfer(model: CaptureModel, frame: int, wanted: Callable[[], bool]) -> Reassembled | None:
    """The RMPP transfer that a frame belongs to, as a segment or an acknowledgement; None when it belongs to none.

    Segments farther than REACH frames away are not looked for. Runs in a thread.
    """
    message = next(messages(model.table([frame])), None)
    if message is None:
        return None
    transfers, done = Transfers(), max(frame - REACH, 0)
    while wanted() and not model.stopped and done < frame + REACH:
        chunk = model.index.after(done, STEP)
        if not len(chunk):
            break
        ended = transfers.feed(model.reading.table_of(chunk))
        done = chunk.first + len(chunk) - 1
        for transfer in ended.values():
            if _belongs(message, transfer):
                return transfer
    return next((transfer for transfer in transfers.unfinished() if _belongs(message, transfer)), None)


def _belongs(message: RmppMessage, transfer: Reassembled) -> bool:
    if transfer.holds(message.frame):
        return True
    if transfer.first.key() not in (message.key(), message.key(back=True)):
        return False
    return min(transfer.frames, default=0) <= message.frame <= (transfer.end_frame or message.frame)
