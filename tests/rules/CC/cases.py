"""Proofs of the rules about congestion control: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from ibdissect.wire.cc import (
    CACongestionEntry,
    CACongestionSetting,
    CongestionControlFormat,
    CongestionControlTable,
    CongestionInfo,
    CongestionKeyInfo,
)
from tests.craft import build, gmp, mad, put, ud
from tests.rules.cases import case
from tests.rules.made.conversations import SECONDS, WAIT

GET, SET, GET_RESP, CC = 0x01, 0x02, 0x81, 0x21


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


TRIES = [congestion(GET, 0x11, key=9, transaction=8), congestion(GET, 0x11, key=9, transaction=8)]
ALIVE = [congestion(GET, 0x11, key=7, transaction=20), congestion(GET_RESP, 0x11, transaction=20)]
WRONG = [*TRIES, *ALIVE, *WAIT]
case("CC001", [*keyed(1), *WRONG], [*keyed(0), *WRONG], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
# it answers nothing, as a node that is down; what it answered before the requests tells nothing
case("CC001", [*keyed(1), *ALIVE, *TRIES, *WAIT], [*keyed(0), *ALIVE, *TRIES, *WAIT], frames=[5], also=["TXN001"], twin_also=["TXN001"],
     severity="info", file=SECONDS)  # fmt: skip
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
case("CC002", gmp(0x21, 1, 0x11, header={"class_version": 1}), gmp(0x21, 1, 0x11))
REFUSED_VERSION = {"class_version": 1, "status": 0x0004}
case("CC002", gmp(0x21, 0x81, 0x11, header={"class_version": 1}), gmp(0x21, 0x81, 0x11, header=REFUSED_VERSION))
# a new key was set; the capture does not show whether
NEW_KEY = congestion(SET, 0x12, build(CongestionKeyInfo, cc_key=9, cc_key_protect_bit=1), key=7, transaction=12)
case("CC001", [*keyed(1), *WRONG], [*keyed(1), NEW_KEY, *WRONG], frames=[3], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
# who reads may look for the end; the capacity is unknown while it is asked for again
ASKED_AGAIN = congestion(GET, 0x11, transaction=9)
READ_2 = congestion(GET, 0x17, modifier=2, transaction=8)
case("CC003", [*CAP, READ_2], [*CAP, congestion(GET, 0x17, modifier=1, transaction=8)], frames=[3], severity="info")
case("CC003", [*CAP, BLOCK_2], [*CAP, ASKED_AGAIN, BLOCK_2], frames=[3])
