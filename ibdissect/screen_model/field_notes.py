"""Notes beside the lines of the tree: a layer in a few words; the owner of a LID, GID, GUID, P_Key or queue pair."""

from __future__ import annotations

from collections.abc import Callable

from ibdissect.decode.addresses import End
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.dissect.tree import Node, Tree
from ibdissect.subnet import Port, Subnet
from ibdissect.subnet.describe import node_name, port_name
from ibdissect.subnet.p_keys import BLOCK
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.numbers import FIRST_MULTICAST, GUID
from ibdissect.wire.text import printable

QPS = {BTH.destqp: 1, DETH.srcqp: 0}
"""At which of a packet's two ends its queue pairs are."""


class FieldNotes:
    """The screen asks while another thread changes the subnet, so containers are copied before they are iterated."""

    def __init__(self, subnet: Callable[[], Subnet], connections: Callable[[], Connections]) -> None:
        self._subnet, self._connections = subnet, connections
        self._by_guid: tuple[tuple[int, int], dict[int, Port]] = ((-1, -1), {})
        self._by_qp: tuple[int, dict[tuple[End, int], ConnectionSetUp]] = (-1, {})

    def of(self, node: Node, tree: Tree) -> str:
        """`host07 port 1, learnt in frame 206`; empty if nothing is known about the value."""
        value, field = node.value, node.field
        if field is None or value is None:
            return ""
        if field.holds == "gid" and len(node.raw) == 16:
            return self._guid(int.from_bytes(node.raw, "big") & GUID)
        if not isinstance(value, int):
            return ""
        if field is BTH.p_key:
            return self._p_key(value, tree)
        if field in QPS:
            return self._queue_pair(value, QPS[field], tree)
        if field.holds == "guid":
            return self._guid(value)
        return self._lid(value, tree.frame) if field.holds == "lid" else ""

    def _lid(self, lid: int, frame: int) -> str:
        if not 0 < lid < FIRST_MULTICAST:
            return ""
        port, since = self._subnet().owner(lid, frame)
        return _learnt(port_name(port), since) if port is not None and port.node.name else ""

    def _guid(self, guid: int) -> str:
        """A port by its PortGUID, which a GID ends with, else a node by its NodeGUID."""
        if not guid:
            return ""
        subnet = self._subnet()
        state = (subnet.port_count, len(subnet.slots))
        if self._by_guid[0] != state:
            ports = [port for node in list(subnet.slots.values()) for port in list(node.ports.values())]
            self._by_guid = state, {port.guid: port for port in ports if port.guid}
        node, port = subnet.nodes.get(guid), self._by_guid[1].get(guid)
        if port is not None and port.node.alive and port.node.name and port.node is not node:
            return _learnt(port_name(port), port.node.frame)
        return _learnt(node_name(node), node.frame) if node is not None and node.name else ""

    def _p_key(self, p_key: int, tree: Tree) -> str:
        """Where the key stands in the sender's table."""
        slid = next((n.value for n in tree.walk() if n.name == "infiniband.lrh.slid"), 0)
        port, _ = self._subnet().owner(slid, tree.frame) if slid else (None, 0)
        if port is None or port.p_keys is None:
            return ""
        for block in port.p_keys.blocks:
            entries, since = block.at(tree.frame)
            for i in range(0, len(entries or b""), 2):
                if entries is not None and int.from_bytes(entries[i : i + 2], "big") == p_key:
                    return _learnt(f"index {block.number * BLOCK + i // 2} of {port_name(port)}", since)
        return ""

    def _queue_pair(self, qp: int, end: int, tree: Tree) -> str:
        """The connection that a queue pair was set up for."""
        address = tree.ends[end]
        connections = self._connections()
        count = sum(one.passive_qpn >= 0 for one in connections.all[-1:]) + len(connections.all)
        if self._by_qp[0] != count:
            found: dict[tuple[End, int], ConnectionSetUp] = {}
            for one in connections.all.copy():
                found[one.active, one.active_qpn] = one
                if one.passive_qpn >= 0:
                    found[one.passive, one.passive_qpn] = one
            self._by_qp = count, found
        one_ = self._by_qp[1].get((address, qp))
        if one_ is None:
            return ""
        here = (address, qp) == (one_.active, one_.active_qpn)
        peer, far = (one_.passive, one_.passive_qpn) if here else (one_.active, one_.active_qpn)
        return _learnt(f"connected with {peer}" + (f" QP 0x{far:06x}" if far >= 0 else ""), one_.req_frame if here else one_.rep_frame)


def _learnt(what: str, frame: int) -> str:
    return f"{what}, learnt in frame {frame}" if frame else what


NOTES: dict[str, str] = {
    "LRH": "LID {slid} → LID {dlid}  VL {vl}  SL {sl}",
    "GRH": "{sgid} → {dgid}",
    "BTH": "{opcode}  QP {destqp}  PSN {psn}",
    "DETH": "Q_Key {q_key}  from QP {srcqp}",
    "RETH": "VA {va}  R_Key {r_key}  length {dmalen}",
    "AETH": "{syndrome}  MSN {msn}",
    "Ethernet": "{source} → {destination}",
    "IPv4": "{source} → {destination}",
    "IPv6": "{source} → {destination}",
    "UDP": "{source_port} → {destination_port}",
    "MAD": "{mgmt_class}  {method}",
}
"""By class of the structure; placeholders are attribute names of its fields."""


def layer_note(node: Node) -> str:
    """The note of a layer; empty where there is nothing short to say."""
    struct = node.struct
    if struct is None and not node.length:
        return printable(node.text)  # no bytes: a comment
    template = NOTES.get(struct.__name__) if struct is not None else None
    if struct is None or template is None:
        return ""
    texts: dict[str, str] = {}
    for child in node.walk():
        if child.field is not None and child.field.name not in texts:
            texts[child.field.name] = printable(child.text)
    try:
        return template.format_map(texts)
    except KeyError:
        return ""
