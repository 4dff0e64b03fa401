"""Proofs of the rules about the common MAD header and RMPP."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.mad import RMPP
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa import SAFormat
from tests.craft import build, gmp, put, smp, ud
from tests.craft import mad as datagram
from tests.rules.cases import case

NODE_INFO, NODE_RECORD, COUNTERS = 0x11, 0x11, 0x12


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


case("MAD001", smp(1, NODE_INFO, header={"base_version": 2}), smp(1, NODE_INFO))
case("MAD002", sa(1, class_version=9), sa(1, class_version=2))
case("MAD002", smp(1, NODE_INFO, header={"class_version": 2}), smp(1, NODE_INFO))
case("MAD003", sa(0x20), sa(0x12))
case("MAD003", gmp(0x21, 6, 0x11), gmp(0x21, 1, 0x11))
case("MAD006", sa(0x81, status=0x0020), sa(0x81, status=0x0001))
case("MAD006", sa(0x81, status=0x0020), sa(1, status=0x0020))
case("MAD008", sa(0x81, status=0x0014), sa(0x81, status=0x001C))
case("MAD009", smp(1, NODE_INFO, header={"reserved": 1}), smp(1, NODE_INFO))
case("MAD010", counters(class_specific=7), counters())
case("MAD011", smp(1, 0x44), smp(1, 0xFF44))
case("MAD011", gmp(0x06, 1, 0x25), gmp(0x06, 1, 0x21))
case("MAD012", smp(1, NODE_INFO, header={"transaction_id": 0}), smp(1, NODE_INFO, header={"transaction_id": 1}))

case("MAD015", table(rmpp_version=3), table())
case("MAD015", table(rmpp_version=0), table(rmpp_version=0, rmpp_type=0, active=0))
case("MAD016", counters(rmpp=build(RMPP, rmpp_version=1, rmpp_type=1, active=1)), counters())
case("TXN014", table(rmpp_type=4, rmpp_status=126), table(rmpp_type=2))
case("TXN015", table(rmpp_type=3, rmpp_status=1), table(rmpp_type=2))
case("TXN016", table(rmpp_status=1), table())
case("TXN016", table(rmpp_type=4, rmpp_status=50), table(rmpp_type=4, rmpp_status=118), twin_also=["TXN014"])

case("PM004", counters(2), counters(1))
case("PM009", counters(5), counters(1))
case("CC002", gmp(0x21, 1, 0x11, header={"class_version": 1}), gmp(0x21, 1, 0x11))
