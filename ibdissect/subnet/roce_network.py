"""A RoCE network as an administrator describes it: VLANs, priorities, ECN, and the addresses of hosts."""

from __future__ import annotations

from msgspec import Struct as Record
from msgspec import field


class RoceHost(Record, frozen=True):
    """A host, as a file describes it."""

    name: str
    vlans: frozenset[int]
    """VLANs that it may send in; empty: those of the network."""
    line: int
    """Number of the line (`file_lines`)."""


class RoceNetwork(Record):
    """What files say, empty at first; each setting with the number of its line."""

    vlans: frozenset[int] = frozenset()
    """VLANs that RoCE may use; empty: any."""
    priorities: dict[int, int] = field(default_factory=dict)
    """DSCP -> priority. Others have the priority of their upper three bits, as switches and cards have it by default."""
    lossless: frozenset[int] = frozenset()
    """Priorities with flow control (PFC), in which RoCE must travel; empty: not said."""
    ecn: bool = False
    """Whether packets have to be ECN-capable."""
    all_hosts: bool = False
    """Whether all hosts are listed."""
    hosts: dict[bytes, RoceHost] = field(default_factory=dict)
    """By address: 16 bytes, IPv4 addresses mapped."""
    link_local: bool = False
    """Whether hosts are listed with link-local addresses, too."""
    lines: dict[str, int] = field(default_factory=dict)
    """Number of the line of each setting, by its name in the file."""

    def priority(self, dscp: int) -> int:
        return self.priorities.get(dscp, dscp >> 3)

    def host(self, address: bytes) -> RoceHost | None:
        return self.hosts.get(mapped(address))


def is_link_local(address: bytes) -> bool:
    """fe80::/10: the first GID of every card, of which few lists of hosts know."""
    return len(address) == 16 and int.from_bytes(address, "big") >> 118 == 0xFE80 >> 6


def mapped(address: bytes) -> bytes:
    """An address as 16 bytes; IPv4 as in the GIDs of RoCE v2."""
    return bytes(10) + b"\xff\xff" + address if len(address) == 4 else address
