"""Proofs of the rules about traps: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.notice import GMPNotice, Notice, TrapLinkState, TrapLocalChange, TrapThreshold
from tests.craft import build, erf_pcap, gmp, smp
from tests.rules.cases import case
from tests.rules.made.traps import CA, bad_key, details
from tests.rules.made.traps import trap as plain_trap
from tests.subnet.made import answer, ask, node, port_info, switch

TRAP, REPORT, NODE_INFO, PORT_INFO = 5, 6, 0x11, 0x15
LOCAL_CHANGE: dict[str, Any] = {"lidaddr": 5, "capabilitymask": 0x02514868}


def notice(number: int, kind: int, details: bytes = b"", **values: Any) -> bytes:
    """A generic notice."""
    head = {"is_generic": 1, "type": kind, "producer_type": 1, "trap_number": number, "issuer_lid": 5, **values}
    return build(Notice, **head, data_details=details)


def trap(number: int, kind: int, details: bytes = build(TrapLocalChange, **LOCAL_CHANGE), **values: Any) -> bytes:
    """A SubnTrap from LID 5."""
    return smp(TRAP, 2, notice(number, kind, details, **values), slid=5)


def report(number: int, kind: int) -> bytes:
    """A SubnAdmReport."""
    return gmp(0x03, REPORT, 2, notice(number, kind, producer_type=4) + bytes(GMPNotice.size - Notice.size), at=56)


case("TRP002", trap(144, 4, producer_type=9), trap(144, 4, producer_type=4))
case("TRP003", trap(144, 1), trap(144, 4))
case("TRP003", trap(144, 1), trap(144, 0x7F))
case("TRP004", trap(99, 4), trap(99, 4, is_generic=0))
case("TRP007", trap(144, 4, build(TrapLocalChange, lidaddr=5)), trap(144, 4, build(TrapLocalChange, lidaddr=5, change_flags=1)))
case("TRP009", trap(64, 3), report(64, 3))
AT_5 = details(TrapLinkState, lidaddr=5)
SWITCH = answer(5, NODE_INFO, switch(5, local_port_num=3))
case("TRP001", plain_trap(128, AT_5, issuer_lid=9), plain_trap(128, AT_5))
case("TRP005", [CA, plain_trap(128, AT_5)], [SWITCH, plain_trap(128, AT_5)], frames=[2])
case(
    "TRP006",
    [CA, plain_trap(129, details(TrapThreshold, lidaddr=5, portno=99))],
    [CA, plain_trap(129, details(TrapThreshold, lidaddr=5, portno=1))],
    frames=[2],
)
case(
    "TRP008",
    plain_trap(256, bad_key(dr_notice=1, dr_hop_count=40)),
    plain_trap(256, bad_key(dr_notice=1, dr_hop_count=40, dr_path_truncated=1)),
)
# The same where a PortInfo said how many LIDs the port has.
WIDE = [answer(4, NODE_INFO, node(4)), answer(4, PORT_INFO, port_info(4, lmc=2))]
case("TRP001", [*WIDE, plain_trap(128, AT_5, slid=4, issuer_lid=8)], [*WIDE, plain_trap(128, AT_5, slid=4, issuer_lid=6)], frames=[3],
     also=["TRP005"], twin_also=["TRP005"])  # fmt: skip
# the LID of another port
TWO_PORTS = [frame for lid in (5, 6) for frame in (answer(lid, 0x11, node(lid)), answer(lid, 0x15, port_info(lid)))]
CHANGED = [trap(144, 4, build(TrapLocalChange, lidaddr=lid, change_flags=1)) for lid in (6, 5)]
case("TRP011", [*TWO_PORTS, CHANGED[0]], [*TWO_PORTS, CHANGED[1]], frames=[5], also=["SMP014"], twin_also=["SMP014"])


# a trap is repeated with the notice of its first time, the LIDs of which another port may have by now
def moved(old: int, new: int, tid: int) -> list[bytes]:
    """A port gets another LID."""
    header = {"transaction_id": tid}
    return [
        ask(old, PORT_INFO, method=2, body=port_info(new, port_state=0, port_physical_state=0), header=header),
        answer(old, PORT_INFO, port_info(new), header=header),
    ]


def of_lid(lid: int, slid: int = 9, issuer: int = 5) -> bytes:
    """Trap 144."""
    return plain_trap(144, details(TrapLocalChange, lidaddr=lid, change_flags=1), slid=slid, issuer_lid=issuer)


MOVED = [CA, answer(5, PORT_INFO, port_info(5)), *moved(5, 9, 50)]
case("TRP001", [*MOVED, of_lid(9, issuer=7)], [*MOVED, of_lid(9)], frames=[5])
EXCHANGED = [*MOVED[:2], *(answer(6, *one) for one in ((0x11, node(6)), (0x15, port_info(6)))), *moved(5, 9, 50), *moved(6, 5, 51)]
case("TRP011", [*EXCHANGED, of_lid(9, 5, 5)], [*EXCHANGED, of_lid(5, 9, 5)], frames=[9])
OF_SWITCH = [answer(5, NODE_INFO, switch(5, 36)), answer(5, PORT_INFO, port_info(5)), *EXCHANGED[2:]]
case(
    "TRP006",
    [*OF_SWITCH, plain_trap(129, details(TrapThreshold, lidaddr=5, portno=20), slid=6)],
    [*OF_SWITCH, plain_trap(129, details(TrapThreshold, lidaddr=5, portno=20), slid=9)],
    frames=[9],
)
# a virtual port may have a LID of its own, and a port that has none yet names the permissive one
VIRTUAL = [WIDE[0], answer(4, PORT_INFO, port_info(4, lmc=2, capability_mask=1 << 15, capability_mask2=4))]
case("TRP001", [*VIRTUAL, plain_trap(128, AT_5, slid=4, issuer_lid=8)], [*WIDE, plain_trap(128, AT_5, slid=4, issuer_lid=0xFFFF)],
     frames=[3], severity="info", also=["TRP005"], twin_also=["TRP005"])  # fmt: skip
# an hour later the LID may be another port's
LATER = [*WIDE, plain_trap(128, AT_5, slid=4, issuer_lid=8)]
case(
    "TRP001",
    LATER,
    [*WIDE, plain_trap(128, AT_5, slid=4, issuer_lid=6)],
    severity="info",
    frames=[3],
    also=["TRP005"],
    twin_also=["TRP005"],
    file=partial(erf_pcap, step_ns=3_600_000_000_000),
)
# a switch that showed its ports long ago may have been restarted with its ports split
OF_40 = [answer(5, NODE_INFO, switch(5, 40)), plain_trap(129, details(TrapThreshold, lidaddr=5, portno=41))]
TO_40 = [OF_40[0], plain_trap(129, details(TrapThreshold, lidaddr=5, portno=40))]
for seconds, how in ((1, "warning"), (11, "info")):
    case("TRP006", OF_40, TO_40, severity=how, frames=[2], file=partial(erf_pcap, step_ns=seconds * 1_000_000_000))
# the LID that it had before the capture began, or when it sent that trap first
HAS_9 = [answer(9, NODE_INFO, node(9)), answer(9, PORT_INFO, port_info(9))]
GETS_9 = [smp(0x81, NODE_INFO, node(9), path=[1, 2]),
          *(smp(method, PORT_INFO, port_info(9, **state), path=[1, 2], modifier=1)
            for method, state in ((2, {"port_state": 0, "port_physical_state": 0}), (0x81, {})))]  # fmt: skip
ITS_OWN = [of_lid(300, 300, 300), of_lid(300, issuer=300)]
WARM: Any = partial(erf_pcap, step_ns=6_000_000_000)
"""A trap in the first ten seconds of a capture may have been sent before it, by a port that had another LID then."""
for known, frame, loud, file in ((HAS_9, 3, "warning", WARM), (HAS_9, 3, "info", erf_pcap), (GETS_9, 4, "info", WARM)):
    case("TRP001", [*known, of_lid(9, issuer=300)], ITS_OWN, frames=[frame], severity=loud, file=file)
case("TRP001", [of_lid(300, 300, 300), of_lid(9, issuer=300)], [of_lid(300, 300, 300), of_lid(300, issuer=300)], frames=[2])
# a LID that nobody showed, with the issuer of a known port: the port got it unseen
for issuer, loud in ((300, "info"), (301, "warning")):
    SHOWN = [answer(300, NODE_INFO, node(5)), answer(300, PORT_INFO, port_info(300))]
    case("TRP001", [*SHOWN, of_lid(9, issuer=issuer)], [*SHOWN, of_lid(300, 300, 300)], frames=[3], severity=loud, file=WARM)
BESIDE = [answer(6, NODE_INFO, node(6)), answer(6, PORT_INFO, port_info(6))]
for known, frame, loud, file in ((HAS_9, 5, "warning", WARM), (HAS_9, 5, "info", erf_pcap), (GETS_9, 6, "info", WARM)):
    case("TRP011", [*BESIDE, *known, of_lid(6, 9, 9)], [*BESIDE, *HAS_9, of_lid(9, 9, 9)], frames=[frame], severity=loud, file=file)
