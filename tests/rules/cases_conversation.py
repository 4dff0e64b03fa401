"""Proofs of the rules that need a request and its answer, or what agents said before: TXN, SA, PM, CC."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

from ibdissect.wire.cc import (
    CACongestionEntry,
    CACongestionSetting,
    CongestionControlFormat,
    CongestionControlTable,
    CongestionInfo,
    CongestionKeyInfo,
)
from ibdissect.wire.classport import ClassPortInfo, InformInfo
from ibdissect.wire.component_mask import mask_for
from ibdissect.wire.mad import RMPP
from ibdissect.wire.notice import Notice
from ibdissect.wire.pm import PortCounters, PortCountersExtended
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sa_paths import MCMemberRecord, PathRecord
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import SMInfo
from tests.craft import build, erf_pcap, gmp, mad, put, smp, ud
from tests.fabric.made import answer, ask, node, p_keys, port_info
from tests.rules.cases import case

GET, SET, REPORT, TABLE, GET_RESP, TABLE_RESP = 0x01, 0x02, 0x06, 0x12, 0x81, 0x92
SA, PM, CC = 0x03, 0x04, 0x21
SECONDS: Any = partial(erf_pcap, step_ns=1_000_000_000)
SLOW: Any = partial(erf_pcap, step_ns=6_000_000_000)
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


# TXN002
ONE, OTHER = counters(GET), perf(GET, 0x1D, build(PortCountersExtended, port_select=1))
DONE = [counters(GET_RESP), perf(GET_RESP, 0x1D, build(PortCountersExtended, port_select=1))]
case("TXN002", [ONE, OTHER, *DONE], [ONE, DONE[0], OTHER, DONE[1]], frames=[2], also=["TXN001", "TXN003"])
case("TXN002", [ONE, OTHER, *DONE], [ONE, ONE, *DONE[:1]], also=["TXN001", "TXN003"])
# ibdump may have missed the first answer
case("TXN002", [ONE, OTHER, *DONE], [ONE, OTHER, DONE[1]], also=["TXN001", "TXN003"], twin_also=["TXN001"])

# TXN004
case("TXN004", [*agent(), counters(GET, 8), counters(GET_RESP, 8)], [*agent(resp_time_value=21), counters(GET, 8), counters(GET_RESP, 8)],
     frames=[4], file=SLOW)  # fmt: skip
ASK = [smp(GET, 0x10, slid=1, dlid=5), answer(5, 0x10, b"node")]
QUICK, LAZY = (
    [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, subnet_time_out=10, resp_time_value=code)), *ASK] for code in (10, 14)
)
case("TXN004", QUICK, LAZY, frames=[4], file=partial(erf_pcap, step_ns=20_000_000))

# TXN018
FLOOD = [counters(GET, n) for n in range(1, 102)]
case("TXN018", FLOOD, FLOOD[:100], frames=[101])
case("TXN018", FLOOD, [counters(GET, n, port_select=1 + n % 2) for n in range(1, 102)], frames=[101])


def cut(frames: Sequence[bytes], size: int = 96) -> bytes:
    """A capture with the first bytes of each frame."""
    out = erf_pcap([frame[:size] for frame in frames])
    whole = len(frames[0])
    return out[:24] + b"".join(
        out[at : at + 12] + struct.pack("<I", 16 + whole) + out[at + 16 : at + 30] + struct.pack(">H", whole) + out[at + 32 :][:size]
        for at in range(24, len(out), 32 + size)
    )


# cut off in front of what tells the requests apart
ROUTES = [smp(GET, 0x11, path=[1, n], header={"transaction_id": n}) for n in range(1, 102)]
case("TXN018", erf_pcap(FLOOD), cut(ROUTES), file=None, frames=[101], twin_also=["CAP001"])

# TXN019
MANAGERS = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)]
MANAGERS += [answer(lid, 0x15, port_info(lid)) for lid in (5, 6, 7)]
MANAGERS += [answer(lid, 0x20, build(SMInfo, guid=0x0002C90300001001 + (lid << 4), sm_state=state)) for lid, state in ((5, 3), (6, 2))]
BY_5, BY_6 = (smp(SET, 0x10, slid=lid, dlid=7) for lid in (5, 6))
case("TXN019", [*MANAGERS, BY_5, BY_6, BY_5], [*MANAGERS, BY_5, BY_5, BY_5], frames=[11])
# the second takes over from the first, which died
case("TXN019", [*MANAGERS, BY_5, BY_6, BY_5], [*MANAGERS, BY_5, BY_6, BY_6], frames=[11])


# SA
def sa(
    method: int, attribute: int, body: bytes = b"", *, mask: int = 0, key: int = 0, transaction: int = 7, status: int = 0, **ends: Any
) -> bytes:
    """Subnet administration between LID 5, which asks, and the SA at LID 1."""
    header = {"transaction_id": transaction, "status": status}
    data = bytearray(mad(SA, method, attribute, body, at=56, **header))
    put(data, SAFormat.component_mask, mask)
    put(data, SAFormat.sm_key, key)
    if method == TABLE_RESP:
        rmpp = {"rmpp_version": 1, "rmpp_type": 1, "rmpp_flags": 7, "data1": 1, "data2": 20 + len(body)}
        data[24 : 24 + RMPP.size] = build(RMPP, **rmpp)
        put(data, SAFormat.attribute_offset, len(body) // 8)
    back = method & 0x80 or method == REPORT
    return ud(bytes(data), **{**({"slid": 1, "dlid": 5} if back else {"slid": 5, "dlid": 1}), **ends})


SERVICE_RECORD = 0x31
TRUSTED = [sa(GET, SERVICE_RECORD, mask=1, key=1), sa(GET_RESP, SERVICE_RECORD, mask=1)]
case("SA006", [*TRUSTED, sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=8), *WAIT],
     [*TRUSTED, sa(GET, SERVICE_RECORD, mask=1, key=1, transaction=8), *WAIT], frames=[3], also=["TXN001"], twin_also=["TXN001"],
     file=SECONDS)  # fmt: skip
# that key was taken before
FIFTH = [sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=6), sa(GET_RESP, SERVICE_RECORD, mask=1, transaction=6)]
LATE = sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=8)
case("SA006", [*TRUSTED, LATE, *WAIT], [*TRUSTED, *FIFTH, LATE, *WAIT], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
# the capture shows no answer to that sender
case("SA006", [*TRUSTED, LATE, *WAIT], [*TRUSTED, sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=8, slid=6), *WAIT], frames=[3],
     also=["TXN001"], file=SECONDS)  # fmt: skip
MGID = bytes.fromhex("ff12401bffff000000000000ffffffff")
PREFIX = bytes([0xFE, 0x80]) + bytes(6)


def gid_of(lid: int) -> bytes:
    """The GID of the port that tests.fabric.made builds for a LID."""
    return PREFIX + (0x0002C90300001001 + (lid << 4)).to_bytes(8, "big")


def member(method: int, *, status: int = 0, transaction: int = 7, lid: int = 5, **values: Any) -> bytes:
    record = {"mgid": MGID, "port_gid": gid_of(lid), "q_key": 0xB1B, "mlid": 0xC001, "p_key": 0xFFFF, "mtu_selector": 2, "mtu": 4,
              "rate_selector": 2, "rate": 3, "scope": 2, "join_state": 1}  # fmt: skip
    mask = mask_for(MCMemberRecord, ["mgid", "port_gid", "join_state"])
    return sa(method, 0x38, build(MCMemberRecord, **{**record, **values}), mask=mask, status=status, transaction=transaction)


REFUSED = [member(SET, join_state=4), member(GET_RESP, status=0x0200)]
ALLOWED, FULL = [REFUSED[0], member(GET_RESP, join_state=4)], [member(SET), REFUSED[1]]
case("SA014", REFUSED, ALLOWED, frames=[1], also=["SA003"])
case("SA014", REFUSED, FULL, frames=[1], also=["SA003"], twin_also=["SA003"])


def path(method: int, *, mask: tuple[str, ...] = ("dgid", "sgid"), **values: Any) -> bytes:
    record = {"dgid": gid_of(5), "sgid": gid_of(6), "dlid": 5, "slid": 6, "p_key": 0xFFFF, "reversible": 1, "numb_path": 1, "hop_limit": 1}
    return sa(method, 0x35, build(PathRecord, **{**record, **values}), mask=mask_for(PathRecord, mask))


KNOWN = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5))]
ASSIGNED = ask(5, 0x15, method=SET, body=port_info(5, port_state=0, port_physical_state=0), header={"transaction_id": 77})
case("SA015", [*KNOWN, ASSIGNED, path(GET_RESP, dlid=9)], [*KNOWN, ASSIGNED, path(GET_RESP)], frames=[4])
case("SA015", [*KNOWN, ASSIGNED, path(GET_RESP, dlid=9)], [*KNOWN, ASSIGNED, answer(5, 0x15, port_info(9)), path(GET_RESP)], frames=[4])
# told again, or the LID may have changed where the capture does not see it
case("SA015", [*KNOWN, path(GET_RESP, dlid=9), *KNOWN], [*KNOWN, path(GET_RESP, dlid=9)], frames=[3])
# a NodeRecord has no LMC
RECORD = sa(GET_RESP, 0x11, build(NodeRecord, lid=5)[:4] + node(5)[:40] + bytes(64))
case("SA015", [*KNOWN, path(GET_RESP, dlid=9), *KNOWN], [RECORD, path(GET_RESP, dlid=9), RECORD], frames=[3])
case("SA016", path(TABLE, mask=("sgid", "numb_path"), numb_path=0), path(TABLE, mask=("sgid",), numb_path=0))
case("SA017", [path(GET, mask=("dgid", "sgid", "reversible")), path(GET_RESP, reversible=0)], [path(GET), path(GET_RESP, reversible=0)],
     frames=[2])  # fmt: skip


def subscription(subscribe: int, transaction: int, trap_number: int = 144) -> list[bytes]:
    """LID 5 subscribes to a trap, or cancels it, and the SA accepts."""
    info = build(InformInfo, lid_range_begin=0xFFFF, is_generic=1, subscribe=subscribe, type=0xFFFF, trap_number=trap_number, qpn=1,
                 producer_type=0xFFFFFF)  # fmt: skip
    return [sa(SET, 3, info, transaction=transaction), sa(GET_RESP, 3, info, transaction=transaction)]


NOTICE = build(Notice, 80, is_generic=1, type=4, producer_type=1, trap_number=144, issuer_lid=5, data_details=bytes([0, 0, 0, 5, 0, 1]))
REPORTED = [WAIT[0], sa(REPORT, 2, NOTICE, transaction=9), sa(0x86, 2, NOTICE, transaction=9, slid=5, dlid=1)]
REFUSING = [*REPORTED[:2], sa(0x86, 2, NOTICE, transaction=9, status=0x0C, slid=5, dlid=1)]
OVER = [*subscription(1, 7), *subscription(0, 8)]
case("SA020", [*OVER, *REFUSING], [*subscription(1, 7), *REFUSING], frames=[6], file=SECONDS)
case("SA020", [*OVER, *REFUSING], [*subscription(1, 6, 128), *OVER, *REFUSING], frames=[6], file=SECONDS)
# another program of that host takes it
case("SA020", [*OVER, *REPORTED[:2]], [*OVER, *REPORTED], frames=[6], file=SECONDS)


def service(p_key: int, mask: tuple[str, ...] = ("service_id", "service_p_key")) -> bytes:
    record = build(ServiceRecord, service_id=7, service_gid=gid_of(5), service_p_key=p_key, service_lease=60)
    return sa(SET, 0x31, record, mask=mask_for(ServiceRecord, mask))


TABLED = [*KNOWN, answer(5, 0x16, p_keys(0xFFFF, 0x8123))]
case("SA023", [*TABLED, service(0x8001)], [*TABLED, service(0x0123)], frames=[4])
case("SA023", [*TABLED, service(0x8001)], [*TABLED, service(0x8001, ("service_id",))], frames=[4])

# a virtual port, which has a table of its own
VIRTUAL = sa(SET, 0x31, build(ServiceRecord, service_id=7, service_gid=gid_of(7), service_p_key=0x8001, service_lease=60),
             mask=mask_for(ServiceRecord, ("service_id", "service_p_key")), grh={"sgid": gid_of(7), "dgid": gid_of(1)})  # fmt: skip
case("SA023", [*TABLED, service(0x8001)], [*TABLED, VIRTUAL], frames=[4])

STANDBY, MASTER = ([*KNOWN, answer(5, 0x20, build(SMInfo, guid=0x0002C90300001051, sm_state=state))] for state in (2, 3))
LOST = [sa(GET, SERVICE_RECORD, mask=1, slid=1, dlid=5), *WAIT]
case("SA024", [*STANDBY, *LOST], [*MASTER, *LOST], frames=[4], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)

# PM
case("PM002", [*agent(), counters(GET, port_select=255)], [*agent(1 << 8), counters(GET, port_select=255)], frames=[3])
CLEAR = {"counter_select": 0xFFFF, "counter_select2": 1}
case(
    "PM007", [*agent(), counters(SET, **CLEAR)], [*agent(1 << 12), counters(SET, **CLEAR)], frames=[3], also=["PM004"], twin_also=["PM004"]
)
case("PM005", counters(GET_RESP, symbol_error_counter=0xFFFF), counters(GET_RESP, symbol_error_counter=0xFFFE))
case("PM005", counters(GET_RESP, link_downed_counter=0xFF), counters(GET_RESP, port_rcv_errors=0xFF))
FELL = [counters(GET_RESP, symbol_error_counter=5), counters(GET_RESP, symbol_error_counter=3)]
case("PM010", FELL, [FELL[0], counters(SET, 8), counters(GET_RESP, 8), FELL[1]], frames=[2], twin_also=["PM004"])
case("PM010", FELL, list(reversed(FELL)), frames=[2])
# two ports behind a router
GLOBAL = [
    gmp(PM, GET_RESP, 0x12, build(PortCounters, port_select=1, symbol_error_counter=errors), header={"transaction_id": lid}, slid=5, dlid=1,
        grh={"sgid": gid_of(lid), "dgid": gid_of(1)}) for errors, lid in ((5, 7), (3, 8))
]  # fmt: skip
case("PM010", FELL, GLOBAL, frames=[2])


# CC
def congestion(
    method: int, attribute: int, body: bytes = b"", *, key: int = 0, transaction: int = 7, status: int = 0, modifier: int = 0
) -> bytes:
    """Congestion control between LID 1, which asks, and LID 5."""
    ends = {"slid": 5, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": 5}
    data = bytearray(mad(CC, method, attribute, body, at=64, transaction_id=transaction, status=status, attribute_modifier=modifier))
    put(data, CongestionControlFormat.cc_key, key)
    return ud(bytes(data), **ends)


def keyed(protect: int) -> list[bytes]:
    body = build(CongestionKeyInfo, cc_key=7, cc_key_protect_bit=protect)
    return [congestion(SET, 0x12, body), congestion(GET_RESP, 0x12, body)]


WRONG = [congestion(GET, 0x11, key=9, transaction=8), congestion(GET, 0x11, key=9, transaction=8), *WAIT]
case("CC001", [*keyed(1), *WRONG], [*keyed(0), *WRONG], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
# ibdump may have missed the answer
case("CC001", [*keyed(1), *WRONG], [*keyed(1), *WRONG[1:]], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
# the target does not have the attribute
case("CC001", [*keyed(1), WRONG[0], congestion(GET_RESP, 0x11, transaction=8, status=0x0100)],
     [*keyed(1), WRONG[0], congestion(GET_RESP, 0x11, transaction=8, status=0x0C)], frames=[3])  # fmt: skip
# the key was changed unseen
NEW = [congestion(GET, 0x11, key=9, transaction=9), congestion(GET_RESP, 0x11, transaction=9)]
case("CC001", [*keyed(1), *WRONG], [*keyed(1), *NEW, *WRONG], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
case("CC001", [*keyed(1), *WRONG], [*keyed(1), *WRONG, *NEW], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
case("CC001", [*keyed(1), WRONG[0], congestion(GET_RESP, 0x11, transaction=8, status=0x0100)],
     [*keyed(1), WRONG[0], congestion(GET_RESP, 0x11, transaction=8)], frames=[3])  # fmt: skip
CAP = [congestion(GET, 0x11), congestion(GET_RESP, 0x11, build(CongestionInfo, control_table_cap=2))]
LIMIT = build(CongestionControlTable, ccti_limit=100)
BLOCK_2, BLOCK_1 = (congestion(SET, 0x17, LIMIT, modifier=block, transaction=8) for block in (2, 1))
case("CC003", [*CAP, BLOCK_2], [*CAP, BLOCK_1], frames=[3])
case("CC004", congestion(SET, 0x17, build(CongestionControlTable)), congestion(SET, 0x17, LIMIT))
STILL = build(CACongestionSetting, control_map=1)
MOVING = STILL[:4] + build(CACongestionEntry, ccti_increase=1) + STILL[4 + CACongestionEntry.size :]
case("CC004", congestion(SET, 0x16, STILL), congestion(SET, 0x16, MOVING))
