"""A subnet written for other tools: partitions.conf, the topology file of ibnetdiscover."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.subnet import CA, ROUTER, SWITCH, Node, Port, Subnet
from ibdissect.subnet.describe import name_of, speed_of, width_of
from ibdissect.wire.numbers import BASE, FULL

from ..compare import known_p_keys
from .partitions_conf import DEFAULT

KINDS = {CA: ("Ca", "H", "caguid"), SWITCH: ("Switch", "S", "switchguid"), ROUTER: ("Rt", "R", "rtguid")}


def partitions_conf(subnet: Subnet) -> Iterator[str]:
    """Partitions and members according to the P_Key tables of the ports. Partition names are invented: no table holds them."""
    members: dict[int, dict[int, set[int]]] = {}
    ports = [port for port in subnet.ports() if port.guid and port.is_endport]
    named = {port.guid: name_of(port.node) for port in ports}
    outside = []
    for port in ports:
        known = known_p_keys(port)
        for key in known[0] if known is not None else ():
            members.setdefault(key & BASE, {}).setdefault(port.guid, set()).add(key & FULL)
        if known is not None and not any(key & BASE == DEFAULT for key in known[0]):
            outside.append(port.guid)
    if any(len(forms) == 2 for of in members.values() for forms in of.values()):
        yield "# needs allow_both_pkeys TRUE in opensm.conf"
    for guid in sorted(outside):
        yield f"# 0x{guid:016x} has not got the default partition, which opensm gives to every port"
    for number, of in sorted(members.items(), key=lambda one: (one[0] != DEFAULT, one[0])):
        yield f"{'Default' if number == DEFAULT else f'Partition_{number:04x}'}=0x{number:04x} :"
        for i, (guid, forms) in enumerate(sorted(of.items()), 1):
            word = "both" if len(forms) == 2 else "full" if FULL in forms else "limited"
            yield f"        0x{guid:016x}={word}{' ;' if i == len(of) else ','}    # {named[guid]}"


def ibnetdiscover(subnet: Subnet) -> Iterator[str]:
    """The topology file: a block per node, a line per known cable, with width and speed if they are known."""
    yield from ("#", "# Topology file: written by ibdissect", "#")
    nodes = [node for node in subnet.nodes.values() if node.kind in KINDS]
    for node in sorted(nodes, key=lambda node: (node.kind != SWITCH, node.guid)):
        word, letter, attribute = KINDS[node.kind]
        own = node.ports.get(0)
        yield from ("", f"vendid=0x{node.vendor_id:x}", f"devid=0x{node.device_id:x}", f"sysimgguid=0x{node.system_guid or node.guid:x}")
        yield f"{attribute}=0x{node.guid:x}" + (f"({own.guid or node.guid:x})" if own is not None and node.kind == SWITCH else "")
        head = f'{word}\t{node.num_ports} "{letter}-{node.guid:016x}"\t\t# "{name_of(node)}"'
        yield head + (f" {'enhanced' if _enhanced(node) else 'base'} port 0 {_lid(own)}" if node.kind == SWITCH else "")
        for number, port in sorted(node.ports.items()):
            peer = port.peer
            if peer is not None and peer.node.kind in KINDS and (number or node.kind != SWITCH):
                yield _line(port, peer)


def _line(port: Port, peer: Port) -> str:
    far = f'"{KINDS[peer.node.kind][1]}-{peer.node.guid:016x}"[{peer.number}]'
    owner = peer.node.ports.get(0) if peer.node.kind == SWITCH else peer
    lid = owner.lid if owner is not None else 0
    if port.node.kind == SWITCH:
        guid = f"({peer.guid:x}) " if peer.node.kind != SWITCH else ""
        return f'[{port.number}]\t{far}{guid}\t\t# "{name_of(peer.node)}" lid {lid}{_rate(port)}'
    return f'[{port.number}]({port.guid:x}) \t{far}\t\t# {_lid(port)} "{name_of(peer.node)}" lid {lid}{_rate(port)}'


def _rate(port: Port) -> str:
    """` 4xEDR`; empty if width or speed is not known."""
    info = port.info
    width, speed = (width_of(info), speed_of(info)) if info is not None else (None, None)
    return f" {width}{speed}" if width and speed else ""


def _lid(port: Port | None) -> str:
    base, lmc = port.lids.now or (0, 0) if port is not None else (0, 0)
    return f"lid {base} lmc {lmc}"


def _enhanced(node: Node) -> bool:
    return node.switch.now is not None and bool(node.switch.now.enhanced_port_zero)
