"""The binary cache of ibnetdiscover is read to the last cable, and refused where it is cut."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import pytest

from ibdissect.errors import SubnetFileError
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.model import Subnet
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from tests.craft import build
from tests.subnet.files.samples import SWITCH, A

MAGIC = bytes.fromhex("2b83e78f")
HEADER, NODE, PORT = Struct("<4sIIIQI"), Struct("<HBB64sQBB64s64sB"), Struct("<QBBHB64sQBQB")


def cache() -> bytes:
    """Host A at port 1 of a switch."""
    key = bytes(9)
    info = build(PortInfo, 64, lid=3, neighbor_mtu=4, m_key=7)
    return b"".join((
        HEADER.pack(MAGIC, 1, 2, 3, A, 2),
        NODE.pack(2, 0, 0, b"", SWITCH, 2, 36, build(NodeInfo, 64, device_id=9), b"edge 1", 2), key * 2,
        NODE.pack(0, 0, 0, b"", A - 1, 1, 1, build(NodeInfo, 64, partition_cap=64), b"host A", 1), key,
        PORT.pack(SWITCH, 0, 0, 2, 0, bytes(64), SWITCH, 0, 0, 0), PORT.pack(SWITCH, 1, 0, 2, 0, bytes(64), SWITCH, 1, A, 1),
        PORT.pack(A, 1, 0, 3, 0, info, A - 1, 1, SWITCH, 1),
    ))  # fmt: skip


def test_nodes_ports_and_cables(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.write_bytes(cache())
    subnet = Subnet()
    learn(subnet, read_files([str(path)]).files)
    host = subnet.by_lid(3)
    assert host is not None and host.info is not None and host.peer is not None
    assert (host.guid, host.node.name, host.info.neighbor_mtu, host.info.m_key) == (A, b"host A", 4, 0), "keys are not kept"
    assert (host.peer.node.guid, host.peer.number, host.node.partition_cap) == (SWITCH, 1, 64)
    assert subnet.listed < 0


def test_damage(tmp_path: Path) -> None:
    path, whole = tmp_path / "cache", cache()
    for broken in (whole[:-1], whole[:9], whole[:4] + b"\2" + whole[5:], whole[:8] + b"\xff" * 8 + whole[16:]):
        path.write_bytes(broken)
        with pytest.raises(SubnetFileError, match=r"ends before|expected version 1"):
            read_files([str(path)])
