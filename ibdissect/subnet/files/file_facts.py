"""Facts in the lines of subnet files: one small type per kind of fact; parsers yield them, `learn` adds them to the model."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct as Record

from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.nodes import SwitchFacts


class NamedPort(NamedTuple):
    """A port, as a line names it: by GUID, by node and number, or by LID."""

    guid: int = 0
    """Port GUID; 0: not given."""
    node: int = 0
    """Node GUID; 0: not given."""
    number: int = -1
    """Port number; -1: not given. The management port of a switch is 0."""
    lid: int = 0
    """A LID of the port; for an external port of a switch, that of the switch. 0: not given."""


class FileFact(Record, frozen=True, gc=False):
    """What a line says."""

    line: int


class NodeFact(FileFact, frozen=True):
    """A node, by NodeGUID; 0 and empty: not given."""

    guid: int
    kind: int = 0
    num_ports: int = 0
    name: str = ""
    system_guid: int = 0
    device_id: int = 0
    vendor_id: int = 0
    partition_cap: int = 0


class PortFact(FileFact, frozen=True):
    """A port, and the LIDs that it has if `end.lid` is not 0."""

    end: NamedPort
    lmc: int = -1
    """-1: not given."""


class TableFact(FileFact, frozen=True):
    """A block of 32 entries of a port's P_Key table."""

    end: NamedPort
    block: int
    keys: bytes
    """64 bytes."""
    size: int = 0
    """Entries of the whole table; 0: not given."""


class InfoFact(FileFact, frozen=True):
    """PortInfo of a port, 64 bytes; fields that the file does not give are 0."""

    end: NamedPort
    body: bytes


class LanesFact(FileFact, frozen=True):
    """The SL to VL table of an output port for packets from an input port, 8 bytes."""

    end: NamedPort
    entered: int
    entries: bytes


class WeightsFact(FileFact, frozen=True):
    """A block of a port's VL arbitration: 1 and 2 of low priority, 3 and 4 of high; 64 bytes."""

    end: NamedPort
    block: int
    entries: bytes


class NameFact(FileFact, frozen=True):
    """The name that an administrator gave to a node."""

    guid: int
    name: str


class LinkFact(FileFact, frozen=True):
    """A cable."""

    near: NamedPort
    far: NamedPort


class MKeyFact(FileFact, frozen=True):
    """The M_Key of a port."""

    end: NamedPort
    key: int


class SwitchFact(FileFact, frozen=True):
    """Capabilities of the switch with a LID."""

    lid: int
    facts: SwitchFacts
    linear_top: int


class RouteFact(FileFact, frozen=True):
    """Output port of a switch for a unicast LID."""

    switch: NamedPort
    lid: int
    port: int


class MulticastFact(FileFact, frozen=True):
    """Output ports of a switch for a multicast LID."""

    switch: NamedPort
    lid: int
    ports: tuple[int, ...]


class GroupFact(FileFact, frozen=True):
    """A multicast group; with a port GID, a member of it."""

    mgid: bytes
    facts: GroupFacts
    port_gid: bytes = b""
    join_state: int = 0


class ManagerFact(FileFact, frozen=True):
    """A subnet manager: the port it runs on. `master`: it wrote these files, so it is SELF in partitions.conf."""

    guid: int
    lid: int = 0
    priority: int = 0
    state: int = 0
    master: bool = True


class OptionFact(FileFact, frozen=True):
    """An option of opensm.conf."""

    name: str
    value: str


class DefinitionFact(FileFact, frozen=True):
    """A definition of partitions.conf with its port entries, as written."""

    name: str
    p_key: int
    """0: opensm chooses one."""
    default: str
    """full, limited or both."""
    entries: tuple[tuple[int, int | str, str], ...]
    """(line, GUID or keyword, membership or empty)."""


class RoceFact(FileFact, frozen=True):
    """A setting of a RoCE network, by its name in the file."""

    name: str
    value: frozenset[int] | dict[int, int] | bool


class RoceHostFact(FileFact, frozen=True):
    """An address of a host with RoCE: 16 bytes, IPv4 addresses mapped; and the VLANs of the host."""

    address: bytes
    name: str
    vlans: frozenset[int]


class WholeFact(FileFact, frozen=True):
    """The file lists all LIDs of the subnet."""

    sure: bool = True
    """The file itself shows that it is complete."""
