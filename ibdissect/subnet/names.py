"""Which names do subnet files give to the ports with certain LIDs, GUIDs and GIDs?"""

from __future__ import annotations

import re

from msgspec import Struct as Record

from ibdissect.fabric.describe import name_of
from ibdissect.fabric.model import SWITCH, Port, Subnet

from .learn import learn
from .reading import SubnetFiles
from .text import gid

IN_TEXT = re.compile(r"0x([0-9a-f]{16})\b( port \d+)?( \(LID \d+\))?|\bLID (\d{1,5})\b")


class Names(Record):
    """Names from the files; they do not follow ports that move during the capture."""

    nodes: dict[int, str]
    """NodeGUID -> `node07 HCA-1`."""
    lids: dict[int, str]
    """LID -> `node07 HCA-1 port 1`."""
    guids: dict[int, str]
    """Port GUID, the lower half of a GID -> the same."""
    hosts: dict[int, str]
    """LID -> `node07 HCA-1`."""

    def address(self, text: str) -> str:
        """The name for `LID 7` or a GID; other addresses are returned unchanged."""
        if text.startswith("LID "):
            return self.lids.get(int(text[4:]), text) if text[4:].isdecimal() else text
        packed = gid(text) if ":" in text else None
        return self.guids.get(int.from_bytes(packed[8:], "big"), text) if packed is not None else text

    def sentence(self, text: str) -> str:
        """A text with names in place of NodeGUIDs, and after LIDs."""
        return IN_TEXT.sub(self._named, text)

    def _named(self, found: re.Match[str]) -> str:
        if found[4] is not None:
            name = self.lids.get(int(found[4]))
            return f"{found[0]} ({name})" if name is not None else found[0]
        name = self.nodes.get(int(found[1], 16))
        return f"{name}{found[2] or ''}{found[3] or ''}" if name is not None else found[0]


def names_of(files: SubnetFiles) -> Names:
    """The names of nodes in files."""
    subnet = Subnet()
    learn(subnet, files.files)
    return names_in(subnet)


def names_in(subnet: Subnet) -> Names:
    """The names that a subnet as known now gives to nodes; not while another thread teaches it."""
    named = {lid: port for lid in sorted(subnet.lids) if (port := subnet.by_lid(lid)) is not None and port.node.name}
    return Names(
        {node.guid: name_of(node) for node in subnet.nodes.values() if node.name},
        {lid: _title(port) for lid, port in named.items()},
        {port.guid: _title(port) for port in subnet.ports() if port.guid and port.node.name and (port.number or port.node.kind == SWITCH)},
        {lid: name_of(port.node) for lid, port in named.items()},
    )


def _title(port: Port) -> str:
    """A port's name: that of its node, with the port number unless it is a switch."""
    return name_of(port.node) + ("" if port.node.kind == SWITCH else f" port {port.number}")
