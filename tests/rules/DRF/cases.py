"""Proofs of the rules about drift: what a port shows against what a file says of it."""

from __future__ import annotations

from ibdissect.subnet.files import SubnetFile
from ibdissect.wire.crc import icrc_roce2
from ibdissect.wire.encapsulation import IPv6
from tests.craft import build, ethernet_pcap, headers_of, native, rc, roce2, smp
from tests.rules.cases import case
from tests.subnet.files.made_files import parsed
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import ANSWER, GUID, SET, SWITCH_GUID, answer, node, p_keys, port_info, switch
from tests.tunnels import wrapped

P_KEY_TABLE, NODE_INFO, PORT_INFO = 0x16, 0x11, 0x15
SEND, ACK = 0x04, 0x11
PORT_5 = GUID + (5 << 4) + 1
GUID2LID = parsed("guid2lid", f"0x{PORT_5:016x} 0x0005 0x0005\n0x0000000000000001 0x0001 0x0001")[0]
PARTITIONS = parsed("partitions.conf", f"Default=0x7fff : ALL=full ;\nStorage=0x10 :\n 0x{PORT_5:x}=full ;")[0]
OPTIONS = parsed("opensm.conf", "allow_both_pkeys FALSE\nguid 0x1")[0]


def host(lid: int) -> SubnetFile:
    """What ibstat prints at host 5."""
    end = f"\t\tPort GUID: 0x{PORT_5:016x}\n\t\tLink layer: InfiniBand"
    return parsed("ibstat", f"CA 'a'\n\tNode GUID: 0x{PORT_5 - 1:016x}\n\tPort 1:\n\t\tBase lid: {lid}\n\t\tLMC: 0\n{end}")[0]


SHOWN = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5), modifier=1)]

case("DRF001", [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x0010))], [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0x8010, 0xFFFF))],
     frames=[3], known=[GUID2LID, OPTIONS, PARTITIONS])  # fmt: skip
# what an answer holds behind the end of the table means nothing
SMALL = [answer(5, NODE_INFO, node(5, partition_cap=2)), SHOWN[1]]
case("DRF001", [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x8010, 0x1234))],
     [*SMALL, answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x8010, 0x1234))], frames=[3], known=[GUID2LID, OPTIONS, PARTITIONS])  # fmt: skip
# a table of 33 entries is not whole yet
WIDE = [answer(5, NODE_INFO, node(5, partition_cap=33)), SHOWN[1]]
case("DRF001", [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0xFFFF))], [*WIDE, answer(5, P_KEY_TABLE, p_keys(0xFFFF))],
     frames=[3], known=[GUID2LID, OPTIONS, PARTITIONS])  # fmt: skip
ROWS = "0: 0xffff 0x8010 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000"
TABLE = parsed("smpquery", f"$ smpquery pkeys 5 1\n   {ROWS}\n32 pkeys capacity for this port")[0]
# the order of a table matters to nobody; what the manager writes in the end counts
case("DRF001", [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0xFFFF))],
     [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0xFFFF)), answer(5, P_KEY_TABLE, p_keys(0x8010, 0xFFFF))], frames=[3],
     known=[host(5), TABLE])  # fmt: skip

case("DRF002", SHOWN, [answer(6, NODE_INFO, node(5)), answer(6, PORT_INFO, port_info(6), modifier=1)], frames=[1], known=[host(6)])

CABLES = parsed(
    "ibnetdiscover",
    f'vendid=0x2c9\nswitchguid=0x{SWITCH_GUID + 0x90:x}(1)\nSwitch\t8 "S-{SWITCH_GUID + 0x90:016x}"\t\t# "sw" base port 0 lid 9 lmc 0\n'
    f'[2]\t"H-{PORT_5 - 1:016x}"[1]({PORT_5:x}) \t\t# "host" lid 5 4xEDR\n',
)[0]


def swept(port: int) -> list[bytes]:
    """Directed routes to a switch and to host 5 behind one of its ports."""
    return [smp(ANSWER, NODE_INFO, body, path=way) for way, body in (([], node(3)), ([1], switch(9)), ([1, port], node(5)))]


case("DRF003", swept(3), swept(2), frames=[3], known=[CABLES])

KEYS = parsed("guid2mkey", f"0x{PORT_5:016x} 0x00000000000000aa")[0]
case("DRF004", [SHOWN[0], answer(5, PORT_INFO, port_info(5, m_key=0xBB), modifier=1)],
     [SHOWN[0], answer(5, PORT_INFO, port_info(5, m_key=0xAA), modifier=1)], frames=[2], known=[host(5), KEYS],
     also=["MKY005"], twin_also=["MKY005"])  # fmt: skip


def sent(opcode: int, p_key: int) -> bytes:
    """An RC packet between LID 5 and LID 3."""
    return rc(opcode, bytes(8) if opcode == SEND else b"", slid=5, dlid=3, bth={"p_key": p_key, "destqp": 9})


# LID 5 takes a packet of a partition that it is no member of, so the file is of another time; what rests on it is an info
WHOLE = parsed("smpquery", f"$ smpquery pkeys 5 1\n   {ROWS.replace('0x8010', '0x0010')}\n32 pkeys capacity for this port")[0]
case("DRF005", [sent(SEND, 0x8123), sent(ACK, 0x8010)], [sent(SEND, 0x8123), sent(ACK, 0x0010)], frames=[2], known=[host(5), WHOLE],
     also=["PKY004"], twin_also=["PKY004"])  # fmt: skip
# a damaged packet proves nothing, nor does one that LID 5 sends by itself, and a GRH may mean a virtual port or another subnet
INTACT = sent(ACK, 0x0010)
ROUTED = native(ACK, slid=5, dlid=3, grh={}, headers=headers_of(ACK), bth={"p_key": 0x8010, "destqp": 9})
DAMAGED = INTACT[:10] + b"\x80" + INTACT[11:]  # the upper byte of the P_Key
case("DRF005", [sent(ACK, 0x8010)], [sent(SEND, 0x8010), DAMAGED, ROUTED], frames=[1], known=[host(5), WHOLE],
     twin_also=["GRH006", "GRH007", "ROC006", "ROC007"])  # fmt: skip

ROCE = parsed("roce", SAMPLES["roce"], "roce.toml")[0]
ACKNOWLEDGED = {"AETH": {"syndrome": 0x1F, "msn": 1}}


def over(vlan: int = 0, priority: int = 3, source: int = 2, opcode: int = SEND, **ip: int) -> bytes:
    """A RoCE v2 packet of the network of the file, with a VLAN tag unless `vlan` is 0."""
    address = {"source": bytes([192, 168, 0, source]), "destination": bytes([192, 168, 0, 1 if source == 2 else 2])}
    payload, headers = (b"", ACKNOWLEDGED) if opcode == ACK else (b"data", {})
    frame = roce2(opcode, payload, ext=headers, ip={"dscp": 26, "ecn": 2, **address, **ip})
    return tagged(frame, vlan, priority) if vlan else frame


def tagged(frame: bytes, vlan: int, priority: int = 3) -> bytes:
    """The frame with a VLAN tag."""
    return frame[:12] + bytes([0x81, 0, priority << 5 | vlan >> 8, vlan & 255]) + frame[12:]


def roce(code: str, bad: bytes, *twins: bytes) -> None:
    """Register a proof of a rule about RoCE networks."""
    for twin in twins:
        case(code, bad, twin, file=ethernet_pcap, frames=[1], known=[ROCE])


roce("DRF006", over(102), over(100), over(), tagged(over(), 0), tagged(over(102), 7))
roce("DRF006", over(100, source=1), over(101, source=1))
roce("DRF007", over(100, 1), over(100), over())
# a switch that trusts the DSCP may have written the tag
case("DRF007", over(100, 0), over(100), file=ethernet_pcap, known=[ROCE], severity="info")
# the tag of all frames, whoever sends them, may be that of the mirror that sent them over the network (RSPAN)
for code, sent_in, severity in (
    ("DRF006", [over(102), over(102, source=1)], "info"),
    ("DRF006", [over(102), over(102)], "warning"),
    ("DRF006", [over(102), over(102, source=1), over()], "warning"),
    ("DRF007", [over(102, 0), over(102, 0, source=1)], "info"),
    ("DRF007", [over(102, 1), over(102, 1, source=1)], "warning"),
):
    case(code, sent_in, over(), file=ethernet_pcap, known=[ROCE], severity=severity,
         also=["DRF006"] if code == "DRF007" and sent_in[0][15] == 102 else ())  # fmt: skip
# the tag of a tunnel is not the host's
for code in ("DRF006", "DRF007"):
    in_tunnel = [wrapped(kind, over())[0] for kind in ("MPLS", "IP in IPv6")]
    roce(code, over(102) if code == "DRF006" else over(100, 1), *in_tunnel)
roce("DRF008", over(dscp=0), over(dscp=24))
# switches queue by the DSCP or the tag of a tunnel
for around, at in ((wrapped("VXLAN", over(dscp=0))[0], 15), (wrapped("VXLAN over IPv6", over(dscp=0))[0], 19)):
    lossless = bytearray(around)
    lossless[at] = 26 << 2 if at == 15 else 0x80
    if at == 19:
        lossless[18] = 0x66  # version 6, and the first bits of DSCP 26
    roce("DRF008", around, bytes(lossless))
roce("DRF009", over(ecn=0), over(ecn=1), over(opcode=ACK, ecn=0))
roce("DRF010", over(source=9), over(source=3))


def over6(prefix: bytes, host: int = 7) -> bytes:
    """A packet of a host over IPv6; no file lists host 7."""
    datagram = over()[34:-4]
    ends = {"source": prefix.ljust(15, b"\0") + bytes([host]), "destination": bytes.fromhex("fd00") + bytes(13) + b"\1"}
    packet = build(IPv6, version=6, payload_length=4 + len(datagram), next_header=17, hop_limit=64, dscp=26, ecn=2, **ends) + datagram
    return over()[:12] + b"\x86\xdd" + packet + icrc_roce2(packet).to_bytes(4, "little")


# every card has a link-local GID, which only some lists hold
LINK_LOCAL = parsed("roce", SAMPLES["roce"].replace('"fd00::1"', '"fd00::1", "fe80::9"'), "roce.toml")[0]
roce("DRF010", over6(b"\xfd\1"), over6(b"\xfe\x80"), over6(b"\xfe\xbf"))
roce("DRF010", over6(b"\xfe\xc0"), over6(b"\xfe\x80"))
case("DRF010", over6(b"\xfe\x80"), over6(b"\xfe\x80", 9), file=ethernet_pcap, frames=[1], known=[LINK_LOCAL])
# behind a router a packet is in its receiver's VLAN; a time to live of 63 shows that it passed one
roce("DRF006", over(100, source=1, ttl=64), over(100, source=1, ttl=63))
roce("DRF006", over(102, source=1), over(102, source=1, ttl=63))  # that of a link between routers
# and the priority in its tag is the router's
BY_TAG = parsed("roce", "[roce]\nlossless = [3]\n", "roce.toml")[0]
roce("DRF007", over(100, 1, ttl=64), over(100, 1, ttl=63))
case("DRF008", over(100, 0, ttl=64), over(100, 0, ttl=63), file=ethernet_pcap, frames=[1], known=[BY_TAG])
# a port that starts has what its last manager wrote, or nothing
for state, how in ((2, "info"), (3, "warning")):
    STARTS = [SHOWN[0], answer(5, PORT_INFO, port_info(5, port_state=state), modifier=1), answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
    case("DRF001", STARTS, STARTS[:2], frames=[3], known=[GUID2LID, OPTIONS, PARTITIONS], severity=how)
# a manager that begins a sweep reads all nodes, and writes then
FACTS, LACKS = [GUID2LID, OPTIONS, PARTITIONS], [*SHOWN, answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
OTHERS = [[answer(lid, NODE_INFO, node(lid)), answer(lid, P_KEY_TABLE, p_keys(0xFFFF))] for lid in (7, 8)]
WRITES = smp(SET, PORT_INFO, port_info(8), slid=1, dlid=8, header={"attribute_modifier": 1, "transaction_id": 77})
for read, how in (
    ([*LACKS, *OTHERS[0]], "warning"), ([*LACKS, *OTHERS[0], *OTHERS[1]], "info"), ([*LACKS, *OTHERS[0], *OTHERS[1], WRITES], "warning"),
):  # fmt: skip
    case("DRF001", read, SHOWN, known=FACTS, severity=how)
# a Set that was not answered may have been carried out
TO_BE = parsed("guid2lid", f"0x{PORT_5:016x} 0x0006 0x0006\n0x0000000000000001 0x0001 0x0001")[0]
for lid, how in ((5, "info"), (7, "warning")):
    OPEN = smp(SET, PORT_INFO, port_info(6), slid=1, dlid=lid, header={"attribute_modifier": 1, "transaction_id": 77})
    case("DRF002", [*SHOWN, OPEN], OTHERS[0], frames=[1], known=[TO_BE], severity=how)
