"""Proofs of the rules about subnet administration."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.classport import InformInfo
from ibdissect.wire.component_mask import mask_for
from ibdissect.wire.mad import RMPP
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sa_paths import MCMemberRecord, PathRecord
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import NodeInfo
from tests.craft import build, put, ud
from tests.craft import mad as datagram
from tests.rules.cases import case

GET, SET, GET_TABLE, GET_RESP, GET_TABLE_RESP = 1, 2, 0x12, 0x81, 0x92
NODE, SERVICE, PKEYS, PATH, MEMBER, INFORM = 0x11, 0x31, 0x33, 0x35, 0x38, 3
PREFIX = bytes([0xFE, 0x80]) + bytes(6)
MEMBERSHIP: dict[str, Any] = {
    "mgid": bytes.fromhex("ff12401bffff00000000000000000001"), "port_gid": PREFIX + bytes(7) + b"\x01", "q_key": 0xB1B, "mlid": 0xC001,
    "mtu_selector": 2, "mtu": 4, "p_key": 0xFFFF, "rate_selector": 2, "rate": 3, "scope": 2, "join_state": 1,
}  # fmt: skip
JOIN = mask_for(MCMemberRecord, ["mgid", "port_gid", "join_state"])


def sa(
    method: int, attr_id: int, body: bytes = b"", *, mask: int = 0, offset: int = 0, sm_key: int = 0, rmpp: dict[str, Any] | None = None,
    **header: Any,
) -> bytes:  # fmt: skip
    """An SA MAD with a record."""
    data = bytearray(datagram(0x03, method, attr_id, body, at=56, **header))
    put(data, SAFormat.component_mask, mask)
    put(data, SAFormat.attribute_offset, offset)
    put(data, SAFormat.sm_key, sm_key)
    data[24 : 24 + RMPP.size] = build(RMPP, **(rmpp or {}))
    return ud(bytes(data))


def member(method: int, mask: int = JOIN, **values: Any) -> bytes:
    """A join, or the answer to it."""
    return sa(method, MEMBER, build(MCMemberRecord, **{**MEMBERSHIP, **values}), mask=mask)


def nodes(offset: int, **rmpp: Any) -> bytes:
    """A table of one NodeRecord."""
    info = build(
        NodeInfo, base_version=1, class_version=1, node_type=1, num_ports=1, node_guid=1, port_guid=2, partition_cap=32, local_port_num=1
    )
    record = build(NodeRecord, lid=1)[:4] + info + bytes(64)
    segment = {
        "rmpp_version": 1, "rmpp_type": 1, "active": 1, "first": 1, "last": 1, "segment_number": 1, "payload_length": 20 + len(record),
        **rmpp,
    }  # fmt: skip
    return sa(GET_TABLE_RESP, NODE, record, offset=offset, rmpp=segment)


def path(method: int, hop_limit: int, dgid: bytes = PREFIX) -> bytes:
    """A path from port 1 to port 2."""
    record = build(
        PathRecord, dgid=dgid + bytes(7) + b"\x02", sgid=PREFIX + bytes(7) + b"\x01", dlid=2, slid=1, hop_limit=hop_limit, p_key=0xFFFF
    )
    return sa(method, PATH, record, mask=mask_for(PathRecord, ["dgid", "sgid"]))


def subscription(**values: Any) -> bytes:
    """Set(InformInfo): all traps of one LID."""
    info = {"lid_range_begin": 3, "lid_range_end": 9, "is_generic": 1, "subscribe": 1, "type": 0xFFFF, "trap_number": 0xFFFF, "qpn": 1,
            "producer_type": 0xFFFFFF, **values}  # fmt: skip
    return sa(SET, INFORM, build(InformInfo, **info))


def service(lease: int, mask: int) -> bytes:
    """Set(ServiceRecord)."""
    record = build(ServiceRecord, service_id=7, service_gid=PREFIX + bytes(7) + b"\x01", service_p_key=0xFFFF, service_lease=lease)
    return sa(SET, SERVICE, record, mask=mask)


case("SA001", sa(GET_TABLE, NODE, mask=1 << 63), sa(GET_TABLE, NODE, mask=1 << 14))
case("SA001", sa(GET_TABLE, NODE, mask=1 << 63), sa(GET_TABLE, NODE, mask=1 << 63, rmpp={"rmpp_version": 1, "rmpp_type": 2, "active": 1}))
case("SA002", sa(GET, NODE), sa(GET, NODE, mask=1))
case("SA002", sa(GET, NODE), sa(GET, 1))
case("SA003", sa(GET_RESP, NODE, mask=1, status=0x0400), sa(GET_RESP, NODE, mask=1, status=0x001C))
case("SA004", nodes(3), nodes(14))
case("SA004", nodes(0), nodes(0, payload_length=20))
case("SA005", sa(GET_RESP, NODE, mask=1, status=0x0900), sa(GET_RESP, NODE, mask=1, status=0x0800), twin_also=["SA003"])
case("SA007", sa(GET_RESP, NODE, mask=1, sm_key=1, status=0x0300), sa(GET, NODE, mask=1, sm_key=1), also=["SA003"])
case("SA008", sa(GET_TABLE, PKEYS, mask=1), sa(GET_TABLE, PKEYS, mask=1, sm_key=1))
case("SA009", member(SET, 1 << 16), member(SET))
case("SA010", member(SET, join_state=0), member(GET_TABLE, join_state=0))
case("SA011", member(GET_RESP, mlid=5), member(SET, mlid=5))
case("SA011", member(SET, JOIN | mask_for(MCMemberRecord, ["mlid"]), mlid=0xBFFF), member(SET, JOIN, mlid=0xBFFF))
case("SA012", member(GET_RESP, scope=5), member(SET, scope=5))
case("SA012", member(GET_RESP, scope=5), member(GET_RESP, scope=0))
case(
    "SA013",
    member(SET, JOIN | mask_for(MCMemberRecord, ["mtu_selector", "mtu"]), mtu_selector=3),
    member(SET, JOIN | mask_for(MCMemberRecord, ["mtu_selector"]), mtu_selector=3),
)
case("SA018", path(GET_RESP, 64), path(GET_RESP, 1))
case("SA018", path(GET_RESP, 64), path(GET_RESP, 64, bytes([0xFE, 0xC0]) + bytes(6)))
case("SA021", subscription(lid_range_begin=9, lid_range_end=3), subscription(lid_range_begin=9, lid_range_end=0))
case("SA021", subscription(subscribe=2), subscription(subscribe=0))
case("SA021", subscription(lid_range_begin=0xFFFF, lid_range_end=3, is_generic=3), subscription(lid_range_begin=0xFFFF, lid_range_end=3))
case("SA022", service(0, 1 << 4), service(0, 0))
case("SA025", sa(GET_RESP, NODE, mask=1, status=2), sa(GET_RESP, NODE, mask=1, status=1))
