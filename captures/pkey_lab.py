"""Builds pkey-lab.pcap: a small subnet in which two limited members of a partition try to talk.

    python captures/pkey_lab.py captures/pkey-lab.pcap

`pkey_lab_full.py` builds the large one, with all ways in which P_Keys matter.

Everything is made here with ibdissect.layers; nothing was recorded. One switch, four hosts. All hosts hold the default partition;
partition 0x0123 has two limited members (hosts 2 and 3) and a full one (host 4):

| frames | traffic | fault |
|---|---|---|
| 1-28 | the SM on LID 1 discovers the subnet and writes the P_Key tables | |
| 29-30 | host 2 and host 4, limited and full | |
| 31-32 | host 2 and host 3, both limited, in both directions | PKY001 twice, PKY021 |
| 33 | host 4 sends in a partition that neither it nor host 3 is in | PKY003, PKY004 |
| 34-35 | the SM makes host 3 a full member | |
| 36-37 | the same two queue pairs again | |
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator

from scapy.packet import Packet, Raw

from ibdissect.layers import AETH, BTH, DETH, LRH, NodeInfo, PKeyEntry, PKeyTable, PortInfo, SMPDirected

START, STEP_US = 1_700_000_000, 100
GET, SET, RESPONSE = 0x01, 0x02, 0x81
HOST, SWITCH = 1, 2
GUID = 0x0002C90300000000
LIMITED, FULL = 0x0123, 0x8123
TABLES = {1: [0xFFFF], 2: [0x7FFF, LIMITED], 3: [0x7FFF, LIMITED], 4: [0x7FFF, FULL]}
"""P_Keys by host; host n has LID n and hangs at switch port n, the switch has LID 5."""
SWITCH_LID = 5


def table(keys: list[int]) -> Packet:
    """A P_KeyTable block that starts with `keys`."""
    return PKeyTable(p_key_table_block=[PKeyEntry(p_key=key) for key in keys + [0] * (32 - len(keys))])


class Lab:
    """The SM on host 1 and its transaction ids."""

    def __init__(self) -> None:
        self.number = 0

    def ask(self, path: list[int], method: int, attribute: Packet, answer: Packet, modifier: int = 0) -> Iterator[Packet]:
        """A directed-route SMP along `path` and its answer."""
        self.number += 1
        route = bytes([0, *path]).ljust(64, b"\0")
        for code, body in ((method, attribute), (RESPONSE, answer)):
            back = code == RESPONSE
            smp = SMPDirected(
                method=code, transaction_id=self.number, attribute_modifier=modifier, smp_status=0x8000 if back else 0,
                hop_count=len(path), hop_pointer=0 if back else min(1, len(path)), dr_slid=0xFFFF, dr_dlid=0xFFFF, initial_path=route,
            )  # fmt: skip
            yield LRH(slid=0xFFFF, dlid=0xFFFF) / BTH(psn=self.number) / DETH() / smp / body

    def node(self, path: list[int], number: int, kind: int, port: int) -> Iterator[Packet]:
        """NodeInfo and PortInfo of a node; `number` is its LID and makes its GUIDs."""
        info = NodeInfo(
            base_version=1, class_version=1, node_type=kind, num_ports=4 if kind == SWITCH else 1, system_image_guid=GUID + number,
            node_guid=GUID + number, port_guid=GUID + number, partition_cap=32, local_port_num=port,
        )  # fmt: skip
        yield from self.ask(path, GET, NodeInfo(), info)
        state = PortInfo(
            gid_prefix=0xFE80 << 48, lid=number, master_sm_lid=1, local_port_num=port, port_state=4, port_physical_state=5,
            link_width_enabled=3, link_width_supported=3, link_width_active=2, link_speed_supported=7, link_speed_active=4,
            link_speed_enabled=7, neighbor_mtu=4, mtu_cap=4, vl_cap=4, operational_vls=4, guid_cap=8, subnet_time_out=18,
            resp_time_value=16,
        )  # fmt: skip
        yield from self.ask(path, GET, PortInfo(), state, 0 if kind == SWITCH else 1)


def pair(a: int, b: int, qp: int, keys: tuple[int, int], psn: int) -> Iterator[Packet]:
    """An RC SEND Only from host a to host b and its acknowledgement."""
    yield LRH(slid=a, dlid=b) / BTH(p_key=keys[0], destqp=qp + b, psn=psn, a=1, opcode=0x04) / Raw(b"hello, neighbour")
    yield LRH(slid=b, dlid=a) / BTH(p_key=keys[1], destqp=qp + a, psn=psn, opcode=0x11) / AETH(syndrome=0x1F, msn=1)


def packets() -> Iterator[Packet]:
    """The whole laboratory, in order."""
    lab = Lab()
    yield from lab.node([], 1, HOST, 1)
    yield from lab.node([1], SWITCH_LID, SWITCH, 1)
    for host in (2, 3, 4):
        yield from lab.node([1, host], host, HOST, 1)
    for host, keys in TABLES.items():
        yield from lab.ask([1, host] if host > 1 else [], SET, table(keys), table(keys))
    yield from pair(2, 4, 0x100, (LIMITED, FULL), 10)
    yield from pair(2, 3, 0x200, (LIMITED, LIMITED), 20)
    yield next(pair(4, 3, 0x300, (0x8999, 0x8999), 30))
    yield from lab.ask([1, 3], SET, table([0x7FFF, FULL]), table([0x7FFF, FULL]))
    yield from pair(2, 3, 0x200, (LIMITED, FULL), 21)


def as_pcap(packets: Iterable[Packet]) -> bytes:
    """Packets as a pcap of link type 197, as ibdump writes it."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 197)]
    for i, packet in enumerate(packets):
        data = bytes(packet)
        micros = i * STEP_US
        erf = struct.pack("<Q", START << 32 | (micros << 32) // 1_000_000) + struct.pack(">BBHHH", 21, 4, 16 + len(data), 0, len(data))
        out.append(struct.pack("<IIII", START, micros, 16 + len(data), 16 + len(data)) + erf + data)
    return b"".join(out)


def capture() -> bytes:
    """The laboratory as a file."""
    return as_pcap(packets())


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(capture())
