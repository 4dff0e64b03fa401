"""The identities of ends, ports, queue pairs, transactions and so on. Rules and state use these as keys, and build none of their own.

A number alone names nobody: a LID belongs to a network and a time, a queue pair to its port, a transaction to its requester, a directed
route to its sender, a GUID of a group to its subnet. Nodes, ports, connections, streams and transfers are identities themselves: their
objects are made anew for whoever comes later with the same numbers, and compare by identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NewType

from msgspec import Struct as Record

from ibdissect.wire.numbers import MAX_LMC, RESPONSE_BIT

if TYPE_CHECKING:
    from .addresses import End

# -- plain values: what or when, never who

Frame = int
"""Number of a frame: when something was sent, not who sent it."""
Code = int
"""A number with a meaning of its own: of a type, method, attribute, trap, page or port of one node. What it is of stands beside it."""
PKey = int
"""A P_Key or the number of a partition, as a table or packet has it. Whose it is stands beside it."""
KeyValue = int
"""An M_Key or another key that somebody presented or holds."""
Content = bytes
"""What something says: a table, a notice, the prefix of an address."""
Index = int
"""A place in a list or array, or among the parts of a whole: a row, a segment of its transfer, a capture point of a comparison."""
Time = int
"""When: nanoseconds or seconds since 1970."""
QpNumber = int
"""Number of a queue pair, as packets have it; hosts alike use the same. Whose it is stands beside it (`QueuePairId`)."""

# -- identities


class QueuePairId(NamedTuple):
    """A queue pair: of one port in one network."""

    end: End
    number: int


class Side(NamedTuple):
    """Who is at one end of a datagram, with the GID where it has a GRH: routers, virtual ports and redirected agents share a LID."""

    end: End
    gid: bytes

    @staticmethod
    def of(end: End) -> Side:
        """The side at an end."""
        return Side(end, end.gid)

    def __str__(self) -> str:
        return str(self.end)


class LaneId(NamedTuple):
    """What one end sends to a queue pair of another with one transport service, while the capture lasts."""

    source: Side
    target: Side
    number: int
    service: str


class MemoryId(NamedTuple):
    """Memory that a host offers: R_Keys are the host's, until it offers the same one again."""

    host: End
    r_key: int


class AgentId(NamedTuple):
    """A management agent: where requests of a class go."""

    side: Side
    mgmt_class: int


class TransactionId(NamedTuple):
    """A transaction: ids are those of its requester, who may use one for each responder."""

    requester: AddressNumber
    responder: AddressNumber
    gids: int
    """A hash of both GIDs, 0 without a GRH."""
    number: int


class TransferId(NamedTuple):
    """An RMPP transfer: ids are those of its requester, who may use one again later on (`Transfer.replaced_by`)."""

    mgmt_class: int
    transaction: int
    sender: Side
    receiver: Side
    response: int
    """The response bit of the data."""

    @staticmethod
    def of(mgmt_class: int, transaction: int, source: End, destination: End, method: int, *, back: bool = False) -> TransferId:
        """The transfer that an RMPP MAD belongs to; `back`: it came from the receiver, with the other direction and response bit."""
        near, far = Side.of(source), Side.of(destination)
        if back:
            return TransferId(mgmt_class, transaction, far, near, ~method & RESPONSE_BIT)
        return TransferId(mgmt_class, transaction, near, far, method & RESPONSE_BIT)


class PairId(NamedTuple):
    """Who sends to whom, by the addresses in all headers of a packet, which has each kind of them or zeros, and its network."""

    sources: tuple[int | bytes, ...]
    destinations: tuple[int | bytes, ...]

    @property
    def back(self) -> PairId:
        """The other direction."""
        return PairId(self.destinations, self.sources)


PortNumber = NewType("PortNumber", int)
"""A port as one number (`PortId.key`), for tables with an entry for each of many packets."""
SenderNumber = NewType("SenderNumber", int)
"""Who sends subnet management packets, as one number: a sender of directed routes as `SenderId` has it, or a LID inverted."""
AddressNumber = NewType("AddressNumber", int)
"""An address with its network as one number (`mad.datagrams.Queries`), for tables with an entry for each of many packets."""
Mark = NewType("Mark", int)
"""A hash of all that identifies a stream, a requester or a flow of packets; who computes it says what that is (`Packets.key`)."""
ProgramId = NewType("ProgramId", int)
"""A program that numbers its management requests: the high half of its transaction ids, with a hash of their network, until it starts
anew."""
StreamNumber = NewType("StreamNumber", int)
"""A stream of messages (`transport.messages`): no other one of the capture ever has the same number."""
MessageId = NewType("MessageId", int)
"""A message: the number of its stream and its place there, in connection management its first frame, below 0."""
GroupSenderId = NewType("GroupSenderId", bytes)
"""What a queue pair sends to a group: the addresses, keys and queue pair in its packets, and their network, while the capture lasts
(`transport.multicast`); of rules about groups: GIDs, queue pair and network."""
FlowNumber = NewType("FlowNumber", int)
"""What one source sends to a queue pair, among the flows of compared captures (`points.flows`), as long as they are compared."""
EndNumber = NewType("EndNumber", int)
"""A port among the flows of compared captures (`PointFlows.ends`), as long as these are compared."""
SocketId = NewType("SocketId", bytes)
"""One end of TCP connections: address, port, and its network if it is not the first one."""
HostNumber = NewType("HostNumber", int)
"""A host as connections have it: number of its address and network in the engine (`engine.hosts`), while the capture lasts."""
ConnectionId = NewType("ConnectionId", int)
"""The frame of a connection's REQ."""
NodeId = NewType("NodeId", int)
"""Slot of a node in the model of its subnet: never used again, whatever LID or GUID the node has at a time."""
SenderId = NewType("SenderId", int)
"""Number of a sender of directed routes (`subnet.route_senders`): the high word of its transaction ids, or more where two hosts share
it."""
Guid = NewType("Guid", int)
"""A GUID of EUI-64, which manufacturers give to one node or port in all subnets; that of a group belongs to its subnet (`GroupId`)."""


class PortId(Record, frozen=True):
    """A port of a node; a switch's own port is 0."""

    node: NodeId
    number: int

    @property
    def key(self) -> int:
        """As one number, as columns have it."""
        return self.node << 8 | self.number

    @staticmethod
    def of(key: int) -> PortId:
        """The port with such a number."""
        return PortId(NodeId(key >> 8), key & 0xFF)


class LidId(NamedTuple):
    """A LID of the subnet that is judged, where its port is not known. It is another port's when the manager gives it away: what was learnt
    of it counts as long as `Subnet.kept` says."""

    lid: int


class FlowId(NamedTuple):
    """What a queue pair of one port sends to one of another, in the subnet that is judged."""

    source: LidId
    source_qp: int
    """0: not in the packet."""
    destination: LidId
    destination_qp: int


class RouteId(NamedTuple):
    """A directed route: a path means something only from its sender."""

    sender: SenderId
    path: bytes
    """Output ports in order, without the unused first byte."""


class TrapId(NamedTuple):
    """A trap of a port: its repetitions have the same transaction id and say the same."""

    sender: PortId | LidId
    transaction: int
    notice: bytes


class MacId(NamedTuple):
    """A network card, by its MAC address."""

    mac: bytes


class GroupId(NamedTuple):
    """A multicast group of the subnet, or of a network."""

    mgid: bytes
    network: int = 0
    """Where networks are not judged apart (`decode.networks`)."""


class MemberId(NamedTuple):
    """A port in a multicast group, by its GID there."""

    group: GroupId
    gid: bytes


class SubscriptionId(Record, frozen=True):
    """What a receiver wants to hear of. Two subscriptions for one trap may differ in any of these."""

    trap: int
    """Number of the trap, or DeviceID of a vendor's."""
    generic: bool
    kind: int
    """Type of the notice."""
    producer: int
    """ProducerType, or VendorID of a vendor's."""
    gid: bytes
    first_lid: int
    last_lid: int


def one_block(one: int, other: int) -> bool:
    """Whether two LIDs may be one port's even if its base LID is not a multiple of their number (LNK025)."""
    return one >> MAX_LMC == other >> MAX_LMC


def one_range(one: int, other: int) -> bool:
    """Whether two LIDs may be one port's, if its LMC is unknown: some LMC joins them, and 0 is no base LID."""
    bits = (one ^ other).bit_length()
    return bits <= MAX_LMC and one >> bits > 0
