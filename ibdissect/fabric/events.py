"""What happened in the subnet, as rules hear it: events in frame order, each raised when the state is as of its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ibdissect.record import record

if TYPE_CHECKING:
    from ibdissect.table.table import ChunkTable

    from .follow import Requests
    from .keys import MKey
    from .model import Node, Port, Sm, Subnet


@record
class FabricEvent:
    """Something that a frame taught about the subnet."""

    source: ClassVar[type[Any]]
    """The follower that raises it; set by `follow`, which the rules' engine makes and feeds."""
    frame: int
    time_ns: int


@record
class NodeFound(FabricEvent):
    """A node showed its identity for the first time."""

    node: Node


@record
class LidAssigned(FabricEvent):
    """A port showed LIDs `lid` to `lid + 2**lmc - 1`; `taken_from` had one of them before and never gave it up."""

    port: Port
    lid: int
    lmc: int
    taken_from: Port | None


@record
class PortStateChanged(FabricEvent):
    """A port is in another PortState; `before` is 0 at first sight."""

    port: Port
    before: int
    state: int


@record
class LinkFound(FabricEvent):
    """Two ports face each other."""

    near: Port
    far: Port


@record
class LinkLost(FabricEvent):
    """Two ports do not face each other any more: one is down, or faces another."""

    near: Port
    far: Port


@record
class PKeysLearnt(FabricEvent):
    """A block of a port's P_Key table has other contents than known before."""

    port: Port
    block: int


@record
class MKeyLearnt(FabricEvent):
    """A port's M_Key, protect bits or lease are other than known before."""

    port: Port
    before: MKey | None
    held: MKey


@record
class SmSeen(FabricEvent):
    """A subnet manager showed another state or priority; `before` is None at first sight."""

    sm: Sm
    before: int | None
    priority_before: int
    count_before: int
    """ActCount as shown before."""
    seen_before: int
    """Frame that showed it before, 0 at first sight."""
    mad: int


@record
class TrapSeen(FabricEvent):
    """A subnet management trap was sent."""

    port: Port | None
    """Who sent it, by its SLID; None where that is not known."""
    notice: bytes
    """The attribute, 64 bytes."""
    transaction: int
    slid: int
    dlid: int
    directed: bool
    mad: int


@record
class RepressSeen(FabricEvent):
    """A trap was acknowledged."""

    port: Port | None
    """Who it goes to."""
    transaction: int
    notice: bytes


@record
class WrongMKey(FabricEvent):
    """A Get, Set or TrapRepress reached a port whose M_Key it does not carry."""

    port: Port
    held: MKey
    taught: int
    """Frame that taught the key."""
    method: int
    presented: int
    sender: int
    """Who asked, as far as an SMP says it: the SLID, or 2**16 + the TID's high word for a directed route."""
    local: bool
    """The SMP stayed in its node (hop count 0, or SLID equal to DLID): such a query may bypass the check."""
    mad: int
    """Offset of the MAD in its frame."""
    attribute: int
    trap: int = 0
    """Frame of the bad M_Key trap that told which port it was; then the event comes with the trap, behind its frame. Else 0."""


@record
class MKeyShown(FabricEvent):
    """A GetResp showed a non-zero M_Key to a Get that did not carry it, at protect bits 1."""

    port: Port
    held: MKey
    presented: int
    asked: int
    """Frame of the Get."""
    sender: int
    mad: int


@record
class StateEvicted(FabricEvent):
    """A bound on what is remembered was reached; the oldest of its kind was dropped."""

    what: str
    """`nodes`, `routes`, `requests`, `subnet managers`, `origins`, `groups`."""
    count: int
    """How many were dropped in this chunk."""


@record
class ChunkFollowed(FabricEvent):
    """All subnet management of a chunk was taken in; its columns may now be judged."""

    table: ChunkTable
    subnet: Subnet
    requests: Requests
    answers: Requests
    """Answers with status 0."""
