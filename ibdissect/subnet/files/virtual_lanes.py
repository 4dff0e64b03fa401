"""Files about service levels and virtual lanes: smpquery sl2vl and vlarb, their records of saquery, opensm-sl2vl.dump.

Formats: dump.c of libibmad, saquery.c, osm_dump.c of opensm. An adapter's table is listed as port 0 and belongs to the port with the LID.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .file_facts import FileFact, LanesFact, NamedPort, WeightsFact
from .lines import NODE_PORTS, UNICAST_LIDS, Lines, guid, number

HEAD = re.compile(
    r"# (?:SL2VL table|VLArbitration tables): Lid (\d+)(?: port (\d+))?.*|(Switch|Channel Adapter|Router) (0x[0-9a-fA-F]+), base LID .*"
)
MAP = re.compile(r"(?:ports: in +)?(\d+)(?:, out)? +(\d+) *:[ |]*((?:\d+[ |]+){16})")
SHARES = re.compile(r"(VL|WEIGHT) *: \|((?:0x[0-9a-fA-F]+ *\|)+)", re.IGNORECASE)
VLS, WEIGHTS, HALF = range(16), range(256), 32


def lanes(lines: Lines) -> Iterator[FileFact]:
    """The tables of ports in sequence."""
    end, first, values = NamedPort(), 1, list[int | None]()
    for text in lines:
        head, row, shares = HEAD.fullmatch(text), MAP.fullmatch(text), SHARES.fullmatch(text.strip())
        if head and head[4]:
            own = guid(head[4]) or 0
            end = NamedPort(own, own if head[3] == "Switch" else 0)
        elif head:
            at = number(head[2] or "", NODE_PORTS, 10)
            end = NamedPort(lid=number(head[1], UNICAST_LIDS, 10) or 0, number=-1 if at is None else at)
        elif row:
            yield from mapped(lines, end, row[1], row[2], re.findall(r"\d+", row[3]))
        elif shares and shares[1] == "VL":
            values = [number(one, VLS, 16) for one in re.findall("0x[0-9a-fA-F]+", shares[2])]
        elif shares:
            yield from weighted(lines, end, first, values, [number(one, WEIGHTS, 16) for one in re.findall("0x[0-9a-fA-F]+", shares[2])])
        elif "priority VL Arbitration" in text:
            first = 3 if "High" in text else 1
        elif text.strip() and not text.startswith(("#", "$")) and "smpquery" not in text:
            lines.unknown("the VLs of service levels, or VLs and their weights")


def mapped(lines: Lines, end: NamedPort, entered: str, left: str, words: list[str]) -> Iterator[FileFact]:
    """The VL of each of 16 service levels, between two ports of a switch."""
    vls = [number(word, VLS, 10) for word in words]
    source, out = number(entered, NODE_PORTS, 10), number(left, NODE_PORTS, 10)
    if None in vls or len(vls) != 16 or source is None or out is None or not (end.lid or end.guid):
        lines.unknown("both ports and 16 VLs")
        return
    entries = bytes((vls[i] or 0) << 4 | (vls[i + 1] or 0) for i in range(0, 16, 2))
    yield LanesFact(lines.number, end._replace(number=out or -1), source, entries)


def weighted(lines: Lines, end: NamedPort, first: int, vls: list[int | None], weights: list[int | None]) -> Iterator[FileFact]:
    """VLs and their weights in blocks of 32; `first` is the number of the first block: 1 for low priority, 3 for high."""
    pairs = [(vl, weight) for vl, weight in zip(vls, weights, strict=False) if vl is not None and weight is not None]
    if not pairs or len(pairs) != len(vls) or len(vls) != len(weights) or len(pairs) > (5 - first) * HALF or not end.lid:
        lines.unknown("as many weights as VLs")
        return
    for start in range(0, len(pairs), HALF):
        some = bytes(byte for pair in pairs[start : start + HALF] for byte in pair)
        yield WeightsFact(lines.number, end, first + start // HALF, some.ljust(2 * HALF, b"\0"))
