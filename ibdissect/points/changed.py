"""Which unmatched packets are one packet whose P_Key, SL, address or payload was changed on the way?"""

from __future__ import annotations

import numpy as np

from ibdissect.table.locate import Int
from ibdissect.table.rows import mix

from .columns import Flows
from .directions import FlowEnds
from .matching import Matched
from .verdicts import Transmissions


def join_changed(matched: Matched, what: Transmissions, flows: Flows, ends: FlowEnds) -> Matched:
    """Join two transmissions of which every point saw at most one, with the same PSN, OpCode, queue pair and sender or receiver, close in
    time.

    If there are more than two, each is ambiguous.
    """
    seen, packets = matched.rows >= 0, what.packets
    alone = np.flatnonzero(~seen.all(axis=1) & ~matched.ambiguous)
    dest_qp = np.array([flow.dest_qp for flow in flows.known])
    name = mix([dest_qp[packets.flow[alone]], packets.psn[alone], packets.opcode[alone], packets.transaction[alone]])
    order = np.argsort(name, kind="stable")  # transmissions are in order of time
    name, alone = name[order], alone[order]
    left, right = alone[:-1], alone[1:]
    near = (name[1:] == name[:-1]) & (matched.time[right] - matched.time[left] <= matched.longest)
    same_end = np.zeros(len(near), np.bool_)
    for end in (ends.source, ends.destination):
        same_end |= end[packets.flow[left]] == end[packets.flow[right]]
    fits = near & same_end & ~(seen[left] & seen[right]).any(axis=1)
    if not fits.any():
        return matched
    group = np.cumsum(np.concatenate(([True], ~near))) - 1
    size, joins = np.bincount(group), np.bincount(group[1:][fits], minlength=int(group[-1]) + 1)
    matched.ambiguous[alone[((size > 2) & (joins > 0))[group]]] = True
    fits &= size[group[1:]] == 2
    return _joined(matched, left[fits], right[fits])


def _joined(matched: Matched, kept: Int, gone: Int) -> Matched:
    """`gone[i]` becomes part of `kept[i]`, which is earlier."""
    matched.rows[kept] = np.maximum(matched.rows[kept], matched.rows[gone])
    stays = np.ones(len(matched), np.bool_)
    stays[gone] = False
    number = (np.cumsum(stays) - 1).astype(np.int32)
    number[gone] = number[kept]
    return Matched(
        matched.rows[stays], matched.time[stays], matched.ambiguous[stays], matched.close[stays], matched.matches, matched.longest,
        [number[of_row] for of_row in matched.number], matched.doubled,
    )  # fmt: skip
