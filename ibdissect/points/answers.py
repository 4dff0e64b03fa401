"""Which packets were answered, and which were requested again with a NAK? An answer proves arrival, a NAK proves a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.flow.recovery import PSNS
from ibdissect.table.locate import Bool, Int
from ibdissect.table.rows import groups
from ibdissect.wire.opcodes import FIRST_RESPONSE, LAST_RESPONSE
from ibdissect.wire.transport import NAK, RNR

from .columns import Flows

SEQUENCE_ERROR = NAK << 5
CONNECTED = (0, 5)
"""Upper bits of the OpCode: RC, XRC."""
SAMPLE = 64
"""PSNs of a stream of answers that are looked up to find its stream of requests."""


class Packets(Record):
    """Transmissions in order of time; arrays of equal length."""

    flow: Int
    psn: Int
    opcode: npt.NDArray[np.uint8]
    syndrome: Int
    transaction: npt.NDArray[np.uint32]
    asks: npt.NDArray[np.uint8]


class Proofs(Record):
    """What answers prove about each transmission."""

    answered: Bool
    """Sent once, and acknowledged or responded to."""
    refused: Bool
    """The receiver lacked it: the last copy before a NAK of its PSN."""
    resent: Bool
    """The sender went back to it: it, or its answer, was lost."""


def proofs_of(packets: Packets, flows: Flows, merged: Int) -> Proofs:
    """What answers prove. `merged`: for each flow, a number shared by all flows to the same port on other paths."""
    found = Proofs(_answered_mads(packets), *np.zeros((2, len(packets.flow)), np.bool_))
    flow = merged[packets.flow]
    low = packets.opcode & 0x1F
    connected = np.isin(packets.opcode >> 5, CONNECTED)
    response = connected & (low >= FIRST_RESPONSE) & (low <= LAST_RESPONSE)
    request = connected & ~response
    of_answers = _partners(flow, packets.psn, request, response, flows)
    connection = np.where(request, flow, np.where(response, of_answers[flow], -1))
    rows = np.flatnonzero(connection >= 0)
    rows = rows[np.argsort(connection[rows], kind="stable")]
    if not len(rows):
        return found
    connection, asked = connection[rows], request[rows]
    position = _unwrapped(packets.psn[rows], connection)
    syndrome = packets.syndrome[rows]
    kind = syndrome >> 5
    denied = (syndrome >= 0) & ((kind == NAK) | (kind == RNR))
    # The furthest position that any later answer of the connection confirms.
    span = int(np.ptp(position)) + 3
    confirmed = np.where(asked, np.int64(-2), position - position.min() - denied)
    level = (int(connection[-1]) - connection) * span
    later = np.maximum.accumulate((confirmed + level)[::-1])[::-1] - level
    group = numbered(connection * span + position - position.min())
    once = np.bincount(group[asked], minlength=int(group.max()) + 1)[group] == 1
    found.answered[rows] |= asked & once & (later >= position - position.min())
    del confirmed, level, later  # they are as long as the captures
    # The last request of that PSN before the NAK.
    order = np.argsort(group, kind="stable")
    place = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(asked[order], place, -1))
    naks = np.flatnonzero((syndrome[order] == SEQUENCE_ERROR) & (last >= 0))
    refused = last[naks]
    same = group[order[refused]] == group[order[naks]]
    found.refused[rows[order[refused[same]]]] = True
    # The copy before a request that follows one of the same or a later PSN.
    requests = np.flatnonzero(asked)
    back = np.zeros(len(rows), np.bool_)
    back[requests[1:]] = (np.diff(connection[requests]) == 0) & (np.diff(position[requests]) <= 0)
    before = np.concatenate(([-1], last[:-1]))
    again = np.flatnonzero(back[order] & (before >= 0))
    same = group[order[before[again]]] == group[order[again]]
    found.resent[rows[order[before[again[same]]]]] = True
    return found


def _answered_mads(packets: Packets) -> Bool:
    """MADs that were sent once and answered."""
    found = np.zeros(len(packets.flow), np.bool_)
    rows = np.flatnonzero(packets.asks)
    if len(rows):
        group = numbered(packets.transaction[rows])
        asks, answers = (np.bincount(group[packets.asks[rows] == kind], minlength=int(group.max()) + 1) for kind in (1, 2))
        found[rows] = (packets.asks[rows] == 1) & (asks[group] == 1) & (answers[group] > 0)
    return found


def numbered(values: npt.NDArray[Any]) -> Int:
    """Numbers for equal values."""
    return groups([values])[1]


def _partners(flow: Int, psn: Int, request: Bool, response: Bool, flows: Flows) -> Int:
    """For each flow of answers the flow of requests between the same ends that has most of its PSNs; -1 for none."""
    partner = np.full(len(flows.known), -1, np.int64)
    asked = np.unique(flow[request] * PSNS + psn[request])
    ends = flows.ends()
    by_ends: dict[tuple[bytes, bytes], list[int]] = {}
    for number in np.unique(flow[request]).tolist():
        by_ends.setdefault(ends[number], []).append(number)
    if not len(asked) or not response.any():
        return partner
    answers = flow[response]
    order = np.argsort(answers, kind="stable")
    numbers, starts = np.unique(answers[order], return_index=True)
    told = psn[response][order]
    for number, part in zip(numbers.tolist(), np.split(told, starts[1:]), strict=True):
        some = part[:: max(1, len(part) // SAMPLE)].astype(np.int64)
        best = 0
        for other in by_ends.get(ends[number][::-1], ()):
            wanted = other * PSNS + some
            known = int(np.count_nonzero(asked[np.minimum(np.searchsorted(asked, wanted), len(asked) - 1)] == wanted))
            if known > best and 4 * known >= len(some):
                best, partner[number] = known, other
    return partner


def _unwrapped(psn: Int, connection: Int) -> Int:
    """PSNs that continue beyond 2**24, counted from each connection's first one."""
    step = np.diff(psn, prepend=psn[0])
    step = (step + PSNS // 2) % PSNS - PSNS // 2
    new = np.concatenate(([True], np.diff(connection) != 0))
    step[new] = 0
    total = np.cumsum(step)
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(psn)))
    return total - np.repeat(total[starts] - psn[starts], lengths)
