"""Proofs of the rules about the local route header, links and LIDs: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from ibdissect.lint.site_policy import SitePolicy
from tests.craft import build, erf_pcap, gmp, native, smp, ud, vcrc
from tests.rules.cases import case
from tests.rules.made.lanes import send
from tests.rules.made.ports import set_port
from tests.rules.made.site import send as site_send
from tests.rules.made.subnets import back, data, packet, sweep, works
from tests.subnet.files.made_files import parsed
from tests.subnet.made import ANSWER, GET, GUID, SET, answer, ask, node, p_keys, port_info, switch, switch_info

NODE_INFO, SWITCH_INFO, PORT_INFO, SL_TO_VL = 0x11, 0x12, 0x15, 0x17
GID = bytes.fromhex("fe80" + "00" * 13 + "01")
GRH = {"sgid": GID, "dgid": GID}


def raw(lnh: int, payload: bytes, **lrh: int) -> bytes:
    """A raw packet: LRH, payload, VCRC."""
    from ibdissect.wire.headers import LRH

    data = build(LRH, **{"lnh": lnh, "dlid": 2, "slid": 1, "pktlen": (8 + len(payload)) // 4, **lrh}) + payload
    return data + vcrc(data)


def flow_control(op: int) -> bytes:
    """An ERF capture of one flow-control packet (record type 25)."""
    from ibdissect.wire.headers import FlowControl

    data = bytearray(erf_pcap([build(FlowControl, op=op, fctbs=1, vl=0, fccl=9)]))
    data[24 + 16 + 8] = 25
    return bytes(data)


def length_field(frame: bytes, words: int) -> bytes:
    """The frame with another PktLen and the right VCRC."""
    data = bytearray(frame[:-2])
    data[4:6] = struct.pack(">H", words)
    return bytes(data) + vcrc(data)


PACKET = native(payload=bytes(range(64)))
WORDS = (len(PACKET) - 2) // 4
case("LNK001", native(lrh={"lver": 1}), native())
case("LNK002", native(lrh={"reserved5": 31}), native())
case("LNK002", native(lrh={"reserved2": 1}), native())
BITS = [native(lrh={"reserved5": 31}), native(lrh={"reserved2": 1}, bth={"psn": 2})]
case("LNK002", BITS, native(), frames=[1, 2])  # each finding tells its own bits
case("LNK003", length_field(PACKET, WORDS + 1), PACKET)
case("LNK003", length_field(PACKET, WORDS - 2), PACKET[:-2])  # its CRCs are at another place; the twin: a tap without VCRC
case("LNK004", length_field(PACKET, 3), length_field(PACKET, 6), twin_also=["LNK003"])
case("LNK005", native(payload=bytes(4220)), native(payload=bytes(4096)))
case("LNK005", length_field(PACKET, 0x420), length_field(PACKET, 0x41F), twin_also=["CAP001"])
case("LNK003", length_field(smp(1, 0x11), 71), smp(1, 0x11))  # not SMP001, too
case("LNK006", native(dlid=0), native(dlid=1))
case("LNK007", native(slid=0), smp(5, 2, slid=0))
case("LNK006", raw(0, bytes(40), dlid=0), raw(0, bytes(40)), also=["LNK014"], twin_also=["LNK014"])
case("LNK007", raw(1, bytes(40), slid=0), raw(1, bytes(40)), also=["LNK014"], twin_also=["LNK014"])
case("LNK006", raw(0, bytes(40), dlid=0), bytes(48), also=["LNK014"], twin_also=["LNK004", "LNK014"])  # zeros are no packet
case("LNK008", native(slid=0xC001), native(slid=0xBFFF))
case("LNK008", smp(1, 0x11, path=[1], slid=0xC001), smp(1, 0x11, path=[1]))  # not SMP012, too
case("LNK006", smp(1, 0x11, path=[1], dlid=0), smp(1, 0x11, path=[1]))
case("LNK009", gmp(4, 1, 0x12, dlid=0xFFFF), smp(1, 0x11, path=[1]))
case("LNK009", native(slid=0xFFFF), native(slid=0xBFFE))
case("LNK010", gmp(4, 1, 0x12, lrh={"vl": 15}), gmp(4, 1, 0x12, lrh={"vl": 14}))
case("LNK010", native(lrh={"vl": 15}), native(lrh={"vl": 0}))
case("LNK011", smp(1, 0x11, lrh={"vl": 0}), smp(1, 0x11))
case("LNK012", smp(1, 0x11, lrh={"sl": 3}), smp(1, 0x11))
case("LNK013", smp(1, 0x11, grh=GRH), smp(1, 0x11))
case("LNK010", gmp(4, 1, 0x12, grh=GRH, lrh={"vl": 15}), gmp(4, 1, 0x12, grh=GRH))  # the lane is wrong, not the GRH
case("LNK014", raw(0, b"\0\0\x88\xb5" + bytes(40)), native())
case("LNK023", flow_control(5), flow_control(1), file=None)


def lanes(*vls: int) -> bytes:
    """An SL to VL table: the lane of each SL; SLs beyond those named go to VL 0."""
    all_vls = [*vls, *[0] * (16 - len(vls))]
    return bytes(all_vls[i] << 4 | all_vls[i + 1] for i in range(0, 16, 2)).ljust(64, b"\0")


# the sender's own table drops SL 5
DROPS = [answer(3, NODE_INFO, node(3)), answer(3, SL_TO_VL, lanes(0, 0, 0, 0, 0, 15))]
case("LNK018", [*DROPS, send(5), send(5)], [*DROPS, send(4)], frames=[3], also=["RC002"])
case("LNK018", [*DROPS, send(5)], [send(5), *DROPS], frames=[3])
# one data VL, or no such table
MAPS = {"vl_cap": 2, "operational_vls": 1, "capability_mask": 1 << 6}
for less in ({"vl_cap": 1, "vl_arbitration_high_cap": 0, "vl_arbitration_low_cap": 0}, {"capability_mask": 0}):
    case("LNK018", *([*DROPS, answer(3, 0x15, port_info(3, **{**MAPS, **other})), send(5)] for other in ({}, less)), frames=[4])


# two hosts at a switch; all four tables are known
def swept(*tables: tuple[list[int], int, bytes], hidden: int = -1) -> list[bytes]:
    """LID 3 at port 1 and LID 5 at port 2 of a switch, and some SL to VL tables: path, modifier, content. One port may be hidden."""
    shown = [
        ([], NODE_INFO, node(3), 0), ([], PORT_INFO, port_info(3), 1), ([1], NODE_INFO, switch(9, 2), 0),
        ([1], SWITCH_INFO, switch_info(), 0),
        *[([1], PORT_INFO, port_info(9 if number == 0 else 0), number) for number in (0, 1, 2) if number != hidden],
        ([1, 2], NODE_INFO, node(5), 0), ([1, 2], PORT_INFO, port_info(5), 1),
        *[(path, SL_TO_VL, body, modifier) for path, modifier, body in tables],
    ]  # fmt: skip
    return [smp(ANSWER, attribute, body, path=path, modifier=modifier) for path, attribute, body, modifier in shown]


TO_1, TO_0 = lanes(0, 1), lanes(0, 0)
EVERY = ([], 0, TO_1), ([1], 1 << 8 | 2, TO_1), ([1], 2 << 8 | 1, TO_1), ([1, 2], 0, TO_1)
ALL, SOME, ROUGH = swept(*EVERY), swept(*EVERY[:2], EVERY[3]), swept(*EVERY, hidden=0)
TO_2 = lanes(0, 2)
OTHERS, NARROW = swept(EVERY[0], ([1], 1 << 8 | 2, TO_0), *EVERY[2:]), swept(([], 0, TO_2), *EVERY[1:])
case("LNK017", [*ALL, send(0, 1)], [*ALL, send(1, 1)], frames=[14])
case("LNK017", [*ALL, send(1, 2)], [*NARROW, send(1, 2)], frames=[14])
case("LNK017", [*ALL, send(0, 1)], [*SOME, send(0, 1)], frames=[14])
# a lane that the port does not have; a port that may lead elsewhere; a table of port 0
case("LNK017", [*ALL, send(2, 1)], [*ALL, send(1, 0)], frames=[14])
case("LNK017", [*ALL, send(0, 1)], [*ROUGH, send(0, 1)], frames=[14])
case("LNK017", [*ALL, send(0, 1)], [*ALL, send(0, 1, slid=9)], frames=[14])
# the GID of host 3 with the LID of host 5
HOSTS = [one for lid in (3, 5) for one in (answer(lid, NODE_INFO, node(lid)), answer(lid, PORT_INFO, port_info(lid)))]


def global_packet(slid: int, guid: int) -> bytes:
    """A datagram with a GRH."""
    sgid, dgid = bytes([0xFE, 0x80, *bytes(6)]) + guid.to_bytes(8, "big"), bytes([0xFE, 0x80, *bytes(6), *bytes(7), 9])
    return ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, slid=slid, dlid=9, grh={"sgid": sgid, "dgid": dgid})


def assigned(lid: int) -> bytes:
    """The manager writes the LID."""
    return ask(lid, PORT_INFO, method=SET, body=port_info(lid, port_state=0, port_physical_state=0), header={"transaction_id": 77})


WRITTEN = [*HOSTS]
for LID in (3, 5):
    WRITTEN += [assigned(LID), answer(LID, PORT_INFO, port_info(LID), header={"transaction_id": 77})]
STRANGE = global_packet(5, GUID + (3 << 4) + 1)
case("LNK019", [*WRITTEN, STRANGE], [*WRITTEN, global_packet(3, GUID + (3 << 4) + 1)], frames=[9], severity="warning")
case("LNK019", [*WRITTEN, STRANGE], [*WRITTEN, global_packet(5, 0x1234)], frames=[9], severity="warning")
# told again, or LIDs may have changed where the capture does not see it
case("LNK019", [*HOSTS, STRANGE, *HOSTS], [*HOSTS, STRANGE], frames=[5])
# a port sends with its new LID before it answers the Set
TAKES_5 = {"attr_id": PORT_INFO, "header": {"transaction_id": 78}}
GIVEN = smp(SET, attribute=port_info(5, port_state=0, port_physical_state=0), slid=1, dlid=3, **TAKES_5)
case("LNK019", [*WRITTEN, GIVEN, STRANGE, smp(ANSWER, attribute=port_info(5), slid=3, dlid=1, **TAKES_5)], WRITTEN, frames=[10],
     severity="info")  # fmt: skip
packet("LNK022", data(512), data(256), sweep(neighbor_mtu=1))
# while a Set is under way, by a route that leads to another node at the end of the capture
TO_5: Any = {"path": [1, 2], "modifier": 1, "header": {"transaction_id": 78}}
WIDENS = [smp(method, PORT_INFO, port_info(5, operational_vls=1, neighbor_mtu=5, **state), **TO_5)
          for method, state in ((SET, {"port_state": 0, "port_physical_state": 0}), (ANSWER, {}))]  # fmt: skip
REPLACED = [smp(method, NODE_INFO, body, path=[1, 2], header={"transaction_id": 79}) for method, body in ((GET, b""), (ANSWER, node(8)))]
for under_way, severity in (([WIDENS[0], data(4096), WIDENS[1]], "info"), ([data(4096), *WIDENS], "error")):
    case(
        "LNK022",
        [*sweep(neighbor_mtu=4), *under_way, *REPLACED],
        [*sweep(neighbor_mtu=4), *WIDENS, data(2048), *REPLACED],
        severity=severity,
    )
# connections work with a LID that nobody has, or between two pairs of ports in a partition that no table holds: these ports are others
NARROW_LINKS = [*sweep(neighbor_mtu=1), *(back(0x16, p_keys(0xFFFF), path) for path in ([], [1], [1, 2]))]
BETWEEN = [*works(1, 5, 0x8999), *works(1, 2, 0x8999)]
packet("LNK022", data(512), data(256), NARROW_LINKS, severity="error")
case("LNK022", [*NARROW_LINKS, data(512), *works(1, 9)], [*NARROW_LINKS, *works(1, 9)], severity="info", also=["LNK020"],
     twin_also=["LNK020"])  # fmt: skip
case("LNK022", [*NARROW_LINKS, *BETWEEN, data(512, psn=2)], [*NARROW_LINKS, *BETWEEN], severity="info", also=["PKY003", "PKY004"],
     twin_also=["PKY003", "PKY004"])  # fmt: skip
BORROWED = [*sweep(), global_packet(5, GUID + (1 << 4) + 1), *sweep()]
case("LNK019", BORROWED, [*sweep(), *sweep()], severity="warning")
case("LNK019", [*BORROWED, *works(1, 9)], works(1, 9), severity="info", also=["LNK020"])
packet("LNK016", data(vl=3), data(vl=0))
packet("LNK016", data(vl=3), data(vl=1), sweep(operational_vls=2))
for lnh in (0, 1):
    lane_3, lane_1 = (native(slid=1, dlid=5, lrh={"lnh": lnh, "vl": vl}) for vl in (3, 1))
    packet("LNK016", lane_3, lane_1, sweep(operational_vls=2), also=["LNK014"], twin_also=["LNK014"])
packet("LNK020", data(dlid=7), data(dlid=2))
case("LNK020", [*sweep(), data(dlid=7)], [*sweep()[:-1], data(dlid=7)], frames=[10])
# virtual ports have LIDs that no PortInfo tells
VIRTUAL = back(PORT_INFO, port_info(5, operational_vls=1, capability_mask2=4), [1, 2])
case("LNK020", [*sweep(), data(dlid=7)], [*sweep()[:-1], VIRTUAL, data(dlid=7)], frames=[10])
# a manager that sets its own port needs no wire for it; the other ports name its LID afterwards
case("LNK020", [back(PORT_INFO, port_info(5, operational_vls=1, master_sm_lid=7), [1, 2]), *sweep(), data(dlid=7)],
     [*sweep(), back(PORT_INFO, port_info(5, operational_vls=1, master_sm_lid=7), [1, 2]), data(dlid=7)], frames=[11])  # fmt: skip
# with an LMC, it has the LIDs behind that one, too
for manager, severity in ((6, "info"), (8, "warning")):
    OF_TWO = [*sweep()[:-1], back(PORT_INFO, port_info(4, operational_vls=1, lmc=1, master_sm_lid=manager), [1, 2])]
    case("LNK020", [*OF_TWO, data(dlid=7)], [*OF_TWO, data(dlid=5)], frames=[10], severity=severity)
# not of a manager whose LIDs are known
NAMED_2 = [*sweep()[:-1], back(PORT_INFO, port_info(4, operational_vls=1, lmc=1, master_sm_lid=2), [1, 2])]
case("LNK020", [*NAMED_2, data(dlid=3)], [*NAMED_2, data(dlid=5)], frames=[10], severity="warning")
# a manager may have given out LIDs where the capture does not show it; one that comes back reads port after port
ASKED: Any = {"path": [1, 2], "header": {"transaction_id": 79}}
MOVED = [smp(GET, PORT_INFO, **ASKED), smp(ANSWER, PORT_INFO, port_info(6, operational_vls=1), **ASKED)]


def named(*managers: int) -> list[bytes]:
    """Port 1 is told who its manager is."""
    infos = [port_info(1, operational_vls=1, master_sm_lid=lid) for lid in managers]
    return [
        smp(method, PORT_INFO, info, path=[], header={"transaction_id": 80 + i}) for i, info in enumerate(infos) for method in (SET, ANSWER)
    ]


for managers, severity in (((1, 5), "info"), ((1, 1), "warning")):
    meanwhile = named(*managers)
    case("LNK020", [*sweep(), *meanwhile, *MOVED, data(dlid=7)], [*sweep(), *meanwhile, *MOVED, data(dlid=2)], severity=severity)
FILTERING = [*sweep()[:5], back(PORT_INFO, port_info(0, operational_vls=1, filter_raw_inbound=1), [1], modifier=1), *sweep()[6:]]
BARE = native(slid=1, dlid=5, lrh={"lnh": 0})
case("LNK015", [*FILTERING, BARE], [*sweep(), BARE], frames=[10], also=["LNK014"], twin_also=["LNK014"])
AGAINST = native(slid=5, dlid=1, lrh={"lnh": 0})  # from the port behind the other switch port: only what comes in is filtered
case("LNK015", [*FILTERING, BARE], [*FILTERING, AGAINST], frames=[10], also=["LNK014"], twin_also=["LNK014"])
packet("LNK021", data(dlid=5), data(dlid=2), sweep(top=4))
# a LID that sends, but that no known port has; after a whole sweep, LNK020 reports it
STRANGE = [*sweep(top=4)[:-1], data(dlid=9)]
case("LNK021", STRANGE, [*STRANGE, native(0x04, bytes(8), slid=9, dlid=1)], frames=[len(STRANGE)])
# a host may have come since, for which its manager raised the top; not where the capture shows the manager at the switch, or the port
TOP_SET = [smp(2, SWITCH_INFO, switch_info(linear_fdb_top=4), path=[1]), back(SWITCH_INFO, switch_info(linear_fdb_top=4), [1])]
AT_9 = back(PORT_INFO, port_info(9, operational_vls=1), [1, 2])
for shown, how in (([], "info"), (TOP_SET, "warning"), ([AT_9], "warning")):
    case("LNK021", [*STRANGE[:-1], *shown, STRANGE[-1]], sweep(top=9), severity=how)
# the site's policy does not say that nobody has LID 5
case("LNK021", [*sweep(top=4), data(dlid=5)], [*sweep(), data(dlid=5)], frames=[10], also=["LNK020"], twin_also=["LNK020"],
     policy=SitePolicy(lids=((1, 4),)))  # fmt: skip
case("LNK025", answer(5, PORT_INFO, port_info(5, lmc=1)), answer(6, PORT_INFO, port_info(6, lmc=1)))
case("LNK025", answer(6, PORT_INFO, port_info(6, lmc=2)), answer(4, PORT_INFO, port_info(4, lmc=2)))


def port_sweep(lid: int, *, second: int = 0) -> list[bytes]:
    """Two adapters at a switch, both active; the second has a LID of choice. A `second` manager may find it, at a switch of its own."""

    def back(attribute: int, body: bytes, path: list[int], manager: int = 0) -> bytes:
        return smp(ANSWER, attribute, body, path=path, header={"transaction_id": manager << 32 | 0x1234})

    more = [back(NODE_INFO, node(8), [], second), back(NODE_INFO, switch(9, local_port_num=3), [1], second)] if second else []
    return [
        back(NODE_INFO, node(1), []), back(PORT_INFO, port_info(1), []), back(NODE_INFO, switch(2, local_port_num=3), [1]),
        back(NODE_INFO, node(5), [1, 4]), back(PORT_INFO, port_info(5), [1, 4]),
        *more, back(NODE_INFO, node(6), [1, 5], second), back(PORT_INFO, port_info(lid), [1, 5], second),
    ]  # fmt: skip


case("LNK024", port_sweep(5), port_sweep(6), frames=[7])
# port 0 of a switch has no cable of its own
ZERO = smp(ANSWER, PORT_INFO, port_info(7), path=[1], header={"transaction_id": 0x1234})
case("LNK024", [*port_sweep(6)[:5], ZERO, *port_sweep(7)[5:]], [*port_sweep(6)[:5], ZERO, *port_sweep(6)[5:]], frames=[8])
case("LNK024", port_sweep(5), port_sweep(5, second=7), frames=[7])  # of two subnets, perhaps
# perhaps the manager of another subnet, whose transaction ids begin alike: no cable joins its switch to the first one
OTHER_SWITCH = smp(ANSWER, NODE_INFO, switch(9, local_port_num=3), path=[1], header={"transaction_id": 0x1234})
FOUND = [[*port_sweep(5)[:5], OTHER_SWITCH, *port_sweep(lid)[5:]] for lid in (5, 6)]
case("LNK024", *FOUND, frames=[8], severity="info")


def two_ports(second: int, *, elsewhere: bool = False, guids: tuple[int, int] = (0x52, 0x53)) -> list[bytes]:
    """The same for both ports of one adapter, the second perhaps `elsewhere`: nothing shows where its cable leads."""
    ports = [node(5, num_ports=2, local_port_num=number, port_guid=guid) for number, guid in zip((1, 2), guids, strict=True)]
    infos = [port_info(lid, local_port_num=number) for number, lid in ((1, 5), (2, second))]
    to_second: dict[str, Any] = {"slid": 77, "dlid": 1} if elsewhere else {"path": [1, 5]}
    return [
        *port_sweep(5)[:3],
        *(smp(ANSWER, *one, path=[1, 4]) for one in ((NODE_INFO, ports[0]), (PORT_INFO, infos[0]))),
        *(smp(ANSWER, *one, **to_second) for one in ((NODE_INFO, ports[1]), (PORT_INFO, infos[1]))),
    ]


case("LNK024", two_ports(5), two_ports(6), frames=[7], severity="error")
case("LNK024", two_ports(5), two_ports(5, elsewhere=True), frames=[7])
PLANES = (0x52, 0x52)  # of one XDR port: they share its PortGUID and LID
case("LNK024", two_ports(5, guids=PLANES), two_ports(6, guids=PLANES), frames=[7], severity="info", also=["SEM035"], twin_also=["SEM035"])
# two adapters with one PortGUID are no planes
TWICE = smp(ANSWER, NODE_INFO, node(6, port_guid=GUID + (5 << 4) + 1), path=[1, 5], header={"transaction_id": 0x1234})
case("LNK024", [*port_sweep(5)[:5], TWICE, port_sweep(5)[6]], port_sweep(6), frames=[7], severity="error", also=["SEM035"])
# a first sweep: LIDs are assigned before the ports are active; both must show theirs again then
HOSTS = port_sweep(5)
STARTED = [smp(ANSWER, PORT_INFO, port_info(5, port_state=2), path=[1, at], header={"transaction_id": 0x1234}) for at in (4, 5)]
ASSIGNED = [*HOSTS[:4], STARTED[0], HOSTS[5], STARTED[1]]
case("LNK024", [*ASSIGNED, HOSTS[4], HOSTS[6]], [*ASSIGNED, HOSTS[6]], frames=[7])
# the second port got another LID: the capture shows who wrote it, or it may have missed the same at the first port, which shows it again
CHANGES: Any = {"path": [1, 5], "header": {"transaction_id": 0x99}}
KEEPS = port_info(5, port_state=0, port_physical_state=0)
WRITES = [smp(SET, PORT_INFO, KEEPS, **CHANGES), smp(ANSWER, PORT_INFO, port_info(5), **CHANGES)]
IDLE_PORTS = [smp(1, NODE_INFO, path=[], header={"transaction_id": 0x98})]
for step_ms, severity in ((1000, "error"), (999, "info")):  # the capture ends before the manager could write the other port's
    case("LNK024", [*port_sweep(6), *WRITES, *IDLE_PORTS], [*port_sweep(6), *IDLE_PORTS], frames=[9], severity=severity,
         file=partial(erf_pcap, step_ns=step_ms * 1_000_000))  # fmt: skip
case("LNK024", [*port_sweep(6), WRITES[1]], [*port_sweep(6)], frames=[8], severity="info")
# the second port of an adapter gets the LID that the first one had, by the same manager or by another, which may have moved the first
SECOND = node(5, num_ports=2, local_port_num=2, port_guid=0x53)


def given(*managers: tuple[int, int, int, list[int]]) -> list[bytes]:
    """Managers ask the second port who it is, and write its LID: LID, the manager's LID, its number, its route."""
    told: list[bytes] = []
    for lid, manager, number, path in managers:
        for i, (attribute, state) in enumerate(((NODE_INFO, {}), (PORT_INFO, {"port_state": 0, "port_physical_state": 0}))):
            infos = [port_info(lid, local_port_num=2, master_sm_lid=manager, **more) for more in (state, {})]
            way: dict[str, Any] = {"path": path, "modifier": 2 * i, "header": {"transaction_id": number << 32 | 0x90 + i}}
            told += [smp(GET + i, attribute, infos[0], **way), smp(ANSWER, attribute, infos[1] if i else SECOND, **way)]
    return told


for manager, severity in ((1, "error"), (9, "info")):
    GIVEN_6, GIVEN_5 = given((6, 1, 0, [1, 5])), given((5, manager, 5, [7]))
    case("LNK024", [*two_ports(6), *GIVEN_6, *GIVEN_5, *IDLE_PORTS], [*two_ports(6), *GIVEN_6, *IDLE_PORTS], frames=[15],
         severity=severity, file=partial(erf_pcap, step_ns=1_000_000_000))  # fmt: skip
# the first port is its own manager's, which has another LID by now: what it writes to its own port passes no link
OWN = smp(ANSWER, PORT_INFO, port_info(5, master_sm_lid=5), path=[1, 4], header={"transaction_id": 0x1234})
OF_MANAGER = [*port_sweep(6)[:4], OWN, *port_sweep(6)[5:]]
for manager, severity in ((77, "info"), (1, "error"), (5, "error")):
    NAMES = [smp(method, PORT_INFO, port_info(5, master_sm_lid=manager, **state), **CHANGES)
             for method, state in ((SET, {"port_state": 0, "port_physical_state": 0}), (ANSWER, {}))]  # fmt: skip
    case("LNK024", [*OF_MANAGER, *NAMES, *IDLE_PORTS], [*OF_MANAGER, *IDLE_PORTS], frames=[9], severity=severity,
         file=partial(erf_pcap, step_ns=1_000_000_000))  # fmt: skip
case("LNK024", [*port_sweep(6), WRITES[1], HOSTS[4]], [*port_sweep(6), HOSTS[4]], frames=[8], severity="error")
# answers without requests: the capture misses packets, and one of them may have told another LID of the first port
FIRST = smp(1, NODE_INFO, path=[], header={"transaction_id": 0x1234})
case("LNK024", [FIRST, *port_sweep(5)], [FIRST, *port_sweep(6)], frames=[8], severity="info",
     also=["TXN003"], twin_also=["TXN003"])  # fmt: skip
# LIDs: of packets, and as assigned
LIDS = SitePolicy(lids=((1, 15),))
case("LNK020", [site_send(0xFFFF, slid=16), site_send(0xFFFF, psn=2, slid=16)], [site_send(0xFFFF, slid=15)], frames=[1], policy=LIDS)
case("LNK020", smp(SET, PORT_INFO, set_port(40), slid=1, dlid=5), smp(SET, PORT_INFO, set_port(14), slid=1, dlid=5),
     frames=[1], policy=LIDS)  # fmt: skip

# a file that lists all LIDs: 3 and 5 are there, 6 is not
LISTED = parsed("guid2lid", "0x0002c90300001051 0x0005 0x0005\n0x0002c90300001031 0x0003 0x0003")[0]
STRAY = {"p_key": 0xFFFF, "destqp": 0x12}
KNOWN_ENDS = native(0x04, bytes(8), slid=3, dlid=5, bth=STRAY)
case("LNK020", [native(0x04, bytes(8), slid=3, dlid=6, bth=STRAY)], [KNOWN_ENDS], frames=[1], known=[LISTED])
case("LNK020", [native(0x04, bytes(8), slid=6, dlid=5, bth=STRAY)], [KNOWN_ENDS], frames=[1], known=[LISTED])
# a host that came since sends and is sent to; a file lists no further LIDs of routers
CABLES = parsed(
    "ibnetdiscover",
    'switchguid=0x90(90)\nSwitch\t8 "S-0000000000000090"\t\t# "sw" base port 0 lid 9 lmc 0\n'
    '[1]\t"H-0000000000000030"[1](31) \t\t# "a" lid 3 4xEDR\n[2]\t"H-0000000000000050"[1](51) \t\t# "b" lid 5 4xEDR\n'
    'caguid=0x30\nCa\t1 "H-0000000000000030"\t\t# "a"\n[1](31) \t"S-0000000000000090"[1]\t\t# lid 3 lmc 0 "sw" lid 9 4xEDR\n'
    'caguid=0x50\nCa\t1 "H-0000000000000050"\t\t# "b"\n[1](51) \t"S-0000000000000090"[2]\t\t# lid 5 lmc 0 "sw" lid 9 4xEDR\n',
)[0]
ANSWERED = [native(0x04, bytes(8), slid=3, dlid=6, bth=STRAY), native(0x04, bytes(8), slid=6, dlid=3, bth=STRAY)]
case("LNK020", ANSWERED, [KNOWN_ENDS], severity="info", known=[CABLES])
for one in ANSWERED:
    case("LNK020", [one], [answer(7, NODE_INFO, node(7, node_type=3)), one], severity="warning", known=[CABLES])
case("LNK025", answer(5, PORT_INFO, port_info(0xC000)), answer(5, PORT_INFO, port_info(0xBFFF)))
case("LNK025", answer(5, PORT_INFO, port_info(0xFFFE)), answer(5, PORT_INFO, port_info(0xFFFF)))
# adapters have the permissive LID until they are configured
NO_LID = [[answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(0xFFFF, port_state=state))] for state in (4, 3, 2, 1)]
for up in NO_LID[:2]:
    for down in NO_LID[2:]:
        case("LNK025", up, down, frames=[2])
# a tool writes back what such a port showed; a manager names itself
PERMISSIVE = [port_info(0xFFFF, master_sm_lid=lid, port_state=0, port_physical_state=0) for lid in (1, 0)]
case("LNK025", *(ask(5, PORT_INFO, method=SET, body=body) for body in PERMISSIVE))
case("LNK009", native(lrh={"lnh": 0}, dlid=0xFFFF), native(lrh={"lnh": 0}, dlid=5), also=["LNK014"], twin_also=["LNK014"])
# a packet that may have been under way when its port was set up otherwise
NARROW: Any = {"path": [1, 2], "header": {"transaction_id": 0x99}}
CUT = [smp(SET, PORT_INFO, set_port(neighbor_mtu=1), **NARROW), smp(ANSWER, PORT_INFO, port_info(5, neighbor_mtu=1), **NARROW)]
LOWERED = [*sweep(neighbor_mtu=5), *CUT]
for step, severity in ((1_000_000, "info"), (2_000_000_000, "error")):
    case("LNK022", erf_pcap([*LOWERED, data(512)], step_ns=step), erf_pcap([*LOWERED, data(256)], step_ns=step), severity=severity,
         file=None)  # fmt: skip
