"""Facts of subnet files that the traffic refutes: a port that acknowledges packets exists, and holds the P_Key that it sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.crcs import wrong_icrcs
from ibdissect.decode.equal_rows import groups
from ibdissect.decode.native_packets import Native
from ibdissect.wire.numbers import BASE, FULL
from ibdissect.wire.opcodes import FIRST_RESPONSE, LAST_RESPONSE

from .follower import FabricFollower
from .p_keys import Verdict

MAX_ENDS = 65536
"""Combinations of LID and P_Key that are remembered."""


class Refuted:
    """Which LIDs acknowledged packets, with which P_Keys? Fed only if there are subnet files.

    A responder that answers accepted a packet of that partition, so its table and the sender's hold it (IBA 9.6.1).
    """

    after: ClassVar = (FabricFollower,)

    def __init__(self, follower: FabricFollower) -> None:
        self.subnet = follower.subnet
        self.first = KeptDict[int, tuple[int, int]](MAX_ENDS, "senders of acknowledgements that subnet files are compared with")
        """LID and P_Key in one number -> the first frame and its time."""

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Remember who acknowledges; emits no events."""
        native = table.once(Native)
        responses = (native.opcode >= FIRST_RESPONSE) & (native.opcode <= LAST_RESPONSE)
        if "grh" in table.located.start:  # perhaps from a virtual port, which shares a LID but not a table, or from beyond a router
            responses &= table.located.start["grh"][native.rows] < 0
        index = np.flatnonzero(responses)
        ends, rows = native.slid[index] << 16 | native.p_key[index], native.rows[index]
        fresh = ~np.isin(ends, np.fromiter(self.first, np.int64, len(self.first)))
        ends, rows = ends[fresh], rows[fresh]
        good = ~wrong_icrcs(table, rows)
        ends, rows = ends[good], rows[good]
        for i in groups((ends,))[0].tolist():
            when = table.chunk.first + int(rows[i]), int(table.chunk.time_ns[rows[i]])
            self.first.keep(int(ends[i]), when, *when)
        yield from ()

    def lines(self) -> Iterator[tuple[int, int, int, int | None, tuple[int, ...]]]:
        """(first frame, its time, LID, P_Key, numbers of the file lines that rule this out) of each sender.

        The P_Key is None if the files have no port with this LID.
        """
        for end, (frame, time_ns) in self.first.items():
            lid, p_key = end >> 16, end & (FULL | BASE)
            port, since = self.subnet.owner(lid, frame)
            if port is None:
                sources: tuple[int, ...] = (self.subnet.listed,)
            elif port.p_keys is None:
                continue
            else:  # with a full P_Key the table holds that form, so it would accept limited ones as well
                verdict, shown = port.p_keys.judge(p_key & BASE if p_key & FULL else p_key | FULL, frame, port.p_key_capacity(frame))
                sources = (*shown, since) if verdict in (Verdict.LIMITED, Verdict.ABSENT) else ()
            sources = tuple(line for line in sorted(set(sources)) if line < 0)
            if sources:
                yield frame, time_ns, lid, p_key if port is not None else None, sources
