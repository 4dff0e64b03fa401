"""MADs by class and attribute, for proofs of several families."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.pm import PortCounters
from tests.craft import build, sa_mad, ud
from tests.craft import mad as datagram

NODE_RECORD, COUNTERS = 0x11, 0x12


def sa(method: int, attr_id: int = NODE_RECORD, record: bytes = b"", **more: Any) -> bytes:
    """A packet of subnet administration; `more` as for `sa_mad`."""
    return ud(sa_mad(method, attr_id, record, **more))


def table(**rmpp: Any) -> bytes:
    """An RMPP segment of a table without records."""
    return sa(0x92, mask=1, rmpp={"rmpp_version": 1, "rmpp_type": 1, "active": 1, "segment_number": 2, "payload_length": 20, **rmpp})


def counters(method: int = 1, *, rmpp: bytes = b"", **header: Any) -> bytes:
    """A PerformanceGet(PortCounters), or another method."""
    data = bytearray(datagram(0x04, method, COUNTERS, build(PortCounters, port_select=1), at=64, **header))
    data[24 : 24 + len(rmpp)] = rmpp
    return ud(bytes(data))
