"""The subnet as plain data, for `ibdissect fabric`, each fact with the frame it was learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ibdissect.decode.history import AFTER_ALL
from ibdissect.wire.convert import RATE_GBPS, decode_text
from ibdissect.wire.names import LINK_SPEED, LINK_SPEED_EXT, LINK_WIDTH, MTU, NODE_TYPE, PORT_PHYSICAL_STATE, PORT_STATE, VL_CAP
from ibdissect.wire.numbers import BASE, FULL, MASTER
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.text import gid_text, printable, runs

from .file_lines import KnownFile, is_doubtful, place_text
from .model import Sm, Subnet
from .multicast_groups import GroupFacts, MulticastGroup
from .nodes import SWITCH, Node, Port
from .p_keys import BLOCK, keys_in
from .roce_network import RoceNetwork
from .topology import links

KINDS = {0: "unknown", **{kind: name.lower() for kind, name in NODE_TYPE.items()}}
STATES = {**PORT_STATE, 0: "unknown"}
SM_STATES = {0: "not active", 1: "discovering", 2: "standby", MASTER: "master"}
JOIN = {1: "full member", 2: "non-member", 4: "send-only non-member", 8: "send-only full member"}
RECORD = ("mlid", "p_key", "q_key", "mtu", "mtu_code", "rate", "rate_gbps", "sl")
"""What an MCMemberRecord says of a group; null where only members are known."""
KeyText = Callable[[str, int], str | None]
"""(kind, value) -> text for a masked key; None to show the value."""


def describe(subnet: Subnet, key_text: KeyText, files: Sequence[KnownFile] = ()) -> dict[str, Any]:
    """All that is known, as JSON types: GUIDs and GIDs as text, LIDs and P_Keys as numbers.

    A fact of one of the `files` has frame 0 and a `source`, its line.
    """
    nodes = sorted(subnet.slots.values(), key=lambda node: (node.kind != SWITCH, node.guid, node.slot))
    counts = {name: sum(node.kind == kind for node in nodes) for kind, name in KINDS.items()}
    described = {
        "counts": {
            "switches": counts["switch"], "channel_adapters": counts["channel adapter"], "routers": counts["router"],
            "unknown_nodes": counts["unknown"], "ports": subnet.port_count, "links": sum(1 for _ in links(subnet)),
            "lids": sum(1 for lid in subnet.lids if subnet.by_lid(lid) is not None),
        },
        "complete": _complete(subnet),
        "sms": _managers(subnet),
        "nodes": [_node(node, key_text) for node in nodes],
        "links": [{"ends": [_end(near), _end(far)], "frame": near.peer_frame} for near, far in links(subnet)],
        "lids": [
            {"lid": lid, "node": guid(port.node.guid), "port": _number(port), "frame": track.since}
            for lid, track in sorted(subnet.lids.items())
            if (port := track.now) is not None and port.node.alive
        ],
        "partitions": _partitions(subnet),
        "groups": [_group(group, key_text) for group in sorted(subnet.groups.by_mgid.values(), key=_place)],
    }  # fmt: skip
    if subnet.roce.lines or subnet.roce.hosts:
        described["roce"] = _roce(subnet.roce)
    if files:
        _name_sources(described, files)
    return described


def _complete(subnet: Subnet) -> dict[str, int] | None:
    """Since when the LIDs of all ports are known, by a whole sweep or by files that list them; None: ports may be missing."""
    if subnet.contradictions.mixed:
        return None
    whole, frame = subnet.swept(AFTER_ALL)
    if not whole:
        frame = 0 if is_doubtful(subnet.listed) else subnet.listed
    return {"frame": frame} if frame else None


def _roce(network: RoceNetwork) -> dict[str, Any]:
    from ipaddress import IPv6Address  # most captures need no such module

    def value(name: str) -> Any:
        found = getattr(network, name.replace("-", "_"))
        return sorted(found) if isinstance(found, frozenset) else found

    return {
        "settings": [{"name": name, "value": value(name), "frame": line} for name, line in network.lines.items()],
        "hosts": [
            {"address": str(address.ipv4_mapped or address), "name": host.name, "vlans": sorted(host.vlans), "frame": host.line}
            for address, host in ((IPv6Address(packed), host) for packed, host in network.hosts.items())
        ],
    }


def _name_sources(value: Any, files: Sequence[KnownFile]) -> None:
    if isinstance(value, list):
        for one in value:
            _name_sources(one, files)
    elif isinstance(value, dict):
        if value.get("frame", 0) < 0:
            value["source"] = place_text(value["frame"], files)
            value |= {name: 0 for name in ("frame", "last_seen") if name in value}
        for one in list(value.values()):
            _name_sources(one, files)


def guid(value: int) -> str | None:
    """A GUID as text; None if unknown (0)."""
    return f"0x{value:016x}" if value else None


def name_of(node: Node) -> str:
    """NodeDescription as it is, without the zeros that fill it up, as printable text."""
    return printable(decode_text(node.name))


def node_name(node: Node) -> str:
    """NodeDescription, else the GUID, else its LID."""
    lid = next((port.lid for port in node.ports.values() if port.lid), 0)
    return name_of(node).strip() or (f"0x{node.guid:016x}" if node.guid else f"LID {lid}, no NodeInfo" if lid else "node without NodeInfo")


def port_name(port: Port) -> str:
    """`host07 HCA-1 port 1`; a switch's own port has no number."""
    return node_name(port.node) + (f" port {port.number}" if port.number else "")


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as text: `1-3,7`."""
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs(numbers))


def width_of(info: PortInfo) -> str | None:
    """LinkWidthActive as `4x`; None if it is no width."""
    return LINK_WIDTH.get(info.link_width_active)


def speed_of(info: PortInfo) -> str | None:
    """The active speed of a lane as `EDR`: the extended one, if the link uses it; None if it is no speed."""
    known = LINK_SPEED_EXT.get(info.link_speed_ext_active) or LINK_SPEED.get(info.link_speed_active)
    return known.partition("(")[2].rstrip(")") if known is not None else None


def mtu_of(code: int) -> int | None:
    """The bytes of an MTU code; None if it is none."""
    return int(MTU[code]) if code in MTU else None


def _end(port: Port) -> dict[str, Any]:
    return {"node": guid(port.node.guid), "name": _name(port.node), "port": _number(port)}


def _name(node: Node) -> str | None:
    """NodeDescription; None if nobody showed it."""
    return name_of(node) if node.name else None


def _number(port: Port) -> int | None:
    """The number of a port; None if that is not known: 0 is the own port of a switch, and nobody showed what the node is."""
    return port.number if port.number or port.node.kind else None


def _key(kind: str, value: int, key_text: KeyText, digits: int = 16) -> dict[str, Any]:
    text = key_text(kind, value)
    return {"value": value, "text": f"0x{value:0{digits}x}"} if text is None else {"value": None, "text": text}


def _managers(subnet: Subnet) -> list[dict[str, Any]]:
    """The subnet managers; of several that called themselves master, only the one that did so last is the current one."""
    current = current_master(subnet)
    return [_manager(subnet, sm, former=sm.now.state == MASTER and sm is not current) for sm in subnet.sms.values()]


def current_master(subnet: Subnet) -> Sm | None:
    """The subnet manager that said last that it is the master; None if none did."""
    return max((sm for sm in subnet.sms.values() if sm.now.state == MASTER), key=lambda sm: sm.frame, default=None)


def _manager(subnet: Subnet, sm: Sm, *, former: bool) -> dict[str, Any]:
    owner = subnet.by_lid(sm.now.lid)
    return {
        "guid": guid(sm.guid), "lid": sm.now.lid, "state": SM_STATES.get(sm.now.state, str(sm.now.state)), "priority": sm.now.priority,
        "frame": sm.at(sm.frame)[1],
        "last_seen": sm.frame, "former": former, "state_code": sm.now.state,
        "node": _name(owner.node) if owner is not None else None,
    }  # fmt: skip


def _node(node: Node, key_text: KeyText) -> dict[str, Any]:
    found: dict[str, Any] = {
        "guid": guid(node.guid), "kind": KINDS.get(node.kind, "unknown"), "name": _name(node),
        "system_image_guid": guid(node.system_guid),
        "vendor_id": node.vendor_id or None, "device_id": node.device_id or None, "num_ports": node.num_ports or None,
        "partition_cap": node.partition_cap or None,
        "frame": node.frame, "ports": [_port(port, key_text) for _, port in sorted(node.ports.items())],
    }  # fmt: skip
    if node.switch.now is not None:
        found["switch"] = {
            **{name: int(value) for name, value in node.switch.now._asdict().items()},
            "linear_fdb_top": node.linear_top.now, "port_state_change": int(node.port_state_change), "frame": node.switch.since,
        }  # fmt: skip
    if node.forwarding is not None:
        tables = node.forwarding
        by_port: dict[int, list[int]] = {}
        for lid, port in tables.linear.entries():
            by_port.setdefault(port, []).append(lid)
        found["forwarding"] = {
            "linear": [{"port": port, "lids": ranges(lids), "count": len(lids)} for port, lids in sorted(by_port.items())],
            "linear_blocks": [{"block": block, "frame": frame} for block, frame in enumerate(tables.linear.frames) if frame],
            "random": [
                {"block": block, "entries": entries.hex(), "frame": frame} for block, (entries, frame) in sorted(tables.random.items())
            ],
            "multicast": [{"lid": lid, "ports": list(ports)} for lid, ports in tables.routes()],
        }
    return found


def _port(port: Port, key_text: KeyText) -> dict[str, Any]:
    found: dict[str, Any] = {"number": _number(port), "guid": guid(port.guid), "state": STATES.get(port.state, str(port.state))}
    info = port.info
    if info is not None:
        found |= {
            "frame": port.info_frame, "physical_state": info.port_physical_state, "master_sm_lid": info.master_sm_lid,
            "capability_mask": info.capability_mask, "capability_mask2": info.capability_mask2, "gid_prefix": f"0x{info.gid_prefix:016x}",
            "neighbor_mtu": mtu_of(info.neighbor_mtu), "operational_vls": info.operational_vls,
            "link_width_active": info.link_width_active, "link_speed_active": info.link_speed_active,
            "link_speed_ext_active": info.link_speed_ext_active,
            "state_code": port.state, "neighbor_mtu_code": info.neighbor_mtu,
            "physical_state_name": PORT_PHYSICAL_STATE.get(info.port_physical_state),
            "operational_vls_name": VL_CAP.get(info.operational_vls), "link_width": width_of(info), "link_speed": speed_of(info),
        }  # fmt: skip
    if port.lids.now is not None:
        found |= {"lid": port.lids.now[0], "lmc": port.lids.now[1]}
    if port.lids.past or port.lids.now is not None:
        history = [*port.lids.past, (port.lids.now, port.lids.since)]
        found["lid_history"] = [{"lid": now[0] if now else None, "lmc": now[1] if now else None, "frame": since} for now, since in history]
    if port.peer is not None:
        found["peer"] = {**_end(port.peer), "frame": port.peer_frame}
    if port.guard is not None and port.guard.held.now is not None:
        key, protect, lease = port.guard.held.now
        found["m_key"] = {
            **_key("M_Key", key, key_text), "protect_bits": protect, "lease_period": lease, "frame": port.guard.held.since,
        }  # fmt: skip
    if port.p_keys is not None and port.p_keys.blocks:
        found["p_keys"] = [
            {
                "block": block.number,
                "frame": block.since,
                "keys": [key for key in keys_in(block.now) if key & BASE],
                "indices": [block.number * BLOCK + i for i, key in enumerate(keys_in(block.now)) if key & BASE],
            }
            for block in sorted(port.p_keys.blocks, key=lambda block: block.number)
            if block.now is not None
        ]
    elif port.p_keys is not None and port.p_keys.intended is not None:
        found["intended_p_keys"] = [{"key": key, "frame": line} for key, line in port.p_keys.members().items()]
    if port.qos is not None:
        maps = {number: table.hex() for number in port.qos.numbers() if (table := port.qos.map(number)) is not None}
        found["qos"] = {"sl_to_vl": maps, "vl_arbitration": [half.hex() or None for half in port.qos.arbitration], "frame": port.qos.frame}
    return found


def _partitions(subnet: Subnet) -> list[dict[str, Any]]:
    """The end ports of each partition. The tables of a switch's external ports only enforce: they make nobody a member."""
    found: dict[int, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for port in subnet.ports():
        for key, frame in port.p_keys.members().items() if port.p_keys is not None else ():
            members, enforced = found.setdefault(key & BASE, ([], []))
            (members if port.is_endport else enforced).append({**_end(port), "full": bool(key & FULL), "frame": frame})
    return [{"partition": number, "members": members, "enforced_at": enforced} for number, (members, enforced) in sorted(found.items())]


def _place(group: MulticastGroup) -> tuple[int, bytes]:
    return group.facts.now.mlid if group.facts.now is not None else 0, group.mgid


def _group(group: MulticastGroup, key_text: KeyText) -> dict[str, Any]:
    facts = group.facts.now
    return {
        "mgid": gid_text(group.mgid), "frame": group.facts.since,
        **(_record(facts, key_text) if facts is not None else dict.fromkeys(RECORD)),
        "members": [
            {"port_gid": gid_text(gid), "join_state": [name for bit, name in JOIN.items() if state & bit], "frame": frame}
            for gid, (state, frame) in group.members.items()
        ],
    }  # fmt: skip


def _record(facts: GroupFacts, key_text: KeyText) -> dict[str, Any]:
    return {
        "mlid": facts.mlid, "p_key": facts.p_key, "q_key": _key("Q_Key", facts.q_key, key_text, 8) if facts.q_key else None,
        "mtu": mtu_of(facts.mtu), "mtu_code": facts.mtu, "rate": facts.rate, "rate_gbps": RATE_GBPS.get(facts.rate), "sl": facts.sl,
    }  # fmt: skip
