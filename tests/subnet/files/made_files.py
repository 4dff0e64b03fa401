"""Subnet files made in tests, without a file system."""

from __future__ import annotations

from ibdissect.subnet.file_lines import KnownFile
from ibdissect.subnet.files import SubnetFile, learn
from ibdissect.subnet.files.kinds_of_files import KINDS
from ibdissect.subnet.files.lines import Lines
from ibdissect.subnet.model import Subnet


def parsed(kind: str, text: str, path: str = "") -> tuple[SubnetFile, Lines]:
    """What a file of a kind says, and its lines as counted."""
    parse = KINDS[kind].parse
    assert parse is not None
    lines = Lines(path or kind, text.splitlines())
    return SubnetFile(KnownFile(path or kind, 0, KINDS[kind].lasting), kind, list(parse(lines))), lines


def subnet_of(*files: tuple[str, str], subnet: Subnet | None = None) -> Subnet:
    """The model after files given as (kind, text), oldest first; `subnet`: one that learns them."""
    subnet = subnet if subnet is not None else Subnet()
    learn(subnet, [parsed(kind, text)[0] for kind, text in files])
    return subnet
