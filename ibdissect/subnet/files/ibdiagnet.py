"""ibdiagnet2.db_csv: sections of comma-separated rows whose columns are known by name.

There is no public sample of ibdiagnet2.pkey, so that file is not read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator

from ibdissect.subnet import SWITCH

from .file_facts import FileFact, LinkFact, NamedPort, NodeFact, PortFact
from .lines import NODE_PORTS, UNICAST_LIDS, Lines, guid, number

Row = dict[str, str]


def db_csv(lines: Lines) -> Iterator[FileFact]:
    """Sections START_NODES, START_PORTS and START_LINKS; others are skipped."""
    switches: set[int] = set()
    section, heads = "", list[str]()
    for text in lines:
        text = text.strip()
        if text.startswith("START_"):
            section, heads = text[6:], []
        elif text.startswith("END_"):
            section = ""
        elif section in _SECTIONS and text and not text.startswith("#"):
            try:
                words = [word.strip().strip('"') for word in next(csv.reader([text], skipinitialspace=True))]
            except (csv.Error, StopIteration):
                words = []
            if not heads:
                heads = [word.lower() for word in words]
                continue
            facts = (
                list(_SECTIONS[section](dict(zip(heads, words, strict=False)), lines.number, switches)) if len(words) >= len(heads) else []
            )
            if not facts:
                lines.unknown(f"a row of {section}")
            yield from facts


def _value(row: Row, name: str, allowed: range) -> int:
    return number(row.get(name, ""), allowed, 0) or 0


def _node(row: Row, line: int, switches: set[int]) -> Iterator[FileFact]:
    node, port, kind = guid(row.get("nodeguid", "")), guid(row.get("portguid", "")), _value(row, "nodetype", range(4))
    if node and kind:
        if kind == SWITCH:
            switches.add(node)
        yield NodeFact(
            line, node, kind, _value(row, "numports", NODE_PORTS), row.get("nodedesc", ""), guid(row.get("systemimageguid", "")) or 0,
            _value(row, "deviceid", range(1 << 16)), _value(row, "vendorid", range(1 << 24)), _value(row, "partitioncap", range(1 << 16)),
        )  # fmt: skip
        at = 0 if kind == SWITCH else _value(row, "localportnum", NODE_PORTS)
        if port and (at or kind == SWITCH):
            yield PortFact(line, NamedPort(port, node, at))


def _port(row: Row, line: int, switches: set[int]) -> Iterator[FileFact]:
    node, port = guid(row.get("nodeguid", "")), guid(row.get("portguid", "")) or 0
    at, lid, lmc = number(row.get("portnum", ""), NODE_PORTS, 0), _value(row, "lid", UNICAST_LIDS), number(row.get("lmc", ""), range(8), 0)
    if node and at is not None:
        own = at == 0 or node not in switches  # an external port of a switch has no GUID and no LID of its own
        yield PortFact(line, NamedPort(port if own else 0, node, at, lid if own else 0), -1 if lmc is None else lmc)


def _link(row: Row, line: int, switches: set[int]) -> Iterator[FileFact]:
    nodes = [guid(row.get(f"nodeguid{i}", "")) for i in (1, 2)]
    ports = [number(row.get(f"portnum{i}", ""), NODE_PORTS, 0) for i in (1, 2)]
    if all(nodes) and None not in ports:
        near, far = (NamedPort(node=node or 0, number=port or 0) for node, port in zip(nodes, ports, strict=True))
        yield LinkFact(line, near, far)


_SECTIONS: dict[str, Callable[[Row, int, set[int]], Iterator[FileFact]]] = {"NODES": _node, "PORTS": _port, "LINKS": _link}
