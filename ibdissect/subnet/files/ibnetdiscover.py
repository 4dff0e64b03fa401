"""The outputs of ibnetdiscover, iblinkinfo and ibnodes.

Formats: ibnetdiscover.c, iblinkinfo.c of infiniband-diags. Names may hold quotes, commas and `#`: the last LID of a line counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ibdissect.subnet import CA, ROUTER, SWITCH

from .file_facts import FileFact, LinkFact, NamedPort, NameFact, NodeFact, PortFact, WholeFact
from .lines import KIND_WORDS, NODE_PORTS, UNICAST_LIDS, Lines, guid, number

LETTERS = {"S": SWITCH, "H": CA, "R": ROUTER}
ATTRIBUTE = re.compile(r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=(0x[0-9a-fA-F]+)(?:\(([0-9a-fA-F]+)\))?")
BLOCK = re.compile(r"(Switch|Ca|Rt)\s+(\d+)\s+\"([SHR])-([0-9a-fA-F]{16})\"\s*(?:#\s*\"(.*)\"(.*))?")
SWITCH_LID = re.compile(r"port 0 lid (\d+) lmc (\d)")
CABLE = re.compile(
    r"\[(\d{1,3})\](?:\[ext \d+\])?(?:\(([0-9a-fA-F]+)\))?\s*"
    r"\"([SHR])-([0-9a-fA-F]{16})\"\[(\d+)\](?:\[ext \d+\])?(?:\(([0-9a-fA-F]+)\))?\s*#?(.*)"
)
OWN_LID = re.compile(r"\s*lid (\d+) lmc (\d)")
REMOTE_LID = re.compile(r".*\blid (\d+)\b")
PORT = re.compile(
    r"(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-fA-F]+)\s+\S+\s+\S+(?:\s+-\s+(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-fA-F]+))?"
    r"(?:\s+\( '(.*)' - '(.*)' \)|\s+'(.*)')?\s*"
)
LISTED = re.compile(r"(Ca|Switch|Rt)\s*: (0x[0-9a-fA-F]+) ports (\d+)(?: devid (0x[0-9a-fA-F]+) vendid (0x[0-9a-fA-F]+))? \"(.*)\"(.*)")
NAMED = re.compile(r'(0x[0-9a-fA-F]+)\s+"([^"#]+)')
LINK_HEAD = re.compile(r"(CA|Switch|RT|Router): (?:(0x[0-9a-fA-F]+) )?(.*):\s*")
LINK = re.compile(
    r"\s*(?:(0x[0-9a-fA-F]+)\s+(?:\"(.*?)\"\s+)?)?(\d+)\s+(\d+)\[[^\]]*\] ==\((.*?)\)==>"
    r"\s*(?:(0x[0-9a-fA-F]+)\s+)?(?:(\d+)\s+(\d+))?\s*\[[^\]]*\] \"(.*)\""
)


def ibnetdiscover(lines: Lines) -> Iterator[FileFact]:
    """The topology file. It lists all LIDs if no line is damaged and every node at the end of a cable has its block."""
    numbers: dict[str, int] = {}
    own: tuple[int, int] | None = None  # node GUID and kind of the block
    blocks, cabled = set[int](), set[int]()
    for text in lines.content():
        attribute = ATTRIBUTE.match(text) if text[0] != "[" else None  # most lines are cables
        if attribute:
            if attribute[1] == "vendid":
                numbers = {}
            numbers[attribute[1]] = number(attribute[2], range(1 << 64), 16) or 0
            continue
        head = BLOCK.match(text) if text[0] != "[" else None
        if head:
            node, kind = int(head[4], 16), LETTERS[head[3]]
            blocks.add(node)
            own = node, kind
            yield NodeFact(
                lines.number, node, kind, number(head[2], NODE_PORTS, 10) or 0, head[5] or "", numbers.get("sysimgguid", 0),
                numbers.get("devid", 0) & 0xFFFF, numbers.get("vendid", 0) & 0xFFFFFF,
            )  # fmt: skip
            if kind == SWITCH:
                lid, lmc = _lid(SWITCH_LID.search(head[6] or ""))
                yield PortFact(lines.number, NamedPort(node, node, 0, lid), lmc)
            continue
        cable = CABLE.match(text)
        at = number(cable[1], NODE_PORTS, 10) if cable else None
        far = number(cable[5], NODE_PORTS, 10) if cable else None
        if cable is None or own is None or at is None or far is None:
            lines.unknown("a node or a port of it")
            continue
        node, kind = own
        if kind != SWITCH:
            lid, lmc = _lid(OWN_LID.match(cable[7]))
            yield PortFact(lines.number, NamedPort(guid(cable[2] or "") or 0, node, at, lid), lmc)
        other, letter = int(cable[4], 16), LETTERS[cable[3]]
        cabled.add(other)
        if letter != SWITCH and kind == SWITCH:
            remote = REMOTE_LID.match(cable[7])
            lid = number(remote[1], UNICAST_LIDS, 10) or 0 if remote else 0
            yield PortFact(lines.number, NamedPort(guid(cable[6] or "") or 0, other, far, lid))
        yield LinkFact(lines.number, NamedPort(node=node, number=at), NamedPort(node=other, number=far))
    if blocks and cabled <= blocks and not lines.strange:
        yield WholeFact(0)


def _lid(found: re.Match[str] | None) -> tuple[int, int]:
    """LID and LMC; 0 and -1: not given."""
    return (number(found[1], UNICAST_LIDS, 10) or 0, int(found[2])) if found else (0, -1)


def name_map(lines: Lines) -> Iterator[FileFact]:
    """A node name map: `0x<node guid> "name"`; the name ends at a quote or at `#`."""
    for text in lines.content():
        found = NAMED.match(text)
        node = guid(found[1]) if found else None
        if found and node:
            yield NameFact(lines.number, node, found[2])
        else:
            lines.unknown("a NodeGUID and a name in quotes")


def ports_of_ibnetdiscover(lines: Lines) -> Iterator[FileFact]:
    """`ibnetdiscover -p`: one line per port."""
    for text in lines.content():
        found = PORT.fullmatch(text)
        ends = [_printed(found[i], found[i + 1], found[i + 2], found[i + 3]) for i in (1, 5) if found[i]] if found else []
        if found is None or None in ends:
            lines.unknown("a port and its peer")
            continue
        for end, name in zip(ends, (found[9] or found[11] or "", found[10] or ""), strict=False):
            assert end is not None
            kind, port = end
            if kind == SWITCH:  # the GUID of a switch is that of the node, and of its port 0
                yield NodeFact(lines.number, port.guid, SWITCH, name=name)
                yield PortFact(lines.number, NamedPort(port.guid, port.guid, 0, port.lid))
            else:
                yield PortFact(lines.number, port)
        if len(ends) == 2:
            near, far = (_cabled(*end) for end in ends if end is not None)
            yield LinkFact(lines.number, near, far)


def _printed(kind: str, lid: str, at: str, port_guid: str) -> tuple[int, NamedPort] | None:
    one, port, value = number(lid, range(0xC000), 10), number(at, NODE_PORTS, 10), guid(port_guid)
    return (
        (KIND_WORDS[kind.lower()], NamedPort(value, 0, port, one)) if one is not None and port is not None and value is not None else None
    )


def _cabled(kind: int, port: NamedPort) -> NamedPort:
    return NamedPort(node=port.guid, number=port.number) if kind == SWITCH else NamedPort(port.guid, number=port.number)


def nodes(lines: Lines) -> Iterator[FileFact]:
    """`ibnetdiscover -l`, ibnodes, ibhosts, ibswitches: one line per node."""
    for text in lines.content():
        found = LISTED.fullmatch(text)
        node = guid(found[2]) if found else None
        if found is None or node is None:
            lines.unknown("a node, its GUID and its ports")
            continue
        kind = KIND_WORDS[found[1].lower()]
        device, vendor = (number(found[i] or "0", range(1 << 32), 0) or 0 for i in (4, 5))
        yield NodeFact(lines.number, node, kind, number(found[3], NODE_PORTS, 10) or 0, found[6], 0, device & 0xFFFF, vendor & 0xFFFFFF)
        lid, lmc = _lid(SWITCH_LID.search(found[7]))
        if lid:
            yield PortFact(lines.number, NamedPort(node, node, 0, lid), lmc)


def iblinkinfo(lines: Lines) -> Iterator[FileFact]:
    """Blocks of a node and its ports, or with -l the port GUID and the name at the start of every line."""
    kind, switch, name = 0, 0, ""
    for text in lines.content():
        head = LINK_HEAD.fullmatch(text)
        if head:
            kind, switch, name = KIND_WORDS[head[1].lower()], (guid(head[2] or "") or 0), head[3]
            if kind == SWITCH and switch:
                yield NodeFact(lines.number, switch, SWITCH, name=name)
            continue
        found = LINK.match(text)
        lid, at = (number(found[i], range(0xC000), 10) for i in (3, 4)) if found else (None, None)
        if found is None or lid is None or at is None or at > 255:
            lines.unknown("a port and its link")
            continue
        port = guid(found[1]) or 0 if found[1] else 0
        near = NamedPort(switch, switch, at, lid) if switch and not port else NamedPort(port, 0, at, lid)
        if near.node:
            yield PortFact(lines.number, NamedPort(switch, switch, 0, lid))
            near = NamedPort(node=switch, number=at)
        elif kind and port:
            yield PortFact(lines.number, near)
        elif not port:
            lines.unknown("the GUID of the port")
            continue
        else:  # -l: the GUID belongs to a switch or an adapter port; the line does not say which
            yield PortFact(lines.number, NamedPort(port, lid=lid))
            near = NamedPort(lid=lid, number=at)
        far_lid, far = (number(found[i] or "", UNICAST_LIDS, 10) for i in (7, 8))
        if far_lid and far is not None:
            yield LinkFact(lines.number, near, NamedPort(lid=far_lid, number=far))
