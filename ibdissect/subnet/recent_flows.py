"""Flows that sent lately. A packet of a flow that sent before a change may have been under way when the change was made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.capture.records import ROWS
from ibdissect.decode import Int
from ibdissect.decode.equal_rows import mix
from ibdissect.decode.native_packets import Native


class RecentFlows:
    """The native packets of the present chunk and of at least ROWS frames before it, each with a hash of its ends and P_Key."""

    def __init__(self) -> None:
        self.frames: Int = np.empty(0, np.int64)
        """Ascending."""
        self.flows: npt.NDArray[np.uint64] = np.empty(0, np.uint64)

    def take(self, first: int, native: Native) -> None:
        """Add a chunk that begins with frame `first`."""
        kept = self.frames >= first - 2 * ROWS
        self.frames = np.concatenate((self.frames[kept], native.rows + first))
        ends = native.slid << 40 | native.dlid << 24 | native.dest_qp
        self.flows = np.concatenate((self.flows[kept], mix([ends.view(np.uint64), native.p_key.astype(np.uint64)])))
