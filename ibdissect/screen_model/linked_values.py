"""Nodes, ports, partitions, queue pairs and frames that a line of text names, each with the filter for its frames."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

from ibdissect.subnet.node_names import NodeNames

from .value_filters import quoted

KINDS = (
    ("frame", r"\b(?:[Ff]rame|No\.) (?P<frame>\d{1,9})\b|(?<![\w:]):(?P<place>\d{1,9})(?=\s)"),
    ("lid", r"\bLIDs? (?P<lid>\d{1,5})\b"),
    ("qp", r"\b(?:QPs?|queue pair) (?P<qp>0x[0-9a-f]{1,6}|\d{1,8})\b|\b(?P<column>0x[0-9a-f]{6})\b"),
    ("key", r"\b[Pp](?:_Key|artition) (?P<key>0x[0-9a-f]{1,4})\b"),
    ("guid", r"\b(?P<guid>0x[0-9a-f]{16})\b"),
    ("ip", r"(?<![\w.:])(?P<ip>\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})(?![\w.:])"),
)
VALUES = re.compile("|".join(pattern for _, pattern in KINDS))
MOST = 24
"""Values of one line that are offered."""
ENDS_OF_NAMES = re.compile(r"[\w.-]")


class Link(NamedTuple):
    """A value that a text names."""

    what: str
    filter: str
    """Shows its frames; empty for a frame."""
    frame: int = 0
    """The frame that it is; 0 for none."""
    at: int = 0
    """Where it begins in the text."""
    length: int = 0
    """Characters that name it there."""


def links(text: str, names: NodeNames | None) -> list[Link]:
    """The values that a text names, in their order, each once."""
    found: dict[tuple[str, int], Link] = {}
    for link in places(text, names):
        found.setdefault((link.filter, link.frame), link)
    return list(found.values())[:MOST]


def places(text: str, names: NodeNames | None) -> list[Link]:
    """Every place where a text names a value, in their order."""
    found = list[Link]()
    taken = [False] * len(text)
    for at, name in _named(text, names):
        if not taken[at]:
            taken[at : at + len(name)] = [True] * len(name)
            found.append(Link(name, f"ibdissect.node == {quoted(name)}", at=at, length=len(name)))
    for match in VALUES.finditer(text):
        if not taken[match.start()] and (link := _of(match, names)) is not None:
            found.append(link._replace(length=len(match[0])))
    return sorted(found, key=lambda link: link.at)


def _named(text: str, names: NodeNames | None) -> list[tuple[int, str]]:
    """Names of ports and nodes in a text: where each begins, the longest first. A part of a longer word is none."""
    if names is None:
        return []
    known = {*names.port_by_lid.values(), *names.port_by_guid.values(), *names.node_by_guid.values(), *names.node_by_address.values()}
    found = []
    for name in known:
        at = text.find(name) if len(name) > 1 else -1
        while at >= 0:
            ends = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
            if not any(ENDS_OF_NAMES.match(end) for end in ends):
                found.append((at, name))
            at = text.find(name, at + 1)
    return sorted(found, key=lambda one: (-len(one[1]), one[0]))


def _of(match: re.Match[str], names: NodeNames | None) -> Link | None:
    kind = match.lastgroup
    value, at = match[kind or 0], match.start()
    if kind in ("frame", "place"):
        return Link(f"frame {value}", "", int(value), at)
    if kind == "lid":
        text = f"infiniband.lrh.slid == {value} || infiniband.lrh.dlid == {value}"
        return Link(f"LID {value}", text, at=at) if int(value) < 1 << 16 else None
    if kind in ("qp", "column"):
        number = int(value, 0)
        qp = f"0x{number:06x}"
        text = f"infiniband.bth.destqp == {qp} || infiniband.deth.srcqp == {qp}"
        return Link(f"QP {qp}", text, at=at) if number < 1 << 24 else None
    if kind == "key":
        number = int(value, 16)
        return Link(f"P_Key {value}", f"infiniband.bth.p_key in {{0x{number | 0x8000:04x}, 0x{number & 0x7FFF:04x}}}", at=at)
    if kind == "guid":
        name = names.node_by_guid.get(int(value, 16), "") if names is not None else ""
        return Link(f"{value} ({name})", f"ibdissect.node == {quoted(name)}", at=at) if name else None
    try:
        address = ip_address(value)
    except ValueError:
        return None
    if address.version == 4:
        return Link(value, f"ip.addr == {value}", at=at)
    return Link(value, f"infiniband.grh.sgid == {value} || infiniband.grh.dgid == {value} || ipv6.addr == {value}", at=at)
