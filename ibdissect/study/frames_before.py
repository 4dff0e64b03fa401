"""Which frame of the same conversation was before a frame?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ibdissect.capture.scattered import gather
from ibdissect.table import ChunkTable
from ibdissect.table.addresses import ends_of
from ibdissect.table.rows import U64, groups, mix
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.mad import MAD

from .capture_model import STEP, CaptureModel
from .conversations import Conversation
from .flows import lanes

ALONE = np.uint64(1)
"""Odd numbers are lanes without a known way back, even ones conversations and transactions."""


class FramesBefore:
    """Filled by a thread for the frames that are there then; asked by the screen."""

    def __init__(self) -> None:
        self._before: npt.NDArray[np.uint32] = np.empty(0, np.uint32)

    def __len__(self) -> int:
        """Frames that are known."""
        return len(self._before)

    def of(self, frame: int) -> int:
        """The frame before in the same conversation, or transaction of management; 0 for none, or not known yet."""
        return int(self._before[frame - 1]) if frame <= len(self._before) else 0

    def all(self) -> npt.NDArray[np.uint32]:
        return self._before

    def fill(self, model: CaptureModel, conversations: Sequence[Conversation], wanted: Callable[[], bool]) -> None:
        """Read all frames; `conversations` say which two lanes are the directions of one."""
        total = model.index.frames
        found, known = np.zeros(total, np.uint64), dict[int, int]()
        pairs: dict[tuple[object, object, int, int], int] = {}
        for i, one in enumerate(conversations):
            for sender in (-1, one.near_qp):
                pairs[one.near, one.far, one.far_qp, sender] = i
            for sender in (-1, one.far_qp):
                pairs[one.far, one.near, one.near_qp, sender] = i
        done = 0
        while done < total:
            chunk = model.index.after(done, min(STEP, total - done))
            if not wanted() or model.stopped or not len(chunk):
                return
            found[done : done + len(chunk)] = _conversations(model.reading.table_of(chunk), pairs, known)
            done += len(chunk)
        order = np.argsort(found, kind="stable")
        same = (found[order[1:]] == found[order[:-1]]) & (found[order[1:]] != 0)
        before = np.zeros(total, np.uint32)
        before[order[1:][same]] = order[:-1][same] + 1
        self._before = before


def _conversations(table: ChunkTable, pairs: Mapping[tuple[object, object, int, int], int], known: dict[int, int]) -> U64:
    """A number of the conversation of each frame, 0 for none. `known`: of lanes, kept from chunk to chunk."""
    found = np.zeros(len(table), np.uint64)
    rows, keys = lanes(table)
    if len(rows):
        first, group = groups(list(keys.view(np.uint64).T))
        ids = mix([column[first] for column in keys.view(np.uint64).T]).tolist()
        new = [i for i, number in enumerate(ids) if number not in known]
        ends = ends_of(table, rows[first[new]]) if new else []
        (qps, _), (senders, told) = table.of_rows(BTH.destqp), table.of_rows(DETH.srcqp)
        for i, (source, destination) in zip(new, ends, strict=True):
            row = int(rows[first[i]])
            place = pairs.get((source, destination, int(qps[row]), int(senders[row]) if told[row] else -1))
            known[ids[i]] = (place + 1) * 2 if place is not None else ids[i] | 1
        found[rows] = np.array([known[number] for number in ids], np.uint64)[group]
    mad = np.flatnonzero(table.located.at("mad") >= 0)
    if len(mad):
        head = gather(table.chunk.data, table.located.at("mad")[mad], MAD.size)
        of_class = head[:, MAD.mgmt_class.span[0]].astype(np.uint64)
        tid = np.ascontiguousarray(head[:, slice(*MAD.transaction_id.span)]).view(">u8")[:, 0].astype(np.uint64)
        found[mad] = mix([of_class, tid]) & ~ALONE | np.uint64(1 << 63)
    return found
