"""The drawing of the subnet: switches by level, their hosts below them, cables between, and ports with findings in colour.

A few hosts are boxes with names, many are dots, so that 20 nodes and 2,000 both fit the width of a page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct as Record
from msgspec import field

from ibdissect.subnet import Node, Port, Subnet
from ibdissect.subnet.describe import KINDS, node_name, port_name
from ibdissect.subnet.switch_levels import Levels, levels

from .marks import Mark

WIDTH, GAP = 1180, 12
"""Pixels of the drawing, and between the hosts of two switches."""
MAX_NODES = 4000
"""Nodes drawn."""
FEW = 48
"""Nodes up to which hosts are boxes with names."""
DENSE = 150
"""Cables from which on they are drawn faintly."""
LABEL, SMALL = 8.2, 6.4
"""Pixels of a character of a label, and of a small one."""


class Box(Record):
    x: float
    y: float
    width: float
    height: float
    kind: str
    label: str
    title: str
    mark: Mark | None
    small: bool = False
    name: str = ""
    """The whole name of which `label` is what fits."""
    room: int = 0
    """Characters that fit."""

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


class Cable(Record):
    """Cables between two nodes."""

    path: str
    title: str
    mark: Mark | None
    label: str
    x: float
    y: float


class SubnetDrawing(Record):
    """The picture, and the ports with findings as a table."""

    height: float
    left: float = 0.0
    """X of the left edge."""
    width: float = WIDTH
    boxes: list[Box] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    areas: list[Box] = field(default_factory=list)
    """Outlines around the dots of the hosts of a switch."""
    nodes: int = 0
    dense: bool = False
    left_out: int = 0
    ports: list[tuple[str, int, str, Mark]] = field(default_factory=list)
    """Name, LID, the port at the other end, findings."""


def drawing(subnet: Subnet, marked: Mapping[Port, Mark]) -> SubnetDrawing | None:
    """The subnet; None if no node is known."""
    found = levels(subnet, MAX_NODES)
    if not found.nodes:
        return None
    made = SubnetDrawing(0, nodes=len(found.nodes) + found.left_out, left_out=found.left_out)
    places = _place(found, marked, made)
    made.dense = len(found.cables) > DENSE
    for (one, other), pairs in found.cables.items():
        if one in places and other in places:
            made.cables.append(_cable(places[one], places[other], pairs, marked))
    made.cables.sort(key=lambda cable: cable.mark.rank if cable.mark is not None else 0)
    for port, mark in sorted(marked.items(), key=lambda item: (-item[1].rank, -item[1].count)):
        peer = port_name(port.peer) if port.peer is not None else ""
        made.ports.append((port_name(port), port.lid, peer, mark))
    return made


def _place(found: Levels, marked: Mapping[Port, Mark], made: SubnetDrawing) -> dict[int, Box]:
    """Put nodes into the drawing, the highest level first; boxes of nodes with a place of their own, by slot."""
    few, places = len(found.nodes) <= FEW, dict[int, Box]()
    *high, low = [[found.nodes[slot] for slot in row] for row in found.switches] or [[]]
    of = {slot: [found.nodes[host] for host in hosts] for slot, hosts in found.hosts.items()}
    y = 10.0
    for row in high:
        width = max(min(130.0, WIDTH / len(row) - 14), 58.0)
        each = int(WIDTH // (width + 14))
        for start in range(0, len(row), each):
            some = row[start : start + each]
            x = (WIDTH - len(some) * (width + 14)) / 2 + 7
            for node in some:
                places[node.slot] = _box(node, x, y, width, 26, marked)
                x += width + 14
            y += 40
        y += 50 if few else 90
    most = 6 if few else 10 if len(low) < 12 else 5
    blocks = [_SwitchBlock(node, of.get(node.slot, []), few, most) for node in low]
    if -1 in of:
        blocks.append(_SwitchBlock(None, of[-1], few, most if few else 20))
    while blocks:
        y = _row(blocks, y, marked, made, places) + (40 if few else 22)
    made.boxes = [*places.values(), *made.boxes]
    _label(made.boxes)
    made.left = min(box.x for box in (*made.boxes, *made.areas)) - 8
    made.width, made.height = max(box.x + box.width for box in (*made.boxes, *made.areas)) + 8 - made.left, y
    return places


def _row(blocks: list[_SwitchBlock], y: float, marked: Mapping[Port, Mark], made: SubnetDrawing, places: dict[int, Box]) -> float:
    """Draw as many blocks as fit side by side, and take them out of the list; returns where their row ends."""
    row = [blocks.pop(0)]
    width = row[0].width
    while blocks and width + blocks[0].width + GAP <= WIDTH:
        width += blocks[0].width + GAP
        row.append(blocks.pop(0))
    x = (WIDTH - width) / 2
    for block in row:
        block.draw(x, y, marked, made, places)
        x += block.width + GAP
    return y + max(block.height for block in row)


class _SwitchBlock(Record):
    """A switch with its hosts below; without a switch the hosts of which no cable is known."""

    switch: Node | None
    hosts: list[Node]
    few: bool
    most: int
    """Hosts side by side."""

    @property
    def columns(self) -> int:
        return max(min(len(self.hosts), self.most), 1)

    @property
    def pitch(self) -> tuple[float, float]:
        """Distance of hosts, across and down."""
        return (126.0, 40.0) if self.few else (11.0, 11.0)

    @property
    def width(self) -> float:
        return max(self.columns * self.pitch[0] + (0 if self.few else 8), 130.0 if self.few else 62.0)

    @property
    def height(self) -> float:
        rows = -(-len(self.hosts) // self.columns)
        return 26 + (30 if self.few and rows else 12) + rows * self.pitch[1]

    def draw(self, x: float, y: float, marked: Mapping[Port, Mark], made: SubnetDrawing, places: dict[int, Box]) -> None:
        across, down = self.pitch
        if self.switch is not None:
            width = min(self.width, 150.0)
            places[self.switch.slot] = _box(self.switch, x + (self.width - width) / 2, y, width, 26, marked)
        elif self.hosts:
            made.areas.append(Box(x, y, self.width, 26, "", "no cable known", "", None, True))
        inset = (self.width - self.columns * across) / 2
        top = y + 26 + (30 if self.few else 10)
        if self.hosts and not self.few:
            made.areas.append(Box(x + inset - 4, top - 4, self.columns * across + 5, self.height - 26 - 12 + 8, "", "", "", None))
        for i, host in enumerate(self.hosts):
            at = x + inset + i % self.columns * across, top + i // self.columns * down
            if self.few:
                places[host.slot] = _box(host, at[0] + 4, at[1], across - 8, 26, marked)
            else:
                made.boxes.append(_box(host, *at, 8, 8, marked, small=True))


def _box(node: Node, x: float, y: float, width: float, height: float, marked: Mapping[Port, Mark], *, small: bool = False) -> Box:
    name, kind = node_name(node), KINDS.get(node.kind, "unknown")
    mark = _worst(marked.get(port) for port in node.ports.values())
    lids = ", ".join(f"LID {port.lid}" for port in node.ports.values() if port.lid)
    title = ", ".join(part for part in (name, kind, lids, mark.text if mark is not None else "") if part)
    room = int((width - 8) / (LABEL if width >= 100 else SMALL))
    return Box(x, y, width, height, kind.replace("channel adapter", "ca"), "", title, mark, width < 100, "" if small else name, room)


def shortened(names: Iterable[str], room: int) -> dict[str, str]:
    """Names in at most `room` characters: cut where they do not differ, and of such places as near to the middle as can be."""
    every = list(dict.fromkeys(names))
    long, keep = [name for name in every if len(name) > room], max(room - 1, 2)
    if not long:
        return {name: name for name in every}

    def cut(head: int) -> dict[str, str]:
        return {name: f"{name[:head]}…{name[len(name) - (keep - head) :]}" if len(name) > room else name for name in every}

    return max((cut(head) for head in sorted(range(1, keep), key=lambda head: abs(head - keep / 2))), key=lambda cut: len({*cut.values()}))


def _label(boxes: Iterable[Box]) -> None:
    """Write the names into boxes, as far as they fit."""
    of_room = defaultdict[int, list[Box]](list)
    for box in boxes:
        if box.name:
            of_room[box.room].append(box)
    for room, some in of_room.items():
        labels = shortened((box.name for box in some), room)
        for box in some:
            box.label = labels[box.name]


def _worst(found: Iterable[Mark | None]) -> Mark | None:
    """Marks of several ports as one."""
    some = [mark for mark in found if mark is not None]
    if not some:
        return None
    worst = max(some, key=lambda mark: mark.rank)
    return Mark(worst.level, worst.rank, sum(mark.count for mark in some), {code: None for mark in some for code in mark.codes})


def _cable(one: Box, other: Box, pairs: Sequence[tuple[Port, Port]], marked: Mapping[Port, Mark]) -> Cable:
    upper, lower = (one, other) if one.y <= other.y else (other, one)
    mark = _worst(marked.get(port) for pair in pairs for port in pair)
    start, stop = (upper.middle, upper.y + upper.height), (lower.middle, lower.y)
    if upper.y == lower.y:
        stop = lower.middle, lower.y + lower.height
        path = f"M{start[0]:.0f},{start[1]:.0f} Q{(start[0] + stop[0]) / 2:.0f},{start[1] + 24:.0f} {stop[0]:.0f},{stop[1]:.0f}"
    else:
        path = f"M{start[0]:.0f},{start[1]:.0f} L{stop[0]:.0f},{stop[1]:.0f}"
    cables = "; ".join(f"{port_name(near)} to {port_name(far)}" for near, far in pairs[:8]) + ("; ..." if len(pairs) > 8 else "")
    label = f"×{len(pairs)}" if len(pairs) > 1 else ""
    title = cables + (f": {mark.text}" if mark is not None else "")
    return Cable(path, title, mark, label, (start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2)
