"""The P_Key matrix: ports against ports by their P_Key tables, with forbidden traffic marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct as Record

from ibdissect.decode.addresses import End
from ibdissect.decode.history import AFTER_ALL
from ibdissect.lint.finding import Severity
from ibdissect.screen_model.findings_store import FindingsStore
from ibdissect.subnet import Port, Subnet
from ibdissect.subnet.describe import name_of, node_name, port_name
from ibdissect.subnet.switch_levels import natural
from ibdissect.wire.headers import BTH
from ibdissect.wire.numbers import BASE, FULL
from ibdissect.wire.text import counted

from .portrait import Portrait

ALONE = 24
"""Ports that have a line each; more are joined if their tables are equal."""
SHOWN = 48
"""Lines of the matrix."""
MAX_PACKETS = 20_000
"""Forbidden packets of a rule that are looked at."""
NAMED = 4
"""Partitions and ports named in a cell or line."""
Keys = frozenset[int]


class Cell(Record):
    """What one port may send to another, and what it did send."""

    sign: str
    text: str
    kind: str
    """`may`, `bad`, or empty."""


class PortsOfTable(Record):
    """Ports with the same table."""

    name: str
    keys: str
    cells: list[Cell]


class Matrix(Record):
    """Senders as lines, receivers as columns."""

    lines: list[PortsOfTable]
    ports: int
    left_out: int


def matrix(portrait: Portrait) -> Matrix | None:
    """The matrix of all ports whose tables are known; None if fewer than two are."""
    subnet = portrait.subnet
    keys = {port: table for port in subnet.ports() if (table := _keys(port))}
    if len(keys) < 2:
        return None
    groups = _grouped(keys)
    shown = groups[:SHOWN]
    place = {port: i for i, (ports, _) in enumerate(shown) for port in ports}
    forbidden, seen = Counter[tuple[int, int]](), set[tuple[int, int]]()
    for frame, ends in portrait.ends(_forbidden(portrait.model.findings)).items():
        near, far = (_at(subnet, end, frame, place) for end in ends)
        if near is not None and far is not None:
            forbidden[near, far] += 1
    for one in portrait.shot.conversations:
        near, far = (_at(subnet, end, AFTER_ALL, place) if isinstance(end, End) else None for end in (one.near, one.far))
        if near is not None and far is not None:
            seen |= {way for way, packets in zip(((near, far), (far, near)), one.packets, strict=True) if packets}
    lines = []
    for i, (ports, table) in enumerate(shown):
        cells = [_cell(table, other, forbidden[i, j], (i, j) in seen) for j, (_, other) in enumerate(shown)]
        if len(ports) == 1:
            cells[i] = Cell("", "itself", "")
        lines.append(PortsOfTable(_title(ports), _listed(sorted(table)), cells))
    return Matrix(lines, len(keys), len(groups) - len(shown))


def _forbidden(findings: FindingsStore) -> Iterator[int]:
    """Frames of packets whose P_Key is at fault, at most MAX_PACKETS."""
    for group in findings.rules():
        if group.code.startswith("PKY") and group.severity is not Severity.INFO and group.first.field == BTH.p_key.filter_name:
            yield from map(findings.frame, group.places[:MAX_PACKETS].tolist())


def _keys(port: Port) -> Keys:
    """The P_Keys of the end of a cable or of a switch's own port; empty where no table is known."""
    held = port.p_keys
    if held is None or not port.node.alive or not port.is_endport:
        return frozenset()
    found = held.keys(AFTER_ALL)[0] if held.blocks else held.intended.keys if held.intended is not None else ()
    return frozenset(key for key in found if key & BASE)


def _grouped(keys: Mapping[Port, Keys]) -> list[tuple[list[Port], Keys]]:
    ports = sorted(keys, key=lambda port: (natural(name_of(port.node)), port.node.guid, port.number))
    if len(ports) <= ALONE:
        return [([port], keys[port]) for port in ports]
    groups: dict[Keys, list[Port]] = {}
    for port in ports:
        groups.setdefault(keys[port], []).append(port)
    return sorted(((members, table) for table, members in groups.items()), key=lambda group: -len(group[0]))


def _at(subnet: Subnet, end: End, frame: int, place: Mapping[Port, int]) -> int | None:
    port = subnet.owner(end.lid, frame)[0] if end.lid is not None else None
    return place.get(port) if port is not None else None


def _title(ports: Sequence[Port]) -> str:
    if len(ports) == 1:
        return port_name(ports[0]) + (f" (LID {ports[0].lid})" if ports[0].lid else "")
    names = ", ".join(node_name(port.node) for port in ports[:2])
    return f"{len(ports)} ports: {names}" + (", ..." if len(ports) > 2 else "")


def _listed(keys: Sequence[int]) -> str:
    names = [f"0x{key & BASE:04x} {'full' if key & FULL else 'limited'}" for key in keys[:NAMED]]
    return ", ".join(names) + (f" and {len(keys) - NAMED} more" if len(keys) > NAMED else "")


def _cell(sender: Keys, receiver: Keys, forbidden: int, seen: bool) -> Cell:
    shared = sorted({key & BASE for key in sender for other in receiver if (key ^ other) & BASE == 0 and (key | other) & FULL})
    names = ", ".join(f"0x{base:04x}" for base in shared[:NAMED]) + (" and more" if len(shared) > NAMED else "")
    if forbidden:
        return Cell("✕", f"forbidden: {counted(forbidden, 'packet')}" + (f"; allowed in {names}" if shared else ""), "bad")
    if shared:
        return Cell("●" if seen else "○", f"allowed in {names}" + (", and sent" if seen else ""), "may")
    return Cell("", "not allowed", "")
