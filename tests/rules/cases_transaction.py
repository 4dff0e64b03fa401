"""Proofs of the rules about transactions."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.mad import RMPP
from ibdissect.wire.notice import Notice
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, smp, ud
from tests.rules.cases import case

PERF, SA, PORT_COUNTERS, LINK_RECORD, NOTICE = 0x04, 0x03, 0x12, 0x20, 0x02
GET, GET_RESP, REPORT_RESP, TRAP, REPRESS, TABLE, TABLE_RESP = 0x01, 0x81, 0x86, 0x05, 0x07, 0x12, 0x92
SLOW: Any = partial(erf_pcap, step_ns=1_000_000_000)
SLOWER: Any = partial(erf_pcap, step_ns=6_000_000_000)
PORT_1 = bytes([0, 1])


def perf(method: int, transaction: int, **kw: Any) -> bytes:
    """Asked by LID 1 of LID 2."""
    ends = {"slid": 2, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": 2}
    return gmp(PERF, method, PORT_COUNTERS, PORT_1, header={"transaction_id": transaction}, **{**ends, **kw})


def segment(kind: int, number: int, data2: int, *, flags: int = 1, method: int = TABLE_RESP, transaction: int = 7) -> bytes:
    """A segment of the table that LID 2 sends to LID 1, or its acknowledgement."""
    rmpp = build(RMPP, rmpp_version=1, rmpp_type=kind, r_resp_time=31, rmpp_flags=flags, data1=number, data2=data2)
    body = bytearray(rmpp + bytes(220))
    if kind == 1:
        body[20:22] = bytes([0, 1])  # AttributeOffset in eight bytes
    ends = {"slid": 1, "dlid": 2} if method == TABLE else {"slid": 2, "dlid": 1}
    return gmp(SA, method, LINK_RECORD, bytes(body), at=24, header={"transaction_id": transaction}, **ends)


def other(psn: int) -> bytes:
    """A datagram that has nothing to do with it."""
    return ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=0x1111, bth={"psn": psn})


DONE = [perf(GET, 1), perf(GET_RESP, 1)]
case("TXN001", [*DONE, perf(GET, 2), other(1), other(2)], [*DONE, perf(GET, 2), perf(GET_RESP, 2), other(2)], frames=[3], file=SLOW)
# one direction only
case("TXN001", [*DONE, perf(GET, 2), perf(GET, 2), other(1), other(2)], [perf(GET, 1), perf(GET, 2), other(1), other(2)], frames=[3],
     file=SLOW)  # fmt: skip
# answers go to others only
TO_OTHERS = [perf(GET_RESP, 1, dlid=9), perf(GET_RESP, 2, dlid=9)]
case("TXN001", [*DONE, perf(GET, 2), *TO_OTHERS], [*TO_OTHERS, perf(GET, 2), other(1), other(2)], frames=[3], file=SLOW)
# the end of the capture
case("TXN001", [*DONE, perf(GET, 2), other(1)], [*DONE, perf(GET, 2)], frames=[3], file=SLOW)
case("TXN003", [*DONE, perf(GET_RESP, 1)], [*DONE, perf(GET, 1), perf(GET_RESP, 1)], frames=[3])
case("TXN005", [perf(GET, 1), perf(GET_RESP, 1, slid=900)], [perf(GET, 1), perf(GET_RESP, 1, slid=900, dlid=3)], frames=[2])
# through another router than the request
FAR = {"sgid": bytes([0xFE, 0xC0, *bytes(13), 2]), "dgid": bytes([0xFE, 0xC0, *bytes(13), 1]), "hop_lmt": 64}
case("TXN005", [perf(GET, 1), perf(GET_RESP, 1, slid=900)], [perf(GET, 1), perf(GET_RESP, 1, slid=900, grh=FAR)], frames=[2])
case("TXN006", [perf(GET, 1), perf(REPORT_RESP, 1)], [perf(GET, 1), perf(GET_RESP, 1)], frames=[2], also=["PM009"])


def trap_like(method: int, transaction: int = 5) -> bytes:
    """A trap of LID 5 to the manager at LID 1, or what comes back."""
    ends = {"slid": 5, "dlid": 1} if method == TRAP else {"slid": 1, "dlid": 5}
    return smp(method, NOTICE, LOCAL, header={"transaction_id": transaction}, **ends)


LOCAL = build(Notice, 64, is_generic=1, type=4, producer_type=1, trap_number=144, issuer_lid=5, data_details=bytes([0, 0, 0, 5, 0, 1]))
case("TXN008", [trap_like(TRAP), trap_like(GET_RESP)], [trap_like(TRAP), trap_like(REPRESS)], frames=[2])
WAIT = [other(i) for i in range(3)]
case("TXN009", [*WAIT, trap_like(REPRESS)], [*WAIT, trap_like(TRAP), trap_like(REPRESS)], frames=[4], file=SLOWER)
# the capture has just begun
case("TXN009", [*WAIT, trap_like(REPRESS)], [trap_like(REPRESS), *WAIT], file=SLOWER)
DATA, ACK = 1, 2
FIRST, MIDDLE, LAST = 3, 1, 5
case("TXN011", [*WAIT, segment(DATA, 5, 0)], [*WAIT, segment(DATA, 1, 0, flags=FIRST)], frames=[4], file=SLOWER)
# ibdump may have missed what the sender does not go back for
SKIPPED = [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 3, 0, flags=MIDDLE)]
ARRIVED = segment(ACK, 3, 64, method=TABLE)
MISSED = segment(DATA, 2, 0, flags=MIDDLE)
case("TXN012", [*SKIPPED, MISSED, SKIPPED[-1], ARRIVED], [*SKIPPED, ARRIVED], frames=[2])
case("TXN012", [*SKIPPED, MISSED, SKIPPED[-1], ARRIVED], [*SKIPPED, MISSED, ARRIVED], frames=[2])  # the capture changed the order
# also behind the last segment
ENDED = [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 3, 40, flags=LAST)]
case("TXN012", [*ENDED, MISSED, ENDED[-1]], ENDED, frames=[2])
case("TXN012", ENDED, [ENDED[0], segment(DATA, 2, 40, flags=LAST)], frames=[2],
     also=["CAP009"], twin_also=["CAP009"], file=partial(ethernet_pcap, link=247))  # fmt: skip
case("TXN013", [segment(DATA, 1, 300, flags=FIRST), segment(DATA, 2, 40, flags=LAST)],
     [segment(DATA, 1, 260, flags=FIRST), segment(DATA, 2, 40, flags=LAST)], frames=[2])  # fmt: skip
case("TXN017", segment(ACK, 5, 1, method=TABLE), segment(ACK, 5, 5, method=TABLE))
case("TXN020", [segment(DATA, 1, 0, flags=FIRST), *WAIT],
     [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 2, 40, flags=LAST), *WAIT], frames=[1], file=SLOWER)  # fmt: skip
