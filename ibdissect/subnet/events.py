"""Events of the subnet that rules receive: in frame order, each emitted while the state is that of its frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.identity import LidId, PortId, SenderId
from ibdissect.wire.notice import Notice
from ibdissect.wire.numbers import GET_RESP, TRAP

if TYPE_CHECKING:
    from ibdissect.decode import ChunkTable

    from .m_keys import MKey
    from .model import Sm, Subnet
    from .nodes import Node, Port
    from .smp_columns import PlacedSmps

T = TypeVar("T")
DIRECTED_SENDER = 1 << 16
"""Added to the number of a directed route's sender to distinguish it from an SLID."""


class FabricEvent(Record, frozen=True, eq=False):
    """A change of the subnet, learnt from a frame."""

    source: ClassVar[type[Any]]
    """The follower that emits it (set by `follow`); the rule engine creates and feeds it."""
    concludes: ClassVar[bool] = True
    """Whether it is a conclusion from the subnet's facts; if those prove unreliable, rules that handle it report nothing."""
    frame: int
    time_ns: int


class NodeFound(FabricEvent, frozen=True):
    """A node's NodeInfo was seen for the first time."""

    node: Node


class LidAssigned(FabricEvent, frozen=True):
    """A port has LIDs `lid` to `lid + 2**lmc - 1`; `taken_from` had one of them before and never gave it up."""

    port: Port
    lid: int
    lmc: int
    taken_from: Port | None


class PortStateChanged(FabricEvent, frozen=True):
    """A port's PortState changed; `before` is 0 when first seen."""

    port: Port
    before: int
    state: int


class LinkFound(FabricEvent, frozen=True):
    """Two ports are connected."""

    near: Port
    far: Port


class LinkLost(FabricEvent, frozen=True):
    """Two ports are no longer connected: one is down, or connected to another port."""

    near: Port
    far: Port


class PKeysLearnt(FabricEvent, frozen=True):
    """A block of a port's P_Key table has new contents."""

    port: Port
    block: int


class BlockOfSeveralLearnt(FabricEvent, frozen=True):
    """Like `PKeysLearnt`, if more than one block of the table holds keys."""

    port: Port
    block: int


class MKeyLearnt(FabricEvent, frozen=True):
    """A port's M_Key, protect bits or lease period are new."""

    port: Port
    before: MKey | None
    held: MKey


class SmSeen(FabricEvent, frozen=True):
    """A subnet manager has a new state or priority, or a lower ActCount; `before` is None when first seen."""

    sm: Sm
    before: int | None
    priority_before: int
    mad: int


class TrapSeen(FabricEvent, frozen=True):
    """A subnet management trap was sent."""

    port: Port | None
    """The sender, found by SLID; None if unknown."""
    notice: bytes
    """The attribute, 64 bytes."""
    transaction: int
    slid: int
    dlid: int
    sl: int
    directed: bool
    mad: int

    @property
    def number(self) -> int:
        """Number of the trap; -1 for one of a vendor."""
        notice = Notice(self.notice)
        return notice.trap_number if notice.is_generic else -1

    @property
    def origin(self) -> PortId | LidId:
        """The port that sent it, or its LID."""
        return self.port.id if self.port is not None else LidId(self.slid)

    @property
    def sender(self) -> str:
        """The port that sent it, by its LID if unknown."""
        return str(self.port) if self.port is not None else f"LID {self.slid}"


class RepressSeen(FabricEvent, frozen=True):
    """A TrapRepress acknowledged a trap."""

    port: Port | None
    """The receiver; None if unknown."""
    slid: int
    dlid: int
    transaction: int
    notice: bytes

    @property
    def target(self) -> PortId | LidId:
        """The receiver, or its LID."""
        return self.port.id if self.port is not None else LidId(self.dlid)


class WrongMKey(FabricEvent, frozen=True):
    """A Get, Set or TrapRepress reached a port with a different M_Key."""

    port: Port
    held: MKey
    shown: int
    """Frame that the port's key was learnt from."""
    method: int
    presented: int
    sender: int
    """The requester as far as an SMP identifies it: the SLID, or DIRECTED_SENDER + the number of a directed route's sender."""
    local: bool
    """The SMP stayed in its node (hop count 0, or SLID equal to DLID): such a query may bypass the check."""
    mad: int
    """Offset of the MAD in its frame."""
    attribute: int
    trap: int = 0
    """Frame of the bad M_Key trap that identified the port, in which case the event is emitted with the trap; otherwise 0."""

    @property
    def asker(self) -> LidId | SenderId:
        """The requester."""
        return LidId(self.sender) if self.sender < DIRECTED_SENDER else SenderId(self.sender - DIRECTED_SENDER)


class MKeyShown(FabricEvent, frozen=True):
    """With protect bits 1, a GetResp showed a non-zero M_Key to a Get without that key."""

    port: Port
    held: MKey
    presented: int
    asked: int
    """Frame of the Get."""
    sender: int
    mad: int


class StateEvicted(FabricEvent, frozen=True):
    """A limit on stored state was reached, and the oldest entries were evicted."""

    concludes: ClassVar[bool] = False

    what: str
    """`nodes`, `routes`, `requests`, `subnet managers`, `origins`, `groups`."""
    count: int
    """How many were evicted since the last such event."""


class ChunkFollowed(FabricEvent, frozen=True):
    """All subnet management of a chunk was processed; rules may now check its columns."""

    table: ChunkTable
    subnet: Subnet
    smps: PlacedSmps
    """Requests, traps, and answers with status 0."""
    derived: dict[Callable[[ChunkFollowed], Any], Any] = field(default_factory=dict)

    @property
    def requests(self) -> PlacedSmps:
        return self.once(_requests)

    @property
    def answers(self) -> PlacedSmps:
        return self.once(_answers)

    def once(self, derive: Callable[[ChunkFollowed], T]) -> T:
        """The result of a function of the chunk as followed, computed on first use."""
        if derive not in self.derived:
            self.derived[derive] = derive(self)
        found: T = self.derived[derive]
        return found


def _requests(event: ChunkFollowed) -> PlacedSmps:
    method = event.smps.method
    return type(event.smps)(*event.smps.some(np.flatnonzero((method != GET_RESP) & (method != TRAP))))


def _answers(event: ChunkFollowed) -> PlacedSmps:
    return type(event.smps)(*event.smps.some(np.flatnonzero(event.smps.method == GET_RESP)))
