"""Proofs of the rules about connection management: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.cm import APR, DREP, DREQ, LAP, MRA, REJ, REP, REQ, RTU
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, interfaces_pcapng, rc, smp, ud
from tests.rules.cases import case
from tests.rules.made.connections import (
    ACTIVE,
    BACK,
    BROKEN,
    IDS,
    LEAVE,
    LEFT,
    PASSIVE,
    READY,
    REFUSED,
    WAIT,
    data,
    message,
    over_ethernet,
    reply,
    request,
)
from tests.rules.made.gids import gid
from tests.subnet.made import answer, ask, node, port_info, switch

SEND, CM = 3, 0x07
SLOW: Any = partial(erf_pcap, step_ns=6_000_000_000)
case("CM003", [*WAIT, REFUSED], [*WAIT[:5], REFUSED], frames=[12], file=SLOW)
TRIED, COPIED = (partial(erf_pcap, step_ns=milliseconds * 1_000_000) for milliseconds in (50, 49))
ASKING = request(max_cm_retries=1)
case("CM005", [ASKING] * 3, [ASKING] * 2, frames=[3], file=TRIED)
# those of a mirror that is a few milliseconds behind are no tries
case("CM005", TRIED([ASKING] * 3), COPIED([ASKING] * 3), frames=[3], file=None)
case("CM006", [request(), reply()], [request(remote_cm_response_timeout=21), reply()], frames=[2],
     file=partial(erf_pcap, step_ns=9_000_000_000))  # fmt: skip
case("CM008", [request(), reply(), READY, data(500)], [request(), reply(), READY, data(900)], frames=[4])
# after the DREQ these are packets of another connection
case("CM008", [request(), reply(), READY, data(500)], [request(), reply(), READY, LEAVE, LEFT, data(500)], frames=[4])


def acknowledged(psn: int, msn: int, syndrome: int = 0x1F) -> bytes:
    """An answer of the passive side."""
    return rc(0x11, ext={"AETH": {"syndrome": syndrome, "msn": msn}}, bth={"destqp": 0x100, "psn": psn}, **PASSIVE)


# one PSN off: the capture may have missed the first message, unless the responder counts this one as the first
case("CM008", [*BROKEN, data(901), acknowledged(901, 1)], [*BROKEN, data(901), acknowledged(901, 2)], frames=[4])
case("CM008", [*BROKEN, data(901), acknowledged(901, 1)], [*BROKEN, data(901, 0x02), acknowledged(901, 1)], frames=[4])
# or waits for another one, which the requester never sends
REFUSES = [*BROKEN, data(901), acknowledged(900, 0, 0x60)]
TWICE = [data(901), data(901)]
case("CM008", [*REFUSES, *TWICE], [*REFUSES, data(900), *TWICE], frames=[4], also=["RC002", "RC004"], twin_also=["RC002", "RC004"])
case("CM008", [*REFUSES, *TWICE], [*REFUSES, data(901)], frames=[4], also=["RC002", "RC004"], twin_also=["RC002", "RC004"])
# a first packet that is recorded in front of the REP, as where records of one direction come late
EARLY = [request(), data(900), reply(), READY]
case("CM008", [request(), data(800), reply(), READY, *REFUSES[3:], *TWICE], [*EARLY, *REFUSES[3:], *TWICE], frames=[5],
     also=["RC002", "RC004"], twin_also=["RC002", "RC004"])  # fmt: skip
case("CM009", [request(), reply(), READY, data(900, 0x00, bytes(512))],
     [request(), reply(), READY, data(900, 0x00, bytes(256))], frames=[4])  # fmt: skip
# a whole message in one packet
case("CM009", [*BROKEN, data(900), data(901, payload=bytes(260))], [*BROKEN, data(900), data(901, payload=bytes(256))], frames=[5])
case("CM012", [request(), REFUSED], [request(), message(0x12, REJ, BACK, PASSIVE, reason=28, message_rejected=0)], frames=[2],
     twin_also=["CNX001"], severity="error")  # fmt: skip
# a later try is accepted, after however many, although the RTU is not captured
for tries in (1, 3):
    asked = [request(local_communication_id=0x1001 + i, local_qpn=0x100 + i) for i in range(tries + 1)]
    refused = [message(0x12, REJ, {**BACK, "remote_communication_id": 0x1001 + i}, PASSIVE, reason=8) for i in range(tries)]
    refusals = [one for pair in zip(asked, refused, strict=False) for one in pair]
    accepted = [asked[-1], reply(remote_communication_id=0x1001 + tries)]
    case("CM012", [*refusals, *accepted], accepted, frames=[2 * i + 2 for i in range(tries)], severity="info")
# IPoIB's connected mode: the id names a queue pair of the other interface, which has another one since its driver was loaded again
for before, then, severity in ((0x48, 0x4A, "info"), (0x48, 1 << 24, "error")):
    asked = [request(service_id=1 << 60 | before), request(local_communication_id=0x1002, local_qpn=0x102, service_id=1 << 60 | then)]
    case("CM012", [asked[0], REFUSED, asked[1], reply(remote_communication_id=0x1002)], [asked[0]], frames=[2], severity=severity)
# LID 2 does not listen yet when LID 1 asks; later it connects to LID 1 itself, for the same service or another one
LISTENS = [message(0x10, REQ, {"local_communication_id": 0x2003}, PASSIVE, service_id=service, local_qpn=0x201) for service in (0, 1)]
TAKEN = message(0x13, REP, {"local_communication_id": 0x1003, "remote_communication_id": 0x2003}, ACTIVE, local_qpn=0x101)
for asks, severity in zip(LISTENS, ("info", "error"), strict=True):
    case("CM012", [request(), REFUSED, asks, TAKEN], [asks, TAKEN], frames=[2], severity=severity)
# a sender that hears no DREP repeats its DREQ; if it does not, the capture has probably missed the DREP
PLAIN: Any = partial(ethernet_pcap, link=247, step_ns=6_000_000_000)
for times, severity in ((2, "warning"), (1, "info")):
    case("CM017", [request(), reply(), READY, *[LEAVE] * times, *WAIT[:3]], [request(), reply(), READY, *[LEAVE] * times, LEFT, *WAIT[:3]],
         frames=[4], severity=severity, also=["CAP009"], twin_also=["CAP009"], file=PLAIN)  # fmt: skip
case("CM017", [request(), reply(), READY, LEAVE, *WAIT[:3]], [request(), reply(), READY, LEAVE, LEFT, *WAIT[:3]], frames=[4], file=SLOW)
ALSO_LEAVES = message(0x15, DREQ, BACK, PASSIVE, remote_qpn=0x100)
# what LID 2 sends to LID 1 takes the other link of a bond; it is seen to answer LID 3
OF_3: Any = {"local_communication_id": 0x2003, "remote_communication_id": 0x1003}
SPEAKS = gmp(CM, SEND, 0x12, build(REJ, **OF_3, reason=28), at=24, slid=2, dlid=3)
case("CM017", [SPEAKS, request(), reply(), READY, LEAVE, *WAIT[:3]], [SPEAKS, request(), READY, LEAVE, *WAIT[:3]], file=SLOW)
# the other side says so, too, so that neither believes to be connected
case("CM017", [request(), reply(), READY, LEAVE, *WAIT[:3]], [request(), reply(), READY, LEAVE, ALSO_LEAVES, *WAIT[:3]], frames=[4],
     file=SLOW)  # fmt: skip
# as long as its REQ allows, of 18 s: 2 * 8.6 s, but not 2 * 17 s
for code, twin in ((21, 22), (0, 22)):
    case("CM017", [request(remote_cm_response_timeout=code), reply(), READY, LEAVE, *WAIT[:3]],
         [request(remote_cm_response_timeout=twin), reply(), READY, LEAVE, *WAIT[:3]], frames=[4], file=SLOW)  # fmt: skip
# the copy of a second mirror is no repetition, even if it is the only one
MOMENTS = [1_700_000_000_000_000_000 + milliseconds * 1_000_000 for milliseconds in (0, 1, 2, 3, 4, 60, 13_000)]
for again, severity in ((4, "info"), (5, "warning")):
    ENDS = interfaces_pcapng([(0, one) for one in (*BROKEN, LEAVE, LEAVE, WAIT[0])], times=[*MOMENTS[:4], MOMENTS[again], MOMENTS[6]])
    case("CM017", ENDS, PLAIN([*BROKEN, LEAVE, LEFT]), severity=severity, file=None, also=["CAP009"], twin_also=["CAP009"])
SET_UP = [request(primary_local_ack_timeout=20), reply(), READY, LEAVE, LEFT]
ANEW = request(local_communication_id=0x1002)
case("CM018", [*SET_UP, ANEW], [*SET_UP, request(local_communication_id=0x1002, local_qpn=0x101)], frames=[6])
case("CM018", [*SET_UP, ANEW], [request(primary_local_ack_timeout=8), *SET_UP[1:], ANEW], frames=[6])  # 1 ms
case("CM018", [*SET_UP, ANEW], [*SET_UP[:3], request(primary_local_ack_timeout=20), ANEW], frames=[6])  # nobody left
case("CM004", [request(), message(0x13, REP, IDS, ACTIVE, local_qpn=0x100)], [request(), reply()], frames=[2])
TURNED = [over_ethernet(request(), 1), over_ethernet(REFUSED, 2), over_ethernet(reply(), 2)]
case("CM004", TURNED, [*TURNED[:2], TURNED[0], TURNED[2]], frames=[3], also=["CM012"], twin_also=["CM012"], file=ethernet_pcap)
# ibdump may have missed the second request
case("CM004", ethernet_pcap(TURNED), erf_pcap([request(), REFUSED, reply()]), file=None, also=["CM012"], twin_also=["CM012"])  # type: ignore[arg-type]
case("CM004", [*BROKEN[:2], message(0x14, RTU, BACK, PASSIVE)], BROKEN, frames=[3])
GIVEN_UP = message(0x12, REJ, IDS, ACTIVE, reason=28, message_rejected=1)
case("CM004", [*BROKEN[:2], GIVEN_UP, READY], [*BROKEN, GIVEN_UP], frames=[4])
REQUEST: dict[str, Any] = {
    "local_communication_id": 7, "service_id": 0x0000000001061234, "local_ca_guid": 0x0002C90300001000, "local_qpn": 0x48,
    "responder_resources": 1, "initiator_depth": 1, "remote_cm_response_timeout": 20, "local_cm_response_timeout": 20, "starting_psn": 9,
    "retry_count": 7, "partition_key": 0xFFFF, "path_packet_payload_mtu": 4, "rnr_retry_count": 7, "max_cm_retries": 15,
    "primary_local_port_lid": 1, "primary_remote_port_lid": 2, "primary_packet_rate": 3, "primary_subnet_local": 1,
    "primary_local_ack_timeout": 14,
}  # fmt: skip


def classes_request(**values: Any) -> bytes:
    """A REQ for an RC connection."""
    return gmp(CM, SEND, 0x10, build(REQ, **{**REQUEST, **values}), at=24)


def rejected(reason: int) -> bytes:
    """A REJ of a REQ."""
    return gmp(CM, SEND, 0x12, build(REJ, remote_communication_id=7, reason=reason), at=24)


case("CM001", classes_request(local_qpn=0), classes_request(local_qpn=0, extended_transport_type=1))
case("CM002", rejected(99), rejected(35), severity="info")
case("CM002", rejected(0), rejected(34), severity="warning")
case("CM002", rejected(256), rejected(35), severity="warning")
case("CM002", rejected(36), rejected(35), severity="info")
case("CM002", rejected(255), rejected(35), severity="info")
case("CM015", classes_request(primary_local_ack_timeout=0), classes_request(primary_local_ack_timeout=1))
# each REQ may ask for another REP, a REQ with another PSN is another try, and who had an MRA may wait and ask again
case("CM005", [ASKING, *[reply()] * 3], [ASKING, reply(), ASKING, *[reply()] * 2], frames=[4], file=TRIED, severity="warning")
# the capture lost packets, perhaps REQs
for lost, severity in ([3], "info"), ([], "warning"):
    case("CM005", erf_pcap([ASKING, *[reply()] * 3], step_ns=100_000_000, lost=lost), TRIED([ASKING, reply()]), frames=[4], file=None,
         severity=severity, also=["CAP004"] if lost else ())  # fmt: skip
# the capture begins between a REQ and its REP
case("CM005", [reply(), ASKING, *[reply()] * 2], [reply(), ASKING, reply()], frames=[4], file=TRIED, severity="info")
case("CM005", [ASKING] * 3, [*[ASKING] * 2, request(max_cm_retries=1, starting_psn=77)], frames=[3], file=TRIED)
BE_PATIENT = message(0x11, MRA, {"local_communication_id": 0x2002, "remote_communication_id": 0x1001}, PASSIVE)
case("CM005", [ASKING, BE_PATIENT, *[ASKING] * 2], [ASKING, BE_PATIENT, ASKING], frames=[4], file=TRIED, severity="info")
# the other side's own REQ explains a REP of who asked, before the capture too: peer to peer
WRONG_SIDE = [request(), message(0x13, REP, IDS, ACTIVE, local_qpn=0x100)]
case("CM004", [*WAIT, *WRONG_SIDE], [*WAIT, request(), reply()], frames=[13], severity="warning", file=PLAIN, also=["CAP009"],
     twin_also=["CAP009"])  # fmt: skip
case("CM004", WRONG_SIDE, [request(), reply()], frames=[2], severity="info")
# a communication id is used again: for another host, or for another connection of this one, whose REQ is not captured
for other in (2, 3):
    theirs = {"slid": 1, "dlid": other}
    over = [
            gmp(CM, SEND, 0x10, build(REQ, local_communication_id=0x1001, local_qpn=0x111, primary_remote_port_lid=other), at=24, **theirs),
            message(0x13, REP, {"local_communication_id": 0x77, "remote_communication_id": 0x1001}, {"slid": other, "dlid": 1}),
            message(0x15, DREQ, {"local_communication_id": 0x1001, "remote_communication_id": 0x77}, theirs),
            message(0x16, DREP, {"local_communication_id": 0x77, "remote_communication_id": 0x1001}, {"slid": other, "dlid": 1}),
    ]  # fmt: skip
    case("CM004", [*BROKEN[:2], message(0x14, RTU, BACK, PASSIVE)], [*over, message(0x13, REP, IDS, ACTIVE, local_qpn=0x100)], frames=[3])
# who asks anew with its queue pair, or leaves over the alternate path, is not bound any more
ALTERNATE: dict[str, Any] = {"alternate_local_port_lid": 3, "alternate_remote_port_lid": 4, "alternate_subnet_local": 1}
TWO_PATHS, MOVED = [request(**ALTERNATE), *BROKEN[1:]], [{"slid": 3, "dlid": 4}, {"slid": 4, "dlid": 3}]
GONE = [message(0x15, DREQ, IDS, MOVED[0], remote_qpn=0x200), message(0x16, DREP, BACK, MOVED[1])]
LONG, ODD = data(900, 0x00, bytes(512)), data(500)
NEXT = request(local_communication_id=0x1005, path_packet_payload_mtu=5, starting_psn=7)
for code, wrong in (("CM008", ODD), ("CM009", LONG)):
    case(code, [*TWO_PATHS, wrong], [*TWO_PATHS, *GONE, wrong], frames=[4], severity="warning")
    case(code, [*BROKEN, wrong], [*BROKEN, NEXT, wrong], frames=[4], severity="warning")


def of_port(number: int, frame: bytes, back: bool = False) -> bytes:
    """A datagram of a virtual port of LID 1, or to it: its GID is in a GRH."""
    near, far = (bytes([0xFE, 0x80, *bytes(13), last]) for last in (number, 2))
    return ud(frame[28:284], grh={"sgid": far, "dgid": near} if back else {"sgid": near, "dgid": far}, **(PASSIVE if back else ACTIVE))


# virtual ports of one LID choose the same communication id: each has its own connection, and its own P_Key
BOTH = [of_port(7, request(partition_key=0x8001)), of_port(8, request(partition_key=0x8002, local_qpn=0x101, starting_psn=501)),
        of_port(7, reply(), True), of_port(8, reply(local_communication_id=0x2003, local_qpn=0x201, starting_psn=901), True)]  # fmt: skip
case("PKY005", *([*BOTH, rc(4, b"data", bth={"destqp": 0x200, "psn": 900, "p_key": key}, **ACTIVE)] for key in (0x8002, 0x8001)),
     frames=[5], severity="error")  # fmt: skip
# another port has that queue pair, too, or sends to it
PORTS = [of_port(7, request(transport_service_type=1, partition_key=0xFFFF)), of_port(7, reply(), True)]
for near, far in (("fe80::7", "fe80::8"), ("fe80::9", "fe80::2")):
    for code, opcode, key in (("BTH018", 0x04, 0xFFFF), ("PKY005", 0x24, 0x8002)):
        case(code, *(
            [*PORTS, rc(opcode, b"data", bth={"destqp": 0x200, "psn": 900, "p_key": key}, grh=gids, **ACTIVE)]
            for gids in ({"sgid": gid("fe80::7"), "dgid": gid("fe80::2")}, {"sgid": gid(near), "dgid": gid(far)})
        ), frames=[3], severity="error")  # fmt: skip
# REPs are counted as REQs are.
case("CM005", [ASKING, *[reply()] * 3], [ASKING, *[reply()] * 2], frames=[4], file=TRIED)
case("CM005", TRIED([ASKING, *[reply()] * 3]), erf_pcap([ASKING, *[reply()] * 3]), frames=[4], file=None)
# the alternate path as well, if there is one
case("CM015", classes_request(alternate_local_port_lid=3, alternate_remote_port_lid=4), classes_request())
case("CM015", classes_request(primary_local_ack_timeout=0), classes_request(primary_local_ack_timeout=0, transport_service_type=1))
# paths that do not exist: LIDs that no port has
ASIDE: dict[str, Any] = {"alternate_local_port_lid": 11, "alternate_remote_port_lid": 12, "alternate_subnet_local": 1,
         "alternate_local_ack_timeout": 14}  # fmt: skip
case("CM019", request(primary_remote_port_lid=0xC001), request(primary_remote_port_lid=0xBFFF))
case("CM019", request(primary_local_port_lid=0xFFFF), request(primary_local_port_lid=0xFFFF, primary_subnet_local=0))
case("CM019", request(**{**ASIDE, "alternate_remote_port_lid": 0xC000}), request(**{**ASIDE, "alternate_remote_port_lid": 0xBFFF}))
case("CM019", request(**{**ASIDE, "alternate_local_port_lid": 0}), request(**ASIDE))
case("CM019", request(primary_remote_port_lid=0), request(primary_remote_port_lid=1))
case("CM019", request(primary_remote_port_lid=0), request(primary_local_port_lid=0, primary_remote_port_lid=0))


def load(**values: Any) -> bytes:
    """A LAP for another path of the connection."""
    return message(0x19, LAP, IDS, ACTIVE, **{**ASIDE, **values})


GRANTED = message(0x1A, APR, BACK, PASSIVE)
case("CM019", load(alternate_remote_port_lid=0xC001), load(alternate_remote_port_lid=0xBFFF))
# values that no path has
NEAR, FAR = (bytes([prefix, 0x80, *bytes(13), last]) for prefix, last in ((0xFC, 7), (0xFD, 8)))
AWAY = {"local_port_gid": NEAR, "remote_port_gid": FAR, "subnet_local": 0, "local_port_lid": 1, "remote_port_lid": 2}
OWN = bytes([0xFE, 0x80, *bytes(13), 9])  # link-local, which is any subnet's own
SAME_SUBNET: list[dict[str, Any]] = [
    {"subnet_local": 1}, {"local_port_gid": bytes(16)}, {"remote_port_gid": bytes(16)}, {"local_port_gid": OWN}, {"remote_port_gid": OWN},
    {"remote_port_gid": bytes([*FAR[:8], *NEAR[8:]])}, {"remote_port_gid": bytes([*NEAR[:8], *b"\x01", *FAR[9:]])},
]  # fmt: skip
BESIDE = bytes([*NEAR[:7], 1, *FAR[8:]])  # the last byte of the prefix
LID_2_IS = {kind: answer(2, 0x11, node(2 * kind, node_type=kind)) for kind in (1, 3)}


def leads(**values: Any) -> bytes:
    """A REQ with values of its primary path."""
    return request(**{f"primary_{what}": value for what, value in values.items()})


case("CM021", leads(packet_rate=1), leads(packet_rate=2))
for name, asked in (("alternate", lambda **values: request(**{**ASIDE, **values})), ("alternate", load)):
    case("CM021", asked(**{f"{name}_packet_rate": 1}), asked(**{f"{name}_packet_rate": 2}))
    case("CM021", *(asked(**{f"{name}_{what}": value for what, value in AWAY.items()}, **{f"{name}_hop_limit": n}) for n in (1, 2)))
case("CM021", leads(packet_rate=1), leads(packet_rate=0))
for end in ("local", "remote"):
    case("CM021", *(leads(**{f"{end}_port_gid": bytes([first, *FAR[1:]])}) for first in (0xFF, 0xFD)))
for limit in (0, 1):
    case("CM021", leads(**AWAY, hop_limit=limit), leads(**AWAY, hop_limit=2))
for stays in SAME_SUBNET:
    case("CM021", leads(**AWAY, hop_limit=1), leads(**{**AWAY, **stays}, hop_limit=1))
case("CM021", leads(**{**AWAY, "remote_port_gid": BESIDE}, hop_limit=1), leads(**{**AWAY, "remote_port_gid": BESIDE}, hop_limit=2))
# its first hop is a router, or the port itself: then that has two prefixes
case("CM021", *([LID_2_IS[kind], leads(**AWAY, hop_limit=1)] for kind in (3, 1)), frames=[2])
case("CM021", *([LID_2_IS[1], leads(**AWAY, **wrong)] for wrong in ({"packet_rate": 1}, {"hop_limit": 1})), frames=[2])
# hop limits count on no path of RoCE
case("CM021", *([over_ethernet(request(**wrong), 1)] for wrong in (
    {"primary_packet_rate": 1}, {f"primary_{what}": value for what, value in {**AWAY, "hop_limit": 1}.items()})),
    file=ethernet_pcap)  # fmt: skip
for code, twin in ((0, 1), (8, 5), (8, 7)):
    case("CM021", request(path_packet_payload_mtu=code), request(path_packet_payload_mtu=twin))
# once for both paths
case("CM021", request(**ASIDE, path_packet_payload_mtu=0), request(**ASIDE), frames=[1])
case("CM021", [load(alternate_packet_rate=1), request(**ASIDE, alternate_packet_rate=1)], [load(), request(**ASIDE)], frames=[1, 2])
case("CM021", request(**ASIDE, primary_packet_rate=1, alternate_packet_rate=1), request(**ASIDE), frames=[1, 1])
# the MTU counts on the alternate path, too
ASIDE_DATA = [rc(0x04, bytes(size), bth={"destqp": 0x200, "psn": 900}, slid=11, dlid=12) for size in (260, 256)]
for known in ([request(**ASIDE), reply(), READY], [*BROKEN, load(), GRANTED]):
    case("CM009", *([*known, one] for one in ASIDE_DATA), frames=[len(known) + 1])
case("CM009", [*BROKEN, load(), GRANTED, ASIDE_DATA[0]], [*BROKEN, load(), ASIDE_DATA[0]], frames=[6])
# ... and those of another port
FAR_GID, NEAR_GID = (bytes([0xFE, 0x80, *bytes(6), *(0x0002C90300001000 + (lid << 4) + 1).to_bytes(8, "big")]) for lid in (5, 6))
TO_5 = {**ASIDE, "alternate_local_port_gid": NEAR_GID, "alternate_local_port_lid": 6, "alternate_remote_port_gid": FAR_GID}
SHOWN = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5))]
WRITTEN = ask(5, 0x15, method=2, body=port_info(5, port_state=0, port_physical_state=0), header={"transaction_id": 77})
case("CM020", [*SHOWN, WRITTEN, request(**TO_5)], [*SHOWN, WRITTEN, request(**{**TO_5, "alternate_remote_port_lid": 5})], frames=[4])
FIRST = {"primary_local_port_gid": NEAR_GID, "primary_remote_port_gid": FAR_GID}
case("CM020", [*SHOWN, WRITTEN, request(**FIRST)], [*SHOWN, WRITTEN, request(**FIRST, primary_remote_port_lid=5)], frames=[4])
# a connection that is set up over the path refutes it for the primary one; a manager tells of a LID before it writes it
DID = answer(5, 0x15, port_info(5), header={"transaction_id": 77})
for more, severity in (([], "warning"), ([reply(), READY], "info")):
    case("CM020", [*SHOWN, WRITTEN, DID, request(**FIRST), *more], SHOWN, frames=[5], severity=severity)
PATH = {name: value for name, value in TO_5.items() if name.startswith("alternate")}
case("CM020", [*SHOWN, WRITTEN, load(**PATH)], [*SHOWN, WRITTEN, load(**{**PATH, "alternate_remote_port_lid": 5})], frames=[4])
OTHER_SUBNET = {**TO_5, "alternate_remote_port_gid": bytes([0xFD, *FAR_GID[1:]])}
case("CM020", [*SHOWN, WRITTEN, request(**TO_5)], [*SHOWN, WRITTEN, request(**OTHER_SUBNET)], frames=[4])
# service levels that an end of the path drops: SL 1 to VL 15
DROPPING = bytes([0x0F, *bytes(63)])
for lid in (1, 2):
    mapping = {"vl_cap": 2, "operational_vls": 1, "capability_mask": 1 << 6}
    knows = [answer(lid, 0x11, node(lid)), answer(lid, 0x15, port_info(lid, **mapping)), answer(lid, 0x17, DROPPING)]
    for less in ({"vl_cap": 1}, {"capability_mask": 0}):  # one data VL, or no such table
        other = [knows[0], answer(lid, 0x15, port_info(lid, **{**mapping, **less})), knows[2]]
        also = ["SEM066"] if "vl_cap" in less else []
        case("CM022", [*knows, request(primary_sl=1)], [*other, request(primary_sl=1)], frames=[4], twin_also=also)
    case("CM022", [*knows, request(primary_sl=1)], [*knows, request(primary_sl=2)], frames=[4])
    unread = [knows[0], knows[2]]  # perhaps it has one data VL
    case("CM022", [*unread, request(primary_sl=1)], [*unread, request(primary_sl=2)], frames=[3], severity="info")
    there = {**ASIDE, "alternate_local_port_lid": 3 - lid, "alternate_remote_port_lid": lid}
    case("CM022", [*knows, load(**there, alternate_sl=1)], [*knows, load(**there, alternate_sl=0)], frames=[4])
    case("CM022", [*knows, request(**there, alternate_sl=1)], [*knows, request(**{**there, "alternate_subnet_local": 0}, alternate_sl=1)],
         frames=[4])  # fmt: skip
SENT = rc(0x04, b"data", bth={"destqp": 0x49}, slid=2, dlid=1, lrh={"sl": 1})
# a path from a port to itself
case("CM022", [*knows, request(primary_sl=1)], [*knows, request(primary_sl=1, primary_local_port_lid=2)], frames=[4])
# a switch's port 0 has none for itself; VL 14 carries data; the table changes after the REQ
OF_SWITCH = [answer(2, 0x11, switch(2)), *knows[1:]]
case("CM022", [*knows, request(primary_sl=1)], [*OF_SWITCH, request(primary_sl=1)], frames=[4])
case("CM022", [*knows, request(primary_sl=1)], [*knows[:2], answer(2, 0x17, bytes([0x0E, *bytes(63)])), request(primary_sl=1)], frames=[4])
LATER = [*knows[:2], answer(2, 0x17, bytes(64)), request(primary_sl=1), knows[2]]
case("CM022", [*knows, request(primary_sl=1), answer(2, 0x17, bytes(64))], LATER, frames=[4])
# the table is being written: which one holds when the REQ comes is unknown
UNDER_WAY = {"header": {"transaction_id": 90}}
PASSES = ask(2, 0x17, method=2, body=bytes(64), **UNDER_WAY), answer(2, 0x17, bytes(64), **UNDER_WAY)
ELSEWHERE = [ask(7, 0x17, method=2, body=bytes(64), **UNDER_WAY), answer(7, 0x17, bytes(64), **UNDER_WAY)]
for asked, shown, severity in ((*PASSES, "info"), (*ELSEWHERE, "warning")):
    owner = [] if severity == "info" else [answer(7, 0x11, node(7))]
    case("CM022", *([*owner, *knows, asked, request(primary_sl=sl), shown] for sl in (1, 2)), frames=[len(owner) + 5], severity=severity)
# what does not refute it: packets before the table, of management, with another SL, of another port; as a refutation that comes after one
for sent in (
    ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=1, slid=2, dlid=1, lrh={"sl": 2}),
    ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=1, slid=1, dlid=2, lrh={"sl": 1}),
    smp(0x81, 0x11, node(2), slid=2, dlid=1, lrh={"sl": 1, "vl": 15}),
):
    case("CM022", [*knows, request(primary_sl=1), sent], [*knows, request(primary_sl=2), sent], frames=[4], severity="warning")
case("CM022", [*knows[:2], SENT, knows[2], request(primary_sl=1)], [*knows[:2], SENT, knows[2], request(primary_sl=2)], frames=[5],
     severity="warning")  # fmt: skip
case("CM022", [*knows[:2], SENT, knows[2], SENT, request(primary_sl=1)], [*knows[:2], SENT, knows[2], SENT, request(primary_sl=2)],
     frames=[6], severity="info", also=["LNK018", "RC002"], twin_also=["LNK018", "RC002"])  # fmt: skip
case("CM022", [*knows, request(primary_sl=1), SENT], [*knows, request(primary_sl=2), SENT], frames=[4], severity="info", also=["LNK018"],
     twin_also=["LNK018"])  # fmt: skip
# before the REQ, too, and from another LID of the port
OF_TWO = [knows[0], answer(2, 0x15, port_info(2, **mapping, lmc=1)), knows[2]]
BY_3 = rc(0x04, b"data", bth={"destqp": 0x49}, slid=3, dlid=1, lrh={"sl": 1})
case("CM022", [*OF_TWO, request(primary_sl=1), BY_3], [*OF_TWO, request(primary_sl=2), BY_3], frames=[4], severity="info", also=["LNK018"],
     twin_also=["LNK018"])  # fmt: skip
case("CM022", [*knows, request(primary_sl=1), BY_3], [*knows, request(primary_sl=2), BY_3], frames=[4], severity="warning")
case("CM022", [*knows, SENT, request(primary_sl=1)], [*knows, SENT, request(primary_sl=2)], frames=[5], severity="info", also=["LNK018"],
     twin_also=["LNK018"])  # fmt: skip
# each rejection ends an attempt
case("CM005", [ASKING] * 3, [ASKING, REFUSED, ASKING, REFUSED, ASKING], frames=[3], twin_also=["CM012"], file=TRIED)
# so long after the REP that all PSNs in between may have been sent on another path, at ten million packets a second
for milliseconds, severity in ((830, "warning"), (850, "info")):
    slowly: Any = partial(erf_pcap, step_ns=milliseconds * 1_000_000)
    case("CM008", [*BROKEN, data(800)], [*BROKEN, data(900)], frames=[4], severity=severity, file=slowly)
for seconds, severity in ((899, "warning"), (901, "info")):
    slowly = partial(erf_pcap, step_ns=seconds * 1_000_000_000)
    case("CM009", [*BROKEN, data(900, payload=bytes(512))], [*BROKEN, data(900)], frames=[4], severity=severity, file=slowly)
# the responder asks for the agreed PSN: nothing took another path
case("CM008", SLOW([*REFUSES, *TWICE]), erf_pcap([*REFUSES, data(901)]), frames=[4], also=["RC002", "RC004"], twin_also=["RC002", "RC004"],
     severity="warning", file=None)  # fmt: skip
# a minute between two REQs: another try
MINUTES = [erf_pcap([ASKING] * 3, step_ns=seconds * 1_000_000_000) for seconds in (59, 61)]
case("CM005", *MINUTES, frames=[3], file=None)
