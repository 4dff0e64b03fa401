"""Completeness of records of nodes and ports: whether they show the whole subnet, although no file lists all LIDs.

The SA shows a record only to who may talk to its port. A host that it hides leaves a link that nobody is at the end of.
"""

from __future__ import annotations

from collections import Counter

from ibdissect.subnet import ROUTER, SWITCH, Node, Port, Subnet
from ibdissect.subnet.nodes import DOWN
from ibdissect.wire.sm_port import PortInfo


def whole(subnet: Subnet) -> bool | None:
    """Whether the files' PortInfos show every port that is up. None: no host is missing as far as links can be counted.

    Every port of every switch must have its PortInfo. What is up and of which no cable is known (LinkRecords, ibnetdiscover) is counted: as
    many switch ports as end ports lead to each other. Without any cable, the switch ports that are left lead to switches: if they are as
    few as it takes to connect the switches, nothing is missing; if they are more, in pairs, they may be cables or hosts that the SA hides.
    HOQLife may tell: OpenSM writes one value to switch ports that lead to hosts, another to those that lead to switches (opensm.conf,
    leaf_head_of_queue_lifetime and head_of_queue_lifetime). Two values, one of them at as many ports as there are hosts: none is hidden,
    unless these ports may as well lead to switches, and those of the other value to more hosts.
    """
    switches, uplinks, ends, cables = 0, 0, 0, 0
    waits = Counter[int]()
    for node in subnet.slots.values():
        if not node.guid or node.kind == ROUTER or not node.num_ports:
            return False
        states = _states(node)
        if not states:
            return False
        up = [node.ports[number] for number, state in states.items() if state != DOWN]
        if any(not port.lid for port in up if node.kind != SWITCH or not port.number):
            return False
        loose = sum(port.peer is None for port in up if node.kind != SWITCH or port.number)
        cables += len(up) - loose - (node.kind == SWITCH and 0 in states)
        switches += node.kind == SWITCH
        uplinks += loose * (node.kind == SWITCH)
        waits.update(_hoq_life(port) for port in up if node.kind == SWITCH and port.number and port.peer is None)
        ends += loose * (node.kind != SWITCH)
    between = uplinks - ends
    if not switches or between < 0 or between % 2:
        return False
    least = 0 if cables > 0 else 2 * (switches - 1)
    either_way = least <= ends < between and not ends % 2
    told_apart = cables <= 0 and between > least and not either_way and sorted(waits.values()) == sorted((between, ends))
    return True if between == least or told_apart else None


def _hoq_life(port: Port) -> int:
    """How long packets may wait at a switch port that is up."""
    body = port.infos.now
    return PortInfo(body).hoq_life if body is not None else 0


def _states(node: Node) -> dict[int, int] | None:
    """The state of each port by number; None if a PortInfo is missing."""
    states = {}
    for number in range(node.kind != SWITCH, node.num_ports + 1):
        port = node.ports.get(number)
        body = port.infos.now if port is not None else None
        if body is None:
            if node.kind == SWITCH:
                return None
            continue  # a port of an adapter that is not connected
        states[number] = PortInfo(body).port_state
    return states
