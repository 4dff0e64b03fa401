"""Proofs of the rules about who sends what over time: multicast senders, RoCE congestion and source ports."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.craft import erf_pcap, ethernet_pcap, roce2, ud
from tests.rules.cases import case
from tests.rules.cases_conversation import MGID, WAIT, gid_of, member

SET, DELETE, GET_RESP, DELETE_RESP = 0x02, 0x15, 0x81, 0x95
SECONDS: Any = partial(erf_pcap, step_ns=1_000_000_000)


def broadcast(lid: int = 5) -> bytes:
    return ud(b"ARP?", dest_qp=0xFFFFFF, src_qp=0x48, q_key=0xB1B, slid=lid, dlid=0xC001, grh={"sgid": gid_of(lid), "dgid": MGID})


JOIN, LEAVE = [member(SET), member(GET_RESP)], [member(DELETE, transaction=8), member(DELETE_RESP, transaction=8)]
AGAIN = [member(SET, transaction=9), member(GET_RESP, transaction=9)]
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, *AGAIN, broadcast()], frames=[7], file=SECONDS)
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*LEAVE, *WAIT[:2], broadcast()], frames=[7], file=SECONDS)
REFUSED = [member(SET), member(GET_RESP, status=0x0200)]
case("MCG005", [*REFUSED, *WAIT[:2], broadcast()], [*REFUSED, *AGAIN, broadcast()], frames=[5], also=["SA003"], twin_also=["SA003"],
     file=SECONDS)  # fmt: skip
# it asked again, and the answer is missing; the SA was only busy
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, AGAIN[0], *WAIT[:2], broadcast()], frames=[7],
     twin_also=["TXN001"], file=SECONDS)  # fmt: skip
case("MCG005", [*REFUSED, *WAIT[:2], broadcast()], [REFUSED[0], member(GET_RESP, status=1), *WAIT[:2], broadcast()], frames=[5],
     also=["SA003"], file=SECONDS)  # fmt: skip

THERE, BACK = bytes([192, 168, 0, 1]), bytes([192, 168, 0, 2])


def sent(queue_pair: int = 0x12, port: int = 0xC000, ecn: int = 2, psn: int = 1) -> bytes:
    return roce2(bth={"destqp": queue_pair, "psn": psn}, udp={"source_port": port}, ip={"ecn": ecn})


def notified() -> bytes:
    return roce2(0x81, bytes(16), headers=b"", bth={"destqp": 0x34, "psn": 0, "becn": 1}, ip={"source": BACK, "destination": THERE})


OTHER = roce2(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x34}, ip={"source": BACK, "destination": THERE})
FLOWS = [sent(0x20 + i) for i in range(8)]
case("ROC002", FLOWS, [*FLOWS[:7], sent(0x27, 0xC001)], frames=[1], file=ethernet_pcap)
case("ROC002", FLOWS, FLOWS[:7], file=ethernet_pcap)
# datagrams
TO_MANY = [roce2(0x64, b"data", ext={"DETH": {"q_key": 5, "srcqp": 7}}, bth={"destqp": 0x20 + i}) for i in range(8)]
case("ROC002", FLOWS, TO_MANY, frames=[1], file=ethernet_pcap)
MARKED: Any = partial(ethernet_pcap, step_ns=600_000_000)
case("ROC008", [sent(ecn=3), OTHER, OTHER], [sent(ecn=3), notified(), OTHER], frames=[1], file=MARKED)
case("ROC008", [sent(ecn=3), OTHER, notified(), OTHER], [sent(ecn=2), OTHER, OTHER], frames=[1], file=MARKED)
# an acknowledgement
ACKNOWLEDGED = roce2(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, ip={"ecn": 3})
case("ROC008", [sent(ecn=3), OTHER, OTHER], [ACKNOWLEDGED, OTHER, OTHER], frames=[1], file=MARKED)
# one direction only, and the end of the capture
case(
    "ROC008",
    ethernet_pcap([sent(ecn=3), OTHER, OTHER], step_ns=600_000_000),
    ethernet_pcap([sent(ecn=3), sent(psn=2), sent(psn=3)], step_ns=600_000_000),
    file=None,
)  # type: ignore[arg-type]
