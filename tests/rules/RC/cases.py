"""Proofs of the rules about reliable and unreliable connections: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.craft import erf_pcap, ethernet_pcap, rc, roce2, ud
from tests.robustness.manipulations import ETHERNET, Pcap, Record
from tests.rules.cases import case
from tests.rules.made.connections import ACTIVE, LEAVE, PASSIVE, READY, data, reply, request

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND, WRITE_FIRST, WRITE_LAST = 0x00, 0x01, 0x02, 0x04, 0x06, 0x08
READ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, UC_SEND, UC_WRITE = 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x24, 0x2A
THERE, BACK = bytes([192, 168, 0, 1]), bytes([192, 168, 0, 2])
SLOW: Any = partial(ethernet_pcap, step_ns=1_000_000_000)


def ask(psn: int, opcode: int = SEND, payload: bytes = b"data", **ext: Any) -> bytes:
    return roce2(opcode, payload, ext=ext, bth={"psn": psn, "destqp": 0x12})


def answer(psn: int, msn: int, opcode: int = ACK, payload: bytes = b"", syndrome: int = 0x1F) -> bytes:
    ext = {"AETH": {"syndrome": syndrome, "msn": msn}} if opcode != READ_MIDDLE else {}
    return roce2(opcode, payload, ext=ext, bth={"psn": psn, "destqp": 0x34}, ip={"source": BACK, "destination": THERE})


IDLE = [roce2(0x64, b"idle", ext={"DETH": {"q_key": 5, "srcqp": 7}}, bth={"destqp": 9, "psn": i}) for i in range(11)]
case("RC001", [ask(1), ask(2), answer(2, 2), ask(4), *IDLE], [ask(1), ask(2), answer(2, 2), ask(4), ask(3), *IDLE], frames=[4], file=SLOW)
case("RC001", [ask(1), answer(1, 1), ask(3), *IDLE], [ask(1), answer(1, 1), ask(3), answer(2, 1, syndrome=0x60), *IDLE], frames=[3],
     twin_also=["RC004", "RC011"], file=SLOW)  # fmt: skip
case("RC001", [ask(1), answer(1, 1), ask(3), *IDLE], [ask(1), answer(1, 1), ask(3), answer(3, 3), *IDLE], file=SLOW)
# acknowledged before another connection, whose requests are not captured, had the queue pair
ANEW = answer(0xF00000, 1)
case("RC001", [ask(1), answer(1, 1), ask(3), *IDLE], [ask(1), answer(1, 1), ask(3), answer(3, 3), ANEW, *IDLE], file=SLOW)
# the requester repeats a later packet: it repeated the missing one before that, and the capture missed both
# the requester goes back behind the gap, so it sends the missing packet again: the capture has neither
case("RC001", [ask(1), ask(2), ask(4), *IDLE, answer(1, 1)], [ask(1), ask(2), ask(4), ask(2), *IDLE, answer(1, 1)],
     twin_also=["RC002"], file=SLOW)  # fmt: skip
case("RC001", [ask(1), answer(1, 1), ask(3), *IDLE], [ask(1), answer(1, 1), ask(3), ask(3), *IDLE], frames=[3],
     twin_also=["RC002"], file=SLOW)  # fmt: skip
case("RC002", [ask(1), ask(2), ask(1)], [ask(1), ask(2), ask(3)], frames=[3], file=ethernet_pcap)
# packets that take several paths: the first ones of the capture are in another order
OVERTAKEN = [ask(4), ask(2), ask(5), ask(3), ask(1)]
case("RC002", ethernet_pcap(OVERTAKEN), ethernet_pcap(OVERTAKEN, step_ns=1000), frames=[2], file=None)  # type: ignore[arg-type]
# a repetition far behind the first packet, where PSNs seem to be below it
FAR_ON = [ask(number * 60_000 & 0xFFFFFF) for number in range(1, 150)]
AGAIN, ON = (ethernet_pcap([*FAR_ON, one], step_ns=10_000) for one in (FAR_ON[-2], ask(150 * 60_000 & 0xFFFFFF)))
case("RC002", AGAIN, ON, frames=[150], file=None)  # type: ignore[arg-type]
case("RC003", [ask(0xFFFFFF), ask(0), ask(1), ask(2)], [ask(0xFFFFFD), ask(0xFFFFFE)], file=ethernet_pcap)
case("RC003", [ask(0xFFFFFE), ask(0xFFFFFF), ask(0)], [ask(0), ask(1)], frames=[2], file=ethernet_pcap)
case("RC007", [ask(1), answer(1, 0, syndrome=0x2E)], [ask(1), answer(1, 1, syndrome=0x0E)], frames=[2], file=ethernet_pcap)
case("RC009", [answer(5, 3), answer(6, 2)], [answer(5, 0xFFFFFF), answer(6, 0)], frames=[2], file=ethernet_pcap)
# an answer that was overtaken
case("RC009", [answer(5, 3), answer(6, 2)], [answer(6, 3), answer(5, 2)], file=ethernet_pcap)
# another connection has the queue pairs now: the requester, or its answers, began again, or the capture missed packets
FELL = [ask(5), answer(5, 3), ask(6), answer(6, 2)]
case("RC009", FELL, [ask(5), answer(5, 3), ask(1), ask(2), answer(6, 2)], frames=[4], twin_also=["RC002"], file=ethernet_pcap)
case("RC009", FELL, [ask(5), answer(5, 3), ask(8), answer(8, 2)], frames=[4], file=ethernet_pcap)
case("RC009", [answer(5, 3), answer(6, 2)], [answer(5, 3), answer(1, 1), answer(6, 2)], frames=[2], file=ethernet_pcap)
case("RC009", [answer(5, 3), answer(6, 2)], [answer(5, 3), answer(900, 1)], frames=[2], file=ethernet_pcap)  # nobody shows who asked
READ_ON = [answer(6, 4, READ_FIRST, bytes(256)), answer(9, 4, READ_MIDDLE, bytes(256)), answer(10, 2, READ_LAST, bytes(8))]
case("RC009", [answer(5, 3), answer(6, 2)], READ_ON, frames=[2], file=ethernet_pcap)
case("RC010", [answer(5, 3), answer(6, 100)], [answer(5, 3), answer(105, 100)], frames=[2], file=ethernet_pcap)
ASK_3000 = ask(1, READ, b"", RETH={"r_key": 7, "dmalen": 3000})
READ_PARTS = [answer(1, 1, READ_FIRST, bytes(1024)), answer(2, 0, READ_MIDDLE, bytes(1024))]
case("RC012", [ASK_3000, *READ_PARTS, ASK_3000, *IDLE], [ASK_3000, *READ_PARTS, ASK_3000, answer(3, 1, READ_LAST, bytes(952)), ANEW, *IDLE],
     frames=[4], severity="warning", also=["RC002", "CNX004"], twin_also=["RC002"], file=SLOW)  # fmt: skip
case("RC012", [ASK_3000, *READ_PARTS, *IDLE], [ASK_3000, *READ_PARTS, answer(3, 1, READ_LAST, bytes(952)), ANEW, *IDLE],
     severity="warning", file=SLOW)  # fmt: skip
# nor are the packets behind a long READ, whose PSNs are as far away
BIG_READ = [ask(1, READ, b"", RETH={"r_key": 7, "dmalen": 100_000 * 1024}), *READ_PARTS, ask(100_001)]
case("RC001", [*BIG_READ, ask(100_003), *IDLE], [*BIG_READ, ask(100_002), ask(100_003), *IDLE], frames=[5],
     also=["RC012"], twin_also=["RC012"], file=SLOW)  # fmt: skip
MISSED = [ask(1), answer(1, 1), ask(3), answer(2, 1, syndrome=0x60)]
case("RC011", [*MISSED, *IDLE], [*MISSED, ask(2), *IDLE], frames=[3], also=["RC004"], twin_also=["RC004"], file=SLOW)
# the end of the capture
case("RC011", [*MISSED, *IDLE], [*MISSED, *IDLE[:9]], also=["RC004"], twin_also=["RC004"], file=SLOW)
case("RC012", [ASK_3000, answer(1, 1, READ_FIRST, bytes(1024)), answer(2, 0, READ_MIDDLE, bytes(1024)), *IDLE],
     [ASK_3000, answer(1, 1, READ_FIRST, bytes(1024)), answer(2, 0, READ_MIDDLE, bytes(1024)), answer(3, 1, READ_LAST, bytes(952)), *IDLE],
     frames=[1], file=SLOW)  # fmt: skip
# the path MTU is unknown, but there is no response at all: it is not sent again, as the work was cancelled, or the data takes another link
UNHEARD = [ask(1), answer(1, 1), ask(2, READ, b"", RETH={"r_key": 7, "dmalen": 3000})]
case("RC012", [*UNHEARD, *IDLE], [*UNHEARD, answer(2, 1, syndrome=0x62), *IDLE], frames=[3], severity="info", twin_also=["CNX011"],
     file=SLOW)  # fmt: skip
# the answers stopped between two READs, and the requester repeats none of them: they may come another way
GO_ON = [*UNHEARD, *[ask(psn, READ, b"", RETH={"r_key": 7, "dmalen": 100}) for psn in (5, 6)]]
case("RC012", [*GO_ON, *IDLE], [*GO_ON, answer(2, 1, syndrome=0x62), *IDLE], frames=[5], severity="info", twin_also=["CNX011"], file=SLOW)
case("RC012", [*GO_ON, UNHEARD[-1], *IDLE], [*GO_ON, answer(2, 1, syndrome=0x62), *IDLE], frames=[6], severity="warning",
     also=["RC002", "CNX004"], twin_also=["CNX011"], file=SLOW)  # fmt: skip
# the requester goes on for longer than its timer, and repeats nothing: it has the acknowledgements
SENDS_ON = [ask(psn) for psn in range(4, 15)]
case("RC001", [ask(1), answer(1, 1), ask(3), *SENDS_ON[:9], *IDLE], [ask(1), answer(1, 1), ask(2), *IDLE], frames=[3], severity="warning",
     file=SLOW)  # fmt: skip
case("RC001", [ask(1), answer(1, 1), ask(3), *SENDS_ON[:10], *IDLE], [ask(1), answer(1, 1), ask(2), *IDLE], frames=[3], severity="info",
     file=SLOW)  # fmt: skip
# nothing at all was recorded for longer than a second after it: recording may have stopped there, unless the requester tries again
PAUSE: Any = partial(ethernet_pcap, step_ns=1_100_000_000)
case("RC001", [ask(1), answer(1, 1), ask(3), *IDLE], [ask(1), answer(1, 1), ask(2), *IDLE], frames=[3], severity="info", file=PAUSE)
case("RC011", [*MISSED, *IDLE], [*MISSED, ask(2), *IDLE], frames=[3], severity="info", also=["RC004"], twin_also=["RC004"], file=PAUSE)
case("RC012", [*UNHEARD, *IDLE], [*UNHEARD, answer(2, 1, syndrome=0x62), *IDLE], frames=[3], severity="info", twin_also=["CNX011"],
     file=PAUSE)  # fmt: skip
case("RC012", [*UNHEARD, UNHEARD[-1], *IDLE], [*UNHEARD, UNHEARD[-1], answer(2, 1, syndrome=0x62), *IDLE], frames=[4], severity="warning",
     also=["RC002", "CNX004"], twin_also=["RC002", "CNX011"], file=PAUSE)  # fmt: skip
# in ERF of a card, whose loss counter says that nothing is missing; ibdump has none
ASK_ERF = rc(READ, ext={"RETH": {"r_key": 7, "dmalen": 3000}}, bth={"psn": 1, "destqp": 0x12}, slid=1, dlid=2)
BACK_ERF = [rc(opcode, bytes(1024), ext={"AETH": {"syndrome": 0x1F, "msn": 1}} if opcode == READ_FIRST else {},
               bth={"psn": psn, "destqp": 0x34}, slid=2, dlid=1) for psn, opcode in ((1, READ_FIRST), (2, READ_MIDDLE))]  # fmt: skip
QUIET = [ud(b"idle", dest_qp=9, src_qp=7, q_key=5, bth={"psn": i}) for i in range(11)]
UNREAD = [ASK_ERF, *BACK_ERF, *QUIET]
SECONDS = {"step_ns": 1_000_000_000}
case("RC012", erf_pcap(UNREAD, lost=(), **SECONDS), erf_pcap(UNREAD, lost=(4,), **SECONDS), frames=[1], twin_also=["CAP004"], file=None)  # type: ignore[arg-type]
case("RC012", erf_pcap(UNREAD, lost=(), **SECONDS), erf_pcap(UNREAD, **SECONDS), frames=[1], file=None)
BEGIN = ask(1, WRITE_FIRST, bytes(256), RETH={"r_key": 7, "dmalen": 600})
case("RC014", [BEGIN, ask(2, WRITE_LAST, bytes(256))], [BEGIN, ask(2, WRITE_LAST, bytes(344))], frames=[2], file=ethernet_pcap)
# a message in one packet is BTH006's, never both
WHOLE = ask(1, 0x0A, bytes(256), RETH={"r_key": 7, "dmalen": 600})
case("RC014", [BEGIN, ask(2, WRITE_LAST, bytes(256))], [WHOLE], frames=[2], twin_also=["BTH006"], file=ethernet_pcap)
# a repeated stream is judged as well
case("RC014", [BEGIN, BEGIN, ask(2, WRITE_LAST, bytes(256))], [BEGIN, BEGIN, ask(2, WRITE_LAST, bytes(344))], frames=[3],
     also=["RC002"], twin_also=["RC002"], file=ethernet_pcap)  # fmt: skip
case("RC015", [ask(1), ask(2, SEND_MIDDLE, bytes(256))], [ask(1, SEND_FIRST, bytes(256)), ask(2, SEND_MIDDLE, bytes(256))], frames=[2],
     file=ethernet_pcap)  # fmt: skip
# how many PSNs a READ uses is unknown with the path MTU: the WRITE may have begun in between
ASK_6912 = ask(1, READ, b"", RETH={"r_key": 7, "dmalen": 6912})
case("RC015", [ask(1), ask(2, WRITE_LAST, bytes(8))], [ASK_6912, ask(5, WRITE_LAST, bytes(8))], frames=[2], file=ethernet_pcap)
case("RC015", [ask(1, SEND_FIRST, bytes(256)), ask(2)], [ask(1, SEND_FIRST, bytes(256)), ask(2, SEND_LAST)], frames=[2], file=ethernet_pcap)
ONE, TWO = (rc(SEND, b"data", bth={"psn": psn}) for psn in (1, 2))
ACKED, NOT_READY = (
    rc(ACK, ext={"AETH": {"syndrome": syndrome, "msn": 1}}, bth={"psn": psn, "destqp": 0x34}, slid=2, dlid=1)
    for psn, syndrome in ((1, 0x1F), (2, 0x2E))
)
TOO_OFTEN = [ONE, ACKED, *[TWO] * 9]
SLOW_NATIVE: Any = partial(erf_pcap, step_ns=1_000_000_000)
case("RC019", TOO_OFTEN, [*TOO_OFTEN[:10]], frames=[11], also=["RC002", "CNX004"], twin_also=["RC002", "CNX004"], file=SLOW_NATIVE)
case("RC019", TOO_OFTEN, [*TOO_OFTEN[:6], NOT_READY, *[TWO] * 5], also=["RC002", "CNX004"], twin_also=["RC002", "RC007"], file=SLOW_NATIVE)
# as many RNR NAKs as repetitions, which another clock dates later
for number, how in ((8, "info"), (7, "error")):
    case("RC019", [*TOO_OFTEN, *[NOT_READY] * number], TOO_OFTEN[:10], frames=[11], severity=how, also=["RC002", "RC007"],
         twin_also=["RC002", "CNX004"], file=SLOW_NATIVE)  # fmt: skip
# for another packet they say nothing
OF_ANOTHER = rc(ACK, ext={"AETH": {"syndrome": 0x2E, "msn": 1}}, bth={"psn": 3, "destqp": 0x34}, slid=2, dlid=1)
case("RC019", [*TOO_OFTEN, *[OF_ANOTHER] * 8], TOO_OFTEN[:10], frames=[11], severity="error", also=["RC002", "RC007"],
     twin_also=["RC002", "CNX004"], file=SLOW_NATIVE)  # fmt: skip
# where packets are missing meanwhile, RNR NAKs may be; somebody who filters acknowledgements out of the file filters RNR NAKs, too
TEN, ELEVEN, TWELVE = (rc(SEND, b"data", bth={"psn": 1 << 20 | psn, "destqp": 0x40}) for psn in (10, 11, 12))
ACKED_12 = rc(ACK, ext={"AETH": {"syndrome": 0x1F, "msn": 3}}, bth={"psn": 1 << 20 | 12, "destqp": 0x41}, slid=2, dlid=1)
for others, how in (([TEN, ELEVEN, TWELVE], "error"), ([TEN, TWELVE], "info")):
    case("RC019", [*TOO_OFTEN[:6], *others, ACKED_12, *TOO_OFTEN[6:]], TOO_OFTEN[:10], severity=how, also=["RC002", "CNX004"],
         twin_also=["RC002", "CNX004"], file=SLOW_NATIVE)  # fmt: skip
OTHER_WAY = rc(SEND, b"data", bth={"psn": 1 << 20, "destqp": 0x35}, slid=2, dlid=1)
case("RC019", [OTHER_WAY, ONE, *[TWO] * 9, OTHER_WAY], TOO_OFTEN[:10], severity="info", also=["RC002"], twin_also=["RC002", "CNX004"],
     file=SLOW_NATIVE)  # fmt: skip
# a READ whose data the requester drops, as of a page that is not there yet, is asked for again; one that is not answered is not
READ_TWO = rc(READ, ext={"RETH": {"r_key": 7, "dmalen": 8}}, bth={"psn": 2, "destqp": 0x12}, slid=1, dlid=2)
DATA_TWO = rc(READ_ONLY, bytes(8), ext={"AETH": {"syndrome": 0x1F, "msn": 2}}, bth={"psn": 2, "destqp": 0x34}, slid=2, dlid=1)
case("RC019", [ONE, ACKED, *[READ_TWO] * 9], [ONE, ACKED, *[READ_TWO, DATA_TWO] * 9], frames=[11], also=["RC002", "CNX004"],
     twin_also=["RC002"], file=SLOW_NATIVE)  # fmt: skip
# a responder that says nothing of this queue pair, of whom the capture shows other packets; not where it shows one direction only
OTHER_ANSWER = rc(ACK, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"psn": 1 << 20, "destqp": 0x35}, slid=2, dlid=1)
case("RC019", [OTHER_ANSWER, *[TWO] * 9, ONE], [*[TWO] * 9, ONE], frames=[10],
     also=["RC002", "CNX004"], twin_also=["RC002"], file=SLOW_NATIVE)  # fmt: skip
case("RC019", [OTHER_ANSWER, *[TWO] * 9], [OTHER_ANSWER, TWO, NOT_READY, *[TWO] * 8], frames=[10], also=["RC002", "CNX004"],
     twin_also=["RC002", "RC007"], file=SLOW_NATIVE)  # fmt: skip
# adaptive retransmission of RoCE
case("RC019", SLOW_NATIVE(TOO_OFTEN), SLOW([ask(1), answer(1, 1), *[ask(2)] * 9]), file=None,
     also=["RC002", "CNX004"], twin_also=["RC002", "CNX004"])  # fmt: skip
UC = [roce2(UC_SEND, b"data", bth={"psn": psn}) for psn in (1, 2, 3)]
case("RC021", [UC[0], UC[2]], UC, frames=[2], file=ethernet_pcap)
# a header that the snap length cut off is no missing packet
MIXED = [UC[0], roce2(UC_WRITE, b"data", bth={"psn": 2}), UC[2]]
CUT = Pcap(ETHERNET, tuple(Record(i, i * 1000 + 1, one[:64], len(one)) for i, one in enumerate(MIXED))).packed()
case("RC021", ethernet_pcap([UC[0], UC[2]]), CUT, frames=[2], twin_also=["CAP001"], file=None)
# a thousand packets in order prove that the network lost one of three; if one of 200 is missing, the capture may have lost it
IN_ORDER = [one for psn in range(1, 1002) for one in (ask(psn), answer(psn, psn))]
SELDOM = [UC[0], UC[2], *[roce2(UC_SEND, b"data", bth={"psn": psn}) for psn in range(4, 204)]]
case("RC021", [UC[0], UC[2], *IN_ORDER], UC, frames=[2], severity="warning", file=ethernet_pcap)
case("RC021", [*SELDOM, *IN_ORDER], UC, frames=[2], severity="info", file=ethernet_pcap)
# a network that spreads a stream over two paths, of which the capture shows one; not one that loses every sixth packet
for every, kept, number, how in ((3, 2, 10, "info"), (6, 5, 10, "warning"), (3, 2, 8, "warning")):
    some = [roce2(UC_SEND, b"data", bth={"psn": psn}) for psn in range(number * every) if psn % every < kept]
    case("RC021", [*some, *IN_ORDER], UC, severity=how, file=ethernet_pcap)
# ibdump may have missed it
UC_ERF = [rc(UC_SEND, b"data", bth={"psn": psn}) for psn in (1, 3)]
case("RC021", ethernet_pcap([UC[0], UC[2]]), erf_pcap(UC_ERF), file=None)  # type: ignore[arg-type]
# a card lost nothing, but its file may have been filtered
case("RC021", erf_pcap(UC_ERF, lost=()), erf_pcap(UC_ERF), file=None, severity="info")  # type: ignore[arg-type]


def ack(syndrome: int) -> bytes:
    """An Acknowledge."""
    return rc(0x11, ext={"AETH": {"syndrome": syndrome, "msn": 1}})


def write(payload: bytes, **reth: int) -> bytes:
    """An RDMA WRITE Only."""
    return rc(0x0A, payload, ext={"RETH": reth})


case("RC004", ack(0x60), ack(0x1F))
case("RC005", ack(0x7F), ack(0x1F))
case("RC006", ack(0xC0), ack(0x1F))
case("RC006", ack(0x40), ack(0x1F))
case("RC016", rc(0x14, b"1234", ext={"AtomicETH": {"r_key": 9}}), rc(0x14, ext={"AtomicETH": {"r_key": 9}}))
case("RC018", write(b"12345", dmalen=5), write(b"12345", dmalen=5, r_key=9))
# one direction only, in which some adapters have such memory
case("RC018", write(b"12345", dmalen=5), write(b"12345", dmalen=5, r_key=9), severity="info")
# the responder accepts it
ACCEPTS, REFUSES = (rc(0x11, ext={"AETH": {"syndrome": syndrome, "msn": 1}}, slid=2, dlid=1) for syndrome in (0x1F, 0x62))
case("RC018", [write(b"12345", dmalen=5), REFUSES], [write(b"12345", dmalen=5), ACCEPTS], frames=[1], also=["CNX011"])
case("RC020", write(b"1234", r_key=9), write(b"", r_key=9))
# the retry count of the REQ is that of its receiver
SENT_BACK = [rc(0x04, b"data", bth={"destqp": 0x100, "psn": psn}, **PASSIVE) for psn in (900, 901)]
ACKED_BACK = rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x200, "psn": 900}, **ACTIVE)
FEW, MORE = ([request(retry_count=count), reply(), *SENT_BACK, ACKED_BACK, *[SENT_BACK[1]] * 3] for count in (2, 3))
OWN = [request(retry_count=2), reply(), data(900), data(901),
       rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x100, "psn": 900}, **PASSIVE), *[data(901)] * 3]  # fmt: skip
case("RC019", FEW, OWN, frames=[8],
     also=["RC002", "CM008", "CNX004"], twin_also=["RC002", "CNX004"], file=partial(erf_pcap, step_ns=1_000_000_000))  # fmt: skip
case("RC019", FEW, MORE, frames=[8],
     also=["RC002", "CM008", "CNX004"], twin_also=["RC002", "CM008", "CNX004"], file=partial(erf_pcap, step_ns=1_000_000_000))  # fmt: skip
case("RC022", rc(0x0C, b"1234", ext={"RETH": {"r_key": 9, "dmalen": 4}}), rc(0x0C, ext={"RETH": {"r_key": 9, "dmalen": 4}}))
case("RC022", rc(0x11, b"1234", ext={"AETH": {"syndrome": 0x1F}}), ack(0x1F))
case("RC023", rc(0x14, ext={"AtomicETH": {"r_key": 9, "va": 0x1004}}), rc(0x14, ext={"AtomicETH": {"r_key": 9, "va": 0x1008}}))
LONG_READ, LONGEST_READ = (rc(0x0C, ext={"RETH": {"r_key": 9, "dmalen": length}}) for length in (0x80000001, 0x80000000))
case("RC024", LONG_READ, LONGEST_READ)
FLUSH_RANGE, FLUSH_REGION = (rc(0x1C, ext={"FETH": {"sel": level}, "RETH": {"r_key": 7, "dmalen": 0xFFFFFFFF}}) for level in (0, 1))
case("RC024", FLUSH_RANGE, FLUSH_REGION)
# a NAK that asks for a lost packet refuses nothing
ASKS_AGAIN = rc(0x11, ext={"AETH": {"syndrome": 0x60, "msn": 1}}, slid=2, dlid=1)
case("RC018", [write(b"12345", dmalen=5), ASKS_AGAIN], [write(b"12345", dmalen=5), ACCEPTS, ASKS_AGAIN], frames=[1], also=["RC004"],
     twin_also=["RC004"])  # fmt: skip
# a connection that is ended before the requester's timer, which is 268 ms
TENTHS: Any = partial(ethernet_pcap, step_ns=100_000_000, link=247)
ACK_900, NAK_901 = (
    rc(ACK, ext={"AETH": {"syndrome": code, "msn": 1}}, bth={"psn": psn, "destqp": 0x100}, **PASSIVE)
    for psn, code in ((900, 0x1F), (901, 0x60))
)
ASKED_FOR = [request(), reply(), READY, data(900), ACK_900, data(902), NAK_901]
QUIET_TENTHS = [ud(b"idle", dest_qp=9, src_qp=7, q_key=5, slid=7, dlid=8, bth={"psn": i}) for i in range(110)]
for pause, severity in ((1, "info"), (2, "warning")):
    case("RC011", [*ASKED_FOR, *QUIET_TENTHS[:pause], LEAVE, *QUIET_TENTHS], [*ASKED_FOR, data(901), LEAVE, *QUIET_TENTHS],
         severity=severity, also=["RC004", "CAP009", "CM017"], twin_also=["RC004", "CAP009", "CM017"], file=TENTHS)  # fmt: skip
# a requester that was refused does not send on
KEYLESS = [rc(0x0A, b"12345", ext={"RETH": {"dmalen": 5}}, bth={"psn": psn}) for psn in range(3)]
case("RC018", erf_pcap(KEYLESS, step_ns=400_000_000), erf_pcap(KEYLESS, step_ns=600_000_000), file=None)
# the program may have been started again, with the same queue pairs
case("RC021", [UC[0], UC[2], *IN_ORDER], UC, severity="info", file=partial(ethernet_pcap, step_ns=3_000_000_000))
case("RC021", [UC[0], roce2(UC_SEND, b"data", bth={"psn": 5}), *IN_ORDER], UC, severity="info", file=ethernet_pcap)
# the capture ends before the responder may have answered
BEFORE = rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, slid=2, dlid=1)
KEYLESS_LAST = write(b"12345", dmalen=5)
for step, severity in ((600_000_000, "warning"), (400_000_000, "info")):
    case("RC018", erf_pcap([BEFORE, KEYLESS_LAST, *QUIET[:2]], step_ns=step), erf_pcap([BEFORE, KEYLESS_LAST, ACCEPTS], step_ns=step),
         frames=[2], severity=severity, file=None)  # fmt: skip
# a queue pair that is made again counts from 1
for msn, severity in ((2, "error"), (1, "info")):
    case("RC009", [answer(5, 20), answer(6, msn)], [answer(5, 0xFFFFFF), answer(6, 0)], severity=severity, file=ethernet_pcap)
# a requester that ends the connection, and tried once, has the data or does not want it
READS = [request(), reply(), READY, data(900), ACK_900, rc(READ, ext={"RETH": {"r_key": 7, "dmalen": 8}}, bth={"psn": 901, "destqp": 0x200},
                                                         **ACTIVE)]  # fmt: skip
ANSWERED_READ = rc(READ_ONLY, bytes(8), ext={"AETH": {"syndrome": 0x1F, "msn": 2}}, bth={"psn": 901, "destqp": 0x100}, **PASSIVE)
for more, says, severity in (([], [], "info"), (READS[-1:], ["RC002", "CNX004"], "warning")):
    HANGS = [*READS, *QUIET_TENTHS[:5], *more, LEAVE, *QUIET_TENTHS]
    case("RC012", HANGS, [*READS, ANSWERED_READ, *QUIET_TENTHS[:5], LEAVE, *QUIET_TENTHS], severity=severity,
         also=["CAP009", "CM017", *says], twin_also=["CAP009", "CM017"], file=TENTHS)  # fmt: skip
# the same where a part of the data came, if it may try again
LARGE_READ = rc(READ, ext={"RETH": {"r_key": 7, "dmalen": 1000}}, bth={"psn": 901, "destqp": 0x200}, **ACTIVE)
PARTS = [rc(code, bytes(size), ext=aeth, bth={"psn": psn, "destqp": 0x100}, **PASSIVE)
         for code, size, aeth, psn in ((READ_FIRST, 512, {"AETH": {"syndrome": 0x1F, "msn": 2}}, 901),
                                       (READ_LAST, 488, {"AETH": {"syndrome": 0x1F, "msn": 2}}, 902))]  # fmt: skip
for retries, severity in ((0, "warning"), (7, "info")):
    ASKED = [request(retry_count=retries), *READS[1:-1], LARGE_READ]
    case("RC012", [*ASKED, PARTS[0], *QUIET_TENTHS[:5], LEAVE, *QUIET_TENTHS], [*ASKED, *PARTS, *QUIET_TENTHS[:5], LEAVE, *QUIET_TENTHS],
         severity=severity, also=["CAP009", "CM017"], twin_also=["CAP009", "CM017"], file=TENTHS)  # fmt: skip
