"""Pairs of what the standard forbids and a legal twin, which differ in one value, by the kind of fault."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.cc import CongestionInfo
from ibdissect.wire.cm import APR, DREQ, LAP
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_paths import LinkRecord, MCMemberRecord, PathRecord
from ibdissect.wire.sa_records import GuidInfoRecord, NodeRecord, PKeyTableRecord, PortInfoRecord
from ibdissect.wire.sm import SMInfo
from tests.craft import build, gmp, native, rc, roce2, smp, ud
from tests.rules.made.pair_frames import (
    ANSWER,
    ASKER,
    GET,
    GUID_INFO,
    LED_INFO,
    LFT,
    MFT,
    NODE_INFO,
    P_KEYS,
    PAIRS,
    PORT_INFO,
    RFT,
    SEND,
    SET,
    SL2VL,
    SM_INFO,
    SWITCH_INFO,
    TARGET,
    TRANSACTIONS,
    TRAP,
    VENDOR_DIAG,
    VL_ARB,
    a_switch,
    answered,
    ask,
    connection,
    host,
    pair,
    part,
    port,
    query,
    reads,
    request,
    sa,
    service,
    table,
)
from tests.subnet.made import node, p_keys, port_info, switch_info

# P_Keys
LIMITED = table(ASKER, 0xFFFF, 0x1234)
pair(
    "full form of a limited member",
    "PKY004",
    *(rc(4, b"data", bth={"p_key": key, "destqp": 0x49}, slid=ASKER, dlid=TARGET) for key in (0x9234, 0x1234)),
    known=LIMITED,
)
pair(
    "full form of a limited member, UD",
    "PKY004",
    *(ud(bytes(8), dest_qp=0x49, src_qp=9, q_key=7, bth={"p_key": key}, slid=ASKER, dlid=TARGET) for key in (0x9234, 0x1234)),
    known=LIMITED,
)
pair(
    "full form of a limited member to QP1",
    "PKY004",
    *(gmp(4, 1, 1, bth={"p_key": key}, slid=ASKER, dlid=TARGET) for key in (0x9234, 0xFFFF)),
    known=LIMITED,
)
pair(
    "REQ of two limited members",
    "PKY022",
    request(partition_key=0x1234),
    request(partition_key=0xFFFF),
    known=[*table(ASKER, 0xFFFF, 0x1234), *table(TARGET, 0xFFFF, 0x1234)],
)
pair(
    "REQ of a partition that one end lacks",
    "PKY022",
    request(partition_key=0x9235),
    request(partition_key=0x9234),
    known=[*table(ASKER, 0xFFFF, 0x9234, 0x9235), *table(TARGET, 0xFFFF, 0x9234)],
)
ASIDE = {"alternate_local_port_lid": 0x1D11, "alternate_remote_port_lid": 0x1D12, "alternate_subnet_local": 1}
pair(
    "alternate path of two limited members",
    "PKY022",
    request(partition_key=0x1234, **ASIDE),
    request(partition_key=0xFFFF, **ASIDE),
    known=[*table(0x1D11, 0xFFFF, 0x1234), *table(0x1D12, 0xFFFF, 0x1234)],
)
MOVED = [rc(4, b"data", bth={"destqp": 0x172, "psn": 900, "p_key": key}, slid=0x1D11, dlid=0x1D12) for key in (0x8002, 0x8001)]
pair("another P_Key on the alternate path", "PKY005", *MOVED, known=connection(partition_key=0x8001, **ASIDE))
LOADED = [
    gmp(7, SEND, 0x19, build(LAP, local_communication_id=0x5501, remote_communication_id=0x5502, **ASIDE), at=24, slid=ASKER, dlid=TARGET),
    gmp(7, SEND, 0x1A, build(APR, local_communication_id=0x5502, remote_communication_id=0x5501), at=24, slid=TARGET, dlid=ASKER),
]
pair("another P_Key on a path granted later", "PKY005", *MOVED, known=[*connection(partition_key=0x8001), *LOADED])
BACK = [rc(4, b"data", bth={"destqp": 0x171, "psn": 500, "p_key": key}, slid=0x1D12, dlid=0x1D11) for key in (0x8002, 0x8001)]
pair("another P_Key on the way back of the alternate path", "PKY005", *BACK, known=connection(partition_key=0x8001, **ASIDE))
GID_OF = b"\xfe\x80" + bytes(6) + (0x0002C90300001000 + (TARGET << 4) + 1).to_bytes(8, "big")
GROUP: dict[str, Any] = {
    "mgid": bytes.fromhex("ff12401b92340000") + bytes(7) + b"\x77",
    "mlid": 0xC031,
    "mtu_selector": 2,
    "mtu": 4,
    "rate_selector": 2,
    "rate": 3,
    "packet_life_time_selector": 2,
    "packet_life_time": 18,
    "scope": 2,
}
NO_IPOIB = bytes.fromhex("ff12a01b00000000") + bytes(7) + b"\x77"


def join(key: int) -> list[bytes]:
    """A port joins a group, and the SA lets it."""
    record, number = (
        build(MCMemberRecord, **{**GROUP, "mgid": NO_IPOIB, "p_key": key, "join_state": 1, "port_gid": GID_OF}),
        next(TRANSACTIONS),
    )
    return [
        sa(SET, 0x38, record, mask=mask_for(MCMemberRecord, ("mgid", "port_gid", "join_state")), transaction_id=number),
        sa(ANSWER, 0x38, record, mask=0, transaction_id=number),
    ]


pair("join outside the partition", "PKY023", join(0x9234), join(0x9235), known=table(TARGET, 0xFFFF, 0x9235))
pair(
    "group of another partition than its GID",
    "PKY024",
    *(sa(ANSWER, 0x38, build(MCMemberRecord, **{**GROUP, "p_key": key}), mask=0) for key in (0x9235, 0x9234)),
)
# selectors within the facts
pair(
    "P_KeyTable of port 9 of 8",
    "PKY011",
    *(ask(P_KEYS, p_keys(0xFFFF), method=SET, modifier=number << 16) for number in (9, 8)),
    known=a_switch(),
)
pair(
    "P_KeyTable of an external port without one",
    "PKY011",
    *(ask(P_KEYS, p_keys(0xFFFF), method=SET, modifier=number << 16) for number in (3, 0)),
    known=a_switch(partition_enforcement_cap=0),
)
pair("PortInfo of port 9 of 8", "AM007", ask(PORT_INFO, modifier=9), ask(PORT_INFO, modifier=8), known=a_switch())
pair("SLtoVL from port 9 of 8", "AM012", ask(SL2VL, modifier=9 << 8 | 1), ask(SL2VL, modifier=8 << 8 | 1), known=a_switch())
pair("SLtoVL to port 9 of 8", "AM012", ask(SL2VL, modifier=1 << 8 | 9), ask(SL2VL, modifier=1 << 8 | 8), known=a_switch())
pair("VLArbitration of port 9 of 8", "AM016", ask(VL_ARB, modifier=1 << 16 | 9), ask(VL_ARB, modifier=1 << 16 | 8), known=a_switch())
pair("LFT behind its capacity", "AM017", ask(LFT, modifier=16), ask(LFT, modifier=15), known=a_switch())
pair("MFT of a switch without one", "AM021 AM022", ask(MFT), ask(LFT), known=a_switch(multicast_fdb_cap=0))
pair("MFT behind its capacity", "AM021", ask(MFT, modifier=32), ask(MFT, modifier=31), known=a_switch())
pair("RFT behind its capacity", "AM035", ask(RFT, modifier=2), ask(RFT, modifier=1), known=a_switch(random_fdb_cap=32, linear_fdb_cap=0))
pair("GUIDInfo block 32", "AM005", ask(GUID_INFO, modifier=32), ask(GUID_INFO, modifier=0))
pair(
    "filter of raw packets without the capability",
    "SEM071",
    *(
        ask(
            PORT_INFO, port_info(0, port_state=0, port_physical_state=0, master_sm_lid=ASKER, filter_raw_inbound=on), method=SET, modifier=2
        )
        for on in (1, 0)
    ),
    known=a_switch(filter_raw_inbound_cap=0),
)
# methods of attributes
for what, bad, good in (
    ("Set(NodeInfo)", ask(NODE_INFO, method=SET), ask(NODE_INFO)),
    ("Set(VendorDiag)", ask(VENDOR_DIAG, method=SET), ask(VENDOR_DIAG)),
    ("Trap(PortInfo)", ask(PORT_INFO, method=TRAP), ask(PORT_INFO)),
    ("Set(PortSamplesResult)", service(4, SET, 0x11), service(4, GET, 0x11)),
    ("Set(NodeRecord)", sa(SET, 0x11), sa(GET, 0x11)),
    ("Delete(PathRecord)", sa(0x15, 0x35), sa(0x12, 0x35)),
    ("Get(MultiPathRecord)", sa(GET, 0x3A, mask=0), sa(0x14, 0x3A, mask=0)),
    ("Set(CongestionInfo)", service(0x21, SET, 0x11), service(0x21, GET, 0x11)),
    ("Get(REQ)", service(7, GET, 0x10, at=24), service(7, SEND, 0x15, build(DREQ), at=24)),
    ("Set(IOUnitInfo)", service(6, SET, 0x10), service(6, GET, 0x10)),
):
    pair(what, "MAD018", bad, good)
# modifiers that must be 0
for what, bad, good in (
    ("modifier of a NodeRecord", sa(GET, 0x11, attribute_modifier=1), sa(GET, 0x11)),
    ("modifier of a PathRecord", sa(GET, 0x35, attribute_modifier=7), sa(GET, 0x35)),
    ("modifier of ClassPortInfo", service(4, GET, 1, attribute_modifier=1), service(4, GET, 1)),
    ("modifier of a DREQ", service(7, SEND, 0x15, build(DREQ), at=24, attribute_modifier=1), service(7, SEND, 0x15, build(DREQ), at=24)),
    ("modifier of CongestionInfo", service(0x21, GET, 0x11, build(CongestionInfo), attribute_modifier=2), service(0x21, GET, 0x11)),
    ("modifier of IOUnitInfo", service(6, GET, 0x10, attribute_modifier=1), service(6, GET, 0x10)),
    ("modifier of NodeDescription", ask(0x10, modifier=1), ask(0x10)),
    ("modifier of LEDInfo", ask(LED_INFO, modifier=1), ask(LED_INFO)),
):
    pair(what, "AM001 AM026 AM031 AM034", bad, good)
# answers compared with requests
pair("answer with another modifier", "MAD019", *(answered(P_KEYS, p_keys(0xFFFF), modifier=0, replied=replied) for replied in (1, 0)))
pair(
    "path to another port",
    "MAD020",
    *(
        query(PathRecord, {"dgid": GID_OF}, {"dgid": held, "dlid": 9, "slid": 8}, 0x35)
        for held in (b"\xfe\x80" + bytes(13) + b"\x55", GID_OF)
    ),
)
pair("path in another partition", "MAD020", *(query(PathRecord, {"p_key": 0x9234}, {"p_key": held}, 0x35) for held in (0x9235, 0x1234)))
for record, asked, wrong, right, attribute in (
    (PortInfoRecord, {"end_port_lid": 0x1D08}, {"end_port_lid": 0x1D02}, {"end_port_lid": 0x1D08}, 0x12),
    (PKeyTableRecord, {"block_num": 1}, {"block_num": 2}, {"block_num": 1}, 0x33),
    (GuidInfoRecord, {"lid": 0x1D09}, {"lid": 0x1D0A}, {"lid": 0x1D08}, 0x30),
    (LinkRecord, {"from_port": 3}, {"from_port": 4}, {"from_port": 3}, 0x20),
    (MCMemberRecord, {"mlid": 0xC005}, {"mlid": 0xC006, **GROUP} | {"mlid": 0xC006}, GROUP | {"mlid": 0xC005}, 0x38),
):
    pair(f"another {record.__name__}", "MAD020", query(record, asked, wrong, attribute), query(record, asked, right, attribute))


def counters(asked: int, held: int) -> list[bytes]:
    number = next(TRANSACTIONS)
    return [
        service(4, method, 0x12, build(PortCounters, port_select=which), transaction_id=number)
        for method, which in ((GET, asked), (ANSWER, held))
    ]


pair("counters of another port", "MAD020", counters(1, 2), counters(1, 1))
pair("status in a Get", "MAD021", ask(NODE_INFO, header={"status": 0x1C}), ask(NODE_INFO))
pair("status in a query", "MAD021", sa(GET, 0x11, status=0x0300), sa(ANSWER, 0x11, build(NodeRecord), status=0x0300))
# values
PORTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "PortState 7": ("SEM066", {"port_state": 7}, {"port_state": 4}),
    "PortPhysicalState 9": ("SEM066", {"port_physical_state": 9}, {"port_physical_state": 5}),
    "LinkSpeedActive 3": ("SEM066", {"link_speed_active": 3}, {"link_speed_active": 2}),
    "LinkWidthSupported 0": ("SEM066", {"link_width_supported": 0}, {"link_width_supported": 3}),
    "LinkWidthActive of two widths": ("SEM057", {"link_width_active": 3}, {"link_width_active": 2}),
    "LinkWidthActive not supported": ("SEM057", {"link_width_active": 8}, {"link_width_active": 1}),
    "VLArbitrationHighCap 65": ("SEM066", {"vl_arbitration_high_cap": 65}, {"vl_arbitration_high_cap": 64}),
    "MasterSMLID 0xC001": ("SEM066", {"master_sm_lid": 0xC001}, {"master_sm_lid": ASKER}),
    "MTUCap 6": ("SEM003", {"mtu_cap": 6}, {"mtu_cap": 5}),
}
for what, (codes, wrong_value, right_value) in PORTS.items():
    pair(
        what,
        codes,
        *(answered(PORT_INFO, port_info(TARGET, **{"master_sm_lid": ASKER, **value})) for value in (wrong_value, right_value)),
        known=host(),
    )
for lid in (0xC000, 0xFFFF):
    pair(
        f"Set of LID 0x{lid:x}",
        "LNK025",
        *(
            ask(PORT_INFO, port_info(value, master_sm_lid=ASKER, port_state=0, port_physical_state=0), method=SET)
            for value in (lid, 0xBFFF)
        ),
    )
for what, cap, limit in (("LinearFDBCap", "linear_fdb_cap", 0xC000), ("MulticastFDBCap", "multicast_fdb_cap", 0x4000)):
    pair(f"{what} too large", "SEM067", *(answered(SWITCH_INFO, switch_info(**{cap: value})) for value in (limit + 1, limit)))
OWN = 0x0002C90300001000 + (TARGET << 4) + 1
pair(
    "SMInfo with another GUID",
    "SEM069",
    *(answered(SM_INFO, build(SMInfo, guid=guid, priority=1, sm_state=3)) for guid in (OWN + 8, OWN)),
    known=[*host(), *port()],
)
pair("status bits of the class in an SMP", "SMP028", *(answered(NODE_INFO, node(TARGET), status=status) for status in (0x0100, 0)))
pair(
    "directed route with hop 0",
    "SMP026",
    *(smp(GET, NODE_INFO, path=path, header={"transaction_id": next(TRANSACTIONS)}) for path in ([1, 0, 3], [1, 2, 3])),
)
pair(
    "MTU 6 of a path",
    "SA026",
    *(sa(ANSWER, 0x35, build(PathRecord, mtu_selector=2, mtu=value, rate_selector=2, rate=3), mask=0) for value in (6, 5)),
)
pair(
    "rate 1 of a path",
    "SA026",
    *(sa(ANSWER, 0x35, build(PathRecord, rate_selector=2, rate=value, mtu_selector=2, mtu=4), mask=0) for value in (1, 2)),
)


def control(kind: int, status: int) -> bytes:
    return sa(0x12, 0x11, mask=0, rmpp={"rmpp_version": 1, "rmpp_type": kind, "active": 1, "rmpp_status": status})


pair("ABORT with the status of a STOP", "TXN016", control(4, 1), control(4, 118))
pair("table without RMPP", "TXN023", *(sa(0x92, 0x11, mask=0, status=status) for status in (0, 0x0300)))
# paths of connection requests
pair("REQ with an alternate multicast LID", "CM019", request(**{**ASIDE, "alternate_remote_port_lid": 0xC001}), request(**ASIDE))
pair("REQ with the permissive LID", "CM019", request(primary_remote_port_lid=0xFFFF), request())
TO = {**ASIDE, "alternate_local_port_gid": b"\xfe\x80" + bytes(13) + b"\x42", "alternate_remote_port_gid": GID_OF}
# port states
REFUSED = {"status": 0x1C}


def sets(state: int, **head: Any) -> list[bytes]:
    header = {"transaction_id": next(TRANSACTIONS)}
    body = port_info(TARGET, port_state=state, port_physical_state=0, master_sm_lid=ASKER)
    shown = port_info(TARGET, port_state=head.pop("shows", state), master_sm_lid=ASKER)
    return [
        smp(SET, PORT_INFO, body, slid=ASKER, dlid=TARGET, header=header),
        smp(ANSWER, PORT_INFO, shown, slid=TARGET, dlid=ASKER, header={**header, **head}),
    ]


ONCE = [*host(), *port(port_state=2), *sets(3), *sets(4)]
pair(
    "Active again without Armed",
    "SEM012",
    sets(4, shows=2, status=0x1C),
    [*sets(3), *sets(4, shows=3, status=0x1C)],
    known=[*ONCE, *port(port_state=1), *port(port_state=2)],
)
pair(
    "REQ with another port's alternate LID",
    "CM020",
    request(**TO),
    request(**{**TO, "alternate_remote_port_lid": TARGET}),
    known=[*host(), *port(), *sets(0, shows=4)],
)
# transport
WHOLE = [part(0x0D, 900, 1024), part(0x0E, 901, 1024), part(0x0F, 902, 952)]
pair(
    "READ answered with too few bytes",
    "CNX016",
    reads(*WHOLE[:2], part(0x0F, 902, 500)),
    reads(*WHOLE),
    known=connection(path_packet_payload_mtu=3),
)
# without a set-up, several answers must fit before one that does not is a fault and no other queue pair's
BEFORE = [
    frame
    for psn in range(896, 900)
    for frame in (
        rc(4, b"data", bth={"destqp": 0x172, "psn": psn, "a": 1}, slid=ASKER, dlid=TARGET),
        rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": psn - 898 & 0xFFFFFF}}, bth={"destqp": 0x171, "psn": psn}, slid=TARGET, dlid=ASKER),
    )
]
pair(
    "READ answered from the middle on",
    "CNX016 CNX018",
    reads(part(0x0E, 900, 1024), part(0x0D, 901, 1024), WHOLE[2]),
    reads(*WHOLE),
    known=BEFORE,
)
# the READ is never repeated, and what follows for twelve seconds shows that the capture goes on
LATER = [rc(4, bytes(8), bth={"destqp": 0x182, "psn": n}, slid=ASKER, dlid=TARGET) for n in range(25)]
STOPPED = [*reads(WHOLE[0], WHOLE[2])[:-1], *LATER], [*reads(*WHOLE)[:-1], *LATER]
pair("READ without its middle response", "RC012", *STOPPED, known=connection(path_packet_payload_mtu=3), step_ns=500_000_000)
for at, code in ((0x1004, "RC023"), (0x1001, "RC023")):
    pair(
        f"atomic at 0x{at:x}",
        code,
        *(rc(0x14, ext={"AtomicETH": {"va": value, "r_key": 7}}, bth={"destqp": 0x49}, slid=ASKER, dlid=TARGET) for value in (at, 0x1008)),
    )
pair(
    "DMALen above 2^31",
    "RC024",
    *(
        rc(0x0C, ext={"RETH": {"dmalen": size, "r_key": 7}}, bth={"destqp": 0x49}, slid=ASKER, dlid=TARGET)
        for size in (0x80000001, 0x80000000)
    ),
)
pair(
    "payload in a READ request",
    "RC022",
    *(rc(0x0C, body, ext={"RETH": {"dmalen": 8, "r_key": 7}}, bth={"destqp": 0x49}, slid=ASKER, dlid=TARGET) for body in (b"1234", b"")),
)
pair(
    "payload in an ACK",
    "RC022",
    *(rc(0x11, body, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x49}, slid=ASKER, dlid=TARGET) for body in (b"1234", b"")),
)
pair(
    "RC to a multicast LID",
    "BTH013",
    native(0x04, b"data", slid=ASKER, dlid=0xC001, bth={"destqp": 0x49}),
    native(0x04, b"data", slid=ASKER, dlid=TARGET, bth={"destqp": 0x49}),
)


# the same over RoCE v2, tagged and not
for tag in (None, 100):
    for what, codes, opcode, bad_part, good_part in (
        ("atomic at 0x1004", "RC023", 0x14, {"ext": {"AtomicETH": {"va": 0x1004}}}, {"ext": {"AtomicETH": {"va": 0x1008}}}),
        (
            "DMALen above 2^31",
            "RC024",
            0x0C,
            {"ext": {"RETH": {"dmalen": 0x80000001, "r_key": 7}}},
            {"ext": {"RETH": {"dmalen": 0x80000000, "r_key": 7}}},
        ),
        ("payload in a READ request", "RC022", 0x0C, {"payload": b"1234"}, {"payload": b""}),
        ("payload in an ACK", "RC022", 0x11, {"payload": b"1234"}, {"payload": b""}),
        ("RC to a multicast address", "BTH013", 0x04, {"ip": {"destination": bytes([239, 0, 0, 1])}}, {"ip": {"ttl": 63}}),
    ):
        wrong_frame, right_frame = (roce2(opcode, vlan=tag, bth={"destqp": 0x49}, **more) for more in (bad_part, good_part))
        pair(f"{what} over RoCE, VLAN {tag}", codes, wrong_frame, right_frame, link=1)
ALL = tuple(PAIRS)
