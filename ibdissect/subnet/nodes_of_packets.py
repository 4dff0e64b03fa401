"""The nodes at the two ends of each packet, by LID, GID, address of RoCE and directed route, as they were at that moment."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import ChunkTable, Int
from ibdissect.wire import numbers
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.spec import Field
from ibdissect.wire.text import printable

from .describe import name_of, port_name
from .follower import FabricFollower
from .node_names import NodeNames
from .nodes import Node, Port
from .roce_network import mapped
from .smp_columns import Smps

LIDS: tuple[Field[Any], ...] = (LRH.slid, LRH.dlid)
ADDRESSES: tuple[tuple[Field[Any], ...], ...] = ((GRH.sgid, IPv4.source, IPv6.source), (GRH.dgid, IPv4.destination, IPv6.destination))
Named = dict[int, list[str]]
"""Names of nodes by row."""


class Ends(Record, eq=False):
    """What tells who is at the ends of packets: names, and what the traffic showed. Another thread may go on learning."""

    names: NodeNames | None = None
    follower: FabricFollower | None = None
    """What was learnt from a capture; None: only names are known, from files."""

    def of(self, table: ChunkTable, *, ports: bool = False) -> tuple[Named, Named]:
        """The nodes that sent the packets of a chunk, and those they went to; rows without a known name are left out.

        `ports`: behind the name of each node that of its port, `node07 HCA-1 port 1`, where it is known.
        """
        found: tuple[Named, Named] = {}, {}
        if self.names is None:
            return found
        for side in (0, 1):
            for field in (LIDS[side], *ADDRESSES[side]):
                rows = table.occurrences(field.owner).rows
                for row, names in zip(rows.tolist(), self._names_of(field, table, rows) if len(rows) else (), strict=True):
                    for name in names if ports else names[:1]:
                        _add(found[side], row, name)
        for row, ends in self.routed(table).items():
            for side, name in enumerate(ends):
                _add(found[side], row, name)
        return found

    def _names_of(self, field: Field[Any], table: ChunkTable, rows: Int) -> list[tuple[str, str]]:
        """The names of node and port for each value of a field."""
        values = table.values(field)
        if values.ndim == 1 and field in LIDS:
            first = table.chunk.first
            moved = {lid for lid in np.unique(values).tolist() if self._moved(lid)}
            name = cache(lambda lid: self._of_lid(lid, 0))
            pairs = zip(rows.tolist(), values.tolist(), strict=True)
            return [self._of_lid(lid, first + row) if lid in moved else name(lid) for row, lid in pairs]
        of = cache(self._of_address)
        packed = values.tolist() if values.ndim == 1 else [address.tobytes() for address in values]
        return [of(bytes(one) if not isinstance(one, bytes) else one) for one in packed]

    def _moved(self, lid: int) -> bool:
        """Whether several ports had a LID."""
        track = self.follower.subnet.lids.get(lid) if self.follower is not None else None
        return track is not None and len(track.past) > 0

    def port(self, lid: int, frame: int) -> Port | None:
        """The port that had a LID at a frame, if it has a name and others had the LID, too."""
        if self.follower is None or self.follower.unreliable or not self._moved(lid):
            return None
        port, _ = self.follower.subnet.owner(lid, frame)
        return port if port is not None and port.node.name else None

    def _of_lid(self, lid: int, frame: int) -> tuple[str, str]:
        port = self.port(lid, frame) if frame else None
        if port is not None:
            return name_of(port.node), printable(port_name(port))
        assert self.names is not None
        return self.names.node_by_address.get(lid, ""), self.names.port_by_lid.get(lid, "")

    def _of_address(self, address: bytes) -> tuple[str, str]:
        assert self.names is not None
        packed = mapped(address)
        known = self.names.node_by_address.get(packed)
        if known is not None:
            return known, ""
        port = self.names.port_by_guid.get(int.from_bytes(packed[8:], "big"), "")
        return self.names.node_of(port), port

    def routed(self, table: ChunkTable) -> dict[int, tuple[str, str]]:
        """Sender and receiver of each directed SMP by row, where they are known: empty for an end that is not.

        May be called while another thread learns routes: they are only looked up.
        """
        if self.follower is None or self.follower.unreliable:
            return {}
        smps, found, of = Smps(table, keyed=False), dict[int, tuple[str, str]](), cache(self._ends_of_route)
        for i, row in enumerate(smps.rows.tolist()):
            if smps.directed[i]:
                here, there = of(smps.sender(i), smps.path(i))
                if here or there:
                    back = smps.answers[i] or smps.method[i] == numbers.TRAP
                    found[row] = (there, here) if back else (here, there)
        return found

    def _ends_of_route(self, sender: int, path: bytes) -> tuple[str, str]:
        assert self.follower is not None
        routes = self.follower.routes
        origin = routes.origins.get(sender)
        if origin is None:
            return "", ""
        hop = routes.directed(origin, path)
        return _name(origin.home.now[0] if origin.home.now is not None else None), _name(hop.node if hop is not None else None)


def _add(found: Named, row: int, name: str) -> None:
    if name and name not in found.setdefault(row, []):
        found[row].append(name)


def _name(node: Node | None) -> str:
    return name_of(node) if node is not None else ""
