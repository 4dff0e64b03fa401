"""Differences between two descriptions of a subnet: ports, cables, LIDs, members, routes.

A port is identified by its GUID, a cable by the node GUIDs and port numbers of its ends. Facts that one side lacks are not changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ibdissect.decode.history import AFTER_ALL
from ibdissect.subnet import Port, Subnet
from ibdissect.subnet.describe import guid, name_of
from ibdissect.subnet.file_lines import is_doubtful
from ibdissect.subnet.p_keys import BLOCK, PKeys, keys_in
from ibdissect.subnet.topology import links
from ibdissect.wire.numbers import BASE, MASTER
from ibdissect.wire.text import counted, gid_text

Change = Any
"""A JSON object; a cable is a list of its two ends."""
Cable = tuple[tuple[int, int], tuple[int, int]]


def changes(before: Subnet, after: Subnet) -> dict[str, list[Change]]:
    """Changes by kind, each a list of JSON objects; empty lists for what did not change."""
    was, now = _ports(before), _ports(after)
    both = [(was[one], now[one]) for one in sorted(was.keys() & now.keys())]
    found = {
        "new_nodes": [_node(after, one) for one in sorted(after.nodes.keys() - before.nodes.keys())],
        "gone_nodes": [_node(before, one) for one in sorted(before.nodes.keys() - after.nodes.keys())],
        "new_ports": [_port(now[one]) for one in sorted(now.keys() - was.keys())],
        "gone_ports": [_port(was[one]) for one in sorted(was.keys() - now.keys())],
        "moved": [change for pair in both for change in _moved(*pair)],
        "lid_changed": [change for pair in both for change in _lids(*pair)],
        "pkeys_changed": [change for pair in both for change in _p_keys(*pair)],
        "m_keys_changed": list(_m_keys(both)),
    }
    old, new = _cables(before), _cables(after)
    if old and new:
        found["links_gone"] = [_cable(before, cable) for cable in sorted(old - new)]
        found["links_new"] = [_cable(after, cable) for cable in sorted(new - old)]
    found["partitions_new"], found["partitions_gone"] = _partitions(was, now), _partitions(now, was)
    found["routes_changed"] = list(_routes(before, after))
    found["managers_changed"] = list(_managers(before, after))
    found["groups_changed"] = list(_groups(before, after))
    return found


def _ports(subnet: Subnet) -> dict[int, Port]:
    """Ports of adapters and routers, and port 0 of switches, by GUID."""
    return {port.guid: port for port in subnet.ports() if port.guid and port.is_endport}


def _identity(port: Port) -> Change:
    return {"port_guid": guid(port.guid), "name": name_of(port.node), "port": port.number}


def _node(subnet: Subnet, node_guid: int) -> Change:
    node = subnet.nodes[node_guid]
    return {"node_guid": guid(node_guid), "name": name_of(node)}


def _port(port: Port) -> Change:
    base, lmc = port.lids.now or (0, 0)
    entry: Change = {"port_guid": guid(port.guid), "node": name_of(port.node), "port": port.number, "lid": base or None, "lmc": lmc}
    keys = known_p_keys(port)
    return {**entry, "pkeys": None if keys is None else [f"0x{key:04x}" for key in sorted(keys[0])], "at": _at(port)}


def _at(port: Port) -> Change | None:
    """The switch port at the other end of a port's cable."""
    peer = port.peer
    if peer is None or not peer.node.guid:
        return None
    return {"switch": name_of(peer.node), "switch_guid": guid(peer.node.guid), "port": peer.number}


def _moved(was: Port, now: Port) -> Iterator[Change]:
    old, new = _at(was), _at(now)
    if old and new and (old["switch_guid"], old["port"]) != (new["switch_guid"], new["port"]):
        yield {**_identity(now), "before": old, "after": new}


def _lids(was: Port, now: Port) -> Iterator[Change]:
    if was.lid and now.lid and was.lid != now.lid:
        yield {**_identity(now), "before": was.lid, "after": now.lid}


def known_p_keys(port: Port, blocks: set[int] | None = None) -> tuple[set[int], set[int]] | None:
    """The P_Keys of a port and the blocks of its table that are known, none if only a file says what it should hold; None if nothing
    certain is known."""
    table = port.p_keys
    if table is None:
        return None
    if table.blocks:
        known = {block.number for block in table.blocks if block.now is not None and not is_doubtful(block.since)}
        some = known if blocks is None else known & blocks
        keys = {key for block in table.blocks if block.number in some for key in keys_in(block.now)}
        return ({key for key in keys if key & BASE}, known) if known else None
    intended = table.intended
    if intended is None or any(map(is_doubtful, intended.keys.values())):
        return None
    return set(intended.keys), set()


def _p_keys(was: Port, now: Port) -> Iterator[Change]:
    """Changes of P_Key tables, in the blocks that both sides know."""
    old, new = known_p_keys(was), known_p_keys(now)
    if old is not None and new is not None and _from_table(was.p_keys) and _from_table(now.p_keys):
        both = old[1] & new[1]
        old, new = known_p_keys(was, both), known_p_keys(now, both)
    if old is not None and new is not None and old[0] != new[0]:
        removed, added = ([f"0x{key:04x}" for key in sorted(one)] for one in (old[0] - new[0], new[0] - old[0]))
        yield {**_identity(now), "lid_after": now.lid or None, "removed": removed, "added": added}


def _whole_table(port: Port) -> set[int] | None:
    """The P_Keys of a port; None if a block of its table is unknown. A table of unknown size is taken for one block."""
    known = known_p_keys(port)
    size = (port.p_key_capacity(AFTER_ALL) or BLOCK) if _from_table(port.p_keys) else 0
    return known[0] if known is not None and known[1].issuperset(range(-(-size // BLOCK))) else None


def _from_table(table: PKeys | None) -> bool:
    return table is not None and bool(table.blocks)


def _m_keys(both: list[tuple[Port, Port]]) -> Iterator[Change]:
    """Ports with another M_Key. Keys are shown as numbers; 0 means none."""
    numbers: dict[int, int] = {}
    for was, now in both:
        old, new = was.m_key, now.m_key
        if old is not None and new is not None and old.key != new.key:
            names = [f"M_Key#{numbers.setdefault(key, len(numbers) + 1)}" if key else "none" for key in (old.key, new.key)]
            yield {**_identity(now), "before": names[0], "after": names[1]}


def _cables(subnet: Subnet) -> set[Cable]:
    found = set()
    for near, far in links(subnet):
        if near.node.guid and far.node.guid:
            ends = sorted(((near.node.guid, near.number), (far.node.guid, far.number)))
            found.add((ends[0], ends[1]))
    return found


def _cable(subnet: Subnet, cable: Cable) -> list[Change]:
    """Both ends, the one with the lower GUID first."""
    return [{**_node(subnet, node), "port": number} for node, number in cable]


def _partitions(was: dict[int, Port], now: dict[int, Port]) -> list[Change]:
    """Partitions that have members now but had none, if the tables of all ports were known before."""
    tables = [_whole_table(port) for port in was.values()]
    if not tables or None in tables:
        return []
    before = {key & BASE for table in tables for key in table or ()}
    after = {key & BASE for port in now.values() if (table := known_p_keys(port)) is not None for key in table[0]}
    return [{"partition": f"0x{number:04x}"} for number in sorted(after - before)]


def _routes(before: Subnet, after: Subnet) -> Iterator[Change]:
    """LIDs that each switch now forwards to another port."""
    for one in sorted(before.nodes.keys() & after.nodes.keys()):
        old, new = (node.forwarding for node in (before.nodes[one], after.nodes[one]))
        if old is None or new is None or not len(old.linear) or not len(new.linear):
            continue
        was, now = dict(old.linear.entries()), dict(new.linear.entries())
        moved = [
            {"lid": lid, "before": was.get(lid), "after": now.get(lid)}
            for lid in sorted(was.keys() | now.keys())
            if was.get(lid) != now.get(lid)
        ]
        if moved:
            yield {**_node(after, one), "lids": moved}


def _managers(before: Subnet, after: Subnet) -> Iterator[Change]:
    old, new = ({sm.guid for sm in subnet.sms.values() if sm.now.state == MASTER} for subnet in (before, after))
    if old and new and old != new:
        yield {"before": [guid(one) for one in sorted(old)], "after": [guid(one) for one in sorted(new)]}


def _groups(before: Subnet, after: Subnet) -> Iterator[Change]:
    """Multicast groups that appeared or disappeared, and members that joined or left, if both sides know groups."""
    old, new = before.groups.by_mgid, after.groups.by_mgid
    if not old or not new:
        return
    for mgid in sorted(old.keys() | new.keys()):
        was, now = old.get(mgid), new.get(mgid)
        if was is None or now is None:
            yield {"mgid": gid_text(mgid), "what": "new" if was is None else "gone"}
        elif was.members and now.members and was.members.keys() != now.members.keys():
            joined, left = (
                [gid_text(one) for one in sorted(ones)]
                for ones in (now.members.keys() - was.members.keys(), was.members.keys() - now.members.keys())
            )
            yield {"mgid": gid_text(mgid), "what": "members", "joined": joined, "left": left}


def texts(found: dict[str, list[Change]]) -> Iterator[str]:
    """The changes as lines: `+` added, `-` removed, `~` changed."""
    for kind, lines in _LINES.items():
        for change in found.get(kind, ()):
            yield lines(change)


def _named(change: Change) -> str:
    return f"{change.get('name') or change.get('node') or '?'} port {change['port']} ({change['port_guid']})"


def _where(at: Change | None) -> str:
    return f"{at['switch'] or at['switch_guid']} port {at['port']}" if at else "an unknown switch"


def _ends(ends: Any) -> str:
    return " and ".join(f"{end['name'] or end['node_guid']} port {end['port']}" for end in ends)


def _keyed(change: Change) -> str:
    parts = [f"lost {' '.join(change['removed'])}"] * bool(change["removed"]) + [f"got {' '.join(change['added'])}"] * bool(change["added"])
    return f"~ P_Keys  {_named(change)} {', '.join(parts)}"


def _group_line(change: Change) -> str:
    if change["what"] != "members":
        return f"{'+' if change['what'] == 'new' else '-'} group  {change['mgid']}"
    parts = [f"{len(change[word])} {word}" for word in ("joined", "left") if change[word]]
    return f"~ group  {change['mgid']}: {', '.join(parts)}"


_LINES: dict[str, Callable[[Change], str]] = {
    "new_nodes": lambda one: f"+ node  {one['name'] or '?'} ({one['node_guid']})",
    "gone_nodes": lambda one: f"- node  {one['name'] or '?'} ({one['node_guid']})",
    "new_ports": lambda one: f"+ port  {_named(one)} LID {one['lid'] or '?'} at {_where(one['at'])}",
    "gone_ports": lambda one: f"- port  {_named(one)} LID {one['lid'] or '?'} at {_where(one['at'])}",
    "moved": lambda one: f"~ cable  {_named(one)} moved from {_where(one['before'])} to {_where(one['after'])}",
    "lid_changed": lambda one: f"~ LID  {_named(one)} had {one['before']}, has {one['after']}",
    "pkeys_changed": _keyed,
    "partitions_new": lambda one: f"+ partition  {one['partition']}",
    "partitions_gone": lambda one: f"- partition  {one['partition']}",
    "m_keys_changed": lambda one: f"~ M_Key  {_named(one)} had {one['before']}, has {one['after']}",
    "links_gone": lambda one: f"- link  {_ends(one)}",
    "links_new": lambda one: f"+ link  {_ends(one)}",
    "routes_changed": lambda one: f"~ routes  {one['name'] or one['node_guid']}: {counted(len(one['lids']), 'LID')}",
    "managers_changed": lambda one: f"~ master SM  was {', '.join(one['before'])}, is {', '.join(one['after'])}",
    "groups_changed": _group_line,
}
KINDS = tuple(_LINES)
