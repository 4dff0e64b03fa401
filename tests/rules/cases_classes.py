"""Proofs of the rules about connection, performance and Omni-Path management attributes."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.cm import REJ, REQ
from ibdissect.wire.opa import STLSwitchInfo
from ibdissect.wire.pm import PortCounters, PortCountersExtended
from tests.craft import build, gmp, mad, ud
from tests.rules.cases import case

SEND, GET_RESP, CM, PM = 3, 0x81, 0x07, 0x04
REQUEST: dict[str, Any] = {
    "local_communication_id": 7, "service_id": 0x0000000001061234, "local_ca_guid": 0x0002C90300001000, "local_qpn": 0x48,
    "responder_resources": 1, "initiator_depth": 1, "remote_cm_response_timeout": 20, "local_cm_response_timeout": 20, "starting_psn": 9,
    "retry_count": 7, "partition_key": 0xFFFF, "path_packet_payload_mtu": 4, "rnr_retry_count": 7, "max_cm_retries": 15,
    "primary_local_port_lid": 1, "primary_remote_port_lid": 2, "primary_packet_rate": 3, "primary_subnet_local": 1,
    "primary_local_ack_timeout": 14,
}  # fmt: skip


def request(**values: Any) -> bytes:
    """A REQ for an RC connection."""
    return gmp(CM, SEND, 0x10, build(REQ, **{**REQUEST, **values}), at=24)


def rejected(reason: int) -> bytes:
    """A REJ of a REQ."""
    return gmp(CM, SEND, 0x12, build(REJ, remote_communication_id=7, reason=reason), at=24)


def counters(status: int = 0, **values: Any) -> bytes:
    """PerformanceGetResp(PortCounters)."""
    return gmp(PM, GET_RESP, 0x12, build(PortCounters, port_select=1, **values), header={"status": status})


def extended(**values: Any) -> bytes:
    """PerformanceGetResp(PortCountersExtended)."""
    return gmp(PM, GET_RESP, 0x1D, build(PortCountersExtended, port_select=1, **values))


def omni_path(method: int = 2, **values: Any) -> bytes:
    """SwitchInfo of Omni-Path in a LID-routed SMP."""
    info = build(STLSwitchInfo, linear_fdb_cap=0xC000, multicast_fdb_cap=0x2000, port_group_cap=8, **values)
    data = mad(0x01, method, 0x12, info, at=32, base_version=0x80, class_version=0x80, attribute_modifier=1)
    return ud(data, dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15})


case("CM001", request(local_qpn=0), request(local_qpn=0, extended_transport_type=1))
case("CM002", rejected(99), rejected(35))
case("CM015", request(primary_local_ack_timeout=0), request(primary_local_ack_timeout=1))
case("PM006", counters(port_xmit_data=0xFFFFFFFF), counters(port_xmit_data=0xFFFFFFFE))
case("PM006", counters(port_rcv_pkts=0xFFFFFFFF), counters(0x0008, port_rcv_pkts=0xFFFFFFFF))
case("PM011", extended(symbol_error_counter=3), extended(port_xmit_wait=3, port_xmit_data=9))
case("OPA001", omni_path(), ud(mad(0x01, 1, 0x12, attribute_modifier=0), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15}))
case("OPA004", omni_path(port_group_top=99), omni_path(port_group_top=8), also=["OPA001"], twin_also=["OPA001"])
