"""The frame before each frame in the same conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable
from ibdissect.decode.equal_rows import U64, mix, order_of, places_in
from ibdissect.wire.mad import MAD

from .capture_model import STEP, CaptureModel
from .conversations import Conversation
from .one_way_flows import lane_numbers, lanes


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
        found, done = np.zeros(total, np.uint64), 0
        pairs = np.array(sorted(one.lanes[::-1] for one in conversations if all(one.lanes)), np.uint64).reshape(-1, 2).T
        while done < total:
            chunk = model.index.after(done, min(STEP, total - done))
            if not wanted() or model.stopped or not len(chunk):
                return
            found[done : done + len(chunk)] = _conversations(model.reading.table_of(chunk), *pairs)
            done += len(chunk)
        order = order_of(found)
        found = found[order]
        same = (found[1:] == found[:-1]) & (found[1:] != 0)
        before = np.zeros(total, np.uint32)
        before[order[1:][same]] = order[:-1][same] + 1
        self._before = before


def _conversations(table: ChunkTable, back: U64, there: U64) -> U64:
    """A number of the conversation of each frame, uint64[n], 0 for none. `back`: lanes (ascending) that answer those of `there`."""
    found = np.zeros(len(table), np.uint64)
    rows, keys = lanes(table)
    if len(rows):
        numbers = lane_numbers(keys)
        answers = places_in(back, numbers)
        found[rows] = np.where(answers >= 0, there[answers], numbers) if len(back) else numbers
    mad = np.flatnonzero(table.located.at("mad") >= 0)
    if len(mad):
        head = gather(table.chunk.data, table.located.at("mad")[mad], MAD.size)
        of_class = head[:, MAD.mgmt_class.span[0]].astype(np.uint64)
        tid = np.ascontiguousarray(head[:, slice(*MAD.transaction_id.span)]).view(">u8")[:, 0].astype(np.uint64)
        found[mad] = mix([of_class, tid])
    return found
