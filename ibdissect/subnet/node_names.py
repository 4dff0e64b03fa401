"""Names of nodes and ports, by LID, GUID, GID and address of RoCE, and sentences with these names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import ip_address

from msgspec import Struct as Record

from ibdissect.wire.text import lid_of

from .describe import name_of, port_name
from .model import Subnet
from .nodes import SWITCH
from .roce_network import mapped

IN_TEXT = re.compile(r"(?<!GUID )(?<!GUID is )0x([0-9a-f]{16})\b( port \d+)?( \(LID \d+\))?|\bLID (\d{1,5})\b|\b\d{1,3}(?:\.\d{1,3}){3}\b")


class NodeNames(Record):
    """Names, from a capture or from files. A name belongs to its LID or GUID, whichever port has that during the capture."""

    node_by_guid: dict[int, str]
    """NodeGUID -> `node07 HCA-1`."""
    port_by_lid: dict[int, str]
    """LID -> `node07 HCA-1 port 1`."""
    port_by_guid: dict[int, str]
    """Port GUID, the lower half of a GID -> the same."""
    node_by_address: dict[int | bytes, str]
    """LID -> `node07 HCA-1`; address of RoCE (16 bytes, IPv4 addresses mapped) -> `node07`."""

    def address(self, text: str) -> str:
        """The name for `LID 7`, a GID or an IP address; other addresses are returned unchanged."""
        if (lid := lid_of(text)) is not None:
            return self.port_by_lid.get(lid, text)
        packed = _packed(text)
        if packed is None:
            return text
        return self.node_by_address.get(packed) or self.port_by_guid.get(int.from_bytes(packed[8:], "big"), text)

    def node_of(self, port: str) -> str:
        """The name of the node that has a port of this name."""
        return port if not port or port in self.node_by_guid.values() else port.rpartition(" port ")[0]

    def sentence(self, text: str) -> str:
        """A text with names in place of GUIDs, and after LIDs and IPv4 addresses. A number that the text calls a GUID stays."""
        return IN_TEXT.sub(self._named, text)

    def _named(self, found: re.Match[str]) -> str:
        if found[4] is not None:
            name = self.port_by_lid.get(int(found[4]))
            return f"{found[0]} ({name})" if name is not None else found[0]
        if found[1] is None:
            name = self.address(found[0])
            return f"{found[0]} ({name})" if name != found[0] else name
        guid = int(found[1], 16)
        name = self.node_by_guid.get(guid) or (None if found[2] else self.port_by_guid.get(guid))
        return f"{name}{found[2] or ''}{found[3] or ''}" if name is not None else found[0]


@lru_cache(65536)
def _packed(text: str) -> bytes | None:
    """The 16 bytes of an IP address or GID; None for another text."""
    try:
        return mapped(ip_address(text).packed)
    except ValueError:
        return None


def sure_names(subnets: Sequence[Subnet]) -> NodeNames:
    """The names that tell nodes apart throughout a capture, for sentences about any of its frames.

    A name that several nodes have is left out, and so is a LID that nodes of different names had. A LID means nothing where the capture
    has several subnets.
    """
    found = [names_in(subnet) for subnet in subnets]
    node_by_guid = {guid: name for names in found for guid, name in names.node_by_guid.items()}
    times = Counter(node_by_guid.values())
    unique = {name for name, count in times.items() if count == 1}
    nodes = {guid: name for guid, name in node_by_guid.items() if name in unique}
    ports = {guid: name for names in found for guid, name in names.port_by_guid.items() if _node(name, unique)}
    if len(subnets) != 1:
        return NodeNames(nodes, {}, ports, {})
    (subnet,), (names,) = subnets, found
    owners = {lid: {name_of(port.node) for port in subnet.owners(lid)} for lid in names.port_by_lid}
    sure = {lid for lid, known in owners.items() if len(known) == 1 and known <= unique}
    return NodeNames(
        nodes, {lid: name for lid, name in names.port_by_lid.items() if lid in sure}, ports,
        {address: name for address, name in names.node_by_address.items() if not isinstance(address, int) or address in sure},
    )  # fmt: skip


def _node(port: str, names: Collection[str]) -> bool:
    return port in names or port.rpartition(" port ")[0] in names


def names_in(subnet: Subnet) -> NodeNames:
    """The names that a subnet as known now gives to nodes. Do not call while another thread changes it."""
    named = {lid: port for lid in sorted(subnet.lids) if (port := subnet.by_lid(lid)) is not None and port.node.name}
    return NodeNames(
        {node.guid: name_of(node) for node in subnet.nodes.values() if node.name},
        {lid: port_name(port) for lid, port in named.items()},
        {one.guid: port_name(one) for one in subnet.ports() if one.guid and one.node.name and (one.number or one.node.kind == SWITCH)},
        {lid: name_of(port.node) for lid, port in named.items()} | {address: host.name for address, host in subnet.roce.hosts.items()},
    )
