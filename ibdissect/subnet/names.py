"""Which names do subnet files give to the ports with certain LIDs, GUIDs and GIDs?"""

from __future__ import annotations

import re
from ipaddress import ip_address

from msgspec import Struct as Record

from ibdissect.fabric import SWITCH, Subnet
from ibdissect.fabric.describe import name_of, port_name
from ibdissect.fabric.roce_network import mapped

from .learn import learn
from .reading import SubnetFiles

IN_TEXT = re.compile(r"0x([0-9a-f]{16})\b( port \d+)?( \(LID \d+\))?|\bLID (\d{1,5})\b|\b\d{1,3}(?:\.\d{1,3}){3}\b")


class Names(Record):
    """Names from files. A name belongs to its LID or GUID, whichever port has that during the capture."""

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
        if text.startswith("LID "):
            return self.port_by_lid.get(int(text[4:]), text) if text[4:].isdecimal() else text
        try:
            packed = mapped(ip_address(text).packed)
        except ValueError:
            return text
        return self.node_by_address.get(packed) or self.port_by_guid.get(int.from_bytes(packed[8:], "big"), text)

    def sentence(self, text: str) -> str:
        """A text with names in place of NodeGUIDs, and after LIDs and IPv4 addresses."""
        return IN_TEXT.sub(self._named, text)

    def _named(self, found: re.Match[str]) -> str:
        if found[4] is not None:
            name = self.port_by_lid.get(int(found[4]))
            return f"{found[0]} ({name})" if name is not None else found[0]
        if found[1] is None:
            name = self.address(found[0])
            return f"{found[0]} ({name})" if name != found[0] else name
        name = self.node_by_guid.get(int(found[1], 16))
        return f"{name}{found[2] or ''}{found[3] or ''}" if name is not None else found[0]


def names_of(files: SubnetFiles) -> Names:
    subnet = Subnet()
    learn(subnet, files.files)
    return names_in(subnet)


def names_in(subnet: Subnet) -> Names:
    """The names that a subnet as known now gives to nodes. Do not call while another thread changes it."""
    named = {lid: port for lid in sorted(subnet.lids) if (port := subnet.by_lid(lid)) is not None and port.node.name}
    return Names(
        {node.guid: name_of(node) for node in subnet.nodes.values() if node.name},
        {lid: port_name(port) for lid, port in named.items()},
        {one.guid: port_name(one) for one in subnet.ports() if one.guid and one.node.name and (one.number or one.node.kind == SWITCH)},
        {lid: name_of(port.node) for lid, port in named.items()}
        | {address: host.name for address, host in subnet.roce.hosts.items()},
    )
