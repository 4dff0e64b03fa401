"""Who is it? The identities of what a capture shows of subnets. Rules and state use these as keys, and build none of their own.

A number alone names nobody: a LID belongs to a subnet and a time, a directed route to its sender, a GUID of a group to its subnet. Pure
values: they know neither arrays nor rules.
"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct as Record

from ibdissect.wire.numbers import MAX_LMC

Frame = int
"""Number of a frame: when something was sent, not who sent it."""
NodeId = NewType("NodeId", int)
"""Slot of a node in the model of its subnet: never used again, whatever LID or GUID the node has at a time."""
SenderId = NewType("SenderId", int)
"""Number of a sender of directed routes (`senders`): the high word of its transaction ids, or more where two hosts share it."""


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


class RouteId(Record, frozen=True):
    """A directed route: a path means something only from its sender."""

    sender: SenderId
    path: bytes
    """Output ports in order, without the unused first byte."""


class LidId(Record, frozen=True):
    """A port that is known by its LID only."""

    lid: int


SwitchId = NodeId | RouteId | LidId
"""A switch: its node where that is known, else how it was addressed."""


class AgentId(Record, frozen=True):
    """A management agent: where requests of a class go."""

    address: bytes
    """The address as the packet has it: LID, GID or IP."""
    mgmt_class: int


class GroupId(Record, frozen=True):
    """A multicast group of the subnet."""

    mgid: bytes


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
