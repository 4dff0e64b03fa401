"""Proofs of the rules about partition keys: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import tests.rules.CNX.cases  # noqa: F401  # the first case of CNX008 is there, whichever test is imported first
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.wire.cm import APR, LAP, SIDRRep, SIDRReq
from ibdissect.wire.mad import RMPP
from ibdissect.wire.notice import Notice, TrapPKey, TrapSwitchPKey
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.sa_records import PKeyTableRecord
from tests.craft import build, erf_pcap, gmp, native, put, rc, smp, ud
from tests.craft import mad as datagram
from tests.rules.cases import case
from tests.rules.made.agreed import packet
from tests.rules.made.connections import ACTIVE, IDS, LEAVE, PASSIVE, READY, message, reply, request
from tests.rules.made.early import exchange
from tests.rules.made.gids import gid
from tests.rules.made.ports import CA, INFO, SWITCH, answer_case, set_port, write_case
from tests.rules.made.site import send as site_send
from tests.rules.made.subnets import data, member, path, sent, sweep, works
from tests.rules.made.subnets import packet as subnet_packet
from tests.rules.made.traps import ENDS, PACKET, details, trap
from tests.subnet.files.made_files import parsed
from tests.subnet.made import ANSWER, SET, answer, ask, node, p_keys, port_info, switch, switch_info

P_KEY_TABLE, NODE_INFO, PORT_INFO, SWITCH_INFO = 0x16, 0x11, 0x15, 0x12
LIMITED = {"p_key": 0x7FFF}
TABLE = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234))]
BOTH = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234, 0x9234))]
TO_5: dict[str, Any] = {"slid": 3, "dlid": 5}


def send(p_key: int, *, qp: int = 0x12, slid: int = 3, dlid: int = 5, psn: int = 1, **kw: Any) -> bytes:
    """An RC SEND Only."""
    return native(0x04, bytes(8), slid=slid, dlid=dlid, bth={"p_key": p_key, "destqp": qp, "psn": psn}, **kw)


def xrc(p_key: int) -> bytes:
    """An XRC SEND Only from LID 3 to LID 5."""
    return rc(0xA4, bytes(8), slid=3, dlid=5, bth={"p_key": p_key})


case("PKY001", [*TABLE, send(0x1234), send(0x1234, psn=2)], [*TABLE, send(0x9234)], frames=[3])
case("PKY001", [*TABLE, send(0x1234)], [*BOTH, send(0x1234)], frames=[3])
# GMPs meet any entry of the table; an answer repeats the P_Key of its request
DEFAULT = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0x7FFF))]
case(
    "PKY001",
    [*DEFAULT, gmp(4, 1, 0x12, bth=LIMITED, **TO_5)],
    [*DEFAULT, gmp(4, 0x81, 0x12, bth=LIMITED, **TO_5)],
    frames=[3],
    also=["PM001"],
)
case("PKY003", [*TABLE, send(0x9999)], [*TABLE, send(0x9234)], frames=[3])
case("PKY003", [*TABLE, xrc(0x9999)], [*TABLE, xrc(0x9234)], frames=[3])
case("PKY001", [*TABLE, xrc(0x1234)], [*TABLE, xrc(0x9234)], frames=[3])
# a second block, not seen, may hold the partition
case("PKY003", [*TABLE, send(0x9999)], [answer(5, NODE_INFO, node(5, partition_cap=64)), TABLE[1], send(0x9999)], frames=[3])
# connections of a LID that no port of the whole subnet has
SWEPT = [*sweep(), answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
case("PKY003", [*SWEPT, send(0x9999, slid=1)], [*SWEPT, *works(1, 9)], severity="error", twin_also=["LNK020"])
case("PKY003", [*SWEPT, send(0x9999, slid=1), *works(1, 9)], [*SWEPT, *works(1, 9)], severity="info", also=["LNK020"], twin_also=["LNK020"])
# judged by what held when it was sent: in front of the first lesson nothing is known, and a Set under way makes the table uncertain
SETS = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x9999))
case("PKY003", [*TABLE, send(0x9999), SETS, answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x9999)), send(0x9999, psn=2)],
     [send(0x9999), *TABLE, SETS, send(0x9999, psn=2), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x9999)), send(0x9999, psn=3)],
     frames=[3])  # fmt: skip
TALK = {"p_key": 0x0123, "destqp": 0x40}
BACK = {"p_key": 0x0123, "destqp": 0x50}
ACK = rc(0x11, slid=5, dlid=3, bth=BACK)
FULL_ACK = rc(0x11, slid=5, dlid=3, bth={**BACK, "p_key": 0x8123})
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), ACK], [native(0x04, bytes(8), bth=TALK, **TO_5), FULL_ACK], frames=[2])
# with a second QP between the two ports, which directions belong together is not known
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), ACK],
     [native(0x04, bytes(8), bth=TALK, **TO_5), ACK, native(0x04, bytes(8), bth={"destqp": 0x41}, **TO_5)], frames=[2])  # fmt: skip
# an answer to another PSN may belong to another queue pair, which the capture does not show
STRAY_ACK = rc(0x11, slid=5, dlid=3, bth={**BACK, "psn": 900})
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), STRAY_ACK], [native(0x04, bytes(8), bth=TALK, **TO_5), FULL_ACK], frames=[2],
     severity="info")  # fmt: skip
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), ACK], [native(0x04, bytes(8), bth=TALK, **TO_5), FULL_ACK], severity="error")
# a UC SEND is no answer to an RC SEND: there are two connections, of which the capture shows one direction each
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), ACK],
     [native(0x04, bytes(8), bth=TALK, **TO_5), native(0x24, bytes(8), slid=5, dlid=3, bth=BACK)], frames=[2])  # fmt: skip
# datagrams carry both QPs
case("PKY021",
     [ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, bth={"p_key": 0x123}, **TO_5),
      ud(bytes(8), dest_qp=0x50, src_qp=0x40, q_key=7, bth={"p_key": 0x123}, slid=5, dlid=3)],
     [ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, bth={"p_key": 0x123}, **TO_5),
      ud(bytes(8), dest_qp=0x51, src_qp=0x40, q_key=7, bth={"p_key": 0x123}, slid=5, dlid=3)], frames=[2])  # fmt: skip


# a switch port that checks P_Keys of what goes out to a host; the host's own table was never shown
def behind_a_switch(outbound: int, *keys: int, inbound: int = 0) -> list[bytes]:
    """LID 3 at port 1 and LID 5 at port 2 of a switch, seen from LID 3; `keys` are the table of port 2."""
    checks = port_info(0, local_port_num=1, partition_enforcement_outbound=outbound, partition_enforcement_inbound=inbound)
    shown = [
        ([], NODE_INFO, node(3), 0), ([1], NODE_INFO, switch(9), 0), ([1], 0x12, switch_info(inbound_enforcement_cap=1,
         outbound_enforcement_cap=1), 0), ([1, 2], NODE_INFO, node(5), 0), ([1, 2], 0x15, port_info(5), 1), ([1], 0x15, checks, 2),
        ([1], P_KEY_TABLE, p_keys(*keys), 2 << 16),
    ]  # fmt: skip
    return [smp(ANSWER, attribute, body, path=path, modifier=modifier) for path, attribute, body, modifier in shown]


case("PKY003", [*behind_a_switch(1, 0xFFFF), send(0x9999)], [*behind_a_switch(0, 0xFFFF), send(0x9999)], frames=[8])
case("PKY003", [*behind_a_switch(1, 0xFFFF), send(0x9999)], [*behind_a_switch(1, 0x1999), send(0x9999)], frames=[8])
OUT = send(0x9999, slid=5, dlid=3)
case("PKY004", [*behind_a_switch(0, 0xFFFF, inbound=1), OUT], [*behind_a_switch(1, 0xFFFF), OUT], frames=[8])
# virtual ports share the LID and not the table
VIRTUAL = [*TABLE, answer(5, 0x15, port_info(5, capability_mask2=4))]
GLOBAL = send(0x9999, slid=5, dlid=3, grh={"sgid": bytes([0xFE, 0x80, *bytes(13), 7]), "dgid": bytes([0xFE, 0x80, *bytes(13), 8])})
case("PKY004", [*TABLE, answer(5, 0x15, port_info(5)), GLOBAL], [*VIRTUAL, GLOBAL], frames=[4])
# both ends talk in the partition: somebody wrote the table since, where the capture does not show it


def talk(to_5: int, to_3: int, *, qp: int = 0x60) -> list[bytes]:
    """A datagram from QP 0x60 of LID 3 to QP 0x50 of LID 5, and one back to queue pair `qp`, with these P_Keys."""
    return [
        ud(bytes(8), dest_qp=0x50, src_qp=0x60, q_key=7, slid=3, dlid=5, bth={"p_key": to_5}),
        ud(bytes(8), dest_qp=qp, src_qp=0x50, q_key=7, slid=5, dlid=3, bth={"p_key": to_3}),
    ]


def connected(to_5: int, to_3: int, *, opcode: int = 0x11) -> list[bytes]:
    """A SEND from LID 5 to LID 3, and what comes back, by default its acknowledgement."""
    return [native(0x04, bytes(8), slid=5, dlid=3, bth={"p_key": to_3}), rc(opcode, slid=3, dlid=5, bth={"p_key": to_5})]


for severity, said in (("info", talk(0x9999, 0x9999)), ("error", talk(0x9999, 0x9999, qp=0x61)), ("error", talk(0x9999, 0x9998))):
    case("PKY003", [*TABLE, *said], [*TABLE, *talk(0x9234, 0x9234)], frames=[3], severity=severity, also=["PKY004"], twin_also=["PKY004"])
    case("PKY004", [*TABLE, *said], [*TABLE, *talk(0x9999, 0x1234)], frames=[4], severity=severity, also=["PKY003"], twin_also=["PKY003"])
for severity, said in (("info", talk(0x1234, 0x9234)), ("error", talk(0x1234, 0x9234, qp=0x61))):
    case("PKY001", [*TABLE, *said], [*TABLE, *talk(0x9234, 0x1234)], frames=[3], severity=severity, also=["PKY004"])
    case("PKY004", [*TABLE, *said], [*TABLE, *talk(0x9234, 0x1234)], frames=[4], severity=severity, also=["PKY001"])
# another port shows LID 5 before, and no known cables join both: perhaps the captures of two subnets were merged; or it has LID 6
for other, severity in ((5, "info"), (6, "error")):
    OTHER_HOST = [smp(ANSWER, NODE_INFO, node(9), path=[1, 3]), smp(ANSWER, PORT_INFO, port_info(other), path=[1, 3])]
    THIS_HOST = [smp(ANSWER, NODE_INFO, node(5), path=[1, 4]), smp(ANSWER, PORT_INFO, port_info(5), path=[1, 4])]
    MERGED = [*OTHER_HOST, *THIS_HOST, smp(ANSWER, P_KEY_TABLE, p_keys(0xFFFF, 0x1234), path=[1, 4])]
    case("PKY003", [*MERGED, send(0x9999)], [*MERGED, send(0x9234)], frames=[6], severity=severity)
    case("PKY004", [*MERGED, send(0x9999, slid=5, dlid=3)], [*MERGED, send(0x1234, slid=5, dlid=3)], frames=[6], severity=severity)
case("PKY001", [*TABLE, *talk(0x1234, 0x1234)], [*TABLE, *talk(0x9234, 0x1234)], frames=[3], severity="error", also=["PKY021"])
for severity, opcode in (("info", 0x11), ("error", 0x24)):  # a UC SEND answers nothing
    case("PKY001", [*TABLE, *connected(0x1234, 0x9234, opcode=opcode)], [*TABLE, *connected(0x9234, 0x1234, opcode=opcode)], frames=[4],
         severity=severity, also=["PKY004"])  # fmt: skip


def early_send(p_key: int, psn: int = 1) -> bytes:
    """An RC SEND Only from LID 3 to LID 5."""
    return native(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": p_key, "destqp": 0x12, "psn": psn})


def shown(lid: int, *keys: int) -> list[bytes]:
    """Somebody asks a port for its identity, LID and P_Keys."""
    bodies = {NODE_INFO: node(lid), PORT_INFO: port_info(lid), P_KEY_TABLE: p_keys(*keys)}
    return [frame for attribute, body in bodies.items() for frame in exchange(lid, attribute, body, lid << 8 | attribute)]


def written(lid: int, *keys: int) -> list[bytes]:
    """Somebody writes the P_Keys of a port."""
    return [
        ask(lid, P_KEY_TABLE, method=SET, body=p_keys(*keys), header={"transaction_id": 99}),
        answer(lid, P_KEY_TABLE, p_keys(*keys), header={"transaction_id": 99}),
    ]


EARLY_TABLE = shown(5, 0xFFFF, 0x1234)
case("PKY001", [early_send(0x1234), early_send(0x1234, 2), *EARLY_TABLE], [early_send(0x9234), *EARLY_TABLE], frames=[1])
case("PKY003", [early_send(0x9999), *EARLY_TABLE], [early_send(0x1234 | 0x8000), *EARLY_TABLE], frames=[1])
case("PKY004", [early_send(0x9999), *shown(3, 0xFFFF)], [early_send(0x7FFF), *shown(3, 0xFFFF)], frames=[1])
# a table that was written before anybody read it may have been another one
case(
    "PKY003",
    [early_send(0x9999), *EARLY_TABLE],
    [early_send(0x9999), *EARLY_TABLE[:4], *written(5, 0xFFFF, 0x1234), *EARLY_TABLE[4:]],
    frames=[1],
)
# ... and one that changes later is not relied upon at all
case("PKY003", [early_send(0x9999), *EARLY_TABLE], [early_send(0x9999), *EARLY_TABLE, *written(5, 0xFFFF)], frames=[1])
# an answer to a request that nobody saw may be that to a Set
case("PKY003", [early_send(0x9999), *EARLY_TABLE], [early_send(0x9999), *EARLY_TABLE[:4], EARLY_TABLE[5]], frames=[1])
# the destination sends in that partition itself
EARLY_BACK = rc(0x11, slid=5, dlid=3, bth={"p_key": 0x9999, "destqp": 0x13})
case("PKY003", [early_send(0x9999), *EARLY_TABLE], [early_send(0x9999), EARLY_BACK, *EARLY_TABLE], frames=[1])
# another port had that LID
OTHER = exchange(5, NODE_INFO, node(6), 70)
case("PKY003", [early_send(0x9999), *EARLY_TABLE], [early_send(0x9999), *OTHER, *EARLY_TABLE], frames=[1])
NETWORK = {"sgid": gid("fe80::1"), "dgid": gid("ff12:401b:8001::ffff:ffff")}


def keys(*values: int) -> bytes:
    """The start of a P_KeyTable block."""
    return struct.pack(f">{len(values)}H", *values).ljust(64, b"\0")


def table_record(block: int, *values: int) -> bytes:
    """The SA's answer with a block of a P_Key table."""
    return gmp(3, ANSWER, 0x33, build(PKeyTableRecord, lid=5, port_num=1, block_num=block)[:8] + keys(*values), at=56, slid=1, dlid=9)


def table_of(*values: int) -> bytes:
    """The SA's answer with two P_Key tables, of which the second holds these keys."""
    records = [build(PKeyTableRecord, lid=lid, port_num=1)[:8] + keys(*one) for lid, one in ((4, [0xFFFF]), (5, values))]
    mad = bytearray(datagram(3, 0x92, 0x33, b"".join(records), at=56))
    mad[24:36] = build(RMPP, rmpp_version=1, rmpp_type=1, active=1, first=1, last=1, segment_number=1, payload_length=20 + 2 * 72)
    put(mad, SAFormat.attribute_offset, 9)
    return ud(bytes(mad), slid=1, dlid=9)


def arp(p_key: int, in_gid: int = 0x8001) -> bytes:
    """A packet to the broadcast group of a partition."""
    grh = {**NETWORK, "dgid": gid(f"ff12:401b:{in_gid:x}::ffff:ffff")}
    return ud(b"arp arp ", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001, grh=grh, bth={"p_key": p_key})


def trap259(valid: int = 7) -> bytes:
    """Notice of a switch about a packet with a wrong P_Key; DataValid says which parts of it count."""
    details = build(TrapSwitchPKey, data_valid=valid, lidaddr1=4, lidaddr2=5, pkey=0x8123, swlidaddr=2, portno=7)
    return build(Notice, is_generic=1, type=2, producer_type=2, trap_number=259, issuer_lid=2, data_details=details)


case("PKY002", native(bth={"p_key": 0x8000}), native(bth={"p_key": 0x8001}))
case("PKY002", native(0xBF, bth={"p_key": 0x8000}), native(0xC0, bth={"p_key": 0x8000}), also=["BTH001"])  # a manufacturer's
case("PKY006", smp(1, 0x11, bth={"p_key": 0x8001}), smp(1, 0x11, bth={"p_key": 0x7FFF}))
case("PKY007", gmp(4, 1, 0x12, bth={"p_key": 0x8002}), gmp(4, 1, 0x12, bth={"p_key": 0x7FFF}))
case("PKY008", smp(2, 0x16, keys(0, 0x8001)), smp(2, 0x16, keys(0x7FFF, 0x8001)))
# a record of the SA names its block itself
case("PKY008", table_record(0, 0, 0x8001), table_record(1, 0, 0x8001))
case("PKY008", table_of(0, 0x8001), table_of(0xFFFF, 0x8001))
# how many entries the port has is not known
case("PKY009", table_of(0xFFFF, 0x8001, 0x8001), table_of(0xFFFF, 0x8001, 0x0001), severity="info")
case("PKY009", smp(2, 0x16, keys(0xFFFF, 0x8001, 0x8001)), smp(2, 0x16, keys(0xFFFF, 0x8001, 0x0001, 0, 0)), severity="info")
case("PKY010", smp(2, 0x16, keys(0xFFFF, 0x8000)), smp(2, 0x16, keys(0xFFFF, 0x0000)), severity="info")
case("PKY014", smp(5, 2, trap259(), slid=2), smp(7, 2, trap259(), slid=2))
case("PKY014", smp(5, 2, trap259(4), slid=2), smp(7, 2, trap259(4), slid=2), severity="info")
# an external port of a switch only filters
case("PKY008", [answer(5, NODE_INFO, switch(5)), answer(5, 0x16, keys(0, 0x8001))],
     [answer(5, NODE_INFO, switch(5)), answer(5, 0x16, keys(0, 0x8001), modifier=3 << 16)], frames=[2])  # fmt: skip
case("PKY019", arp(0x0001), arp(0x8001))
case("PKY020", arp(0xFFFF), arp(0x8001))
# a GID with P_Key 0 names no partition
case("PKY020", arp(0xFFFF), arp(0xFFFF, in_gid=0x8000))
SETUP = [request(partition_key=0x8001), reply(), READY]
case(
    "PKY005", [*SETUP, packet(0x8001), packet(0x8002, 901), packet(0x8002, 902)], [*SETUP, packet(0x8001), packet(0x0001, 901)], frames=[5]
)
# one fault, one finding: that the connection failed of it tells more
SENT_AGAIN = [[*SETUP, *[packet(p_key, 901)] * 100, LEAVE] for p_key in (0x8002, 0x8001)]
case("CNX008", *SENT_AGAIN, also=["RC002", "RC019"], twin_also=["RC002", "RC019", "CNX004"],
     file=partial(erf_pcap, step_ns=30_000_000))  # fmt: skip
# after the end of the connection the number may belong to another one
case("PKY005", [*SETUP, packet(0x8002)], [*SETUP, LEAVE, packet(0x8002)], frames=[4])
# the alternate path of the REQ, and one that was granted later
OTHER_PATH = {"alternate_local_port_lid": 11, "alternate_remote_port_lid": 12, "alternate_subnet_local": 1}
MOVED = [request(partition_key=0x8001, **OTHER_PATH), reply(), READY]


def moved(p_key: int, *, slid: int = 11, dlid: int = 12) -> bytes:
    """A packet of the connection on another path."""
    return rc(0x04, b"data", bth={"destqp": 0x200, "psn": 900, "p_key": p_key}, slid=slid, dlid=dlid)


case("PKY005", [*MOVED, moved(0x8002)], [*MOVED, moved(0x8001)], frames=[4])
case("PKY005", [*MOVED, moved(0x8002)], [*SETUP, moved(0x8002)], frames=[4])
case("PKY005", [*MOVED, moved(0x8002)], [*MOVED, moved(0x8002, slid=1)], frames=[4])
LOAD = gmp(0x07, 3, 0x19, build(LAP, local_communication_id=0x1001, remote_communication_id=0x2002, **OTHER_PATH), at=24, **ACTIVE)
GRANT, REFUSE = (
    gmp(0x07, 3, 0x1A, build(APR, local_communication_id=0x2002, remote_communication_id=0x1001, ap_status=status), at=24, **PASSIVE)
    for status in (0, 1)
)
case("PKY005", [*SETUP, LOAD, GRANT, moved(0x8002)], [*SETUP, LOAD, REFUSE, moved(0x8002)], frames=[6])
# the responder accepts it: the queue pairs were set up again unseen
TAKEN = rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x100, "psn": 900, "p_key": 0x8001}, **PASSIVE)
case("PKY005", [*SETUP, packet(0x8002)], [*SETUP, packet(0x8002), TAKEN], frames=[4])
# another sender
AGREED_OTHER = rc(0x04, b"data", bth={"destqp": 0x200, "psn": 900, "p_key": 0x8002}, slid=7, dlid=2)
case("PKY005", [*SETUP, packet(0x8002)], [*SETUP, AGREED_OTHER], frames=[4])
# both ends limited: CM tells which directions belong together, however many queue pairs there are between the ports
AGREED_LIMITED = [request(partition_key=0x0123), reply(), READY]
MORE = rc(0x04, b"more", bth={"destqp": 0x300, "psn": 1, "p_key": 0x8123}, **ACTIVE)
case("PKY021", [*AGREED_LIMITED, MORE, packet(0x0123), packet(0x0123, opcode=0x11, back=True)],
     [*AGREED_LIMITED, MORE, packet(0x0123), packet(0x8123, opcode=0x11, back=True)], frames=[6])  # fmt: skip
answer_case("PKY015", PORT_INFO, port_info(5, p_key_violations=2), port_info(5, p_key_violations=5), port_info(5, p_key_violations=0))
NO_ENFORCEMENT = answer(5, SWITCH_INFO, switch_info(partition_enforcement_cap=0))
ENFORCE = ask(5, PORT_INFO, method=SET, modifier=1, body=set_port(partition_enforcement_inbound=1))
case("PKY016", [SWITCH, NO_ENFORCEMENT, ENFORCE], [SWITCH, INFO, ENFORCE], frames=[3])
OUTBOUND_ONLY = answer(5, SWITCH_INFO, switch_info(outbound_enforcement_cap=1), header={"transaction_id": 9})
ENFORCE_OUT = ask(5, PORT_INFO, method=SET, modifier=1, body=set_port(partition_enforcement_outbound=1))
case("PKY016", [SWITCH, OUTBOUND_ONLY, ENFORCE], [SWITCH, OUTBOUND_ONLY, ENFORCE_OUT], frames=[3])
case("PKY016", [SWITCH, OUTBOUND_ONLY, ENFORCE], [SWITCH, ENFORCE, OUTBOUND_ONLY], frames=[3])  # learnt behind the Set
case("PKY016", [SWITCH, OUTBOUND_ONLY, ENFORCE, INFO], [SWITCH, INFO, ENFORCE, OUTBOUND_ONLY], frames=[3])  # what was offered at that time
BLOCK_1: dict[str, Any] = {"method": SET, "body": p_keys(0xFFFF), "modifier": 1}
case("PKY011", [CA, ask(5, P_KEY_TABLE, **BLOCK_1)], [CA, ask(5, P_KEY_TABLE, **{**BLOCK_1, "modifier": 0})], frames=[2])
case("PKY011", [CA, ask(5, P_KEY_TABLE, modifier=1)], [CA, ask(5, P_KEY_TABLE)], frames=[2], severity="info")  # who reads changes nothing
# entries behind the end of the table mean nothing, and a manager may write what the port shows
FOUR, EMPTY = answer(5, NODE_INFO, node(5, partition_cap=4)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x8000))
case("PKY010", [FOUR, ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0, 0, 0x8000))],
     [FOUR, ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0, 0, 0, 0x8000))], frames=[2], severity="warning")  # fmt: skip
case("PKY010", [CA, EMPTY, ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0, 0x8000))],
     [CA, EMPTY, ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x8000))], frames=[3], severity="warning")  # fmt: skip
# a port talks to itself
case("PKY001", [*TABLE, send(0x1234)], [*TABLE, send(0x1234, slid=5)], frames=[3], severity="error")
HERE: dict[str, Any] = {"p_key": 0x123}
case("PKY021", *([ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, bth=HERE, slid=lid, dlid=5),
                  ud(bytes(8), dest_qp=0x50, src_qp=0x40, q_key=7, bth=HERE, slid=5, dlid=lid)] for lid in (3, 5)), frames=[2])  # fmt: skip
LARGER, SECOND_BLOCK = answer(5, NODE_INFO, node(5, partition_cap=64)), ask(5, P_KEY_TABLE, modifier=1)
case("PKY011", [CA, SECOND_BLOCK, LARGER], [LARGER, SECOND_BLOCK, CA], frames=[2], also=["SEM034"],
     twin_also=["SEM034"])  # the size at that time counts  # fmt: skip
LARGE_SWITCH = [answer(5, NODE_INFO, switch(5, partition_cap=64)), INFO]  # its external ports have the size in SwitchInfo
case("PKY011", [*LARGE_SWITCH, ask(5, P_KEY_TABLE, modifier=0x10001)], [*LARGE_SWITCH, SECOND_BLOCK], frames=[3])
# in two blocks of a table, at least a second before the capture ends: a manager that moves a key writes one block after the other
BLOCKS = [answer(5, NODE_INFO, node(5, partition_cap=64)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234))]
AGAIN = answer(5, P_KEY_TABLE, p_keys(0x8001, 0x1234), modifier=1)
OVER: Any = partial(erf_pcap, step_ns=600_000_000)
END = [ask(5, NODE_INFO), ask(5, NODE_INFO, header={"transaction_id": 2})]
case("PKY009", [*BLOCKS, AGAIN, *END], [*BLOCKS, answer(5, P_KEY_TABLE, p_keys(0x8001, 0x9234), modifier=1), *END], frames=[3], file=OVER)
case("PKY009", [*BLOCKS, AGAIN, *END], [*BLOCKS, AGAIN, answer(5, P_KEY_TABLE, p_keys(0xFFFF)), *END], frames=[3], file=OVER)
case("PKY009", [*BLOCKS, AGAIN, *END], [*BLOCKS, AGAIN, *END[:1]], frames=[3], file=OVER)
# the table has 32 entries: what is beyond means nothing
case("PKY009", [*BLOCKS, AGAIN, *END], [answer(5, NODE_INFO, node(5)), BLOCKS[1], AGAIN, *END], frames=[3], file=OVER)
# MAD005 explains it, but not where another request with that transaction id may be missing
FIRST, SECOND, UNASKED = ({"transaction_id": n} for n in (3, 7, 9))
ASKED = [ask(5, NODE_INFO, header=SECOND), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x8001, 0x8001), header=SECOND)]
LOSSY = [ask(5, NODE_INFO, header=FIRST), *(answer(5, NODE_INFO, node(5), header=one) for one in (FIRST, UNASKED))]
case("PKY009", [*LOSSY, *ASKED], [*LOSSY[:2], *ASKED], frames=[5], also=["MAD005"], twin_also=["MAD005"])
UNANSWERED = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF))
case("PKY009", [*BLOCKS, AGAIN, *END], [*BLOCKS, AGAIN, UNANSWERED, *END], frames=[3], twin_also=["TXN001"], file=OVER)
KEYS = answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234))
write_case("PKY012", [CA, KEYS], P_KEY_TABLE, p_keys(0xFFFF, 0x9234), p_keys(0xFFFF, 0x1234, 0x9235))
SUBNET_TABLE = [answer(1, NODE_INFO, node(1)), answer(1, P_KEY_TABLE, p_keys(0xFFFF, 0x8123))]
subnet_packet("PKY004", data(p_key=0x9999), data(p_key=0x8123), SUBNET_TABLE)
subnet_packet("PKY017", sent(p_key=0x8124), sent(p_key=0x8123), [member()], also=["PKY020"])
SUBNET_BOTH = [*SUBNET_TABLE, answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x0123, 0x0042))]
subnet_packet("PKY018", path(0x8042), path(0x8123), SUBNET_BOTH)
SUBNET_LIMITED = [SUBNET_TABLE[0], answer(1, P_KEY_TABLE, p_keys(0xFFFF, 0x0123)), *SUBNET_BOTH[2:]]
case("PKY018", [*SUBNET_LIMITED, path(0x0123)], [*SUBNET_BOTH, path(0x0123)], frames=[5])
# a path from a port to itself
case("PKY018", [*SUBNET_LIMITED, path(0x8042, dlid=1)], [*SUBNET_LIMITED, path(0x0123, dlid=1)], frames=[5])
NO_DEFAULT = SitePolicy(no_partitions=frozenset({0x7FFF}))
ONLY_1 = SitePolicy(partitions=frozenset({1}))
# no traffic in the default partition, whatever the membership; management is not judged
case(
    "PKY003",
    [site_send(0xFFFF), site_send(0x7FFF, psn=2), site_send(0xFFFF, psn=3)],
    [site_send(0x8001), ask(5, NODE_INFO)],
    frames=[1, 2],
    policy=NO_DEFAULT,
)
case("PKY003", [site_send(0x8002)], [site_send(0x8001), site_send(0x0001, psn=2)], frames=[1], policy=ONLY_1)
case("PKY010", ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x8002)), ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x8001)),
     frames=[1], policy=ONLY_1)  # fmt: skip
case("PKY013", [PACKET, trap(257, details(TrapPKey, **ENDS, key_value=0x8123))],
     [PACKET, trap(257, details(TrapPKey, **ENDS, key_value=0x8124))], frames=[2])  # fmt: skip

# what a file says of the tables holds from the first frame on, and what the capture shows later wins
FILE = """$ smpquery pkeys 5 1
   0: 0xffff 0x1234 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
32 pkeys capacity for this port"""
KNOWN = [parsed("smpquery", FILE)[0]]
case("PKY001", [send(0x1234)], [*BOTH, send(0x1234)], frames=[1], known=KNOWN)
case("PKY003", [send(0x9999)], [send(0x9234)], frames=[1], known=KNOWN)
case("PKY004", [send(0x9999, slid=5, dlid=3)], [send(0x9234, slid=5, dlid=3)], frames=[1], known=KNOWN)
# a table of which a file has the first block only
PART = [parsed("smpquery", FILE.replace("32 pkeys", "64 pkeys"))[0]]
case("PKY003", [send(0x9999), *TABLE, send(0x9999, psn=2)], [send(0x9999)], frames=[4], known=PART)
CONF = [
    parsed("guid2lid", "0x0002c90300001051 0x0005 0x0005")[0],
    parsed("opensm.conf", "allow_both_pkeys FALSE\nguid 0x1")[0],
    parsed("partitions.conf", "Default=0x7fff : ALL=full ;\nStorage=0x1234 :\n  0x0002c90300001051 ;")[0],
]
case("PKY001", [send(0x1234)], [send(0x9234)], frames=[1], known=CONF, also=["LNK020"], twin_also=["LNK020"])
case("PKY003", [send(0x9999)], [send(0xFFFF)], frames=[1], known=CONF, also=["LNK020"], twin_also=["LNK020"])
# ports that a switch does not have, and external ports without a table
OF_SWITCH = answer(5, NODE_INFO, switch(5))
ASK_PORT_9, ASK_PORT_8 = (ask(5, P_KEY_TABLE, modifier=number << 16) for number in (9, 8))
case("PKY011", [OF_SWITCH, INFO, ASK_PORT_9], [OF_SWITCH, INFO, ASK_PORT_8], frames=[3])
case("PKY011", [OF_SWITCH, NO_ENFORCEMENT, ASK_PORT_8], [OF_SWITCH, INFO, ASK_PORT_8], frames=[3])
# all 16 bits of a P_Key come from the table
LIMITED_ONLY = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234)), answer(5, 0x15, port_info(5))]
BACK_FULL, BACK_LIMITED = (rc(4, b"1234", slid=5, dlid=3, bth={"p_key": key, "destqp": 0x49}) for key in (0x9234, 0x1234))
case("PKY004", [*LIMITED_ONLY, BACK_FULL], [*LIMITED_ONLY, BACK_LIMITED], frames=[4])
# of a datagram to QP1, too; an answer repeats the P_Key of its request
TO_GSI: Any = {"slid": 5, "dlid": 3}
ASK_FULL, ASK_LIMITED = (gmp(4, 1, 1, bth={"p_key": key}, **TO_GSI) for key in (0x9234, 0x1234))
case("PKY004", [*LIMITED_ONLY, ASK_FULL], [*LIMITED_ONLY, ASK_LIMITED], frames=[4], also=["PKY007"], twin_also=["PKY007"])
case("PKY004", [*LIMITED_ONLY, ASK_FULL], [*LIMITED_ONLY, gmp(4, 0x81, 1, bth={"p_key": 0x9234}, **TO_GSI)], frames=[4],
     also=["PKY007"], twin_also=["PKY007"])  # fmt: skip
# partitions of connection requests, joins and groups
BOTH_LIMITED, ONE_FULL = (
    [frame for lid, keys in ((1, (0xFFFF, 0x1234)), (2, (0xFFFF, other))) for frame in (
        answer(lid, NODE_INFO, node(lid)), answer(lid, P_KEY_TABLE, p_keys(*keys)), answer(lid, 0x15, port_info(lid)))]
    for other in (0x1234, 0x9234)
)  # fmt: skip
ASKS = request(partition_key=0x1234, primary_local_port_lid=1, primary_remote_port_lid=2, primary_subnet_local=1)
case("PKY022", [*BOTH_LIMITED, ASKS], [*ONE_FULL, ASKS], frames=[7])
ASIDE = {"primary_local_port_lid": 8, "primary_remote_port_lid": 9, "alternate_local_port_lid": 1, "alternate_remote_port_lid": 2}
MOVES = request(partition_key=0x1234, alternate_subnet_local=1, **ASIDE)
case("PKY022", [*BOTH_LIMITED, MOVES], [*ONE_FULL, MOVES], frames=[7])
case("PKY022", [*BOTH_LIMITED, MOVES], [*BOTH_LIMITED, request(partition_key=0x1234, **ASIDE)], frames=[7])
# ... or that is asked for later: granted, it works
HAS = [request(partition_key=0x1234, **ASIDE), reply()]
LOADS = message(0x19, LAP, IDS, ACTIVE, alternate_local_port_lid=1, alternate_remote_port_lid=2, alternate_subnet_local=1)
LOADED = message(0x1A, APR, {"local_communication_id": 0x2002, "remote_communication_id": 0x1001}, PASSIVE)
case("PKY022", [*BOTH_LIMITED, *HAS, LOADS], [*ONE_FULL, *HAS, LOADS], frames=[9])
case("PKY022", [*BOTH_LIMITED, *HAS, LOADS, LOADED], [*ONE_FULL, *HAS, LOADS, LOADED], frames=[9], severity="info")
# ... or of a datagram service
FOR_SERVICE = message(0x17, SIDRReq, {"request_id": 7}, ACTIVE, partition_key=0x1234)
FOUND, NONE = (message(0x18, SIDRRep, {"request_id": 7}, PASSIVE, status=status) for status in (0, 1))
case("PKY022", [*BOTH_LIMITED, FOR_SERVICE, NONE], [*ONE_FULL, FOR_SERVICE, NONE], frames=[7], severity="warning")
GLOBAL = {"sgid": gid("fe80::1"), "dgid": gid("fe80::2")}
case("PKY022", [*BOTH_LIMITED, FOR_SERVICE],
     [*BOTH_LIMITED, message(0x17, SIDRReq, {"request_id": 7}, {**ACTIVE, "grh": GLOBAL}, partition_key=0x1234)], frames=[7])  # fmt: skip
case("PKY022", [*BOTH_LIMITED, FOR_SERVICE, FOUND], [*ONE_FULL, FOR_SERVICE, FOUND], frames=[7], severity="info")
# the request is repeated, and the grant of one path follows that of another
case("PKY022", [*BOTH_LIMITED, ASKS, ASKS, reply(), READY], [*ONE_FULL, ASKS, ASKS, reply(), READY], frames=[7], severity="info")
MORE, GRANTED = (message(0x19, LAP, IDS, ACTIVE, alternate_local_port_lid=n, alternate_remote_port_lid=n + 1, alternate_subnet_local=1)
                 for n in (21, 31))  # fmt: skip
LATER = [*HAS, LOADS, LOADED, MORE, LOADED, GRANTED, LOADED]
case("PKY022", [*BOTH_LIMITED, *LATER], [*ONE_FULL, *LATER], frames=[9], severity="info")
case("PKY022", [*BOTH_LIMITED, FOR_SERVICE, FOR_SERVICE, FOUND], [*ONE_FULL, FOR_SERVICE, FOR_SERVICE, FOUND], frames=[7], severity="info")
# what does not refute it: no RTU, an APR that refuses, a service in another partition, a set-up before
NOT_LOADED = message(0x1A, APR, {"local_communication_id": 0x2002, "remote_communication_id": 0x1001}, PASSIVE, ap_status=1)
OF_ANOTHER = message(0x17, SIDRReq, {"request_id": 8}, ACTIVE, partition_key=0x7FFF)
FOUND_ANOTHER = message(0x18, SIDRRep, {"request_id": 8}, PASSIVE, status=0)
for asked in ([ASKS, reply()], [*HAS, LOADS, NOT_LOADED], [FOR_SERVICE, OF_ANOTHER, FOUND_ANOTHER]):
    case("PKY022", [*BOTH_LIMITED, *asked], [*ONE_FULL, *asked], frames=[9 if LOADS in asked else 7], severity="warning")
# ... nor does what was set up before the tables were read
BEFORE = [[ASKS, reply(), READY, LEAVE], [*HAS, LOADS, LOADED], [FOR_SERVICE, FOUND]]
AGAIN = [request(partition_key=0x1234, local_communication_id=0x1002), LOADS, FOR_SERVICE]
for before, again in zip(BEFORE, AGAIN, strict=True):
    case("PKY022", *([*before, *members, again] for members in (BOTH_LIMITED, ONE_FULL)), frames=[len(before) + 7], severity="warning")
case("PKY022", [*BOTH_LIMITED, MOVES, reply(), READY], [*ONE_FULL, MOVES, reply(), READY], frames=[7], severity="info")
# a port that is no member; one port at both ends; a port with virtual ports, which have tables of their own; P_Key 0 is nobody's
NOT_ONE = [*ONE_FULL[:4], answer(2, P_KEY_TABLE, p_keys(0xFFFF, 0x9235)), ONE_FULL[5]]
case("PKY022", [*NOT_ONE, ASKS], [*ONE_FULL, ASKS], frames=[7])
case("PKY022", [*BOTH_LIMITED, ASKS],
     [*BOTH_LIMITED, request(partition_key=0x1234, primary_local_port_lid=2, primary_remote_port_lid=2)], frames=[7])  # fmt: skip
OF_64 = [*NOT_ONE[:3], answer(2, NODE_INFO, node(2, partition_cap=64)), *NOT_ONE[4:]]  # its second block was never read
case("PKY022", [*NOT_ONE, ASKS], [*OF_64, ASKS], frames=[7])
for number in (2, 5):
    virtual = [*BOTH_LIMITED]
    virtual[number] = answer(number // 3 + 1, 0x15, port_info(number // 3 + 1, capability_mask=1 << 15 | 0x48, capability_mask2=1 << 2))
    case("PKY022", [*BOTH_LIMITED, ASKS], [*virtual, ASKS], frames=[7])
    case("PKY022", [*BOTH_LIMITED, ASKS], [*(one for i, one in enumerate(BOTH_LIMITED) if i != number), ASKS], frames=[7])
case("PKY022", [*BOTH_LIMITED, ASKS], [*BOTH_LIMITED, request(partition_key=0x8000)], frames=[7])
# in another subnet, by the path or by a global route
case("PKY022", [*BOTH_LIMITED, ASKS], [*BOTH_LIMITED, request(partition_key=0x1234, primary_subnet_local=0)], frames=[7])
PORT_5 = b"\xfe\x80" + bytes(6) + (0x0002C90300001051).to_bytes(8, "big")
JOINED = member(p_key=0x8123, join_state=1, port_gid=PORT_5)
OUTSIDE, INSIDE = ([answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, key))] for key in (0x8124, 0x8123))
JOIN, QUERY = (gmp(3, method, 0x38, build(MCMemberRecord, port_gid=PORT_5, join_state=1), at=56, slid=5, dlid=1) for method in (2, 1))
case("PKY023", [*OUTSIDE, JOIN, JOINED], [*INSIDE, JOIN, JOINED], also=["SA009"], twin_also=["SA009"], frames=[4], severity="warning")
# the answer to a query: the partition was taken from a member; the capture may lack the query
case("PKY023", [*OUTSIDE, JOIN, JOINED], [*OUTSIDE, QUERY, JOINED], also=["SA009"], twin_also=["SA002"], frames=[4])
case("PKY023", [*OUTSIDE, JOINED], [*INSIDE, JOINED], frames=[3], severity="info")
# a join without an answer since: the SA may have made the group anew
ALONE = gmp(3, 2, 0x38, build(MCMemberRecord, port_gid=PORT_5, join_state=1), at=56, slid=5, dlid=1, header={"transaction_id": 77})
for asked, loud in ((QUERY, "error"), (ALONE, "info")):
    subnet_packet("PKY017", sent(p_key=0x8124), sent(p_key=0x8123), [member(), asked], severity=loud)
OF_8001 = gid("ff12:401b:8001::1")
case("PKY024", member(mgid=OF_8001, p_key=0x8002), member(mgid=OF_8001, p_key=0x8001))
# a connection that was silent for half an hour may have ended unseen
for seconds, severity in ((899, "error"), (901, "info")):
    slowly: Any = partial(erf_pcap, step_ns=seconds * 1_000_000_000)
    case("PKY005", [*SETUP, packet(0x8002)], [*SETUP, packet(0x8001)], frames=[4], severity=severity, file=slowly)
SILENT = [*SETUP, packet(0x8001)]
for psns in ([901], [901, 902]):  # the second packet does not make it alive
    case("PKY005", *([*SILENT, *(packet(p_key, psn) for psn in psns)] for p_key in (0x8002, 0x8001)), frames=[5], severity="info",
         file=partial(erf_pcap, step_ns=1_801_000_000_000))  # fmt: skip
ALIVE = [*SETUP, packet(0x8001), packet(0x8001, 901)]
case(
    "PKY005",
    [*ALIVE, packet(0x8002, 902)],
    [*ALIVE, packet(0x8001, 902)],
    frames=[6],
    severity="error",
    file=partial(erf_pcap, step_ns=899_000_000_000),
)
# entries beyond the capacity are none
SMALL, OTHER_HALF = ([answer(5, NODE_INFO, node(5, partition_cap=cap))] for cap in (16, 18))
BEYOND = p_keys(0xFFFF, 0x8001, *[0] * 14, 0x8002, 0x8002)
for block in (answer(5, P_KEY_TABLE, BEYOND), table_record(0, *struct.unpack(">32H", BEYOND))):
    case("PKY009", [*OTHER_HALF, block], [*SMALL, block], frames=[2], severity="warning")
ENTRIES = [[SWITCH, answer(5, SWITCH_INFO, switch_info(partition_enforcement_cap=cap))] for cap in (18, 17)]
OF_PORT_3 = answer(5, P_KEY_TABLE, BEYOND, modifier=3 << 16)
case("PKY009", [*ENTRIES[0], OF_PORT_3], [*ENTRIES[1], OF_PORT_3], frames=[3])
# written back as the port shows it
SHOWS_IT = answer(5, PORT_INFO, port_info(5, partition_enforcement_inbound=1), modifier=1)
SHOWS_NONE = answer(5, PORT_INFO, port_info(5), modifier=1)
case("PKY016", [SWITCH, NO_ENFORCEMENT, SHOWS_NONE, ENFORCE], [SWITCH, NO_ENFORCEMENT, SHOWS_IT, ENFORCE], frames=[4])
# over a router: the packets of the two directions may be those of two hosts behind it
ROUTED = {way: {"sgid": gid(near), "dgid": gid(far)} for way, near, far in (("to", "2001::3", "2002::1"), ("from", "2002::2", "2001::3"))}
SAME_SUBNET = {"sgid": gid("2001::3"), "dgid": gid("2001::1")}, {"sgid": gid("2001::1"), "dgid": gid("2001::3")}


def limited_pair(there: dict[str, bytes], back: dict[str, bytes]) -> list[bytes]:
    """An RC SEND each way, in the limited form."""
    return [native(0x04, bytes(8), bth=TALK, grh=there, **TO_5), native(0x04, bytes(8), bth=BACK, grh=back, slid=5, dlid=3)]


case("PKY021", limited_pair(*SAME_SUBNET), limited_pair(ROUTED["to"], ROUTED["from"]), frames=[2])
# another subnet's port at the same directed route: neither its LID nor its manager's is that of the first
OTHERS = [{"lid": 7, "master_sm_lid": 9}, {"lid": 7}, {"master_sm_lid": 9}]
READINGS = [
    [smp(ANSWER, PORT_INFO, port_info(**{"lid": 5, **more}, p_key_violations=count), path=[1, 2]) for more, count in (({}, 0), (other, 3))]
    for other in OTHERS
]
for same in READINGS[1:]:
    case("PKY015", same, READINGS[0], frames=[2])
