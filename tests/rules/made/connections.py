"""Messages and packets of connections, for proofs of several families."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.cm import DREP, DREQ, REJ, REP, REQ, RTU
from tests.craft import build, gmp, rc, roce2, ud

CM, SEND = 0x07, 0x03
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
LEAVE, LEFT = message(0x15, DREQ, IDS, ACTIVE, remote_qpn=0x200), message(0x16, DREP, BACK, PASSIVE)


def over_ethernet(frame: bytes, source: int) -> bytes:
    """The management datagram of a native frame between two hosts of RoCE."""
    there = {"source": bytes([192, 168, 0, source]), "destination": bytes([192, 168, 0, 3 - source])}
    return roce2(0x64, frame[28:284], ext={"DETH": {"q_key": 0x80010000, "srcqp": 1}}, bth={"destqp": 1, "m": 0}, ip=there)


BROKEN = [request(), reply(), READY]
