"""Proofs of the rules about what became of connections: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from typing import Any

from ibdissect.wire import cm
from ibdissect.wire.encapsulation import Ethernet
from ibdissect.wire.headers import AETH, BTH, GRH
from tests.craft import build, flipped
from tests.diagnosis.lab import MS, READ, RESPONSE_ONLY, SEC, TIMEOUT, US, WRITE_FIRST, WRITE_ONLY, A, B, C, Lab, joined
from tests.rules.cases import case
from tests.rules.made.scripts import Script, beside, busy, reject, shown, told, tries, works

# -- set-up


def asked(lab: Lab) -> None:
    lab.req(0)


case("CNX001", shown(asked, reject(12)), shown(works), frames=[2], severity="error", file=None)
case("CNX001", shown(asked, reject(28)), shown(asked, reject(8)), frames=[2], twin_also=["CM012"], file=None)


def at_last(service: int, lacks: str = "", snap: int = 65535) -> bytes:
    """A refused connection, and another one that is set up, of which the capture may lack a message."""
    lab = Lab()
    asked(lab)
    reject(28)(lab)
    time = SEC
    if lacks != "REQ":
        lab.req(time, local_communication_id=0xA7, local_qpn=0x112, service_id=service)
    if lacks not in ("REP", "both answers"):
        lab.rep(time + MS, remote_communication_id=0xA7, local_communication_id=0xB7)
    if lacks != "both answers":
        lab.short(time + 2 * MS, cm.RTU_ID, cm.RTU, local_communication_id=0xA7, remote_communication_id=0xB7)
    elif lacks:
        lab.put(time + 3 * MS, lab.b, lab.a, 4, 0x112, 500, payload=b"data")
    return lab.pcap(snap)


case("CNX001", at_last(0x1061145), shown(works), severity="error", file=None)
case("CNX001", at_last(0x1061144), shown(works), severity="info", file=None)
for lacks in ("REQ", "REP", "both answers"):  # its other messages, or its packets, show that it was accepted
    case("CNX001", at_last(0x1061144, lacks), shown(works), severity="info", file=None)
case("CNX001", at_last(0x1061145, "REP"), shown(works), severity="error", file=None)
IN_SERVICE = 100
"""A snap length that cuts off the service of a REQ, and not the reason of a REJ."""
case("CNX001", at_last(0x1061145, snap=IN_SERVICE), shown(works), severity="info", also=["CAP001"], file=None)
case("CNX001", shown(asked, reject(12), snap=IN_SERVICE), shown(works), severity="error", also=["CAP001"], file=None)


def asked_back(service: int, *, accepted: bool, snap: int = 65535) -> bytes:
    """A refused connection, and another one that the host which refused it asks for."""
    lab = Lab()
    asked(lab)
    reject(28)(lab)
    other = Lab(lab.b, lab.a, qa=lab.qb, qb=lab.qa)
    other.req(MS, service_id=service)
    if accepted:
        other.rep(2 * MS)
        other.short(3 * MS, cm.RTU_ID, cm.RTU)
    return joined(lab, other).pcap(snap)


for snap, also in ((65535, []), (IN_SERVICE, ["CAP001"])):  # both ask each other, as in Lustre: one connection is enough
    for accepted, severity in ((True, "info"), (False, "error")):
        case("CNX001", asked_back(0x1061144, accepted=accepted, snap=snap), shown(works), severity=severity, also=also, file=None)
case("CNX001", shown(asked, reject(25)), shown(works), severity="info", file=None)
NVME_NO_RESOURCES = b"\0\0\6\0"
"""The private data of a REJ: record format 0, status 6."""
case("CNX001", shown(asked, reject(28, private_data=NVME_NO_RESOURCES)), shown(works), severity="info", file=None)
case("CNX002", shown(lambda lab: lab.req(0, 4), busy), shown(lambda lab: lab.req(0, 3), lambda lab: lab.up(250 * MS), busy), file=None)


def again(*, leave: bool) -> bytes:
    lab = Lab()
    works(lab)
    if leave:
        lab.down(SEC // 2)
    lab.req(SEC, local_communication_id=0xA7)
    if leave:
        lab.rep(SEC + MS, remote_communication_id=0xA7, local_communication_id=0xB7, local_qpn=0x333)
        lab.short(SEC + 2 * MS, cm.RTU_ID, cm.RTU, local_communication_id=0xA7, remote_communication_id=0xB7)
    else:
        lab.short(SEC + MS, cm.REJ_ID, cm.REJ, back=True, reason=10, local_communication_id=0, remote_communication_id=0xA7)
    return lab.pcap()


case("CNX003", again(leave=False), again(leave=True), file=None)
# -- silence
case("CNX004", shown(works, busy, tries(8)), shown(works, busy, tries(8), told(110)), also=["RC002"], twin_also=["RC002"], file=None)
# an alternate path, over which it may go on
MOVES = {"alternate_remote_port_lid": 18, "alternate_local_ack_timeout": 12}
case("CNX004", shown(lambda lab: lab.good(lab.up(**MOVES), 100, 10), busy, tries(8)), shown(works, busy, tries(8), told(110)),
     also=["RC002"], twin_also=["RC002"], severity="info", file=None)  # fmt: skip
BIG = {"start": 2 * MS, "opcode": WRITE_FIRST, "size": 1024, "dma": 1500}
case(
    "CNX005",
    shown(works, busy, tries(8, **BIG)),
    shown(works, busy, tries(8, start=2 * MS)),
    also=["RC002"],
    twin_also=["RC002", "CNX004"],
    file=None,
)


LATE = {**BIG, "start": SEC}
for time in (TIMEOUT, SEC):  # a path that takes small packets again only long after that was out, and so was one that lost them, too
    case("CNX005", shown(works, beside(time), busy, tries(8, **LATE)), shown(works, beside(20 * SEC), busy, tries(8, **LATE)),
         also=["RC002"], twin_also=["RC002", "CNX004"], file=None)  # fmt: skip
LOST = [shown(works, beside(at, answered=False), busy, tries(8, **BIG)) for at in (20 * SEC, 3 * MS - SEC)]
case("CNX005", *LOST, also=["RC002", "CNX004"], twin_also=["RC002", "CNX004"], file=None)


def stuck(lab: Lab, psn: int = 109, msn: int = 109) -> None:
    for i in range(8):
        lab.answer(SEC + i * TIMEOUT + 5 * US, psn, msn=msn)


case("CNX006", shown(works, busy, tries(8), stuck), shown(works, busy, tries(8), stuck, told(110, msn=110)), also=["RC002"],
     twin_also=["RC002"], file=None)  # fmt: skip


def versions(*, mixed: bool) -> bytes:
    lab = Lab()
    tries(5, 100)(lab)
    for i in range(5):
        bth = build(BTH, opcode=0x11, m=1, p_key=0xFFFF, destqp=lab.qa, psn=100)
        gids = {"sgid": bytes(10) + b"\xff\xff" + lab.b, "dgid": bytes(10) + b"\xff\xff" + lab.a}
        grh = build(GRH, ipver=6, pay_len=len(bth) + 8, nxt_hdr=0x1B, hop_lmt=64, **gids)
        aeth = build(AETH, syndrome=31, msn=1)
        if mixed:
            lab.frames.append((SEC + i * TIMEOUT + 5 * US, build(Ethernet, type=0x8915) + grh + bth + aeth + bytes(4)))
        else:
            lab.answer(SEC + i * TIMEOUT + 5 * US, 100, msn=1)
    return lab.pcap()


case("CNX007", versions(mixed=True), versions(mixed=False), also=["RC002", "ROC005", "ROC015"], twin_also=["RC002"], file=None)


def partition(agreed: int, used: int = 0xFFFF, *, answered: bool = False) -> bytes:
    lab = Lab()
    time = lab.up(partition_key=agreed)
    if answered:
        lab.good(time - 10 * US, 99, bth={"p_key": used})
    for i in range(8):
        lab.ask(time + i * TIMEOUT, 100, bth={"p_key": used})
    lab.down(time + 10 * TIMEOUT)
    return lab.pcap()


case("CNX008", partition(0x8001), partition(0xFFFF), also=["RC002"], twin_also=["RC002", "CNX004"], file=None)
# one fault, one finding: ROC012 says nothing beside it, whichever of both partitions is the default one
case("CNX008", partition(0xFFFF, 0x8001), partition(0x8001, 0x8001), also=["RC002"], twin_also=["RC002", "CNX004"], file=None)
case("CNX008", partition(0x8002, 0x8001), partition(0x8001, 0x8001), also=["RC002"], twin_also=["RC002", "CNX004"], file=None)
# a partition in which the other side answered is no reason
case("CNX008", partition(0x8001), partition(0x8001, answered=True), also=["RC002"], twin_also=["RC002", "CNX004"], file=None)
# -- refusals
CODES = {"CNX011": 0x62, "CNX012": 0x63, "CNX013": 0x61}
for code, syndrome in CODES.items():
    case(code, shown(works, tries(1), told(110, syndrome, at=50 * US)), shown(works, tries(1), told(110, 0x60, 109, at=50 * US), tries(
        1, start=SEC + 100 * US), told(110, msn=110, at=150 * US)), severity="error", twin_also=["RC002", "RC004"], file=None)  # fmt: skip
LONG = {"opcode": WRITE_FIRST, "size": 2048, "dma": 3000}
case("CNX014", shown(works, tries(1, **LONG), told(110, 0x61, at=50 * US)), shown(works, tries(1), told(110, 0x61, at=50 * US)),
     also=["CM009"], twin_also=["CNX013"], file=None)  # fmt: skip


def unready(number: int, retries: int, *, wait: int = 20 * MS, after: int = 5 * US, done: bool = True, leaves: bool = False) -> bytes:
    lab = Lab()
    lab.good(lab.up(rnr_retries=retries), 100, 10)
    time = SEC
    for _ in range(number):
        lab.ask(time, 110)
        lab.answer(time + after, 110, 0x20 | 0x14, 10)  # 10.24 ms
        time += wait
    if done:
        lab.ask(time, 110)
        lab.answer(time + 5 * US, 110, msn=110)
    if leaves:
        lab.down(time)
    busy(lab)
    return lab.pcap()


case("CNX009", unready(3, 2, done=False), unready(3, 3), also=["RC002", "RC007"], twin_also=["RC002", "RC007"], file=None)
case("CNX009", unready(1, 0, done=False), unready(1, 1), also=["RC007"], twin_also=["RC002", "RC007"], file=None)
# a try is left: one side takes leave before it
case("CNX009", unready(3, 2, done=False, leaves=True), unready(2, 2, done=False, leaves=True), also=["RC002", "RC007"],
     twin_also=["RC002", "RC007"], file=None)  # fmt: skip
# a requester whose count nobody knows falls silent
NOT_READY = [busy, tries(3, wait=20 * MS), *(told(110, 0x20 | 0x14, at=i * 20 * MS + US) for i in range(3))]
case("CNX009", shown(*NOT_READY), shown(*NOT_READY, told(110, at=2 * 20 * MS + 2 * US)), severity="info", also=["RC002", "RC007"],
     twin_also=["RC002", "RC007"], file=None)  # fmt: skip
# the twins: it waits; it waits, but the clocks of two interfaces differ, so that each RNR NAK stands before what it answers; times are
# whole seconds
for after, wait in ((5 * US, 20 * MS), (-5 * US, 20 * MS), (0, 0)):
    case("CNX010", unready(3, 7, wait=100 * US), unready(3, 7, wait=wait, after=after), also=["RC002", "RC007"],
         twin_also=["RC002", "RC007"], severity="warning", file=None)  # fmt: skip
# -- data
OTHER_DATA = tries(1, 109, start=SEC, opcode=WRITE_ONLY)
DONE = told(109, msn=109, at=50 * US)
case("CNX015", shown(works, OTHER_DATA, DONE), shown(works, tries(1, 109), DONE), also=["RC002"], twin_also=["RC002"], file=None)


def used_twice(*uses: tuple[dict[str, int], dict[str, int]], skew: int = 0, anew: bool = True) -> bytes:
    """A queue pair is used for requests and answers, ten minutes later for others with the same PSNs: it was made `anew`, or else the
    requester goes back by all but one, and the responder counts no more messages. `skew`: by how much answers are recorded too early.
    """
    lab = Lab()
    for number, (ask, answer) in enumerate(uses):
        back = number > 0 and not anew
        for i in range(int(back), 10):
            time = SEC + number * 600 * SEC + i * 20 * US
            lab.ask(time, i, **ask)
            lab.answer(time + 5 * US - skew, i, msn=10 if back else i + 1, **answer)
    return lab.pcap()


# answers that stand in front of their requests are none of what was sent before
SENDS: tuple[dict[str, int], dict[str, int]] = ({}, {})
WRITES: tuple[dict[str, int], dict[str, int]] = ({"opcode": WRITE_ONLY}, {})
case("CNX015", used_twice(SENDS, WRITES, anew=False), used_twice(SENDS, WRITES, skew=300 * US), also=["RC002"], twin_also=["RC002"],
     file=None)  # fmt: skip


def misses_one(lab: Lab) -> None:
    """C acknowledges three SENDs of A, of which the capture has two."""
    beside = Lab(b=C, qa=0x311, qb=0x322)
    beside.good(beside.up(SEC + MS, local_communication_id=0xA9), 100, 3)
    lab.frames += [one for i, one in enumerate(beside.frames) if i != len(beside.frames) - 4]


def read(size: int, *, misses: bool = False) -> bytes:
    lab = Lab()
    works(lab)
    if misses:
        misses_one(lab)
    lab.ask(SEC, 110, opcode=READ, dma=1000)
    lab.answer(SEC + 50 * US, 110, msn=110, opcode=RESPONSE_ONLY, size=size)
    return lab.pcap()


case("CNX016", read(500), read(1000), file=None)
case("CNX016", read(1500), read(1000), file=None)
READS, OTHERS, TOO_FEW = (
    ({"opcode": READ, "dma": asked}, {"opcode": RESPONSE_ONLY, "size": size}) for asked, size in ((100, 100), (200, 200), (200, 99))
)
case("CNX016", used_twice(READS, TOO_FEW), used_twice(READS, OTHERS, skew=300 * US), file=None)
# the answer may be to a READ that the capture misses
case("CNX016", read(500, misses=True), read(1000, misses=True), severity="info", file=None)


def parts(*opcodes: int, before: int = 110, again: bool = False, misses: bool = False, skew: int = 0, nak: bool = False) -> bytes:
    """Responses to a READ, and requests before it up to a PSN; its second part is perhaps asked for again. `skew`: of the clock of B."""
    lab = Lab()
    if misses:
        misses_one(lab)
    start = lab.up()
    lab.ask(start, 100)
    lab.answer(start + 5 * US - skew, 100, msn=100)
    if nak:
        lab.answer(start + 10 * US, 101, syndrome=0x60, msn=100)
    lab.good(start + 100 * US, 101, before - 101)
    lab.ask(SEC, 110, opcode=READ, dma=1000)
    if again:
        lab.ask(SEC + 50 * US + 500, 111, opcode=READ, dma=744)
    for i, (opcode, size) in enumerate(zip(opcodes, (256, 256, 488), strict=True)):
        lab.answer(SEC + (50 + i) * US, 110 + i, msn=110, opcode=opcode, size=size)
    return lab.pcap()


IN_ORDER, LATER_FIRST = (0x0D, 0x0E, 0x0F), (0x0E, 0x0D, 0x0F)
case("CNX018", parts(*LATER_FIRST), parts(*IN_ORDER), severity="error", file=None)
case("CNX018", parts(*LATER_FIRST, misses=True), parts(*IN_ORDER, misses=True), severity="info", file=None)
# an answer in front of its request shows that the clock of one direction is behind
SKEWED = 20 * US
case("CNX018", parts(*LATER_FIRST, skew=SKEWED), parts(*IN_ORDER, skew=SKEWED), severity="info", file=None)
case("CNX018", parts(*LATER_FIRST, skew=SKEWED, nak=True), parts(*IN_ORDER), severity="info", also=["RC004"], file=None)
case("CNX018", parts(*LATER_FIRST, nak=True), parts(*IN_ORDER), severity="error", also=["RC004"], file=None)
FIRST_AGAIN, ONLY_LAST = (0x0D, 0x0D, 0x0F), (0x0D, 0x0E, 0x10)
for wrong in (FIRST_AGAIN, ONLY_LAST):
    case("CNX018", parts(*wrong), parts(*IN_ORDER), file=None)
    case("CNX018", parts(*wrong), parts(*wrong, again=True), file=None)  # the rest was asked for again
case("CNX018", parts(*LATER_FIRST), parts(*LATER_FIRST, before=108), file=None)  # perhaps the rest of a READ that was not captured


def with_icrc(wrong: int, number: int = 10, *, again: bool = True) -> bytes:
    """SENDs of A, the first `wrong` with a wrong ICRC; B acknowledges all. The last one is sent `again` after a timeout."""
    lab = Lab()
    end = lab.good(0, 100, number - again)
    if again:
        lab.ask(end, 98 + number)
        lab.answer(end + 5 * US, 98 + number, msn=98 + number)
    seen = 0
    for i, (time, frame) in enumerate(lab.frames):
        if i % 2 == 0 and seen < wrong:
            lab.frames[i] = time, flipped(frame, len(frame) - 1)
            seen += 1
    return lab.pcap()


case("CNX017", with_icrc(10, 11), with_icrc(2), also=["RC002"], twin_also=["RC002", "ROC004"], severity="error", file=None)
# none is right, so that a repetition says nothing: what is acknowledged was right when it arrived
case("CNX017", with_icrc(10), with_icrc(2), also=["RC002"], twin_also=["RC002", "ROC004"], severity="info", file=None)
# where nothing is sent again, they were right when they arrived: A captured them before its adapter wrote the ICRC
case("CNX017", with_icrc(10, again=False), with_icrc(2, again=False), twin_also=["ROC004"], severity="info", file=None)
# a few that are wrong in no known way may have been damaged on the way, even if they are all that a host sent
case("CNX017", with_icrc(10, 11), with_icrc(9, 9), also=["RC002"], twin_also=["RC002", "ROC004"], severity="error", file=None)
# the asker was stopped, or both asked each other and the other connection was accepted


def stopped(reason: int) -> bytes:
    """The asker answers the REP with a REJ."""
    return shown(asked, lambda lab: lab.rep(MS), lambda lab: lab.short(2 * MS, cm.REJ_ID, cm.REJ, reason=reason, message_rejected=1))


case("CNX001", stopped(28), shown(works), severity="info", file=None)
case("CNX001", stopped(12), shown(works), severity="error", file=None)


def at_once(service: int, *, begins: int = -SEC, refused: int = 0x1061144, reason: int = 28, after: int = 50 * US) -> bytes:
    """A asks B, which refuses because it asks A itself; A accepts. Of that connection the capture `begins` at a time."""
    lab, other = Lab(), Lab(a=B, b=A, qa=0x333, qb=0x444)
    lab.req(0, service_id=refused)
    reject(reason)(lab)
    other.up(after, local_communication_id=0xA0, service_id=service)
    other.good(after + MS, 100, 3)
    other.frames = [(time, frame) for time, frame in other.frames if time > begins]
    return joined(lab, other).pcap()


case("CNX001", at_once(0x1061144), shown(works), severity="info", file=None)
case("CNX001", at_once(0x1061145), shown(works), severity="error", file=None)
# the REQ of that connection is not captured, or nothing of it
case("CNX001", at_once(0x1061144, begins=50 * US), shown(works), severity="info", file=None)
case("CNX001", at_once(0x1061144, begins=SEC), shown(works), severity="error", file=None)
# two processes, each with a port of its own
OWN_PORTS = 0x106A112, 0x106909D
case("CNX001", at_once(OWN_PORTS[0], refused=OWN_PORTS[1]), shown(works), severity="info", file=None)
case("CNX001", at_once(OWN_PORTS[0], refused=OWN_PORTS[1], after=11 * SEC), shown(works), severity="error", file=None)
case("CNX001", at_once(OWN_PORTS[0], refused=OWN_PORTS[1], reason=12), shown(works), severity="error", file=None)
case("CNX001", at_once(0x10603DB, refused=OWN_PORTS[1]), shown(works), severity="error", file=None)


def taken_back(after: int) -> bytes:
    """The asker takes its only REQ back, which may be answered for 67 ms."""
    return shown(asked, lambda lab: lab.short(after, cm.REJ_ID, cm.REJ, reason=4, message_rejected=2, remote_communication_id=0), busy)


case("CNX002", taken_back(60 * MS), shown(works), severity="info", file=None)
case("CNX002", taken_back(80 * MS), shown(works), severity="error", file=None)
# messages that show the REP, which the capture lacks: what delays its answer (MRA), or ends the connection
for later in (
    [lambda lab: lab.short(9 * SEC, cm.MRA_ID, cm.MRA, message_mraed=1, service_timeout=10)],
    [lambda lab: lab.down(9 * SEC)], [lambda lab: lab.short(9 * SEC, cm.DREQ_ID, cm.DREQ, back=True)],
):  # fmt: skip
    case("CNX002", shown(lambda lab: lab.req(0, 4), busy), shown(lambda lab: lab.req(0, 4), *later, busy), file=None)


def delayed(*, back: bool) -> bytes:
    """A REQ, and an MRA: of the other side for the REQ, or of the asker for the REP."""
    return shown(asked, lambda lab: lab.short(MS, cm.MRA_ID, cm.MRA, back=back, message_mraed=int(not back), service_timeout=10), busy)


case("CNX002", delayed(back=True), delayed(back=False), file=None)
# the RNR NAKs of a responder that is not captured
case("CNX004", shown(tries(4)), shown(works), severity="info", also=["RC002"], file=None)
# an asker that may ask again and does not has an answer, which came another way, or was stopped
for number, severity in ((1, "info"), (2, "warning")):
    case("CNX002", shown(lambda lab, number=number: lab.req(0, number), busy), shown(works, busy), severity=severity, file=None)


def restarted(service: int) -> bytes:
    """A queue pair that is used again, and a later connection."""
    lab = Lab()
    lab.frames += [(time - 20 * SEC, frame) for time, frame in of_reboot().frames]
    lab.req(0, local_communication_id=0xA9, local_qpn=0x119, service_id=service)
    lab.rep(MS, remote_communication_id=0xA9, local_communication_id=0xB9, local_qpn=0x339)
    lab.short(2 * MS, cm.RTU_ID, cm.RTU, local_communication_id=0xA9, remote_communication_id=0xB9)
    return lab.pcap()


def of_reboot() -> Lab:
    lab = Lab()
    works(lab)
    lab.req(SEC, local_communication_id=0xA7)
    lab.short(SEC + MS, cm.REJ_ID, cm.REJ, back=True, reason=10, local_communication_id=0, remote_communication_id=0xA7)
    return lab


case("CNX003", restarted(0x1061144), again(leave=True), severity="info", file=None)
case("CNX003", restarted(0x1061145), again(leave=True), severity="error", file=None)
# more tries than any retry count allows, or fewer than the requester has: RNR NAKs come between them, or an ACK behind them, and take a way
# that is not captured
WAITS: Any = {"also": ["RC002"], "twin_also": ["RC002"], "file": None}
for number, severity in ((7, "info"), (8, "error"), (12, "info")):
    ANSWERED = told(110, at=(number - 1) * TIMEOUT + US)
    case("CNX004", shown(busy, tries(number)), shown(busy, tries(number), ANSWERED), severity=severity, **WAITS)


def agreed(retries: int) -> Script:
    return lambda lab: lab.up(psn=110, retry_count=retries)


for number, retries, severity in ((5, 5, "info"), (5, 4, "error"), (8, 7, "error")):
    case("CNX004", shown(agreed(retries), busy, tries(number)), shown(agreed(retries), busy, tries(number), told(110, at=number * TIMEOUT)),
         severity=severity, **WAITS)  # fmt: skip
# an RNR NAK is an answer: the capture ends behind the last of ten tries, or eight more have none


def unready_at_the_end(silent: int) -> bytes:
    lab = Lab()
    lab.good(lab.up(rnr_retries=7), 100, 10)
    tries(9 + silent, wait=20 * MS)(lab)
    for i in range(9):
        told(110, 0x20 | 0x14, at=i * 20 * MS + US)(lab)
    return lab.pcap()


for number, severity in ((8, "error"), (9, "info")):  # more RNR NAKs than are captured
    case("CNX004", unready_at_the_end(number), unready_at_the_end(1), also=["RC002", "RC007"], twin_also=["RC002", "RC007"],
         severity=severity, file=None)  # fmt: skip
# connections take several paths: the capture shows the answers of another one, and none of its requests


def answered_only(lab: Lab) -> None:
    for i in range(10):
        lab.put(i * MS, C, lab.a, 0x11, 0x155, 500 + i, ext={"AETH": {"syndrome": 31, "msn": i}})


case("CNX004", shown(busy, tries(8), answered_only), shown(busy, tries(8), told(110, at=8 * TIMEOUT)), severity="info", **WAITS)
case("CNX004", shown(works, busy, tries(5), answered_only), shown(busy, tries(5), told(110, at=5 * TIMEOUT)), severity="error", **WAITS)
# the requester goes on without a repetition; the responder had taken leave; the queue pairs go on over another path
case("CNX004", shown(busy, tries(12)), shown(busy, tries(12), tries(1, 111, start=2 * SEC)), **WAITS)


def left(at: int) -> Script:
    """B ends the connection so long after the first try of the last packet."""
    return lambda lab: lab.short(SEC + at, cm.DREQ_ID, cm.DREQ, back=True, remote_qpn=lab.qa)


case("CNX004", shown(works, busy, tries(5), left(2 * TIMEOUT)), shown(works, busy, tries(5), left(US)), also=["RC002", "CM017"],
     twin_also=["RC002", "CM017"], file=None)  # fmt: skip


def migrated(qpn: int) -> bytes:
    """A gives up a packet and sends it to B's other address: from the same queue pair, or another one."""
    lab, path = Lab(), Lab(b=bytes([10, 0, 1, 2]), a=bytes([10, 0, 1, 1]), qa=qpn)
    for step in (works, busy, tries(5)):
        step(lab)
    path.good(2 * SEC, 110, 10)
    return joined(lab, path).pcap()


case("CNX004", migrated(0x133), migrated(0x111), **WAITS)
# a WRITE that is sent again sends what is in memory then
REWRITTEN = tries(1, 110, start=SEC + 10 * MS, opcode=WRITE_ONLY, fill=0x42)
AGAIN = [works, tries(1, 110, opcode=WRITE_ONLY), told(110, msn=110, at=50 * US), told(110, msn=110, at=11 * MS)]
case("CNX015", shown(*AGAIN, tries(1, 110, start=SEC + 10 * MS, opcode=WRITE_ONLY, size=32)), shown(*AGAIN, REWRITTEN), also=["RC002"],
     twin_also=["RC002"], file=None)  # fmt: skip
