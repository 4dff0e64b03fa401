"""The tree of one frame, in which every node knows its bytes, and its outline as text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from itertools import chain
from typing import Any

from ibdissect.decode.addresses import End
from ibdissect.wire import encapsulation, headers
from ibdissect.wire.catalog import StructType
from ibdissect.wire.mad import MAD, class_name
from ibdissect.wire.spec import Field
from ibdissect.wire.text import Paint, plain, printable

from .info_line import FrameSummary

COLUMN = 32
"""Column where values start in the dotted form and, after the indent, in the outline."""


@dataclass(slots=True)
class Node:
    """A layer, a field, or one entry of a repeated field."""

    name: str
    """Filter name; empty for a layer."""
    label: str
    offset: int
    """Offset of the first byte from the start of the frame; for fields of the ERF header, of that header; in `Tree.joined`, of the record
    or message.
    """
    length: int
    bit: int
    """First bit, counted from the most significant bit of the byte at `offset`."""
    bits: int
    value: Any
    """As in JSON: int, bool, address text, hex, str; None for a masked key and for nodes without a value."""
    text: str
    children: list[Node] = field(default_factory=list)
    field: Field[Any] | None = None
    struct: StructType | None = None
    in_front: bool = False
    """Part of the ERF pseudo-header, whose bytes precede the frame."""
    raw: bytes = dataclasses.field(default=b"", repr=False)
    """The node's bytes as captured, keys included: mask before showing."""
    masked: tuple[tuple[int, int], ...] = ()
    """Byte ranges of `raw` that hold a masked key."""

    def walk(self) -> Iterator[Node]:
        """This node and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(slots=True)
class Tree:
    """One frame, dissected."""

    frame: int
    time_ns: int
    length: int
    caplen: int
    interface: int
    summary: FrameSummary
    ends: tuple[End, End]
    """Sender and receiver."""
    layers: list[Node]
    malformed: str | None
    """Why the frame is malformed; None if it is well-formed or only truncated by the snap length."""
    data: bytes = field(repr=False)
    """The captured bytes of the frame, without the ERF header."""
    secret_bytes: tuple[tuple[int, int], ...] = ()
    """(start, stop) of masked key bytes in `data`."""
    unfit: tuple[str, ...] = ()
    """What does not fit in plugins' structures, and which of their lists are not shown to the end."""
    joined: list[Node] = field(default_factory=list)
    """What the frame completes: the layer `Reassembled` with records that straddle RMPP segments, and `Message` with the layers of a
    message of several packets. Offsets count from the start of the record or message, whose bytes are its `raw`.
    """

    @property
    def snapped(self) -> bool:
        """Whether the capture holds fewer bytes than the frame had on the wire."""
        return self.caplen < self.length

    def __getitem__(self, name: str) -> Any:
        """The first value with a filter name, `tree["bth.psn"]`: `infiniband.` is optional. KeyError if the frame has none.

        A masked key is its text; of a structure, it is the node.
        """
        node = self._first(name)
        if node is None:
            raise KeyError(name)
        return node if node.field is None or node.field.kind == "nested" else node.text if node.value is None else node.value

    def __contains__(self, name: object) -> bool:
        """Whether the frame has a field of that filter name."""
        return self._first(name) is not None

    def _first(self, name: object) -> Node | None:
        return next(
            (node for node in self.walk(joined=True) if node.name and name in (node.name, node.name.removeprefix("infiniband."))), None
        )

    def walk(self, *, joined: bool = False) -> Iterator[Node]:
        """Every node of the frame; with `joined`, then those of what it completes."""
        for layer in (*self.layers, *self.joined) if joined else self.layers:
            yield from layer.walk()

    def home(self, node: Node | None) -> Node | None:
        """The record or message in `joined` that a node is, or is part of; None for a node of the frame."""
        homes = [home for layer in self.joined for home in ([layer] if layer.raw else layer.children)]
        return next((home for home in homes if any(one is node for one in home.walk())), None)

    def hidden(self, home: Node | None = None) -> tuple[tuple[int, int], ...]:
        """(start, stop) of masked key bytes in the frame, or in a record or message in `joined`."""
        return self.secret_bytes if home is None else masked_bytes(home.walk())

    def readable(self) -> bytes:
        """The bytes of the frame, with those of masked keys as zeros."""
        data = bytearray(self.data)
        for start, stop in self.secret_bytes:
            data[start:stop] = bytes(len(data[start:stop]))
        return bytes(data)

    def hides(self, node: Node) -> bool:
        """Whether any byte of a node is part of a masked key: its `raw` must not be shown."""
        stop = node.offset + len(node.raw)
        return not node.in_front and any(low < stop and node.offset < high for low, high in self.hidden(self.home(node)))

    def _repr_html_(self) -> str:
        return f'<pre style="font-family:monospace">{escape(outline(self))}</pre>'  # for notebooks

    def at_byte(self, byte: int, home: Node | None = None) -> list[Node]:
        """Nodes that cover a byte of the frame, or of a record or message in `joined`, outer ones first."""
        nodes = self.walk() if home is None else home.walk()
        return [node for node in nodes if not node.in_front and node.offset <= byte < node.offset + node.length]


def masked_bytes(nodes: Iterable[Node]) -> tuple[tuple[int, int], ...]:
    """(start, stop) of masked key bytes, from the start of the frame, record or message."""
    return tuple((node.offset + low, node.offset + high) for node in nodes if not node.in_front for low, high in node.masked)


def time_text(time_ns: int) -> str:
    """UTC with nine fractional digits, as in JSON."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC) if -62_135_596_800 <= seconds < 253_402_300_800 else None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z" if moment is not None else f"{seconds}.{rest:09d} s"


def headline(tree: Tree) -> str:
    """One line about the frame as a whole."""
    size = f"{tree.length} bytes" if not tree.snapped else f"{tree.length} bytes, {tree.caplen} captured"
    line = tree.summary
    ends = f"{line.source} → {line.destination}" if line.destination else line.source
    return f"Frame {tree.frame}: {size}, {time_text(tree.time_ns)}, {ends}, {line.protocol} {printable(line.info)}"


def remarks(tree: Tree) -> list[str]:
    """Notes on a malformed or truncated frame, and on plugins' structures that do not fit."""
    found = [f"[Malformed: {tree.malformed}]"] if tree.malformed else []
    if tree.snapped:
        found.append(f"[Truncated by the snap length: {tree.caplen} of {tree.length} bytes captured]")
    return found + [f"[{text}]" for text in tree.unfit]


def printed(tree: Tree, paint: Paint, lines_of: Callable[[Node], Iterable[str]]) -> str:
    lines = chain([headline(tree)], *map(lines_of, tree.layers), (paint(remark, "malformed") for remark in remarks(tree)))
    return "\n".join(lines) + "\n"


def outline(tree: Tree, paint: Paint = plain) -> str:
    """Layers, fields and their values, one per line; then what the frame completes."""
    frame = printed(tree, paint, lambda layer: _layer(layer, layer_text(layer), paint))
    return frame + "".join(f"{line}\n" for layer in tree.joined for line in _layer(layer, layer.text, paint))


def _layer(layer: Node, about: str, paint: Paint) -> Iterator[str]:
    yield paint(layer.label, "layer") + (f"  {about}" if about else "")
    for node in layer.children:
        yield from _outline(node, 1, paint)


def _outline(node: Node, depth: int, paint: Paint) -> Iterator[str]:
    indent = "    " * depth
    label = f"{node.label}:"
    yield f"{indent}{label:<{COLUMN - 4}} {node.text}".rstrip() if node.text else indent + label
    for child in node.children:
        yield from _outline(child, depth + 1, paint)


def layer_text(layer: Node) -> str:
    """`Local Route Header, LID 4 → LID 1`; empty if there is nothing to add to the name."""
    struct = layer.struct
    if struct is None:
        return ""
    values = {node.field.name: node for node in layer.children if node.field is not None}
    about = next((_ABOUT[each] for each in struct.__mro__ if each in _ABOUT), None)
    what = _what(struct)
    contents = about(values) if about is not None else ""
    return ", ".join(part for part in (what, contents) if part)


def _what(struct: StructType) -> str:
    """The start of the structure's docstring, if its title is an abbreviation."""
    if struct is MAD or not struct.title.isupper() or len(struct.title) > 6:
        return ""
    return re.split(r"[.,;:(\n]", struct.__doc__ or "", maxsplit=1)[0].strip()


def _ends(source: str, destination: str, prefix: str = "") -> Callable[[dict[str, Any]], str]:
    return lambda values: f"{prefix}{values[source].text} → {prefix}{values[destination].text}"


_ABOUT: dict[StructType, Callable[[dict[str, Any]], str]] = {
    headers.LRH: _ends("slid", "dlid", "LID "),
    headers.GRH: _ends("sgid", "dgid"),
    encapsulation.Ethernet: _ends("source", "destination"),
    encapsulation.IPv4: _ends("source", "destination"),
    encapsulation.IPv6: _ends("source", "destination"),
    encapsulation.UDP: _ends("source_port", "destination_port"),
    encapsulation.VXLAN: lambda values: f"VNI {values['vni'].value}",
    encapsulation.VXLANGPE: lambda values: f"VNI {values['vni'].value}",
    encapsulation.GENEVE: lambda values: f"VNI {values['vni'].value}",
    encapsulation.GRE: lambda values: values["protocol"].text,
    encapsulation.MPLS: lambda values: f"label {values['label'].value}",
    headers.BTH: lambda values: values["opcode"].text.partition(" (")[0],
    MAD: lambda values: class_name(values["mgmt_class"].value),
}
