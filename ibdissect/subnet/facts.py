"""What can a line of a subnet file say? One small type per kind of fact; parsers yield them, `learn` adds them to the model."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct as Record

from ibdissect.fabric.groups import GroupFacts
from ibdissect.fabric.nodes import SwitchFacts


class End(NamedTuple):
    """A port, as a line names it: by GUID, by node and number, or by LID."""

    guid: int = 0
    """Port GUID; 0: not given."""
    node: int = 0
    """Node GUID; 0: not given."""
    number: int = -1
    """Port number; -1: not given. The management port of a switch is 0."""
    lid: int = 0
    """A LID of the port; for an external port of a switch, that of the switch. 0: not given."""


class Fact(Record, frozen=True, gc=False):
    """What a line says."""

    line: int


class NodeFact(Fact, frozen=True):
    """A node, by NodeGUID; 0 and empty: not given."""

    guid: int
    kind: int = 0
    num_ports: int = 0
    name: str = ""
    system_guid: int = 0
    device_id: int = 0
    vendor_id: int = 0
    partition_cap: int = 0


class PortFact(Fact, frozen=True):
    """A port, and the LIDs that it has if `end.lid` is not 0."""

    end: End
    lmc: int = -1
    """-1: not given."""


class TableFact(Fact, frozen=True):
    """A block of 32 entries of a port's P_Key table."""

    end: End
    block: int
    keys: bytes
    """64 bytes."""
    size: int = 0
    """Entries of the whole table; 0: not given."""


class InfoFact(Fact, frozen=True):
    """PortInfo of a port, 64 bytes; fields that the file does not give are 0."""

    end: End
    body: bytes


class LanesFact(Fact, frozen=True):
    """The SL to VL table of an output port for packets from an input port, 8 bytes."""

    end: End
    entered: int
    entries: bytes


class WeightsFact(Fact, frozen=True):
    """A block of a port's VL arbitration: 1 and 2 of low priority, 3 and 4 of high; 64 bytes."""

    end: End
    block: int
    entries: bytes


class NameFact(Fact, frozen=True):
    """The name that an administrator gave to a node."""

    guid: int
    name: str


class LinkFact(Fact, frozen=True):
    """A cable."""

    near: End
    far: End


class MKeyFact(Fact, frozen=True):
    """The M_Key of a port."""

    end: End
    key: int


class SwitchFact(Fact, frozen=True):
    """Capabilities of the switch with a LID."""

    lid: int
    facts: SwitchFacts
    linear_top: int


class RouteFact(Fact, frozen=True):
    """Output port of a switch for a unicast LID."""

    switch: End
    lid: int
    port: int


class MulticastFact(Fact, frozen=True):
    """Output ports of a switch for a multicast LID."""

    switch: End
    lid: int
    ports: tuple[int, ...]


class GroupFact(Fact, frozen=True):
    """A multicast group; with a port GID, a member of it."""

    mgid: bytes
    facts: GroupFacts
    port_gid: bytes = b""
    join_state: int = 0


class ManagerFact(Fact, frozen=True):
    """A subnet manager: the port it runs on. `master`: it wrote these files, so it is SELF in partitions.conf."""

    guid: int
    lid: int = 0
    priority: int = 0
    state: int = 0
    master: bool = True


class OptionFact(Fact, frozen=True):
    """An option of opensm.conf."""

    name: str
    value: str


class DefinitionFact(Fact, frozen=True):
    """A definition of partitions.conf with its port entries, as written."""

    name: str
    p_key: int
    """0: opensm chooses one."""
    default: str
    """full, limited or both."""
    entries: tuple[tuple[int, int | str, str], ...]
    """(line, GUID or keyword, membership or empty)."""


class RoceFact(Fact, frozen=True):
    """A setting of a RoCE network, by its name in the file."""

    name: str
    value: frozenset[int] | dict[int, int] | bool


class RoceHostFact(Fact, frozen=True):
    """An address of a host with RoCE: 16 bytes, IPv4 addresses mapped; and the VLANs of the host."""

    address: bytes
    name: str
    vlans: frozenset[int]


class WholeFact(Fact, frozen=True):
    """The file lists all LIDs of the subnet."""

    sure: bool = True
    """The file itself shows that it is complete."""
