"""Which kinds of port a port may be, by its number, its LID, and what NodeInfo said of its node."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import places_in
from ibdissect.decode.ignored_data import undefined
from ibdissect.wire import numbers
from ibdissect.wire.mad import MAD
from ibdissect.wire.port_kinds import ADAPTER_PORT, ALL_PORTS, EXTERNAL_PORT, PORT_ZERO, ROUTER_PORT
from ibdissect.wire.sa_records import PKeyTableRecord, PortInfoRecord
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable
from ibdissect.wire.spec import Field, Struct

from .events import ChunkFollowed
from .follower import FabricFollower
from .model import Subnet
from .nodes import CA, ROUTER, SWITCH
from .smp_columns import PlacedSmps
from .visible_managers import AGES_NS, CONFIGURED_NS

ABOUT_PORTS: dict[type[Struct], tuple[int, Field[Any], Field[Any], Field[Any]]] = {
    PortInfo: (0, PortInfoRecord.end_port_lid, PortInfoRecord.port_num, PortInfoRecord.port_info),
    PKeyTable: (16, PKeyTableRecord.lid, PKeyTableRecord.port_num, PKeyTableRecord.p_key_table),
}
"""Attributes of ports: the lowest bit of the port's number in the modifier; LID, number and attribute in its SA record."""
PORTS_OF_ADAPTERS = 4
"""Adapters with more ports are not known. An external port of a switch may show anything as its LID."""
_NONE = np.empty(0, np.int64)


def kinds_of_ports(kind: Int, number: Int, has_lid: npt.NDArray[np.bool_]) -> Int:
    """The kinds of port (`wire.port_kinds`) that ports with these numbers, of nodes with these NodeTypes (0: unknown; below 0: another node
    may be there by now), may be; int64[n].

    Number 0 may be a switch's own port, a numbered port without a LID, or with a number that adapters seldom have, an external one.
    """
    zero = number == 0
    numbered = np.where(has_lid & (number <= PORTS_OF_ADAPTERS), ADAPTER_PORT | ROUTER_PORT, ALL_PORTS & ~PORT_ZERO)
    unknown = np.where(zero, ALL_PORTS & ~EXTERNAL_PORT, numbered)
    switch = np.where(zero, PORT_ZERO, EXTERNAL_PORT)
    was = np.abs(kind)
    found = np.select([was == CA, was == ROUTER, was == SWITCH], [ADAPTER_PORT, ROUTER_PORT, switch], unknown)
    return np.where(kind < 0, found | unknown, found)


def kinds_by_then(smps: PlacedSmps) -> Int:
    """NodeType of the node of each SMP; 0 if unknown; below 0 where NodeInfo is so old that another node may have its LID, or be at the end
    of its route."""
    holds = smps.age <= np.where(smps.directed, CONFIGURED_NS, AGES_NS)
    return np.where(holds, smps.kind, -smps.kind).astype(np.int64, copy=False)


def is_lid(value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers a port may have as its LID, bool[n]; what else it shows is none."""
    return (value > 0) & (value <= numbers.LAST_UNICAST)


def kinds_in(table: ChunkTable, struct: type[Struct], subnet: Subnet | None = None, rows: Int = _NONE, kinds: Int = _NONE) -> Int:
    """The kinds of port that each occurrence of an attribute of ports may be about, as bits, int64[k].

    `rows`: those of SMPs, ascending; `kinds`: of the node of each, as `kinds_by_then` has them.
    """
    shift, lid_of, number_of, part = ABOUT_PORTS[struct]
    found, data = table.occurrences(struct), table.chunk.data
    mad = table.located.at("mad")[found.rows]
    smp = np.isin(value_at(data, mad, MAD.mgmt_class), list(numbers.SMP_CLASSES))
    number = value_at(data, mad, MAD.attribute_modifier).astype(np.int64) >> shift & 0xFF
    kind = np.zeros(len(found), np.int64)
    if len(rows):
        place = places_in(rows, found.rows)
        kind = np.where((place >= 0) & smp, kinds[np.maximum(place, 0)], 0)
    record = np.flatnonzero(~smp)
    if len(record):
        start = found.at[record] - part.bit // 8
        number[record] = value_at(data, start, number_of)
        if subnet is not None:
            lids, frames = value_at(data, start, lid_of).tolist(), (found.rows[record] + table.chunk.first).tolist()
            owners = (subnet.owner(lid, frame)[0] for lid, frame in zip(lids, frames, strict=True))
            kind[record] = [-port.node.kind if port is not None else 0 for port in owners]  # the LID may be another one's by now
    # most records of tables are of adapters, which number their ports from 1
    has_lid = is_lid(value_at(data, found.at, PortInfo.lid)) if struct is PortInfo else ~smp
    maybe = kinds_of_ports(kind, number, has_lid)
    maybe[~smp & (number == 0)] = PORT_ZERO  # adapters and routers have none
    return maybe


class KindsOfPorts:
    """The kinds of port that PortInfos are about, for those who run no rules. Feed chunks in order."""

    def __init__(self) -> None:
        self.follower = FabricFollower()
        self.follower.emit_only(())

    def feed(self, table: ChunkTable) -> dict[int, int]:
        """The kinds, as bits, by where each PortInfo of a good answer starts in the chunk's data; none if two subnets are taken for one."""
        found = dict[int, int]()
        for event in self.follower.feed(table):
            if isinstance(event, ChunkFollowed) and not self.follower.unreliable:
                infos = table.occurrences(PortInfo)
                method = value_at(table.chunk.data, table.located.at("mad")[infos.rows], MAD.method)
                kinds = kinds_in(table, PortInfo, event.subnet, event.smps.rows, kinds_by_then(event.smps))
                some = np.flatnonzero(((method & numbers.RESPONSE_BIT) != 0) & ~table.once(undefined)[infos.rows])
                found = dict(zip(infos.at[some].tolist(), kinds[some].tolist(), strict=True))
        return found
