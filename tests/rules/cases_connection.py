"""Proofs of the rules about connections."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.cm import DREP, DREQ, MRA, REJ, REP, REQ, RTU
from ibdissect.wire.cm_path import APR, LAP
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, rc, roce2, ud
from tests.rules.cases import case

CM, SEND = 0x07, 0x03
SLOW: Any = partial(erf_pcap, step_ns=6_000_000_000)
ACTIVE: dict[str, Any] = {"slid": 1, "dlid": 2}
PASSIVE: dict[str, Any] = {"slid": 2, "dlid": 1}
IDS = {"local_communication_id": 0x1001, "remote_communication_id": 0x2002}
BACK = {"local_communication_id": 0x2002, "remote_communication_id": 0x1001}


def request(**values: Any) -> bytes:
    """A REQ of LID 1 for an RC connection: QP 0x100, expects PSN 500."""
    fields = {
        "local_communication_id": 0x1001, "local_qpn": 0x100, "starting_psn": 500, "path_packet_payload_mtu": 1, "max_cm_retries": 3,
        "remote_cm_response_timeout": 20, "local_cm_response_timeout": 20, "retry_count": 7, "partition_key": 0xFFFF,
        "primary_local_port_lid": 1, "primary_remote_port_lid": 2, "primary_local_ack_timeout": 14, "primary_subnet_local": 1,
    }  # fmt: skip
    return gmp(CM, SEND, 0x10, build(REQ, **{**fields, **values}), at=24, **ACTIVE)


def reply(**values: Any) -> bytes:
    """The REP of LID 2: QP 0x200, expects PSN 900."""
    return gmp(CM, SEND, 0x13, build(REP, **{**BACK, "local_qpn": 0x200, "starting_psn": 900, **values}), at=24, **PASSIVE)


def message(attribute: int, struct: Any, ids: dict[str, int], ends: dict[str, Any], **values: Any) -> bytes:
    """RTU, REJ, DREQ or DREP."""
    return gmp(CM, SEND, attribute, build(struct, **ids, **values), at=24, **ends)


def data(psn: int, opcode: int = 0x04, payload: bytes = b"data") -> bytes:
    """A packet of the active side."""
    return rc(opcode, payload, bth={"destqp": 0x200, "psn": psn}, **ACTIVE)


WAIT = [ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=0x1111, bth={"psn": i}) for i in range(11)]
READY = message(0x14, RTU, IDS, ACTIVE)
REFUSED = message(0x12, REJ, BACK, PASSIVE, reason=8, message_rejected=0)
case("CM003", [*WAIT, REFUSED], [*WAIT[:5], REFUSED], frames=[12], file=SLOW)
case("CM005", [request(max_cm_retries=1)] * 3, [request(max_cm_retries=1)] * 2, frames=[3])
case("CM006", [request(), reply()], [request(remote_cm_response_timeout=21), reply()], frames=[2],
     file=partial(erf_pcap, step_ns=9_000_000_000))  # fmt: skip
case("CM008", [request(), reply(), READY, data(500)], [request(), reply(), READY, data(900)], frames=[4])
case("CM009", [request(), reply(), READY, data(900, 0x00, bytes(512))],
     [request(), reply(), READY, data(900, 0x00, bytes(256))], frames=[4])  # fmt: skip
case("CM012", [request(), REFUSED], [request(), message(0x12, REJ, BACK, PASSIVE, reason=28, message_rejected=0)], frames=[2])
LEAVE, LEFT = message(0x15, DREQ, IDS, ACTIVE, remote_qpn=0x200), message(0x16, DREP, BACK, PASSIVE)
case("CM017", [request(), reply(), READY, LEAVE, *WAIT[:3]], [request(), reply(), READY, LEAVE, LEFT, *WAIT[:3]], frames=[4], file=SLOW)


def over_ethernet(frame: bytes, source: int) -> bytes:
    """The management datagram of a native frame between two hosts of RoCE."""
    there = {"source": bytes([192, 168, 0, source]), "destination": bytes([192, 168, 0, 3 - source])}
    return roce2(0x64, frame[28:284], ext={"DETH": {"q_key": 0x80010000, "srcqp": 1}}, bth={"destqp": 1, "m": 0}, ip=there)


BROKEN = [request(), reply(), READY]
case("CM004", [request(), message(0x13, REP, IDS, ACTIVE, local_qpn=0x100)], [request(), reply()], frames=[2])
TURNED = [over_ethernet(request(), 1), over_ethernet(REFUSED, 2), over_ethernet(reply(), 2)]
case("CM004", TURNED, [*TURNED[:2], TURNED[0], TURNED[2]], frames=[3], also=["CM012"], twin_also=["CM012"], file=ethernet_pcap)
# ibdump may have missed the second request
case("CM004", ethernet_pcap(TURNED), erf_pcap([request(), REFUSED, reply()]), file=None, also=["CM012"], twin_also=["CM012"])  # type: ignore[arg-type]
case("CM004", [*BROKEN[:2], message(0x14, RTU, BACK, PASSIVE)], BROKEN, frames=[3])
GIVEN_UP = message(0x12, REJ, IDS, ACTIVE, reason=28, message_rejected=1)
case("CM004", [*BROKEN[:2], GIVEN_UP, READY], [*BROKEN, GIVEN_UP], frames=[4])


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


# the answer to the second LAP, which asked for no patience
AGAIN = [*BROKEN, LOAD, patient(20, 2), LOADED]
case("TXN010", [*BROKEN, LOAD, patient(18, 2), LOADED], [*AGAIN, LOAD, LOADED], frames=[6], file=LONG)

# silence proves something only where the capture misses nothing
SILENT = [over_ethernet(request(), 1), over_ethernet(patient(18), 2), roce2(0x64, b"idle", ext={"DETH": {}}, bth={"destqp": 9})]
case("TXN010", ethernet_pcap(SILENT, step_ns=4_000_000_000), LONG([request(), patient(18), WAIT[0]]), file=None)  # type: ignore[arg-type]

# the retry count of the REQ
FEW, MORE = (
    [request(retry_count=count), reply(), data(900), data(901),
     rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x100, "psn": 900}, **PASSIVE), *[data(901)] * 3]
    for count in (2, 3)
)  # fmt: skip
case("RC019", FEW, MORE, frames=[8], also=["RC002"], twin_also=["RC002"], file=partial(erf_pcap, step_ns=1_000_000_000))
