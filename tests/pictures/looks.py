"""Captures read for tests of pictures, and small subnets to draw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ibdissect.pictures.portrait import Portrait, read
from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import NodeFacts, Port
from ibdissect.subnet.topology import connect
from tests.subnet import made

CA, SWITCH = 1, 2
"""NodeTypes of the standard."""


@contextmanager
def portrait(path: Path | str, **options: Any) -> Iterator[Portrait]:
    with read(str(path), CheckOptions(rules=load(), max_findings=None, **options)) as found:
        assert isinstance(found, Portrait)
        yield found


def fat_tree(spines: int, leaves: int, hosts: int) -> Subnet:
    """Every leaf is connected to every spine, and has so many hosts; LIDs count from 1 in that order."""
    subnet, lid = Subnet(), 0

    def node(kind: int, name: str, ports: int) -> list[Port]:
        nonlocal lid
        lid += 1
        found, _ = subnet.node(made.GUID + (lid << 8), 1)
        found.kind, found.name = kind, name.encode()
        found.facts.learn(NodeFacts(ports, 32), 1)
        made_ports = [subnet.port(found, number, 1) for number in range(ports + 1)]
        subnet.assign(made_ports[0 if kind == SWITCH else 1], lid, 0, 1)
        return made_ports

    upper = [node(SWITCH, f"spine{i}", leaves) for i in range(spines)]
    for i in range(leaves):
        leaf = node(SWITCH, f"leaf{i}", spines + hosts)
        for j, spine in enumerate(upper):
            connect(spine[i + 1], leaf[j + 1], 2)
        for j in range(hosts):
            host = node(CA, f"host{i}-{j} HCA-1", 1)
            connect(leaf[spines + j + 1], host[1], 2)
    return subnet
