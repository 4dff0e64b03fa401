"""The file of `ibnetdiscover --cache`: nodes and ports as the tool read them, little-endian, at fixed offsets.

Format: the comment at the head of ibnetdisc_cache.c in rdma-core.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error

from ibdissect.errors import SubnetFileError
from ibdissect.subnet import CA, ROUTER, SWITCH
from ibdissect.wire.sm import NodeInfo

from .file_facts import FileFact, InfoFact, LinkFact, NamedPort, NodeFact, PortFact, WholeFact
from .lines import UNICAST_LIDS

MAGIC = bytes.fromhex("2b83e78f")
HEADER, NODE, PORT = Struct("<4sIIIQI"), Struct("<HBB64sQBB64s64sB"), Struct("<QBBHB64sQBQB")
PORT_ENTRY_BYTES = 9
"""Size of a port in the list of its node: GUID and number."""
M_KEY_BYTES = 8
"""Size of the M_Key at the start of PortInfo, which is not kept."""


def ibnetdiscover_cache(path: str, data: bytes) -> Iterator[FileFact]:
    """Facts without lines. Raises SubnetFileError for another version and for a truncated file."""
    try:
        _, version, nodes, ports, _, _ = HEADER.unpack_from(data)
        if version != 1:
            raise SubnetFileError(path, 0, f"expected version 1 of ibnetdiscover's cache, not {version}")
        at, switches = HEADER.size, dict[int, tuple[int, int]]()
        for _ in range(nodes):
            lid, lmc, _, _, node, kind, count, info, name, known = NODE.unpack_from(data, at)
            at += NODE.size + PORT_ENTRY_BYTES * known
            view = NodeInfo(info)
            if not node or kind not in (CA, SWITCH, ROUTER):
                continue
            if kind == SWITCH:
                switches[node] = lid, lmc
            text = name.split(b"\0")[0].decode("utf-8", "surrogateescape")
            yield NodeFact(0, node, kind, count, text, view.system_image_guid, view.device_id, view.vendor_id, view.partition_cap)
        owners, cables = dict[tuple[int, int], NamedPort](), list[tuple[NamedPort, tuple[int, int]]]()
        for _ in range(ports):
            guid, number, _, lid, lmc, info, node, cabled, far, far_number = PORT.unpack_from(data, at)
            at += PORT.size
            own = number == 0 or node not in switches
            lid, lmc = switches.get(node, (lid, lmc))
            end = owners[guid, number] = NamedPort(guid if own else 0, node, number, lid if own and lid in UNICAST_LIDS else 0)
            yield PortFact(0, end, lmc if lmc < 8 else -1)
            yield InfoFact(0, end._replace(lid=0), bytes(M_KEY_BYTES) + info[M_KEY_BYTES:])
            if cabled:
                cables.append((end, (far, far_number)))
    except error as cut:
        raise SubnetFileError(path, 0, "ends before the nodes and ports that it announces") from cut
    for near, there in cables:
        if there in owners:
            yield LinkFact(0, near, owners[there])
    yield WholeFact(0)
