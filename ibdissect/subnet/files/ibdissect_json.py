"""The output of `ibdissect fabric --format json`, or another capture, as a subnet file. A capture is described as JSON first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.subnet import SWITCH
from ibdissect.subnet.describe import JOIN, KINDS, SM_STATES
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.nodes import SwitchFacts
from ibdissect.subnet.p_keys import BLOCK, block_of
from ibdissect.wire.numbers import MASTER, MULTICAST_LIDS

from . import file_facts
from .lines import GUIDS, NODE_PORTS, UNICAST_LIDS, gid, number

NUMBERS = {name: number for number, name in KINDS.items()}
SM_NUMBERS = {name: number for number, name in SM_STATES.items()}


def described(subnet: Any) -> Iterator[file_facts.FileFact]:
    """The facts of a description. Values that are not as `describe` writes them are ignored."""
    for node in _list(subnet, "nodes"):
        yield from _node(node)
    complete = subnet.get("complete") if isinstance(subnet, dict) else None
    if isinstance(complete, dict):
        yield file_facts.WholeFact(_int(complete, "frame"))
    for link in _list(subnet, "links"):
        ends = [file_facts.NamedPort(node=_guid(end, "node"), number=_int(end, "port", NODE_PORTS)) for end in _list(link, "ends")]
        if len(ends) == 2 and all(end.node for end in ends):
            yield file_facts.LinkFact(_int(link, "frame"), *ends)
    for sm in _list(subnet, "sms"):
        state = SM_NUMBERS.get(str(sm.get("state")), 0)
        if own := _guid(sm, "guid"):
            lid, priority = _int(sm, "lid", UNICAST_LIDS), _int(sm, "priority", range(16))
            yield file_facts.ManagerFact(_int(sm, "frame"), own, lid, priority, state, state == MASTER)
    for group in _list(subnet, "groups"):
        yield from _group(group)


def _node(node: dict[str, Any]) -> Iterator[file_facts.FileFact]:
    own, kind, line = _guid(node, "guid"), NUMBERS.get(str(node.get("kind")), 0), _int(node, "frame")
    if own:
        name = str(node.get("name") or "").encode("utf-8", "replace").decode()  # JSON may contain escaped halves of characters
        yield file_facts.NodeFact(
            line, own, kind, _int(node, "num_ports", NODE_PORTS), name, _guid(node, "system_image_guid"),
            _int(node, "device_id", range(1 << 16)), _int(node, "vendor_id", range(1 << 24)), _int(node, "partition_cap", range(1 << 16)),
        )  # fmt: skip
    switch_lid = 0
    for port in _list(node, "ports"):
        at, lid = _int(port, "number", NODE_PORTS), _int(port, "lid", UNICAST_LIDS)
        end = file_facts.NamedPort(_guid(port, "guid"), own, at, lid)
        switch_lid = lid if kind == SWITCH and at == 0 else switch_lid
        if kind == SWITCH and at:
            end = end._replace(guid=0)
        yield file_facts.PortFact(_int(port, "frame"), end, _int(port, "lmc", range(8)) if lid else -1)
        key = port.get("m_key")
        if isinstance(key, dict) and isinstance(key.get("value"), int):
            yield file_facts.MKeyFact(_int(key, "frame"), end, _int(key, "value", range(1 << 64)))
        for block in _list(port, "p_keys"):
            yield file_facts.TableFact(_int(block, "frame"), end, _int(block, "block", range(1024)), block_of(_entries(block)))
    switch = node.get("switch")
    if isinstance(switch, dict) and switch_lid:
        shown = SwitchFacts(*(_int(switch, name, range(1 << 16)) for name in SwitchFacts._fields))
        yield file_facts.SwitchFact(_int(switch, "frame"), switch_lid, shown, _int(switch, "linear_fdb_top", range(1 << 16)))
    tables = node.get("forwarding")
    if own and isinstance(tables, dict):
        for entry in _list(tables, "linear"):
            for lid in _ranges(str(entry.get("lids", ""))):
                yield file_facts.RouteFact(line, file_facts.NamedPort(own, own, 0), lid, _int(entry, "port", NODE_PORTS))
        for entry in _list(tables, "multicast"):
            ports = tuple(port for port in _values(entry, "ports") if isinstance(port, int) and port in NODE_PORTS)
            yield file_facts.MulticastFact(line, file_facts.NamedPort(own, own, 0), _int(entry, "lid", MULTICAST_LIDS), ports)


def _entries(block: dict[str, Any]) -> list[int]:
    """The entries of a block of a P_Key table, each where its index says; without indices one after the other."""
    keys = [key for key in _values(block, "keys") if isinstance(key, int) and 0 <= key < 1 << 16][:BLOCK]
    places = [index % BLOCK for index in _values(block, "indices") if isinstance(index, int)]
    if len(places) != len(keys):
        return keys
    entries = [0] * BLOCK
    for place, key in zip(places, keys, strict=True):
        entries[place] = key
    return entries


def _group(group: dict[str, Any]) -> Iterator[file_facts.FileFact]:
    mgid = gid(str(group.get("mgid", "")))
    if mgid is None:
        return
    mtu, rate, sl = (_int(group, name, range(256)) for name in ("mtu_code" if "mtu_code" in group else "mtu", "rate", "sl"))
    q_key = group.get("q_key")
    key = _int(q_key, "value", range(1 << 32)) if isinstance(q_key, dict) else 0
    shown = GroupFacts(_int(group, "mlid", MULTICAST_LIDS), _int(group, "p_key", range(1 << 16)), key, mtu, rate, sl)
    line = _int(group, "frame")
    yield file_facts.GroupFact(line, mgid, shown)
    for member in _list(group, "members"):
        port = gid(str(member.get("port_gid", "")))
        if port is not None:
            words = _values(member, "join_state")
            yield file_facts.GroupFact(_int(member, "frame"), mgid, shown, port, sum(bit for bit, word in JOIN.items() if word in words))


def _list(of: Any, name: str) -> list[dict[str, Any]]:
    return [one for one in _values(of, name) if isinstance(one, dict)]


def _values(of: Any, name: str) -> list[Any]:
    found = of.get(name) if isinstance(of, dict) else None
    return found if isinstance(found, list) else []


def _int(of: dict[str, Any], name: str, allowed: range = range(1 << 32)) -> int:
    value = of.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in allowed else 0


def _guid(of: dict[str, Any], name: str) -> int:
    return number(str(of.get(name)), GUIDS, 0) or 0


def _ranges(text: str) -> Iterator[int]:
    """The LIDs of `1-3,7`."""
    for part in text.split(","):
        low, _, high = part.partition("-")
        first, last = number(low, UNICAST_LIDS, 10), number(high or low, UNICAST_LIDS, 10)
        if first is not None and last is not None:
            yield from range(first, last + 1)
