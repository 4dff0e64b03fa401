"""The subnet management packets of a chunk and the nodes they go to: the values that the follower needs of each, read at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.gather import gather
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.equal_rows import U64, places_in
from ibdissect.decode.mads import DirectedRoutes, Mads
from ibdissect.engine.packet_kinds import FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST, HANDLE_TRAP
from ibdissect.wire import numbers
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.sm_port import PortInfo

from .nodes import Node
from .route_senders import Senders

SMP_SIZE, DATA_AT = SMPDirected.size, SMPDirected.data.bit // 8
TABLES = (numbers.SL_TO_VL, numbers.VL_ARBITRATION, numbers.LINEAR, numbers.RANDOM, numbers.MULTICAST)
READ_ATTRIBUTES = (
    numbers.NODE_DESCRIPTION, numbers.NODE_INFO, numbers.SWITCH_INFO, numbers.PORT_INFO, numbers.P_KEY_TABLE, *TABLES, numbers.SM_INFO,
    numbers.VENDOR_DIAG,
)  # fmt: skip
"""Attributes whose answers the follower reads."""
_IS_READ = np.zeros(1 << 16, np.bool_)
_IS_READ[list(READ_ATTRIBUTES)] = True


class Smps:
    """Columns with one entry per relevant SMP, in frame order.

    `keyed`: an M_Key was seen in an earlier chunk. Only after the first M_Key are requests processed one by one.
    """

    def __init__(self, table: ChunkTable, *, keyed: bool = True, senders: Senders | None = None) -> None:
        mads = table.once(Mads)
        method, status, attribute = mads.method, mads.status, mads.attribute
        directed = mads.mgmt_class == numbers.DIRECTED
        answer = (method == numbers.GET_RESP) & ((status & np.where(directed, 0x7FFF, 0xFFFF).astype(np.uint16)) == 0)
        trap = (method == numbers.TRAP) & (attribute == numbers.NOTICE)
        asks = (method == numbers.GET) | (method == numbers.SET) | (method == numbers.TRAP_REPRESS)
        keep = _smps(table, mads, answer | asks | trap)
        rows, at, directed, answer, trap = mads.rows[keep], mads.at[keep], directed[keep], answer[keep], trap[keep]
        self.rows = rows
        self.method, self.attribute, self.answers = method[keep], attribute[keep], answer
        self.modifier = mads.modifier[keep]
        self.mad = at - table.chunk.offset[rows]
        self.directed: npt.NDArray[np.bool_] = directed
        self.transactions: U64 = mads.transaction[keep]
        self.m_keys: U64 = mads.column(SMPDirected.m_key)[keep]
        slid, dlid = mads.column(SMPDirected.dr_slid)[keep], mads.column(SMPDirected.dr_dlid)[keep]
        self.dr_slid, self.dr_dlid = slid, dlid
        self.pure: npt.NDArray[np.bool_] = directed & (slid == numbers.PERMISSIVE) & (dlid == numbers.PERMISSIVE)
        """Directed-route SMPs without a LID-routed part."""
        self.senders: Int = (self.transactions >> np.uint64(32)).astype(np.int64)
        """Who sent each directed-route SMP, int64[n] (`Senders`): only together with it a path means something."""
        if senders is not None:
            self.senders[directed] = senders.of(self.transactions[directed])
        self._lids = table.values_at(LRH.slid, rows), table.values_at(LRH.dlid, rows)
        self.sl = table.values_at(LRH.sl, rows)
        routes = table.once(DirectedRoutes)
        self.paths = routes.paths
        if not np.array_equal(keep, routes.index):
            place, self.paths = places_in(routes.index, keep), np.zeros((len(keep), routes.paths.shape[1]), np.uint8)
            self.paths[directed] = routes.paths[place[directed]]
        """The directed route of each SMP, uint8[n, words * WORD] like `DirectedRoutes.paths`; zeros for one that is LID-routed."""
        self._path_bytes, self._path_size = self.paths.tobytes(), self.paths.shape[1]
        self.bodies = gather(table.chunk.data, at + DATA_AT, 64)
        self.keyed_from = 0 if keyed else self._first_key(answer)
        """Index of the first SMP with an M_Key, len(rows) if there is none; 0 if an earlier chunk had one."""
        self.kind = self._kinds(answer, trap)
        """What the follower does with each SMP, int64[n]."""

    def _first_key(self, answer: npt.NDArray[np.bool_]) -> int:
        about_ports = np.flatnonzero((self.attribute == numbers.PORT_INFO) & (answer | (self.method == numbers.SET)))
        shown = about_ports[self.bodies[about_ports, slice(*PortInfo.m_key.span)].any(axis=1)]
        return int(shown[0]) if len(shown) else len(self.rows)

    def _kinds(self, answer: npt.NDArray[np.bool_], trap: npt.NDArray[np.bool_]) -> Int:
        kind = np.full(len(self.rows), FIND_PLACE, np.int64)
        kind[trap] = HANDLE_TRAP
        kind[answer & _IS_READ[self.attribute]] = HANDLE_ANSWER
        writes_keys = (self.method == numbers.SET) & (self.attribute == numbers.P_KEY_TABLE)
        kind[writes_keys | (self.method == numbers.TRAP_REPRESS)] = HANDLE_REQUEST
        kind[self.keyed_from :][~(answer | trap)[self.keyed_from :]] = HANDLE_REQUEST
        return kind

    @cached_property
    def slid(self) -> list[int]:
        """SLID of each; lists are seldom needed, as most SMPs take directed routes."""
        found: list[int] = self._lids[0].tolist()
        return found

    @cached_property
    def dlid(self) -> list[int]:
        found: list[int] = self._lids[1].tolist()
        return found

    def columns(self) -> dict[str, Any]:
        """What `engine.smps.Steps` reads of each SMP."""
        whole: dict[str, npt.NDArray[Any]] = {
            "rows": self.rows, "kinds": self.kind, "attributes": self.attribute, "modifiers": self.modifier, "senders": self.senders,
            "slids": self._lids[0], "dlids": self._lids[1],
        }  # fmt: skip
        flags = {"answers": self.answers, "pure": self.pure, "directed": self.directed}
        return {
            **{name: column.astype(np.int64, copy=False) for name, column in whole.items()},
            **{name: column.view(np.uint8) for name, column in flags.items()}, "transactions": self.transactions.astype(np.uint64),
            "bodies": self.bodies.tobytes(), "paths": self._path_bytes, "path_size": self._path_size, "keyed_from": self.keyed_from,
        }  # fmt: skip

    def transaction(self, i: int) -> int:
        return int(self.transactions[i])

    def m_key(self, i: int) -> int:
        """M_Key that SMP `i` carries."""
        return int(self.m_keys[i])

    def path(self, i: int) -> bytes:
        """The directed route of SMP `i`, without the unused first byte; at most 63 hops."""
        at, paths = i * self._path_size + 1, self._path_bytes
        return paths[at : at + paths[at - 1]]

    def sender(self, i: int) -> int:
        """Who sent the directed-route SMP `i`."""
        return int(self.senders[i])


class PlacedSmps(Record, dict=True):
    """Some SMPs of a chunk with the nodes that they go to or come from: arrays of equal length in frame order."""

    smps: Smps
    index: Int
    """Which SMPs of `smps`."""
    slot: Int
    """Slot of the node addressed or answering; -1 if unknown."""
    entered: Int
    """Number of the port through which the request entered; 0 on a switch addressed by LID."""
    nodes: tuple[Node, ...]
    """The distinct nodes; NOBODY for unknown ones."""
    which: Int
    """Index into `nodes` of each SMP."""
    kind: Int
    """NodeType of the node of each SMP; 0 if unknown."""
    age: Int
    """How long before each SMP the latest NodeInfo of that node came, in nanoseconds; 0 of a node that a subnet file lists."""
    ports: Int
    """NumPorts of that node when the SMP was sent."""
    changed: Bool
    """Whether the known size or capabilities of that node changed in this chunk."""

    def __len__(self) -> int:
        return len(self.index)

    def some(self, index: Int) -> tuple[Any, ...]:
        """The fields of some of these SMPs."""
        return (
            self.smps, self.index[index], self.slot[index], self.entered[index], self.nodes, self.which[index], self.kind[index],
            self.age[index], self.ports[index], self.changed[index],
        )  # fmt: skip

    @cached_property
    def rows(self) -> Int:
        return self.smps.rows[self.index]

    @cached_property
    def method(self) -> npt.NDArray[np.uint8]:
        """Method of each MAD."""
        return self.smps.method[self.index]

    @cached_property
    def attribute(self) -> npt.NDArray[np.uint16]:
        return self.smps.attribute[self.index]

    @cached_property
    def modifier(self) -> Int:
        return self.smps.modifier[self.index].astype(np.int64)

    @cached_property
    def mad(self) -> Int:
        """Offset of the MAD in its frame."""
        return self.smps.mad[self.index]

    @cached_property
    def bodies(self) -> npt.NDArray[np.uint8]:
        """The attribute, uint8[n, 64]."""
        return self.smps.bodies[self.index]

    @cached_property
    def transaction(self) -> U64:
        return self.smps.transactions[self.index]

    @cached_property
    def directed(self) -> Bool:
        """Which take directed routes, bool[n]."""
        return self.smps.directed[self.index]

    @cached_property
    def sender(self) -> Int:
        """Who sent each directed-route SMP, int64[n]."""
        return self.smps.senders[self.index]

    @cached_property
    def m_key(self) -> U64:
        """M_Key that each carries."""
        return self.smps.m_keys[self.index]


def _smps(table: ChunkTable, mads: Mads, wanted: Bool) -> Int:
    """Indices of the wanted MADs that are complete SMPs to QP0, with an LRH."""
    wanted &= (mads.mgmt_class == numbers.LID_ROUTED) | (mads.mgmt_class == numbers.DIRECTED)
    index = np.flatnonzero(wanted)
    rows = mads.rows[index]
    good = (mads.at[index] + SMP_SIZE <= table.located.payload_end[rows]) & (table.located.at("lrh")[rows] >= 0)
    good &= table.values_at(BTH.destqp, rows) == 0  # only QP0 accepts SMPs
    return index if good.all() else index[good]
