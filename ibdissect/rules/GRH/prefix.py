"""Which packets have another subnet prefix than the port that sends them?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import ROUTER
from ibdissect.lint.rule import INFO, Context
from ibdissect.rules.GRH.packet import LINK_LOCAL
from ibdissect.rules.shared.link_rule import Ends, LinkRule
from ibdissect.table.bits import extract
from ibdissect.table.locate import Int
from ibdissect.table.native_packets import Native
from ibdissect.table.rows import common
from ibdissect.wire.network import GRH

MAX_PREFIXES = 1024


class OtherPrefix(LinkRule):
    """A packet's source GID has another subnet prefix than its sender's port.

    Answers to that GID are routed to the other subnet, or nowhere.

    Compare `subnet_prefix` of the subnet manager with the prefix that the sender still uses: it was changed while the host was up.
    """

    code, name, severity = "GRH013", "grh-unicast-loopback-gid", INFO
    reference = "IBA 4.1.1"
    message = "LID {slid} sends with subnet prefix 0x{prefix:016x}, its port has 0x{own:016x}"
    example = "GetResp(PortInfo) with GidPrefix fe80::, then a packet of that port with SGID prefix fe81::"

    def __init__(self) -> None:
        self.prefixes: list[int] = []
        """Prefixes that senders used: a value is an index into them."""
        self.dropped = Dropped("subnet prefixes")

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        _, routed, index = common(event.table.occurrences(GRH).rows, native.rows)
        known = ends.prefix[native.slid[index]] != 0
        routed, index = routed[known], index[known]
        if not len(index):
            return index, index
        sgid = extract(event.table.matrix(GRH)[routed], GRH.sgid.bit, 64)
        own = ends.prefix[native.slid[index]]
        other = np.flatnonzero((sgid != own) & (sgid != LINK_LOCAL))
        prefixes, which = np.unique(sgid[other], return_inverse=True)
        fresh = [prefix for prefix in prefixes.tolist() if prefix not in self.prefixes]
        if len(self.prefixes) + len(fresh) > MAX_PREFIXES:
            row = int(native.rows[index[other[0]]])
            self.dropped.add(event.table.chunk.first + row, int(event.table.chunk.time_ns[row]), len(self.prefixes))
            self.prefixes, fresh = [], prefixes.tolist()
        self.prefixes += fresh
        number = np.array([self.prefixes.index(prefix) for prefix in prefixes.tolist()], np.int64)
        return index[other], number[which.ravel()]

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        port = event.subnet.owner(slid, frame)[0]
        info, since = port.info_at(frame) if port is not None and port.node.kind != ROUTER else (None, 0)
        if info is None or info.gid_prefix == self.prefixes[value]:
            return None
        return {"prefix": self.prefixes[value], "own": info.gid_prefix}, ((since, "GidPrefix"),)
