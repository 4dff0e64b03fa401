"""The dumps of OpenSM, and the forwarding tables of ibroute and dump_lfts.

Formats: osm_dump.c of opensm 3.3, ibroute.c of infiniband-diags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ibdissect.subnet import SWITCH
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.wire.numbers import MULTICAST_LIDS

from .file_facts import FileFact, GroupFact, LinkFact, ManagerFact, MulticastFact, NamedPort, NodeFact, PortFact, RouteFact, WholeFact
from .lines import KIND_WORDS, UNICAST_LIDS, Lines, guid, number

SIDE = re.compile(
    r"\{ (CA|SW|Rt|\*\*)(-SM)? Ports:([0-9A-Fa-f]{2}) SystemGUID:([0-9a-f]{16}) NodeGUID:([0-9a-f]{16}) PortGUID:([0-9a-f]{16}) "
    r"VenID:([0-9A-Fa-f]+) DevID:([0-9A-Fa-f]+) Rev:[0-9A-Fa-f]+ \{(.*?)\} LID:([0-9A-Fa-f]{4}) PN:([0-9A-Fa-f]{2}) \}"
)
UNICAST = re.compile(r"Unicast lids \[[^\]]*\] of switch (?:Lid (\d+)|.*?) guid (0x[0-9a-fA-F]+) \(.*\):\s*")
ROUTE = re.compile(r"(0x[0-9a-fA-F]{4}) (\d{3}) (?:#|:) \(?(Channel Adapter|Switch|Router)? ?(?:portguid (0x[0-9a-fA-F]+): )?.*")
DUMPED = re.compile(r"(\d{1,6}) (valid )?lids dumped")
OF_SWITCH = re.compile(r"(?:dump_ucast_routes: )?Switch (0x[0-9a-fA-F]+)\s*")
GROUP = re.compile(r"MC Group (0x[0-9a-fA-F]+) .*?: mgid=0x([0-9a-f]{16}):0x([0-9a-f]{16}) .*")
PAIR = re.compile(r"\b(qkey|mtu|pkey|rate|sl_flow_hop)=(0x[0-9a-fA-F]+)")
MEMBER = re.compile(r"mcm_port: port_gid=0x([0-9a-f]{16}):0x([0-9a-f]{16}) scope_state=(0x[0-9a-f]+).*")
MULTICAST_HEAD = re.compile(r"Multicast mlids \[.*?\] of switch .*?guid (0x[0-9a-fA-F]+) \(.*\):\s*")
CROSSES = re.compile(r"(0x[0-9a-fA-F]{4})(  [ x]*)")


def subnet_lst(lines: Lines) -> Iterator[FileFact]:
    """opensm-subnet.lst: one line per linked port, with both ends. The second DevID is shifted by 16 bits in some versions."""
    for text in lines:
        if not text.strip():
            continue
        sides = list(SIDE.finditer(text))
        if len(sides) != 2:
            lines.unknown("two sides of a link in braces")
            continue
        ends = []
        for side in sides:
            ports, system, node, port, vendor, device, lid, at = (int(side[i], 16) for i in (3, 4, 5, 6, 7, 8, 10, 11))
            kind, lid = KIND_WORDS.get(side[1].lower(), 0), lid if lid in UNICAST_LIDS else 0
            yield NodeFact(
                lines.number, node, kind, ports, side[9], system, (device >> 16 or device) & 0xFFFF, vendor & 0xFFFFFF
            )  # fmt: skip
            yield PortFact(lines.number, NamedPort(port, node, 0 if kind == SWITCH else at, lid))
            if side[2] and kind != SWITCH:
                yield ManagerFact(lines.number, port, lid, state=3)
            ends.append(NamedPort(node=node, number=at))
        yield LinkFact(lines.number, *ends)


def forwarding(lines: Lines) -> Iterator[FileFact]:
    """opensm-lfts.dump, ibroute and dump_lfts: linear forwarding tables, and the owner of each LID. The first lists all LIDs."""
    switch, tables, whole = NamedPort(), 0, 0
    for text in lines:
        text = text.strip()
        head = UNICAST.fullmatch(text)
        if head:
            switch, tables = _switch(head[2], number(head[1] or "", UNICAST_LIDS, 10) or 0), tables + 1
            yield NodeFact(lines.number, switch.node, SWITCH)
            yield PortFact(lines.number, switch)
            continue
        if end := DUMPED.fullmatch(text):
            whole += not end[2]  # ibroute omits LIDs
            continue
        found = ROUTE.fullmatch(text)
        lid_, port = (number(found[1], UNICAST_LIDS, 16), number(found[2], range(255), 10)) if found else (None, None)
        if found and switch.node and lid_ and port is not None:
            owner = guid(found[4]) if found[4] else None
            if owner and found[3] == "Switch":
                yield NodeFact(lines.number, owner, SWITCH)
                yield PortFact(lines.number, NamedPort(owner, owner, 0, lid_))
            elif owner:
                yield PortFact(lines.number, NamedPort(owner, lid=lid_))
            yield RouteFact(lines.number, switch, lid_, port)
        elif text and not text.endswith(("Destination", "Info")) and not text.startswith("***"):
            lines.unknown("a LID and its port")
    if tables and tables == whole and not lines.strange:
        yield WholeFact(0)


def _switch(name: str, lid: int = 0) -> NamedPort:
    """Port 0 of a switch, which has the GUID of its node."""
    node = guid(name) or 0
    return NamedPort(node, node, 0, lid)


def fdbs(lines: Lines) -> Iterator[FileFact]:
    """opensm.fdbs: unicast routes by switch."""
    switch = NamedPort()
    for text in lines:
        text = text.strip()
        head = OF_SWITCH.fullmatch(text)
        words = [word.strip() for word in text.split(":")]
        if head:
            switch = _switch(head[1])
            yield NodeFact(lines.number, switch.node, SWITCH)
        elif len(words) >= 2 and (lid := number(words[0], UNICAST_LIDS, 16)):
            port = number(words[1], range(255), 10)
            if port is not None and switch.node:
                yield RouteFact(lines.number, switch, lid, port)
        elif text and not text.startswith("LID"):
            lines.unknown("a LID and its port")


def mcfdbs(lines: Lines) -> Iterator[FileFact]:
    """opensm.mcfdbs: multicast routes by switch, ports in hexadecimal."""
    switch = NamedPort()
    for text in lines:
        text = text.strip()
        head = OF_SWITCH.fullmatch(text)
        if head:
            switch = _switch(head[1])
            yield NodeFact(lines.number, switch.node, SWITCH)
            continue
        first, colon, rest = text.partition(":")
        lid = number(first, MULTICAST_LIDS, 16)
        ports = [number(word, range(256), 16) for word in rest.split()]
        if colon and lid and switch.node and None not in ports:
            yield MulticastFact(lines.number, switch, lid, tuple(port for port in ports if port is not None))
        elif text and not text.startswith("LID"):
            lines.unknown("a multicast LID and its ports")


def dump_mfts(lines: Lines) -> Iterator[FileFact]:
    """dump_mfts: multicast routes by switch, one cross per port."""
    switch = NamedPort()
    for text in lines:
        head, row = MULTICAST_HEAD.fullmatch(text.strip()), CROSSES.fullmatch(text.rstrip("\n"))
        if head:
            switch = _switch(head[1])
            yield NodeFact(lines.number, switch.node, SWITCH)
        elif row and switch.node and (lid := number(row[1], MULTICAST_LIDS, 16)):
            # two characters per port, port 0 in column 12
            yield MulticastFact(lines.number, switch, lid, tuple(i for i, cross in enumerate(row[2][6::2]) if cross == "x" and i < 256))
        elif text.strip() and not re.match(r"[\s\d]+$|\s+Ports:|\s*MLid|\d+ valid|\*\*\*", text):
            lines.unknown("a multicast LID and its ports")


def sa_dump(lines: Lines) -> Iterator[FileFact]:
    """opensm-sa.dump: multicast groups and their members."""
    group: tuple[bytes, GroupFacts] | None = None
    for text in lines:
        text = text.strip()
        head, member = GROUP.fullmatch(text), MEMBER.fullmatch(text)
        if head:
            mlid = number(head[1], MULTICAST_LIDS, 16)
            values = {name: int(value, 16) for name, value in PAIR.findall(text)}
            if mlid is None:
                lines.unknown("a group with its multicast LID")
                continue
            facts = GroupFacts(
                mlid, values.get("pkey", 0) & 0xFFFF, values.get("qkey", 0) & 0xFFFFFFFF, values.get("mtu", 0) & 63,
                values.get("rate", 0) & 63, values.get("sl_flow_hop", 0) >> 28 & 15,
            )  # fmt: skip
            group = bytes.fromhex(head[2] + head[3]), facts
            yield GroupFact(lines.number, *group)
        elif member and group is not None:
            yield GroupFact(lines.number, *group, bytes.fromhex(member[1] + member[2]), int(member[3], 16) & 15)
