"""Unmatched packets that are one packet whose P_Key, SL, address or payload was changed on the way."""

from __future__ import annotations

import numpy as np

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import mix

from .flows import PointFlows
from .packet_identity import FIELDS
from .transmissions import Repeats, Transmissions


def join_changed(
    found: Transmissions, repeats: Repeats, flows: PointFlows, ends: Int, longest: int, until: int | None = None
) -> tuple[Transmissions, int | None]:  # fmt: skip
    """Join two transmissions close in time with the same PSN, OpCode, queue pair and sender or receiver, if no point saw both.

    Two with different addresses were sent so if both ICRCs are right, as an address that is changed on the way makes it wrong, if what
    follows their BTHs differs, too, or if both flows have more packets that are not joined: servers alike use the same queue pairs, and
    PSNs in step. If there are more than two, all are ambiguous. `found` is in order of time; `until`: later ones are still to come.
    `repeats` gets the new numbers. Returns the transmissions, and the time up to which all are joined.
    """
    seen = found.frame > 0
    alone = np.flatnonzero(~seen.all(axis=1) & ~found.ambiguous)
    if not len(alone):
        return found, until
    dest_qp = np.array([flow.dest_qp for flow in flows.known])
    name = mix([dest_qp[found.flow[alone]], found.psn[alone], found.opcode[alone], found.transaction[alone]])
    order = np.argsort(name, kind="stable")
    name, alone = name[order], alone[order]
    left, right = alone[:-1], alone[1:]
    near = (name[1:] == name[:-1]) & (found.time[right] - found.time[left] <= longest)
    group = np.cumsum(np.concatenate(([True], ~near))) - 1
    last = np.append(np.flatnonzero(~near), len(alone) - 1)
    done, settled = np.ones(len(last), np.bool_), np.ones(len(found), np.bool_)
    if until is not None:
        done, settled = found.time[alone[last]] < until - longest, found.time < until - longest
        first = np.concatenate(([0], last[:-1] + 1))
        until = min([until - longest, *found.time[alone[first[~done]]].tolist()])
    same_end = np.zeros(len(near), np.bool_)
    for end in ends.T:
        same_end |= end[found.flow[left]] == end[found.flow[right]]
    fits = near & same_end & ~(seen[left] & seen[right]).any(axis=1) & done[group[1:]]
    flow = found.flow.astype(np.int64)
    fits &= ~_side_by_side(flow[left], flow[right], fits, flow[settled])
    size, joins = np.bincount(group), np.bincount(group[1:][fits], minlength=len(last))
    found.ambiguous[alone[((size > 2) & (joins > 0))[group]]] = True
    body = found.fields[:, :, FIELDS.index("payload")].max(axis=1)  # alike at all points that have it
    sent_so = (found.flow[left] != found.flow[right]) & ((found.sound[left] & found.sound[right]) | (body[left] != body[right]))
    fits &= (size[group[1:]] == 2) & ~sent_so
    return _joined(found, repeats, left[fits], right[fits]), until


def _side_by_side(left: Int, right: Int, fits: Bool, flow: Int) -> Bool:
    """Which pairs, that may be joined where `fits`, are of two flows that both have mostly other packets: of one whose address was changed
    on the way they are few. `flow`: that of each transmission.
    """
    two = fits & (left != right)
    size = max(int(one.max(initial=0)) for one in (left, right, flow)) + 1
    rest = np.bincount(flow, minlength=size) - 2 * np.bincount(np.concatenate((left[two], right[two])), minlength=size)
    found: Bool = (left != right) & (rest[left] > 0) & (rest[right] > 0)
    return found


def _joined(found: Transmissions, repeats: Repeats, kept: Int, gone: Int) -> Transmissions:
    """`gone[i]` becomes part of `kept[i]`, which is earlier."""
    if not len(gone):
        return found
    for name in ("frame", "at", "fields"):
        column = getattr(found, name)
        other = (found.frame[gone] > 0)[(..., *[None] * (column.ndim - 2))]
        column[kept] = np.where(other, column[gone], column[kept])
    order = np.argsort(found.id[gone])
    place = np.minimum(np.searchsorted(found.id[gone], repeats.id, sorter=order), len(gone) - 1)
    same = found.id[gone[order[place]]] == repeats.id
    repeats.id[same] = found.id[kept[order[place[same]]]]
    stays = np.ones(len(found), np.bool_)
    stays[gone] = False
    return found.take(stays)
