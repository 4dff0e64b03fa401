"""Which ports do two managers write to?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.fabric.earlier_answers import PortInfos
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.nodes import Port
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import WARNING, Context, Hit, Rule, Seen, fault, on_event
from ibdissect.rules.shared.attribute_rule import DATA_AT, name_of
from ibdissect.rules.shared.senders import port_of_sender, senders_of
from ibdissect.rules.shared.site_policy import foreign_keys_held
from ibdissect.wire.sm_port import PortInfo

MAX_KEYS = 65536
"""Ports whose writers are remembered."""


class Sender(Record, frozen=True):
    """The sender of a Set, as far as it is known."""

    lid: int
    """0 for the sender of a directed route."""
    port: Port | None

    def differs(self, other: Sender) -> bool:
        """Whether two senders are certainly different."""
        if self.port is not None and other.port is not None:
            return self.port is not other.port
        return 0 < self.lid != other.lid > 0


class TwoWriters(Rule):
    """Two senders give a port different M_Keys.

    Two subnet managers that do not know of each other fight for the port; the one whose key is in force locks the other out.

    Give all subnet managers the same key (opensm: `m_key`), or keep the second one out of the subnet.

    Two Sets from different LIDs, or from different ports as NodeInfo and PortInfo showed them. A directed route names no sender:
    its origin must be known from a NodeInfo of the manager's own port, because one manager that restarts, or that changes from
    directed routes to LIDs, looks like two. With a site policy that names M_Keys, any other key is reported, whoever wrote it.
    """

    code, name, severity = "MKY013", "mkey-changed-by-second-sm", WARNING
    reference = "IBA 14.2.4"
    message = "Set(PortInfo) of {port} writes {key}, another sender wrote {before}"
    example = "SubnSet(PortInfo) of a port from LID 1 with an M_Key, then from LID 2 with another one"

    def __init__(self) -> None:
        self.written = KeptDict[int, tuple[int, Sender, int]](MAX_KEYS, "ports whose M_Key was written")
        """Key, sender and frame by port."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        yield from foreign_keys_held(event, context, zero=False)
        infos: PortInfos = context.get(PortInfos)
        smps = infos.of(event)
        if not len(smps):
            return
        keyed = smps.bodies[:, :8].any(axis=1) & smps.sets & (smps.key != -1)
        index = np.flatnonzero(keyed)
        senders, hidden = senders_of(event.table, smps.rows[index], smps.mad[index])
        for i, number, directed in zip(index.tolist(), senders.tolist(), hidden.tolist(), strict=True):
            row, port = int(smps.rows[i]), int(smps.key[i])
            key = int(smps.now(PortInfo.m_key)[i])
            frame = event.table.chunk.first + row
            sender = Sender(0 if directed else number, port_of_sender(event, context, number, directed, frame)[0])
            known = self.written.get(port)
            if known is None or known[0] == key or not known[1].differs(sender):
                self.written.keep(port, (key, sender, frame), frame, int(event.table.chunk.time_ns[row]))
                continue
            yield fault(
                Seen(event.table, row),
                {"port": name_of(smps, i), "key": value_of(PortInfo.m_key, key), "before": value_of(PortInfo.m_key, known[0])},
                PortInfo.m_key, value_of(PortInfo.m_key, key), start=int(smps.mad[i]) + DATA_AT,
                proof=[(known[2], "the other sender's Set")], key=port,
            )  # fmt: skip
