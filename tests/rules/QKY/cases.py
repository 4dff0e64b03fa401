"""Proofs of the rules about queue keys: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.cm import SIDRRep, SIDRReq
from ibdissect.wire.headers import DETH
from ibdissect.wire.notice import TrapPKey
from tests.craft import build, erf_pcap, gmp, native, smp, ud
from tests.rules.cases import case
from tests.rules.made.ports import answer_case
from tests.rules.made.subnets import member, packet, sent
from tests.rules.made.traps import ENDS, PACKET, details, trap
from tests.subnet.made import answer, ask, node, port_info

PORT_INFO = 0x15
case("QKY001", gmp(4, 1, 0x12, q_key=1), ud(b"1234", dest_qp=9, src_qp=1, q_key=1))
case("QKY002", smp(1, 0x11, q_key=5), smp(1, 0x11))
case("QKY003", ud(b"1234", dest_qp=9, src_qp=7, q_key=0x80000001), ud(b"1234", dest_qp=9, src_qp=7, q_key=0x7FFFFFFF),
     severity="info")  # fmt: skip
RESERVED = build(DETH, q_key=5, srcqp=7, reserved8=1)
case("QKY006", native(0x64, b"1234", headers=RESERVED, bth={"destqp": 9}), ud(b"1234", dest_qp=9, src_qp=7, q_key=5))
case("QKY007", smp(1, 0x11, src_qp=7), smp(1, 0x11))
answer_case("QKY005", PORT_INFO, port_info(5, q_key_violations=2), port_info(5, q_key_violations=5), port_info(5, q_key_violations=0))
case("QKY008", [PACKET, trap(258, details(TrapPKey, **ENDS, key_value=0x77))],
     [PACKET, trap(258, details(TrapPKey, **ENDS, key_value=0x78))], frames=[2])  # fmt: skip
packet("QKY004", sent(q_key=0x1111), sent(), [member()])
# a datagram service that was asked for
SERVICE = [
    gmp(7, 3, 0x17, build(SIDRReq, request_id=7, service_id=0x01064242), at=24, slid=1, dlid=2),
    gmp(7, 3, 0x18, build(SIDRRep, request_id=7, qpn=0x77, q_key=0x1234, service_id=0x01064242), at=24, slid=2, dlid=1),
]
case("QKY004", [*SERVICE, ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1235, slid=1, dlid=2)],
     [*SERVICE, ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1235, slid=1, dlid=3)], frames=[3])  # fmt: skip
case("QKY004", [*SERVICE, ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1235, slid=1, dlid=2)],
     [*SERVICE, ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1234, slid=1, dlid=2)], frames=[3])  # fmt: skip
# what had the key of the group, or the service, until it got another one may be under way for a second
ANEW = member(q_key=0x777)
case("QKY004", [member(), ANEW, sent()], [member(), sent(), ANEW, sent()], frames=[3])
# a GRH may lead to a virtual port with that LID
AT_99: dict[str, Any] = {"sgid": bytes.fromhex("fe80") + bytes(13) + b"\1", "dgid": bytes.fromhex("fe80") + bytes(13) + b"\x99"}
for grh, severity in ((None, "warning"), (AT_99, "info")):
    OTHER_KEY = ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1235, slid=1, dlid=2, grh=grh)
    case("QKY004", [*SERVICE, OTHER_KEY], SERVICE, frames=[3], severity=severity)
RESTARTED = gmp(7, 3, 0x18, build(SIDRRep, request_id=8, qpn=0x77, q_key=0x4321, service_id=0x01064242), at=24, slid=2, dlid=1)
ASKED_AGAIN = gmp(7, 3, 0x17, build(SIDRReq, request_id=8, service_id=0x01064242), at=24, slid=1, dlid=2)
OLD_KEY = [*SERVICE, ASKED_AGAIN, RESTARTED, ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1234, slid=1, dlid=2)]
LATE, SOON = (erf_pcap(OLD_KEY, step_ns=step) for step in (1_200_000_000, 1_000_000_000))
case("QKY004", LATE, SOON, frames=[5], file=None)
# who never asked for the service knows its queue pair from elsewhere; who asks again and gets no answer, or no service, may be told another
STRANGER, ASKER = (ud(b"1234", dest_qp=0x77, src_qp=9, q_key=0x1235, slid=lid, dlid=2) for lid in (5, 1))
REFUSES = gmp(7, 3, 0x18, build(SIDRRep, request_id=8, status=1, service_id=0x01064242), at=24, slid=2, dlid=1)
case("QKY004", [*SERVICE, STRANGER], SERVICE, frames=[3], severity="info")
case("QKY004", [*SERVICE, ASKED_AGAIN, ASKER], SERVICE, frames=[4], severity="info")
case("QKY004", [*SERVICE, ASKER], [*SERVICE, ASKED_AGAIN, REFUSES, ASKER], frames=[3], severity="warning")
# with a key that the service never announced it may be another program, unless the sender begins with it as soon as it has the answer
THEIRS, OF_OTHERS = (ud(b"1234", dest_qp=0x77, src_qp=qp, q_key=key, slid=1, dlid=2) for qp, key in ((9, 0x1234), (10, 0x1235)))
LATER = partial(erf_pcap, step_ns=1_200_000_000)
case("QKY004", [*SERVICE, OF_OTHERS], SERVICE, frames=[3], severity="info", file=LATER)
case("QKY004", [*SERVICE, ASKER], SERVICE, frames=[3], severity="info", file=LATER)
case("QKY004", [*SERVICE, THEIRS, ASKER], SERVICE, frames=[4], severity="info")
case("QKY004", [*SERVICE, THEIRS, OF_OTHERS], [*SERVICE, THEIRS], frames=[4], severity="warning")
# a manager that starts tells all ports to register again, and makes the groups anew; a new host alone says nothing
KNOWN = [answer(lid, 0x11, node(lid)) for lid in (5, 6)]
REREGISTER = [ask(lid, 0x15, method=2, body=port_info(lid, port_state=0, port_physical_state=0, client_reregister=1)) for lid in (5, 6)]
for told, severity in ((REREGISTER, "info"), (REREGISTER[:1], "error"), ([], "error")):
    case("QKY004", [*KNOWN, member(), *told, sent(q_key=0x1111)], [*KNOWN, member(), sent()], severity=severity)
