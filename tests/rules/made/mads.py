"""MADs by class and attribute, for proofs of several families."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.mad import RMPP
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa import SAFormat
from tests.craft import build, put, ud
from tests.craft import mad as datagram

NODE_RECORD, COUNTERS = 0x11, 0x12


def sa(method: int, attr_id: int = NODE_RECORD, *, mask: int = 1, rmpp: dict[str, Any] | None = None, **header: Any) -> bytes:
    """An SA MAD without a record."""
    data = bytearray(datagram(0x03, method, attr_id, **header))
    put(data, SAFormat.component_mask, mask)
    data[24 : 24 + RMPP.size] = build(RMPP, **(rmpp or {}))
    return ud(bytes(data))


def table(**rmpp: Any) -> bytes:
    """An RMPP segment of a table without records."""
    return sa(0x92, rmpp={"rmpp_version": 1, "rmpp_type": 1, "active": 1, "segment_number": 2, "payload_length": 20, **rmpp})


def counters(method: int = 1, *, rmpp: bytes = b"", **header: Any) -> bytes:
    """A PerformanceGet(PortCounters), or another method."""
    data = bytearray(datagram(0x04, method, COUNTERS, build(PortCounters, port_select=1), at=64, **header))
    data[24 : 24 + len(rmpp)] = rmpp
    return ud(bytes(data))
