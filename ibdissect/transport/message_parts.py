"""The packets of RDMA messages and their answers, for many queue pairs at once, as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import looked_up
from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import Columns, is_in, places_in, run_starts
from ibdissect.decode.locate import GOES_ON, LEAVES_OPEN
from ibdissect.dissect.named_values import MESSAGE_KINDS
from ibdissect.engine.message_places import PLACE_BITS
from ibdissect.wire.opcodes import OPCODES, READ_REQUEST, SERVICE, UC, UD

SEND, WRITE, READ, ATOMIC, ATOMIC_WRITE, FLUSH, CONNECT, DISCONNECT, SIDR = range(len(MESSAGE_KINDS))
REQUEST, ACKNOWLEDGED, REFUSED, READ_DATA, ATOMIC_DATA, NOTIFIED, UNREAD = range(7)
"""The role of a packet in its message; `REFUSED`: a NAK or RNR NAK, `NOTIFIED`: a CNP, `UNREAD`: an answer that is cut off before it says
whether it is an ACK or a NAK."""
ATOMIC_BYTES = 8
_FRAME_BITS = 40
_STARTS = (("SEND", SEND), ("RDMA WRITE", WRITE), ("RDMA READ", READ), ("CmpSwap", ATOMIC), ("FetchAdd", ATOMIC),
           ("ATOMIC WRITE", ATOMIC_WRITE), ("FLUSH", FLUSH))  # fmt: skip
_NAMES = [OPCODES[code].operation if code in OPCODES else "" for code in range(256)]
KIND_OF = np.array([next((kind for start, kind in _STARTS if name.startswith(start)), SEND) for name in _NAMES], np.int8)
"""The kind of message by the OpCode of a request."""


class Parts(Columns):
    """Packets of messages in frame order."""

    place: Int
    frame: Int
    time_ns: Int
    opcode: npt.NDArray[np.uint8]
    length: Int
    """Payload bytes on the wire; -1 if no header says."""
    dma_length: Int
    role: npt.NDArray[np.int8]


class MessageColumns(Columns):
    """Messages, ordered by `place`: each is a range of places."""

    place: Int
    """The place of its first packet."""
    next: Int
    """The place after the last packet that was seen."""
    kind: npt.NDArray[np.int8]
    """Index into MESSAGE_KINDS."""
    first_frame: Int
    last_frame: Int
    begin_ns: Int
    ack_frame: Int
    """The frame that completed it: its acknowledgement, or the last response to arrive; 0 if there is none."""
    latency_ns: Int
    """From its first packet to `ack_frame`; -1 if not known, also where the clock was set back between them."""
    retry_latency_ns: Int
    """From the last of its packets that was sent again before `ack_frame`; `latency_ns` if none was."""
    bytes: Int
    """Payload, without repetitions; -1 if the size of a packet is unknown."""
    packets: Int
    """Packets seen: requests, responses, acknowledgements that name it, CNPs."""
    retries: Int
    """Packets of the request that were sent again."""
    naks: Int
    """NAKs and RNR NAKs; with `unread` there may be more."""
    cnps: Int
    """Congestion notifications that came back while it was the newest message."""
    complete: Bool
    """All its packets were seen and, unless the service is UC or UD, its acknowledgement or responses."""
    unread: Bool
    """An answer is UNREAD that names one of its PSNs, or may be the acknowledgement that it lacks."""
    ended: Bool
    """The last packet of its request was seen: what `diagnose` counts as a message."""


def assembled(parts: Parts) -> MessageColumns:
    """The messages that packets belong to, complete or not; packets in frame order."""
    by_place = np.argsort(parts.place, kind="stable")
    ordered = parts.take(by_place)
    data = _first_copies(ordered.take(ordered.role == READ_DATA))
    sent, begin, last = _requests(ordered.take(ordered.role == REQUEST), data)
    start, kind = sent.place[begin], KIND_OF[sent.opcode[begin]]
    count = len(start)
    stream_end = ((start >> PLACE_BITS) + 1) << PLACE_BITS
    limit = np.minimum(np.append(start[1:], stream_end[-1:]), stream_end)
    is_read = kind == READ
    end = np.where(is_read, limit, sent.place[last] + 1)
    total = np.concatenate(([0], np.cumsum(np.maximum(sent.length, 0))))
    size = total[last + 1] - total[begin]
    cut = np.add.reduceat(sent.length < 0, begin) > 0 if count else np.zeros(0, np.bool_)
    ended = looked_up(sent.opcode[last], LEAVES_OPEN) == 0
    whole = (looked_up(sent.opcode[begin], GOES_ON) == 0) & ended
    ack, unread = (_acknowledged(ordered.take(some), end - 1) for some in (ordered.role != UNREAD, ordered.role == UNREAD))
    atomic = np.flatnonzero(kind == ATOMIC)
    size[atomic], ack[atomic] = ATOMIC_BYTES, _exact(ordered.take(ordered.role == ATOMIC_DATA), start[atomic])
    reads = np.flatnonzero(is_read)
    end[reads], size[reads], ack[reads], cut[reads] = _read(data, start[reads], limit[reads])
    size = np.where(cut, sent.dma_length[begin], size)

    acknowledged = ack > 0
    unread[atomic] = unread[reads] = 0
    ack[(unread > 0) & ((unread < ack) | ~acknowledged)] = 0  # it may have come before

    message = np.searchsorted(start, ordered.place, side="right") - 1
    mine = np.flatnonzero((message >= 0) & (ordered.place < np.append(end, 0)[message]))
    message, role = message[mine], ordered.role[mine]
    firsts = np.searchsorted(message, np.arange(count))
    last_frame = np.maximum(np.maximum.reduceat(ordered.frame[mine], firsts) if count else ack, ack)
    asked = np.flatnonzero(role == REQUEST)
    per_message = np.bincount(message[asked], minlength=count)
    first_frame = np.minimum.reduceat(ordered.frame[mine[asked]], np.cumsum(per_message) - per_message) if count else ack
    again = np.ones(len(role), np.bool_)
    again[asked] = ~is_in(ordered.frame[mine[asked]], sent.frame)
    again &= (role == REQUEST) & (ordered.frame[mine] < ack[message])
    tried = first_frame.copy()
    np.maximum.at(tried, message[again], ordered.frame[mine[again]])
    begun, retried, answered = (
        parts.time_ns[np.searchsorted(parts.frame, frames)] for frames in (first_frame, tried, np.maximum(ack, first_frame))
    )
    service = sent.opcode[begin] & SERVICE
    unacknowledged = (service == UC) | (service == UD)
    complete = whole & (acknowledged | unacknowledged)
    ack[unacknowledged | ~whole] = 0
    timed = ack > first_frame  # what was recorded before its request took no time that anybody knows
    names_it = np.bincount(message[role == UNREAD], minlength=count) > 0
    return MessageColumns(
        place=start, next=end, kind=kind, first_frame=first_frame, last_frame=last_frame, begin_ns=begun, ack_frame=ack,
        latency_ns=np.where(timed, np.maximum(answered - begun, -1), -1),
        retry_latency_ns=np.where(timed, np.maximum(answered - retried, -1), -1), bytes=size,
        packets=np.bincount(message, minlength=count),
        retries=per_message - np.where(is_read, 1, last - begin + 1),
        naks=np.bincount(message[role == REFUSED], minlength=count), cnps=np.bincount(message[role == NOTIFIED], minlength=count),
        complete=complete, unread=names_it | ((unread > 0) & whole & ~complete), ended=ended,
    )  # fmt: skip


def _first_copies(parts: Parts) -> Parts:
    """The first packet at each place; parts by place, then by frame."""
    return parts.take(run_starts(parts.place)) if len(parts.place) else parts


def _requests(parts: Parts, data: Parts) -> tuple[Parts, Int, Int]:
    """First transmissions of requests, in order of place, and the indices of the first and last packet of each message among them.

    A packet continues a message if its PSN and its OpCode follow those of the packet before it. `data`: the responses to READs.
    """
    one = _first_copies(parts)
    goes_on, leaves_open = looked_up(one.opcode, GOES_ON), looked_up(one.opcode, LEAVES_OPEN)
    begins = np.ones(len(one.place), np.bool_)
    begins[1:] = (np.diff(one.place) != 1) | (goes_on[1:] == 0) | (goes_on[1:] != leaves_open[:-1])
    reads = (one.opcode & ~np.uint8(SERVICE)) == READ_REQUEST
    for_rest = np.flatnonzero(reads[1:] & reads[:-1]) + 1
    if len(for_rest) and len(data.place):
        # A READ may be asked for again from the first missing response on: the bytes before that are whole packets.
        at = places_in(data.place, one.place[for_rest - 1])
        mtu = np.where((at >= 0) & (looked_up(data.opcode[at], LEAVES_OPEN) > 0), data.length[at], 0)
        left = one.dma_length[for_rest]
        had = (one.place[for_rest] - one.place[for_rest - 1]) * mtu
        begins[for_rest] = (mtu <= 0) | (left <= 0) | (one.dma_length[for_rest - 1] - left != had)
    start = np.flatnonzero(begins)
    return one, start, np.append(start[1:], len(begins))[: len(start)] - 1


def _acknowledged(parts: Parts, last: Int) -> Int:
    """The first frame that acknowledges each place in `last` (ascending), directly or by acknowledging a later one; 0 if none does."""
    answers = np.flatnonzero((parts.role != REQUEST) & (parts.role != NOTIFIED))
    upto = parts.place[answers] - (parts.role[answers] == REFUSED)
    order = np.argsort(upto, kind="stable")
    upto, frame = upto[order], parts.frame[answers[order]]
    found = np.zeros(len(last), np.int64)
    if not len(upto):
        return found
    # With the stream in the higher bits, the running minimum from the end begins anew with each stream.
    stream = (upto >> PLACE_BITS) - (upto[0] >> PLACE_BITS)
    first = np.minimum.accumulate((frame | stream << _FRAME_BITS)[::-1])[::-1] & ((1 << _FRAME_BITS) - 1)
    at = np.minimum(np.searchsorted(upto, last), len(upto) - 1)
    good = (upto[at] >= last) & (upto[at] >> PLACE_BITS == last >> PLACE_BITS)
    found[good] = first[at[good]]
    return found


def _exact(parts: Parts, places: Int) -> Int:
    """The frame of the first packet at each place; 0 if there is none."""
    at = places_in(parts.place, places)
    return np.where(at >= 0, np.append(parts.frame, 0)[at], 0)


def _read(data: Parts, start: Int, limit: Int) -> tuple[Int, Int, Int, Bool]:
    """For each READ: the place after it, its bytes, the frame of the response that completed it (0: none), whether one is cut off."""
    low, high = np.searchsorted(data.place, start), np.searchsorted(data.place, limit)
    tails = np.flatnonzero(looked_up(data.opcode, LEAVES_OPEN) == 0)
    tail = np.append(tails, len(data.place))[np.searchsorted(tails, low)]
    ended = tail < high
    high = np.where(ended, tail + 1, high)
    places = np.append(data.place, 0)
    end = np.where(ended, places[tail] + 1, limit)
    total, cut = (np.concatenate(([0], np.cumsum(column))) for column in (np.maximum(data.length, 0), data.length < 0))
    complete = np.flatnonzero(ended & (places[low] == start) & (high - low == end - start))
    ack = np.zeros(len(start), np.int64)
    if len(complete):
        ranges = np.stack([low[complete], high[complete]], axis=1).ravel()
        ack[complete] = np.maximum.reduceat(np.append(data.frame, 0), ranges)[::2]
    return end, total[high] - total[low], ack, cut[high] > cut[low]
