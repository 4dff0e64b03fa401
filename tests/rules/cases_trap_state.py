"""Proofs of the rules about traps, what they complain about, and M_Keys over time."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.notice import Notice, TrapLinkState, TrapLocalChange, TrapMKey, TrapPKey, TrapThreshold
from ibdissect.wire.spec import Struct
from tests.craft import build, erf_pcap, smp, ud
from tests.fabric.made import REPRESS, SET, answer, ask, node, port_info, switch
from tests.rules.cases import case

NOTICE, NODE_INFO, PORT_INFO, P_KEY_TABLE, TRAP = 0x02, 0x11, 0x15, 0x16, 0x05
CA, PORT = answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5))


def notice(number: int, details: bytes = b"", **values: Any) -> bytes:
    kind = 4 if number == 144 else 2 if number >= 256 else 1
    fields = {"is_generic": 1, "type": kind, "producer_type": 2 if number < 144 else 1, "trap_number": number, "issuer_lid": 5,
              "data_details": details}  # fmt: skip
    return build(Notice, **{**fields, **values})


def trap(number: int, details: bytes = b"", *, slid: int = 5, dlid: int = 1, tid: int = 7, **values: Any) -> bytes:
    return smp(TRAP, NOTICE, notice(number, details, **values), slid=slid, dlid=dlid, header={"transaction_id": tid})


def repress(number: int, details: bytes = b"", *, tid: int = 7) -> bytes:
    return ask(5, NOTICE, method=REPRESS, body=notice(number, details), header={"transaction_id": tid})


def details(of: type[Struct], **values: Any) -> bytes:
    return build(of, **values)


def bad_key(**values: Any) -> bytes:
    return details(TrapMKey, **{"lidaddr": 1, "method": SET, "attributeid": PORT_INFO, "mkey": 9, **values})


LOCAL = details(TrapLocalChange, lidaddr=5, change_flags=1)
AT_5 = details(TrapLinkState, lidaddr=5)
SWITCH = answer(5, NODE_INFO, switch(5, local_port_num=3))
case("TRP001", trap(128, AT_5, issuer_lid=9), trap(128, AT_5))
case("SMP014", [CA, PORT, trap(144, LOCAL, dlid=9)], [CA, PORT, trap(144, LOCAL)], frames=[3])
TOLD = answer(6, PORT_INFO, port_info(6, master_sm_lid=9))
case("SMP014", [CA, PORT, trap(144, LOCAL, dlid=9)], [CA, PORT, TOLD, trap(144, LOCAL, dlid=9)], frames=[3])  # it may know better
case("TRP005", [CA, trap(128, AT_5)], [SWITCH, trap(128, AT_5)], frames=[2])
case("TRP006", [CA, trap(129, details(TrapThreshold, lidaddr=5, portno=99))], [CA, trap(129, details(TrapThreshold, lidaddr=5, portno=1))],
     frames=[2])  # fmt: skip
case("TRP008", trap(256, bad_key(dr_notice=1, dr_hop_count=40)), trap(256, bad_key(dr_notice=1, dr_hop_count=40, dr_path_truncated=1)))
STORM = [trap(256, bad_key(), tid=tid) for tid in range(1, 5)]
case("MKY011", [CA, PORT, *STORM], [CA, PORT, *STORM[:2], repress(256, bad_key()), *STORM[2:]], frames=[6])
AGAIN = [trap(144, LOCAL), trap(144, LOCAL)]
case("SMP020", [CA, PORT, *AGAIN], [CA, PORT, AGAIN[0], repress(144, LOCAL), AGAIN[1]], frames=[4])
WRONG = [CA, PORT, trap(144, LOCAL), repress(144, LOCAL, tid=8)]
case("SMP019", [*WRONG, trap(144, LOCAL)], [CA, PORT, trap(144, LOCAL), repress(144, LOCAL), trap(144, LOCAL)], frames=[4])
case("SMP019", [*WRONG, trap(144, LOCAL)], [*WRONG, trap(144, LOCAL), repress(144, LOCAL)], frames=[4])
case("SMP019", [*WRONG, trap(144, LOCAL)], WRONG, frames=[4])  # the trap that it answers may have been missed
ANSWERED = answer(5, NOTICE, notice(144, LOCAL), header={"transaction_id": 7})
GET = ask(5, NOTICE, header={"transaction_id": 7})
ENDED = [CA, PORT, trap(144, LOCAL), repress(144, LOCAL)]
case("SMP018", [*ENDED, ANSWERED], [*ENDED, GET, ANSWERED], frames=[5])

# packets that were complained about
SENT: dict[str, Any] = {"dest_qp": 0x12, "src_qp": 0x34, "q_key": 0x77, "slid": 6, "dlid": 5}
ENDS: dict[str, Any] = {"lidaddr1": 6, "lidaddr2": 5, "qp1": 0x34, "qp2": 0x12}
PACKET = ud(bytes(8), bth={"p_key": 0x8123, "destqp": 0x12}, **SENT)
for code, number, key in (("PKY013", 257, 0x8123), ("QKY008", 258, 0x77)):
    case(code, [PACKET, trap(number, details(TrapPKey, **ENDS, key_value=key))],
         [PACKET, trap(number, details(TrapPKey, **ENDS, key_value=key + 1))], frames=[2])  # fmt: skip

# M_Keys over time
KEY = 0x1122334455667788
ALSO = ("MKY005",)


def held(**values: Any) -> bytes:
    return answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1, **values), m_key=KEY)


def tried(key: int) -> bytes:
    return ask(5, P_KEY_TABLE, method=SET, m_key=key, body=b"\xff\xff".ljust(64, b"\0"), header={"transaction_id": 0x100 + key})


LATE = [held(m_key_lease_period=1), tried(9), CA]
case("MKY008", erf_pcap(LATE, step_ns=1_500_000_000), erf_pcap([*LATE[:2], tried(KEY), CA], step_ns=400_000_000),
     file=None, frames=[3], also=[*ALSO, "MKY002", "TXN001"], twin_also=[*ALSO, "MKY002"])  # fmt: skip
case("MKY015", [held(), tried(1), tried(2), tried(3)], [held(), tried(1), tried(2), tried(2)], frames=[4],
     also=[*ALSO, "MKY002"], twin_also=[*ALSO, "MKY002"])  # fmt: skip


def given(key: int, slid: int) -> bytes:
    body = port_info(5, m_key=key, m_key_protect_bits=1, port_state=0, port_physical_state=0)
    return ask(5, PORT_INFO, method=SET, slid=slid, body=body)


case("MKY013", [CA, given(3, 1), given(4, 2)], [CA, given(3, 1), given(4, 1)], frames=[3], also=ALSO, twin_also=ALSO)
