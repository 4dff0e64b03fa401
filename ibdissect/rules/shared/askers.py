"""Ports whose requests the capture shows, with their answers: it records both directions of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ibdissect.decode.addresses import LID_SIZE, End
from ibdissect.mad.request_outcomes import AnsweredMany
from ibdissect.wire.numbers import LID_COUNT


class Askers:
    """LIDs of requests that were answered. One per capture."""

    learns_from: ClassVar = AnsweredMany

    def __init__(self) -> None:
        self._lids = np.zeros(LID_COUNT, np.bool_)

    def take(self, event: AnsweredMany) -> None:
        """Note who asked in a chunk."""
        source = event.mads.source.take(event.asked[event.by_columns])
        self._lids[source.low[source.size == LID_SIZE].astype(np.int64)] = True
        self._lids[[lid for request in event.singles.values() if (lid := request.source.lid) is not None]] = True

    def shows(self, end: End) -> bool:
        """Whether the capture shows answered requests of a port."""
        return end.lid is not None and bool(self._lids[end.lid])
