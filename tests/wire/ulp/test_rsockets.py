"""Connections of rsockets are told from others by the constant bytes of their private data, and by nothing else."""

from __future__ import annotations

from ibdissect.wire.cm_names import IP_PORTS
from ibdissect.wire.ulp import rsockets
from ibdissect.wire.ulp.rdma_cm import IP_CM_SIZE
from tests.cases import every

GREETING = bytes(IP_CM_SIZE) + b"\1\0\0\2" + bytes(4) + bytes(12) + rsockets.LIST_SIZE.to_bytes(4, "big")
PORT = next(port for port in range(1024, 65536) if port not in IP_PORTS)


@every(
    ("service", "data", "is_one"),
    [
        (rsockets.TCP | PORT, GREETING, True), (rsockets.TCP | PORT, GREETING + bytes(20), True),
        (rsockets.TCP | PORT, GREETING[:-1], False),
        (rsockets.TCP | PORT, GREETING[:-1] + bytes([rsockets.LIST_SIZE + 1]), False), (rsockets.TCP | PORT, b"", False),
        (rsockets.TCP | PORT ^ 0x1_0000, GREETING, False), (rsockets.TCP | min(IP_PORTS), GREETING, False),
        (rsockets.TCP | PORT, bytes(IP_CM_SIZE) + b"\2" + GREETING[IP_CM_SIZE + 1 :], False),
        (rsockets.TCP | PORT, bytes(IP_CM_SIZE) + b"\1\3" + GREETING[IP_CM_SIZE + 2 :], True),
        (rsockets.TCP | PORT, bytes(IP_CM_SIZE) + b"\1\4" + GREETING[IP_CM_SIZE + 2 :], False),
        (rsockets.TCP | PORT, b"\xff" * IP_CM_SIZE + GREETING[IP_CM_SIZE:], True), (1 << 63 | rsockets.TCP | PORT, GREETING, False),
    ],
)  # fmt: skip
def test_connections_of_rsockets(service: int, data: bytes, is_one: bool) -> None:
    assert rsockets.is_rsockets(service, data) is is_one
