"""The fabric screen: nodes, ports, partitions and subnet managers as plain lines, without keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Any

from ibdissect.decode.history import History
from ibdissect.engine.ports import BlockState
from ibdissect.subnet import SWITCH, Node, Port, Subnet
from ibdissect.subnet.describe import KINDS, SM_STATES, STATES, current_master, name_of, node_name, port_name
from ibdissect.subnet.file_lines import KnownFile, place_text
from ibdissect.subnet.forwarding_path import forwarding_path
from ibdissect.subnet.mixed_subnets import ADVICE
from ibdissect.subnet.model import Sm
from ibdissect.subnet.nodes import STATE_AT
from ibdissect.subnet.p_keys import keys_in
from ibdissect.subnet.switch_levels import Levels, levels
from ibdissect.wire.numbers import BASE, FULL, MASTER
from ibdissect.wire.text import counted, printable

from .ladder import short_ends

MAX_NODES = 5000
"""Nodes shown; the screen says if there are more."""


@dataclass(slots=True)
class FabricLine:
    """A line of the fabric tree, and the details that the right half shows when it is selected."""

    text: str
    note: str = ""
    """Quiet text at the end of the line."""
    kind: str = ""
    """`switch`, `ca`, `sm`, `port`, `down`, `partition`, ``: chooses the tint."""
    frame: int = 0
    """Frame that showed it; 0 if unknown."""
    details: list[tuple[str, str, int]] = field(default_factory=list)
    """(label, text, frame that showed it or 0)."""
    children: list[FabricLine] = field(default_factory=list)
    port: Port | None = None
    """The port that it stands for; for a node, one with a LID."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a frame showed."""

    frame: int
    who: str
    what: str
    """`Manager`, `LID`, `State`, `Link` or `P_Keys`."""
    text: str


@dataclass(slots=True)
class FabricView:
    """The subnet as lines, and how much there is of each kind."""

    entries: list[FabricLine]
    levels: Levels
    names: dict[int, str]
    """Short ones of the nodes in `levels`, by slot."""
    history: list[Change]
    """In the order of frames."""
    nodes: int = 0
    ports: int = 0
    sms: int = 0
    partitions: int = 0


def view_of(subnet: Subnet, files: Sequence[KnownFile] = (), packets: Mapping[int, int] = MappingProxyType({})) -> FabricView:
    """The subnet as it is known now; facts of one of the `files` name their line. `packets`: how many each LID sent."""
    view = _view(subnet, packets)
    view.history = [change for change in view.history if change.frame > 0]
    for entry in view.entries if files else ():
        _name_sources(entry, files)
    return view


def _name_sources(entry: FabricLine, files: Sequence[KnownFile]) -> None:
    entry.frame = max(entry.frame, 0)
    entry.details = [
        (label, text if frame >= 0 else f"{text}  ({printable(place_text(frame, files))})", max(frame, 0))
        for label, text, frame in entry.details
    ]
    for child in entry.children:
        _name_sources(child, files)


def _view(subnet: Subnet, packets: Mapping[int, int]) -> FabricView:
    partitions: dict[int, list[tuple[Port, bool, int]]] = {}
    found, history = levels(subnet, MAX_NODES), list[Change]()
    shown = [_node(node, partitions, packets, history) for node in found.nodes.values()]
    entries: list[FabricLine] = []
    mixed = subnet.contradictions
    if mixed.mixed:
        proof = [(f"Frame {frame}", f"contradicts {what}", frame) for what, frame in mixed.examples()]
        entries.append(FabricLine("Two subnets", "none is certain", frame=mixed.frame, details=[("Capture", ADVICE, mixed.frame), *proof]))
    managers = _managers(subnet, history)
    if managers:
        entries.append(FabricLine(f"Subnet managers ({len(managers)})", kind="sm", children=managers))
    if partitions:
        group = FabricLine(f"Partitions ({len(partitions)})", kind="partition")
        group.children = [_partition(number, members) for number, members in sorted(partitions.items())]
        entries.append(group)
    entries += shown
    if found.left_out:
        entries.append(FabricLine(f"{counted(found.left_out, 'further node')} not shown"))
    history.sort(key=lambda change: change.frame)
    names = {slot: node_name(node) for slot, node in found.nodes.items()}
    short = short_ends(names.values())
    names = {slot: short.get(name, name) for slot, name in names.items()}
    return FabricView(entries, found, names, history, len(subnet.slots), subnet.port_count, len(managers), len(partitions))


def route(start: Port, goal: Port) -> tuple[list[tuple[str, str, int]], list[int]]:
    """How packets get from one port to another by the forwarding tables: as details of the goal, and the slots of the nodes."""
    found, node = [("Route from", port_name(start), 0)], start.node
    slots = [node.slot]
    for port, frame in forwarding_path(start, goal):
        if port.peer is not None:
            found.append(("Route", f"{port_name(port)} → {port_name(port.peer)}", frame))
            node = port.peer.node
            slots.append(node.slot)
    if node is not goal.node:
        found.append(("Route", f"{node_name(node)}: no way to LID {goal.lid} is known" if goal.lid else "there is no LID to go to", 0))
    return found, slots


def _node(
    node: Node, partitions: dict[int, list[tuple[Port, bool, int]]], packets: Mapping[int, int], history: list[Change]
) -> FabricLine:  # fmt: skip
    kind = KINDS[node.kind].capitalize() if node.kind in KINDS and node.kind else "Node"
    lid = next((f"LID {port.lid}, " for port in node.ports.values() if port.lid), "")
    note = f"0x{node.guid:016x}" if name_of(node) else f"{lid}{kind.lower()}" if node.guid else ""
    entry = FabricLine(node_name(node), note, "switch" if node.kind == SWITCH else "ca", node.frame)
    entry.details = [("Node", f"{kind}, {node_name(node)}", node.frame)]
    if node.guid:
        entry.details += [
            ("NodeGUID", f"0x{node.guid:016x}", node.frame),
            ("SystemImageGUID", f"0x{node.system_guid:016x}", node.frame),
            ("VendorID, DeviceID", f"0x{node.vendor_id:06x}, 0x{node.device_id:04x}", node.frame),
            ("Ports", str(node.num_ports), node.frame),
            ("P_Keys a port", str(node.partition_cap), node.frame),
        ]
    entry.details += [(f"Sent from LID {port.lid}", counted(packets[port.lid], "packet", ","), 0)
                      for port in node.ports.values() if packets.get(port.lid)]  # fmt: skip
    switch, switch_frame = node.switch.now, node.switch.since
    if switch is not None:
        entry.details += [
            ("Linear FDB", f"{switch.linear_fdb_cap} entries, top {node.linear_top.now}", switch_frame),
            ("Multicast FDB", f"{switch.multicast_fdb_cap} entries", switch_frame),
            ("Enhanced port 0", "yes" if switch.enhanced_port_zero else "no", switch_frame),
        ]
    entry.children = [_port(port, partitions, history) for _, port in sorted(node.ports.items())]
    entry.port = max(node.ports.values(), key=lambda port: port.lid, default=None)
    return entry


def _port(port: Port, partitions: dict[int, list[tuple[Port, bool, int]]], history: list[Change]) -> FabricLine:
    state = STATES.get(port.state, "") if port.state else ""
    text = f"Port {port.number}" + (f"  LID {port.lid}" if port.lid else "")
    peer = f"→ {port_name(port.peer)}" if port.peer is not None else ""
    entry = FabricLine(text, "  ".join(part for part in (state, peer) if part), "down" if port.state == 1 else "port", port.info_frame)
    entry.details = [("Port", port_name(port), port.info_frame)]
    if port.guid:
        entry.details.append(("PortGUID", f"0x{port.guid:016x}", 0))
    if port.info is not None:
        info = port.info
        entry.details += [
            ("State", f"{state or port.state}", port.info_frame),
            ("LID, LMC", f"{info.lid}, {info.lmc}", port.info_frame),
            ("Master SM LID, SL", f"{info.master_sm_lid}, {info.master_smsl}", port.info_frame),
            ("GID prefix", f"0x{info.gid_prefix:016x}", port.info_frame),
            ("CapabilityMask", f"0x{info.capability_mask:08x}", port.info_frame),
        ]
    if port.peer is not None:
        entry.details.append(("Link to", port_name(port.peer), port.peer_frame))
    changes = [Change(frame, port_name(port), what, text) for what, text, frame in _changes(port)]
    entry.details += [(one.what, one.text, one.frame) for one in changes]
    history += changes
    entry.port = port
    if port.guard is not None and port.m_key is not None:
        key, protect, lease = port.m_key
        entry.details.append(("M_Key", f"{'set' if key else '0'}, protect bits {protect}, lease {lease} s", port.guard.held.since))
    if port.p_keys is not None:
        for key, frame in sorted(port.p_keys.members().items()):
            entry.details.append(("P_Key", f"0x{key:04x} {'full' if key & FULL else 'limited'}", frame))
            if port.is_endport:  # the tables of a switch's external ports only enforce
                partitions.setdefault(key & BASE, []).append((port, bool(key & FULL), frame))
    return entry


def _changes(port: Port) -> Iterator[tuple[str, str, int]]:
    """The changes of a port: its LID, its state, the port at the other end, its P_Keys. (what, text, frame) of each."""
    tracks: tuple[tuple[str, History[Any], Callable[[Any], str]], ...] = (  # Any: each track with what puts its values into words
        ("LID", port.lids, lambda lid: f"{lid[0]} (LMC {lid[1]})" if lid else "none"),
        ("State", port.infos, lambda body: STATES.get(body[STATE_AT] & 15, "?") if body else "uncertain"),
        ("Link", port.facing, lambda peer: port_name(peer) if peer is not None else "uncertain"),
    )
    for what, track, text_of in tracks:
        for (before, _), (after, frame) in pairwise((text_of(value), frame) for value, frame in track.values()):
            if before != after:
                yield what, f"{before} → {after}", frame
    for block in port.p_keys.blocks if port.p_keys is not None else ():
        yield from _edits(block)


def _edits(block: BlockState) -> Iterator[tuple[str, str, int]]:
    """What was written to a block of a P_Key table, and when."""
    before: set[int] | None = None
    for entries, frame in block.values():
        keys = {*keys_in(entries)} - {0} if entries is not None else None
        if keys is None:
            yield "P_Keys", "uncertain", frame
        elif before is not None:
            steps = [f"+0x{key:04x}" for key in sorted(keys - before)] + [f"-0x{key:04x}" for key in sorted(before - keys)]
            yield "P_Keys", " ".join(steps) or "as before", frame
        before = keys if keys is not None else before


def _managers(subnet: Subnet, history: list[Change]) -> list[FabricLine]:
    """Subnet managers that sent SMInfo, the present master first; without any, those that PortInfo names."""
    latest = current_master(subnet)
    known = sorted(subnet.sms.values(), key=lambda sm: (sm is not latest, sm.frame))
    named: dict[int, list[int]] = {}
    for port in subnet.ports():
        if port.info is not None and port.info.master_sm_lid:
            named.setdefault(port.info.master_sm_lid, []).append(port.info_frame)
    found = [_manager(sm, subnet, sm is latest, history) for sm in known]
    for lid, frames in sorted(named.items()):
        owner = subnet.by_lid(lid)
        if all(sm.now.lid != lid for sm in known) and not (owner is not None and owner.guid in subnet.sms):
            entry = FabricLine(
                node_name(owner.node) if owner is not None else f"LID {lid}", f"LID {lid}, as PortInfo says", "sm", min(frames)
            )
            entry.details = [("Subnet manager", entry.text, 0), ("LID", str(lid), min(frames)),
                             ("Known from", f"MasterSMLID of {counted(len(frames), 'port')}; no SMInfo was seen", min(frames))]  # fmt: skip
            found.append(entry)
    return found


def _manager(sm: Sm, subnet: Subnet, current: bool, history: list[Change]) -> FabricLine:
    port = subnet.by_lid(sm.now.lid) if sm.now.lid else None
    name = node_name(port.node) if port is not None else f"0x{sm.guid:016x}"
    state = SM_STATES.get(sm.now.state, f"state {sm.now.state}")
    if sm.now.state == MASTER and not current:
        state = f"was master until frame {sm.frame} at least"
    entry = FabricLine(name, f"{state}, priority {sm.now.priority}" + (f", LID {sm.now.lid}" if sm.now.lid else ""), "sm", sm.frame)
    entry.details = [
        ("Subnet manager", name, sm.frame), ("GUID", f"0x{sm.guid:016x}", sm.frame), ("State", state, sm.frame),
        ("Priority", str(sm.now.priority), sm.frame), ("LID", str(sm.now.lid), sm.frame),
    ]  # fmt: skip
    shown = ((one, frame) for one, frame in sm.facts.values() if one is not None)
    states = ((f"{SM_STATES.get(one.state, one.state)}, priority {one.priority}", frame) for one, frame in shown)
    changes = [Change(next(some)[1], name, "Manager", text) for text, some in groupby(states, lambda state: state[0])]
    entry.details += [("From here on", one.text, one.frame) for one in changes]
    entry.port = port
    history += changes
    return entry


def _partition(number: int, members: list[tuple[Port, bool, int]]) -> FabricLine:
    full = {port for port, is_full, _ in members if is_full}
    limited = {port for port, is_full, _ in members if not is_full} - full
    entry = FabricLine(f"0x{number:04x}", f"{len(full)} full, {len(limited)} limited", "partition", members[0][2])
    entry.details = [("Partition", f"0x{number:04x}", 0)]
    entry.details += [("full" if is_full else "limited", port_name(port), frame) for port, is_full, frame in members[:1000]]
    return entry
