"""Traps, notices and M_Keys in use, for proofs of several families."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.notice import Notice, TrapMKey
from ibdissect.words import Struct
from tests.craft import build, smp, ud
from tests.subnet.made import REPRESS, SET, answer, ask, node, port_info

NOTICE, NODE_INFO, PORT_INFO, TRAP = 0x02, 0x11, 0x15, 0x05
CA, PORT = answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5))


def notice(number: int, details: bytes = b"", **values: Any) -> bytes:
    kind = 4 if number == 144 else 2 if number >= 256 else 1
    fields = {"is_generic": 1, "type": kind, "producer_type": 2 if number < 144 else 1, "trap_number": number, "issuer_lid": 5,
              "data_details": details}  # fmt: skip
    return build(Notice, **{**fields, **values})


def trap(number: int, details: bytes = b"", *, slid: int = 5, dlid: int = 1, tid: int = 7, sl: int = 0, **values: Any) -> bytes:
    lrh = {"sl": sl}
    return smp(TRAP, NOTICE, notice(number, details, **values), slid=slid, dlid=dlid, lrh=lrh, header={"transaction_id": tid})


def repress(number: int, details: bytes = b"", *, tid: int = 7, **kw: Any) -> bytes:
    return ask(5, NOTICE, method=REPRESS, body=notice(number, details), header={"transaction_id": tid}, **kw)


def details(of: type[Struct], **values: Any) -> bytes:
    return build(of, **values)


def bad_key(**values: Any) -> bytes:
    return details(TrapMKey, **{"lidaddr": 1, "method": SET, "attributeid": PORT_INFO, "mkey": 9, **values})


# packets that were complained about
SENT: dict[str, Any] = {"dest_qp": 0x12, "src_qp": 0x34, "q_key": 0x77, "slid": 6, "dlid": 5}
ENDS: dict[str, Any] = {"lidaddr1": 6, "lidaddr2": 5, "qp1": 0x34, "qp2": 0x12}
PACKET = ud(bytes(8), bth={"p_key": 0x8123, "destqp": 0x12}, **SENT)
