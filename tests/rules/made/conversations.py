"""Requests and answers of SA, performance and congestion control agents, for proofs of several families."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.classport import ClassPortInfo
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_paths import MCMemberRecord
from tests.craft import build, erf_pcap, gmp, sa_mad, ud

GET, SET, REPORT, GET_RESP, TABLE_RESP, SA, PM = 0x01, 0x02, 0x06, 0x81, 0x92, 0x03, 0x04
SECONDS: Any = partial(erf_pcap, step_ns=1_000_000_000)
WAIT = [ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=0x1111, bth={"psn": i}) for i in range(4)]


def perf(method: int, attribute: int, body: bytes, transaction: int = 7, *, status: int = 0, modifier: int = 0) -> bytes:
    """Performance management between LID 1, which asks, and LID 5."""
    ends = {"slid": 5, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": 5}
    at = 64
    header = {"transaction_id": transaction, "status": status, "attribute_modifier": modifier}
    return gmp(PM, method, attribute, body, at=at, header=header, **ends)


def agent(capability_mask: int = 0, resp_time_value: int = 8, transaction: int = 3) -> list[bytes]:
    """LID 5 tells what its performance agent can do."""
    body = build(ClassPortInfo, base_version=1, class_version=1, capability_mask=capability_mask, resp_time_value=resp_time_value)
    return [perf(GET, 1, b"", transaction), perf(GET_RESP, 1, body, transaction)]


def counters(method: int, transaction: int = 7, **values: Any) -> bytes:
    return perf(method, 0x12, build(PortCounters, **{"port_select": 1, **values}), transaction)


# SA
def sa(
    method: int, attribute: int, body: bytes = b"", *, mask: int = 0, key: int = 0, transaction: int = 7, status: int = 0, **ends: Any
) -> bytes:
    """Subnet administration between LID 5, which asks, and the SA at LID 1."""
    segment: dict[str, Any] = {}
    if method == TABLE_RESP:
        rmpp = {"rmpp_version": 1, "rmpp_type": 1, "rmpp_flags": 7, "data1": 1, "data2": 20 + len(body)}
        segment = {"rmpp": rmpp, "offset": len(body) // 8}
    data = sa_mad(method, attribute, body, mask=mask, sm_key=key, transaction_id=transaction, status=status, **segment)
    back = method & 0x80 or method == REPORT
    return ud(data, **{**({"slid": 1, "dlid": 5} if back else {"slid": 5, "dlid": 1}), **ends})


MGID = bytes.fromhex("ff12401bffff000000000000ffffffff")
PREFIX = bytes([0xFE, 0x80]) + bytes(6)


def gid_of(lid: int) -> bytes:
    """The GID of the port that tests.subnet.made builds for a LID."""
    return PREFIX + (0x0002C90300001001 + (lid << 4)).to_bytes(8, "big")


def member(method: int, *, status: int = 0, transaction: int = 7, lid: int = 5, **values: Any) -> bytes:
    record = {"mgid": MGID, "port_gid": gid_of(lid), "q_key": 0xB1B, "mlid": 0xC001, "p_key": 0xFFFF, "mtu_selector": 2, "mtu": 4,
              "rate_selector": 2, "rate": 3, "scope": 2, "join_state": 1}  # fmt: skip
    mask = mask_for(MCMemberRecord, ["mgid", "port_gid", "join_state"])
    return sa(method, 0x38, build(MCMemberRecord, **{**record, **values}), mask=mask, status=status, transaction=transaction)
