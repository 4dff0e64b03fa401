"""Proofs of the rules about transactions: requests, answers and RMPP transfers: captures that trigger them, and near-miss twins that
must not."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

from ibdissect.lint.site_policy import SitePolicy
from ibdissect.wire.cm import APR, LAP, MRA, RTU
from ibdissect.wire.mad import RMPP
from ibdissect.wire.notice import Notice
from ibdissect.wire.pm import PortCountersExtended
from ibdissect.wire.sm import SMInfo
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, interfaces_pcapng, roce2, smp, ud
from tests.rules.cases import case
from tests.rules.made.connections import ACTIVE, BACK, BROKEN, IDS, PASSIVE, REFUSED, message, over_ethernet, reply, request
from tests.rules.made.connections import WAIT as CM_WAIT
from tests.rules.made.conversations import agent, counters
from tests.rules.made.conversations import perf as gsi_perf
from tests.rules.made.mads import table
from tests.rules.made.ports import set_port
from tests.subnet.files.made_files import parsed
from tests.subnet.made import answer, node, port_info

PERF, SA, PORT_COUNTERS, LINK_RECORD, NOTICE, GET = 0x04, 0x03, 0x12, 0x20, 0x02, 0x01
GET_RESP, REPORT_RESP, TRAP, REPRESS, TABLE, TABLE_RESP = 0x81, 0x86, 0x05, 0x07, 0x12, 0x92
DATA, ACK, FIRST, MIDDLE, LAST, SET, RESPONSE = 1, 2, 3, 1, 5, 0x02, 0x81
SLOW: Any = partial(erf_pcap, step_ns=1_000_000_000)
SLOWER: Any = partial(erf_pcap, step_ns=6_000_000_000)
PORT_1 = bytes([0, 1])


def perf(method: int, transaction: int, **kw: Any) -> bytes:
    """Asked by LID 1 of LID 2."""
    ends = {"slid": 2, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": 2}
    return gmp(PERF, method, PORT_COUNTERS, PORT_1, header={"transaction_id": transaction}, **{**ends, **kw})


def segment(kind: int, number: int, data2: int, *, flags: int = 1, method: int = TABLE_RESP, transaction: int = 7, **header: int) -> bytes:
    """A segment of the table that LID 2 sends to LID 1, or its acknowledgement."""
    rmpp = build(RMPP, rmpp_version=1, rmpp_type=kind, r_resp_time=31, rmpp_flags=flags, data1=number, data2=data2)
    body = bytearray(rmpp + bytes(220))
    if kind == 1:
        body[20:22] = bytes([0, 1])  # AttributeOffset in eight bytes
    ends = {"slid": 1, "dlid": 2} if method == TABLE else {"slid": 2, "dlid": 1}
    return gmp(SA, method, LINK_RECORD, bytes(body), at=24, header={"transaction_id": transaction, **header}, **ends)


def other(psn: int) -> bytes:
    """A datagram that has nothing to do with it."""
    return ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=0x1111, bth={"psn": psn})


QUICK: Any = partial(erf_pcap, step_ns=1_000_000)
EXTENDED = gmp(PERF, GET, 0x1D, PORT_1, header={"transaction_id": 2}, slid=1, dlid=2)


def answered_late(attribute: int) -> bytes:
    """The answer of LID 2 to another question under transaction id 2."""
    return gmp(PERF, GET_RESP, attribute, build(PortCountersExtended, port_select=1), header={"transaction_id": 2}, slid=2, dlid=1)


DONE = [perf(GET, 1), perf(GET_RESP, 1)]
case("TXN001", [*DONE, perf(GET, 2), other(1), other(2)], [*DONE, perf(GET, 2), perf(GET_RESP, 2), other(2)], frames=[3], file=SLOW)
# one direction only
case("TXN001", [*DONE, perf(GET, 2), perf(GET, 2), other(1), other(2)], [perf(GET, 1), perf(GET, 2), other(1), other(2)], frames=[3],
     file=SLOW)  # fmt: skip
# the answer was recorded just in front of the request
case("TXN001", [*DONE, perf(GET, 2), *[other(psn) for psn in range(1200)]],
     [*DONE, perf(GET_RESP, 2), perf(GET, 2), *[other(psn) for psn in range(1200)]], frames=[3], file=QUICK)  # fmt: skip
# another question with the same transaction id came in between
case("TXN001", [*DONE, perf(GET, 2), EXTENDED, answered_late(0x1D), other(1), other(2)],
     [*DONE, perf(GET, 2), EXTENDED, perf(GET_RESP, 2), answered_late(0x1D), other(1), other(2)], frames=[3], file=SLOW)  # fmt: skip
# answers go to others only
TO_OTHERS = [perf(GET_RESP, 1, dlid=9), perf(GET_RESP, 2, dlid=9)]
case("TXN001", [*DONE, perf(GET, 2), *TO_OTHERS], [*TO_OTHERS, perf(GET, 2), other(1), other(2)], frames=[3], file=SLOW)
# the end of the capture
case("TXN001", [*DONE, perf(GET, 2), other(1)], [*DONE, perf(GET, 2)], frames=[3], file=SLOW)
# the requester's LID is nobody's, but it is answered; the twin: nobody has LID 7
UNANSWERED, STRANGE = [*DONE, perf(GET, 2), other(1), other(2)], {"also": ["LNK020"], "twin_also": ["LNK020"], "file": SLOW}
case("TXN001", UNANSWERED, [*DONE, perf(GET, 2, dlid=7), other(1), other(2)], frames=[3],
     known=[parsed("guid2lid", "0x0002c90300001021 0x0002 0x0002")[0]], **STRANGE)  # fmt: skip
# the site does not allow LID 1, but somebody has it
case("TXN001", UNANSWERED, [*DONE, perf(GET, 2), perf(GET_RESP, 2)], frames=[3], policy=SitePolicy(lids=((2, 15),)), **STRANGE)
case("TXN003", [*DONE, perf(GET_RESP, 1)], [*DONE, perf(GET, 1), perf(GET_RESP, 1)], frames=[3])
case("TXN005", [perf(GET, 1), perf(GET_RESP, 1, slid=900)], [perf(GET, 1), perf(GET_RESP, 1, slid=900, dlid=3)], frames=[2])
# the answer repeats the addresses of its request; the twin: the answer follows, so the other answered somebody else
ALIKE = perf(GET_RESP, 1, slid=1, dlid=2)
case("TXN005", [perf(GET, 1), ALIKE], [perf(GET, 1), ALIKE, perf(GET_RESP, 1)], frames=[2])
# through another router than the request
FAR = {"sgid": bytes([0xFE, 0xC0, *bytes(13), 2]), "dgid": bytes([0xFE, 0xC0, *bytes(13), 1]), "hop_lmt": 64}
case("TXN005", [perf(GET, 1), perf(GET_RESP, 1, slid=900)], [perf(GET, 1), perf(GET_RESP, 1, slid=900, grh=FAR)], frames=[2])
BARE = [gmp(SA, method, 0x01, bytes(200), at=24, slid=1 + method // 128, dlid=2 - method // 128) for method in (GET, TABLE_RESP, GET_RESP)]
case("TXN006", BARE[:2], BARE[::2], frames=[2], also=["TXN023"])


def trap_like(method: int, transaction: int = 5) -> bytes:
    """A trap of LID 5 to the manager at LID 1, or what comes back."""
    ends = {"slid": 5, "dlid": 1} if method == TRAP else {"slid": 1, "dlid": 5}
    return smp(method, NOTICE, LOCAL, header={"transaction_id": transaction}, **ends)


LOCAL = build(Notice, 64, is_generic=1, type=4, producer_type=1, trap_number=144, issuer_lid=5, data_details=bytes([0, 0, 0, 5, 0, 1]))
case("TXN008", [trap_like(TRAP), trap_like(GET_RESP)], [trap_like(TRAP), trap_like(REPRESS)], frames=[2])
case("TXN008", [trap_like(TRAP, 0), trap_like(GET_RESP, 0)], [trap_like(TRAP, 0), trap_like(GET_RESP, 5)], frames=[2],
     also=["MAD012"], twin_also=["MAD012"])  # fmt: skip
WAIT = [other(i) for i in range(3)]
case("TXN009", [*WAIT, trap_like(REPRESS)], [*WAIT, trap_like(TRAP), trap_like(REPRESS)], frames=[4], file=SLOWER)
# the capture has just begun
case("TXN009", [*WAIT, trap_like(REPRESS)], [trap_like(REPRESS), *WAIT], file=SLOWER)
case("TXN011", [*WAIT, segment(DATA, 5, 0)], [*WAIT, segment(DATA, 1, 0, flags=FIRST)], frames=[4], file=SLOWER)
# the capture changed the order of the first two
case("TXN011", [*WAIT, segment(DATA, 2, 0), segment(DATA, 3, 0)], [*WAIT, segment(DATA, 2, 0), segment(DATA, 1, 0, flags=FIRST)],
     frames=[4], file=SLOWER)  # fmt: skip
# ibdump may have missed what the sender does not go back for
SKIPPED = [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 3, 0, flags=MIDDLE)]
ARRIVED = segment(ACK, 3, 64, method=TABLE)
MISSED = segment(DATA, 2, 0, flags=MIDDLE)
case("TXN012", [*SKIPPED, MISSED, SKIPPED[-1], ARRIVED], [*SKIPPED, ARRIVED], frames=[2], severity="error")
case("TXN012", [*SKIPPED, MISSED, SKIPPED[-1], ARRIVED], [*SKIPPED, MISSED, ARRIVED], frames=[2])  # the capture changed the order
# the capture misses other packets, perhaps those between
AWAY = [*[segment(DATA, n, 0, flags=FIRST if n == 1 else MIDDLE, transaction=8) for n in (1, 3)],
        segment(ACK, 3, 64, method=TABLE, transaction=8)]  # fmt: skip
case("TXN012", [*AWAY, *SKIPPED, MISSED, SKIPPED[-1], ARRIVED], [*AWAY, *SKIPPED, ARRIVED], frames=[5], severity="info")
# the receiver had acknowledged it before it was sent again: a second mirror, whose clock is behind
case("TXN012", [*SKIPPED, MISSED, ARRIVED, SKIPPED[-1]], [*SKIPPED, ARRIVED, MISSED, SKIPPED[-1]], frames=[2])
# each segment twice, one swapped with its neighbour: nobody goes back within 0.5 ms
GOES_BACK = [*SKIPPED, MISSED, SKIPPED[-1], ARRIVED]
case("TXN012", ethernet_pcap(GOES_BACK, link=247), ethernet_pcap(GOES_BACK, link=247, step_ns=200_000), frames=[2], also=["CAP009"],
     twin_also=["CAP009", "CAP012"], file=None)  # fmt: skip
# two segments that were recorded out of order, one behind the other
SWAPPED = [segment(DATA, n, 0, flags=FIRST if n == 1 else MIDDLE) for n in (1, 3, 2, 5, 4, 6)]
case("TXN012", [*SWAPPED, SWAPPED[-1]], SWAPPED, frames=[2, 4])
# also behind the last segment
ENDED = [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 3, 40, flags=LAST)]
case("TXN012", [*ENDED, MISSED, ENDED[-1]], ENDED, frames=[2])
# the twin: the capture misses a segment, and ends before the receiver says what it has
FIRST_ARRIVED = segment(ACK, 1, 64, method=TABLE)
case("TXN012", [*ENDED, FIRST_ARRIVED], ENDED, frames=[2], also=["CAP009"], twin_also=["CAP009"], file=partial(ethernet_pcap, link=247))
case("TXN012", erf_pcap(ENDED, lost=()), erf_pcap(ENDED, lost=(2,)), frames=[2], twin_also=["CAP004"], file=None)
case("TXN012", erf_pcap(ENDED, lost=()), erf_pcap(ENDED), frames=[2], file=None)
# a transfer that was answered begins anew: with a gap 1 ms later; 0.2 ms later, it is the copy of a mirror that lost a segment
TWICE = [ENDED[0], MISSED, ENDED[1], segment(ACK, 3, 64, method=TABLE), *ENDED, FIRST_ARRIVED]
case("TXN012", ethernet_pcap(TWICE, link=247), ethernet_pcap(TWICE, link=247, step_ns=200_000), frames=[6],
     also=["CAP009"], twin_also=["CAP009"], file=None)  # fmt: skip
case("TXN013", [segment(DATA, 1, 300, flags=FIRST), segment(DATA, 2, 40, flags=LAST)],
     [segment(DATA, 1, 260, flags=FIRST), segment(DATA, 2, 40, flags=LAST)], frames=[2])  # fmt: skip
# more than a segment holds; the twin: of a segment that is not the last one, nobody reads the length
case("TXN013", [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 2, 221, flags=LAST)],
     [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 2, 221, flags=MIDDLE), segment(DATA, 3, 220, flags=LAST)], frames=[2])  # fmt: skip
case("TXN013", [segment(DATA, 1, 540, flags=FIRST), segment(DATA, 2, 320, flags=LAST)],
     [segment(DATA, 1, 540, flags=FIRST), segment(DATA, 2, 0, flags=MIDDLE), segment(DATA, 3, 100, flags=LAST)], frames=[2])  # fmt: skip
case("TXN013", segment(DATA, 1, 221, flags=FIRST | LAST), segment(DATA, 1, 0, flags=FIRST | LAST), frames=[1])
case("TXN013", segment(DATA, 1, 221, flags=FIRST | LAST), segment(DATA, 1, 221, flags=(FIRST | LAST) & ~1), frames=[1],
     twin_also=["TXN023"])  # fmt: skip
case("TXN013", segment(DATA, 1, 221, flags=FIRST | LAST), segment(DATA, 1, 221, flags=FIRST | LAST, base_version=0x80), frames=[1],
     twin_also=["OPA001"])  # fmt: skip
DONE = [segment(DATA, 1, 280, flags=FIRST), segment(DATA, 2, 60, flags=LAST)]
case("TXN022", [*DONE, segment(ACK, 5, 9, method=TABLE)], [*DONE, segment(ACK, 2, 9, method=TABLE)], frames=[3], severity="error")
# of one whose last segment was not seen, and of another transfer
case("TXN022", [*DONE, segment(ACK, 3, 9, method=TABLE)], [DONE[0], segment(ACK, 3, 9, method=TABLE)], frames=[3])
case("TXN022", [*DONE, segment(ACK, 3, 9, method=TABLE)], [*DONE, segment(ACK, 3, 9, method=TABLE, transaction=8)], frames=[3])
# the id is used again: an acknowledgement of the transfer before comes late
THREE = [segment(DATA, 1, 500, flags=FIRST), segment(DATA, 2, 0, flags=MIDDLE), segment(DATA, 3, 60, flags=LAST)]
ID_AGAIN = [*THREE, segment(ACK, 3, 9, method=TABLE), *DONE]
case("TXN022", [*ID_AGAIN, segment(ACK, 4, 9, method=TABLE)], [*ID_AGAIN, segment(ACK, 3, 9, method=TABLE)], frames=[7], severity="error")
# something is missing there: an answer without a request
STRAY = segment(DATA, 4, 60, flags=MIDDLE, transaction=9)
case("TXN022", [*DONE, STRAY, segment(ACK, 9, 9, method=TABLE, transaction=9), segment(ACK, 3, 9, method=TABLE)],
     [*DONE, STRAY, segment(ACK, 9, 9, method=TABLE, transaction=9), segment(ACK, 2, 9, method=TABLE)], frames=[5])  # fmt: skip
case("TXN023", segment(DATA, 1, 60, flags=(FIRST | LAST) & ~1), segment(DATA, 1, 60, flags=FIRST | LAST))
case("TXN023", segment(DATA, 1, 60, flags=(FIRST | LAST) & ~1), segment(DATA, 1, 60, flags=(FIRST | LAST) & ~1, status=0x0100))
case("TXN017", segment(ACK, 5, 1, method=TABLE), segment(ACK, 5, 5, method=TABLE))
case("TXN020", [segment(DATA, 1, 0, flags=FIRST), *WAIT],
     [segment(DATA, 1, 0, flags=FIRST), segment(DATA, 2, 40, flags=LAST), *WAIT], frames=[1], file=SLOWER)  # fmt: skip
GSI_SLOW: Any = partial(erf_pcap, step_ns=6_000_000_000)
# TXN002
ONE, OTHER = counters(GET), gsi_perf(GET, 0x1D, build(PortCountersExtended, port_select=1))
GSI_DONE = [counters(GET_RESP), gsi_perf(GET_RESP, 0x1D, build(PortCountersExtended, port_select=1))]
case("TXN002", [ONE, OTHER, *GSI_DONE], [ONE, GSI_DONE[0], OTHER, GSI_DONE[1]], frames=[2])
case("TXN002", [ONE, OTHER, *GSI_DONE], [ONE, ONE, *GSI_DONE[:1]])
# ibdump may have missed the first answer
case("TXN002", [ONE, OTHER, *GSI_DONE], [ONE, OTHER, GSI_DONE[1]])
# TXN004
case("TXN004", [*agent(), counters(GET, 8), counters(GET_RESP, 8)], [*agent(resp_time_value=21), counters(GET, 8), counters(GET_RESP, 8)],
     frames=[4], file=GSI_SLOW)  # fmt: skip
# an agent of RoCE, which an IP address identifies; the twin's agent is another host's
ANNOUNCED, ASKED = agent(), [counters(GET, 8), counters(GET_RESP, 8)]
BETWEEN_HOSTS = [over_ethernet(frame, end) for frame, end in zip([*ANNOUNCED, *ASKED], (1, 2, 1, 2), strict=True)]
OTHER_HOST = [over_ethernet(frame, end) for frame, end in zip([*ANNOUNCED, *ASKED], (2, 1, 1, 2), strict=True)]
case("TXN004", BETWEEN_HOSTS, OTHER_HOST, frames=[4], file=partial(ethernet_pcap, step_ns=6_000_000_000))
ASK = [smp(GET, 0x10, slid=1, dlid=5), answer(5, 0x10, b"node")]
QUICK, LAZY = (
    [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, subnet_time_out=10, resp_time_value=code)), *ASK] for code in (10, 14)
)
case("TXN004", QUICK, LAZY, frames=[4], file=partial(erf_pcap, step_ns=20_000_000))
# TXN018
FLOOD = [counters(GET, n) for n in range(1, 102)]
case("TXN018", FLOOD, FLOOD[:100], frames=[101])
# without an answer of that agent to that requester, the capture may show one direction only, or one link of several
HEARD = [counters(way, 500, port_select=9) for way in (GET, RESPONSE)]
ELSEWHERE = [perf(GET, 500, dlid=3), perf(GET_RESP, 500, slid=3), perf(GET, 501, slid=3), perf(GET_RESP, 501, dlid=3)]
case("TXN018", FLOOD, FLOOD[:100], frames=[101], severity="info")
case("TXN018", [*FLOOD, *ELSEWHERE], [*FLOOD[:100], *ELSEWHERE], frames=[101], severity="info")
case("TXN018", [*HEARD, *FLOOD], [*HEARD, *FLOOD[:100]], frames=[103], severity="warning")
# the capture misses packets: an answer has no request
LOSES = [perf(GET_RESP, 600)]
case("TXN018", [*HEARD, *FLOOD, *LOSES], [*HEARD, *FLOOD[:100], *LOSES], frames=[103], severity="info")
# each is answered before the next: the agent keeps up; it does not where a tenth is lost
COUNTED = [counters(RESPONSE, n) for n in range(1, 203)]
POLLS = [frame for n in range(1, 203) for frame in (counters(GET, n), COUNTED[n - 1])]
for polls, first, how in ((POLLS, 201, "info"), ([frame for i, frame in enumerate(POLLS) if i % 20 != 19], 191, "warning")):
    case("TXN018", polls, POLLS[:200], frames=[first], severity=how)
    roce, few = ([over_ethernet(frame, 2 if frame[31] & 0x80 else 1) for frame in some] for some in (polls, POLLS[:200]))
    case("TXN018", roce, few, frames=[first], severity=how, file=ethernet_pcap)
# answers to another queue pair than 0 and 1 are not recognized
OWN_QPS = [perf(GET, n, src_qp=0x48) for n in range(1, 102)]
case("TXN018", OWN_QPS, OWN_QPS[:100], frames=[101], severity="info")
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
# along a directed route, which names no requester
DIRECTED_FLOOD = [smp(GET, 0x11, path=[1, 2], header={"transaction_id": n}) for n in range(1, 102)]
case("TXN018", DIRECTED_FLOOD, DIRECTED_FLOOD[:100], frames=[101], severity="warning")
# TXN019
MANAGERS = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)]
MANAGERS += [answer(lid, 0x15, port_info(lid)) for lid in (5, 6, 7)]
MANAGERS += [answer(lid, 0x20, build(SMInfo, guid=0x0002C90300001001 + (lid << 4), sm_state=state)) for lid, state in ((5, 3), (6, 2))]
BY_5, BY_6 = (smp(SET, 0x10, slid=lid, dlid=7) for lid in (5, 6))
case("TXN019", [*MANAGERS, BY_5, BY_6, BY_5], [*MANAGERS, BY_5, BY_5, BY_5], frames=[11], also=["SEM065"],
     twin_also=["SEM065"])  # fmt: skip
# somebody runs ibportstate on the host of the standby; two masters both set
PORT_BY_5, PORT_BY_6 = (smp(SET, 0x15, set_port(7), slid=lid, dlid=7) for lid in (5, 6))
BOTH_MASTERS = [*MANAGERS, answer(6, 0x20, build(SMInfo, guid=0x0002C90300001061, sm_state=3))]
case("TXN019", [*BOTH_MASTERS, PORT_BY_5, PORT_BY_6, PORT_BY_5], [*MANAGERS, PORT_BY_5, PORT_BY_6, PORT_BY_5], frames=[12],
     also=["SMP025"], twin_also=["SMP025"])  # fmt: skip
case("TXN019", [*MANAGERS, BY_5, BY_6, BY_5], [*MANAGERS, PORT_BY_5, PORT_BY_6, BY_5], frames=[11], also=["SEM065"],
     twin_also=["SEM065", "SMP025"])  # fmt: skip
# somebody reads registers of the manufacturer, or switches the LED on, from the hosts of both
for ATTRIBUTE in (0xFF52, 0x31):
    READ_BY_5, READ_BY_6 = (smp(SET, ATTRIBUTE, slid=lid, dlid=7) for lid in (5, 6))
    case("TXN019", [*BOTH_MASTERS, READ_BY_5, READ_BY_6, READ_BY_5], [*MANAGERS, READ_BY_5, READ_BY_6, READ_BY_5], frames=[12])
# the second takes over from the first, which died
case("TXN019", [*MANAGERS, BY_5, BY_6, BY_5], [*MANAGERS, BY_5, BY_6, BY_6], frames=[11], also=["SEM065"],
     twin_also=["SEM065"])  # fmt: skip


def patient(code: int, of: int = 0) -> bytes:
    """The passive side asks for 4.096 us * 2^code more."""
    return message(0x11, MRA, BACK, PASSIVE, message_mraed=of, service_timeout=code)


LONG: Any = partial(erf_pcap, step_ns=4_000_000_000)
case("TXN010", [request(), patient(18), reply()], [request(), patient(20), reply()], frames=[3], file=LONG)
case("TXN010", [request(), patient(18), REFUSED], [request(), patient(18), patient(20), REFUSED], frames=[3], also=["CM012"],
     twin_also=["CM012"], file=LONG)  # fmt: skip
LOAD = message(0x19, LAP, IDS, ACTIVE, remote_qpn=0x200, remote_cm_response_timeout=20)
LOADED = message(0x1A, APR, BACK, PASSIVE)
case("TXN010", [*BROKEN, LOAD, patient(18, 2), LOADED], [*BROKEN, LOAD, patient(20, 2), LOADED], frames=[6], file=LONG)
# recording may have stopped for a minute
PAUSED: Any = partial(erf_pcap, step_ns=61_000_000_000)
case("TXN010", [request(), patient(18), reply()], [request(), patient(24), reply()], frames=[3], severity="info", file=PAUSED)
# the answer to the second LAP, which asked for no patience
AGAIN = [*BROKEN, LOAD, patient(20, 2), LOADED]
case("TXN010", [*BROKEN, LOAD, patient(18, 2), LOADED], [*AGAIN, LOAD, LOADED], frames=[6], file=LONG)
# silence proves something only where the capture misses nothing
SILENT = [over_ethernet(request(), 1), over_ethernet(patient(18), 2), roce2(0x64, b"idle", ext={"DETH": {}}, bth={"destqp": 9})]
case("TXN010", ethernet_pcap(SILENT, step_ns=4_000_000_000), LONG([request(), patient(18), CM_WAIT[0]]), file=None)  # type: ignore[arg-type]
# in ERF of a card, whose loss counter says that nothing is missing
WAITED = [request(), patient(18), CM_WAIT[0]]
case("TXN010", LONG(WAITED, lost=()), LONG(WAITED, lost=(3,)), twin_also=["CAP004"], file=None)
case("TXN010", LONG(WAITED, lost=()), LONG([request(), patient(21), CM_WAIT[0]], lost=()), file=None)
COUNTERS = gmp(PERF, GET, 1, slid=1, dlid=2)


def counted(lid: int) -> bytes:
    return gmp(PERF, RESPONSE, 1, slid=lid, dlid=1)


case("TXN005", [COUNTERS, counted(900)], [COUNTERS, counted(3)], frames=[2])
ONE_LID, TWO_LIDS = ([answer(2, 0x11, node(2)), answer(2, 0x15, port_info(2, lmc=lmc))] for lmc in (0, 1))
case("TXN005", [*ONE_LID, COUNTERS, counted(3), ONE_LID[1]], [*TWO_LIDS, COUNTERS, counted(3), TWO_LIDS[1]], frames=[4])
case("TXN014", table(rmpp_type=4, rmpp_status=126), table(rmpp_type=2))
case("TXN015", table(rmpp_type=3, rmpp_status=1), table(rmpp_type=2))
case("TXN016", table(rmpp_status=1), table())
case("TXN021", table(first=1, segment_number=3), table(first=1, segment_number=1))
case("TXN021", table(segment_number=1), table(segment_number=2))
case("TXN021", table(segment_number=0), table(rmpp_type=2, segment_number=0))  # an ACK of nothing asks again from the first
case("TXN021", table(rmpp_type=5), table(rmpp_type=5, active=0), twin_also=["TXN023"])
case("TXN021", table(first=1, segment_number=3), table(first=1, segment_number=3, rmpp_version=2), twin_also=["MAD015"])
case("TXN016", table(rmpp_type=3, rmpp_status=5), table(rmpp_type=3, rmpp_status=1), twin_also=["TXN015"])
case("TXN016", table(rmpp_type=4, rmpp_status=50), table(rmpp_type=4, rmpp_status=118), twin_also=["TXN014"])
case("TXN016", table(rmpp_type=4, rmpp_status=1), table(rmpp_type=4, rmpp_status=118), twin_also=["TXN014"])
case("TXN016", table(rmpp_type=3, rmpp_status=118), table(rmpp_type=3, rmpp_status=1), twin_also=["TXN015"])
# what a class or a manufacturer defines
for kind in (3, 4):
    case("TXN016", table(rmpp_type=kind, rmpp_status=117), table(rmpp_type=kind, rmpp_status=128), twin_also=["TXN015"] * (kind == 3))
# one direction: the first request may have been answered
case("TXN002", ethernet_pcap([ONE, OTHER], link=247), ethernet_pcap([ONE, ONE], link=247), severity="info", also=["CAP009"],
     twin_also=["CAP009"], file=None)  # fmt: skip
# the REP is not captured, but the RTU that answers it
ACCEPTED = [*SILENT[:2], over_ethernet(message(0x14, RTU, IDS, ACTIVE), 1), SILENT[2]]
case("TXN010", ethernet_pcap(SILENT, step_ns=4_000_000_000), ethernet_pcap(ACCEPTED, step_ns=4_000_000_000), frames=[2], file=None)
# the answer to another queue pair than 0 and 1 is not taken for a management datagram
OWN_QP = perf(GET, 2, src_qp=0x48)
case("TXN001", [*DONE, perf(GET, 2), other(1), other(2)], [*DONE, OWN_QP, perf(GET_RESP, 2, dest_qp=0x48), other(2)], frames=[3], file=SLOW)
# the agent answers one after the other, and the capture ends
BURST = [counters(GET, n) for n in range(1, 151)]
for answered, how in (([*range(1, 60)], "info"), ([n for n in range(1, 130) if n != 120], "warning")):
    case("TXN018", [*BURST, *[counters(RESPONSE, n) for n in answered]], BURST[:100], frames=[101], severity=how)
# one of many answers is lost; or those that wait longest have asked again, and the agent goes on
NEARLY = [n for n in range(1, 151) if n != 120]
SLOWLY = [frame for n in range(1, 130) for frame in (counters(RESPONSE, n), *[other(psn) for psn in range(10)])]
case("TXN018", [*BURST, *[counters(RESPONSE, n) for n in NEARLY]], BURST[:100], frames=[101], severity="info")
case("TXN018", [*BURST, *SLOWLY, *BURST[129:]], BURST[:100], frames=[101], severity="info")
# it does not answer the rest for a second
case("TXN018", [*BURST, *[counters(RESPONSE, n) for n in range(1, 60)], *[other(psn) for psn in range(1200)]], BURST[:100], frames=[101],
     severity="warning")  # fmt: skip
# two recordings are merged whose clocks differ: an answer stands seconds before its request
NO_ERF: Any = partial(ethernet_pcap, step_ns=1_000_000_000, link=247)
for transaction, severity in ((1, "warning"), (2, "info")):
    case("TXN001", [perf(GET_RESP, transaction), other(1), perf(GET, 2), other(2), other(3)], DONE, frames=[3], severity=severity,
         also=["CAP009"], twin_also=["CAP009"], file=NO_ERF)  # fmt: skip
for transaction, severity in ((1, "warning"), (2, "info")):
    recorded = [(1, perf(GET_RESP, transaction)), (0, perf(GET, 2)), (0, other(2)), (0, other(3))]
    case("TXN001", interfaces_pcapng(recorded, step_ns=1_000_000_000), NO_ERF(DONE), frames=[2], severity=severity, also=["CAP009"],
         twin_also=["CAP009"], file=None)  # fmt: skip
