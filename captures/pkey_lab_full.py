"""Builds pkey-lab-full.pcap: every way in which P_Keys let packets through or not, with its ground truth beside it.

    python captures/pkey_lab_full.py captures/

writes pkey-lab-full.pcap and pkey-lab-full.json: which frames show which fault, and why. Everything is made with ibdissect.layers from
the rules of partitioning (low 15 bits; limited members talk to full ones only; QP0 is exempt; QP1 meets any entry and answers repeat
the key; an empty table holds the default key); nothing was recorded, and no rule of ibdissect was asked what it finds.

One switch with nine hosts; host n has LID n and hangs at switch port n. The SM is host 1, the partition in question is 0x0123.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pkey_lab import GET, GUID, HOST, SET, SWITCH, Lab, as_pcap, table
from scapy.packet import Packet, Raw

from ibdissect.layers import (
    AETH,
    BTH,
    DETH,
    GRH,
    LRH,
    RDETH,
    REP,
    REQ,
    SMP,
    CMFormat,
    MCMemberRecord,
    NodeInfo,
    Notice,
    PerfMgtFormat,
    PKeyTable,
    PortCounters,
    PortInfo,
    SAFormat,
    SwitchInfo,
    TrapPKey,
    TrapSwitchPKey,
)  # fmt: skip

DEFAULT, LIMITED, FULL = 0xFFFF, 0x0123, 0x8123
TABLES = {
    1: [DEFAULT], 2: [DEFAULT, LIMITED], 3: [DEFAULT, LIMITED], 4: [DEFAULT, FULL], 5: [DEFAULT, LIMITED, FULL], 6: [], 7: [0x7FFF],
    8: None, 9: [DEFAULT, LIMITED],
}  # fmt: skip
"""P_Keys by host: limited members 2, 3 and 9, a full one, one that holds both forms, an empty table, a limited member of the default
partition, and a host whose table nobody reads - but the switch port in front of it checks P_Keys."""
SWITCH_LID, PORTS = 20, 9
GSI_KEY, PRIVATE_KEY = 0x80010000, 0x00001234
MLID = 0xC010
GROUP = "ff12:601b:8123::1"
RESPONSE, ACKNOWLEDGE, SEND_ONLY, UD_ONLY, RD_ONLY, UC_ONLY = 0x81, 0x11, 0x04, 0x64, 0x44, 0x24
Fault = tuple[str, str, int]
"""Rule, reason, and how many packets prove it so far."""


class FullLab(Lab):
    """Packets in order, with what is wrong with them."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: list[Packet] = []
        self.truth: list[dict[str, object]] = []
        self.psn = 0

    def add(self, packets: Packet | Iterator[Packet], *faults: Fault, again: bool = False) -> None:
        """Packets, the first of which has these faults; `again`: as the ones before of its flow, which are counted together."""
        for i, packet in enumerate([packets] if isinstance(packets, Packet) else packets):
            self.packets.append(packet)
            for code, why, count in faults if i == 0 else ():
                if again:
                    found = [one for one in self.truth if one["code"] == code and one["why"] == why]
                    found[-1]["count"] = int(str(found[-1]["count"])) + 1
                else:
                    self.truth.append({"frame": len(self.packets), "code": code, "count": count, "why": why})

    def rc(self, a: int, b: int, key: int, *faults: Fault, qp: int = 0x100, again: bool = False) -> None:
        """An RC SEND Only from host a to QP `qp` + b of host b."""
        self.psn += 1
        packet = LRH(slid=a, dlid=b) / BTH(p_key=key, destqp=qp + b, psn=self.psn, a=1, opcode=SEND_ONLY) / Raw(b"hello, neighbour")
        self.add(packet, *faults, again=again)

    def ack(self, a: int, b: int, key: int, *faults: Fault, qp: int = 0x100) -> None:
        """The acknowledgement of the latest `rc` of host b."""
        packet = LRH(slid=a, dlid=b) / BTH(p_key=key, destqp=qp + b, psn=self.psn, opcode=ACKNOWLEDGE) / AETH(syndrome=0x1F, msn=self.psn)
        self.add(packet, *faults)

    def ud(self, a: int, b: int, key: int, *faults: Fault, qp: int = 0x500, group: str = "") -> None:
        """A datagram; `group` makes it multicast."""
        self.psn += 1
        head = LRH(slid=a, dlid=b) / GRH(sgid=gid(a), dgid=group, hop_lmt=1) if group else LRH(slid=a, dlid=b)
        last = DETH(q_key=PRIVATE_KEY, srcqp=qp + a) / Raw(b"to whom it may concern..")
        self.add(head / BTH(p_key=key, destqp=0xFFFFFF if group else qp + b, psn=self.psn, opcode=UD_ONLY) / last, *faults)

    def gmp(self, a: int, b: int, key: int, body: Packet, *faults: Fault) -> None:
        """A management datagram to QP1."""
        self.psn += 1
        head = LRH(slid=a, dlid=b) / BTH(p_key=key, destqp=1, psn=self.psn) / DETH(q_key=GSI_KEY, srcqp=1)
        self.add(head / body, *faults)

    def counters(self, a: int, b: int, key: int, *faults: Fault, answer: tuple[Fault, ...] = ()) -> None:
        """Host a asks host b for its port counters; the answer repeats the P_Key."""
        self.number += 1
        for method, near, far, what in ((GET, a, b, faults), (RESPONSE, b, a, answer)):
            body = PerfMgtFormat(method=method, transaction_id=self.number << 32 | a) / PortCounters(port_select=1, counter_select=0)
            self.gmp(near, far, key, body, *what)

    def connect(self, a: int, b: int, key: int, qps: tuple[int, int], number: int, *faults: Fault) -> None:
        """A connection between QP `qps[0]` of host a and QP `qps[1]` of host b, by CM."""
        self.number += 1
        mads = [CMFormat(transaction_id=self.number << 32 | number, method=3) for _ in range(2)]
        request = REQ(
            local_communication_id=number, local_qpn=qps[0], starting_psn=1, partition_key=key, primary_local_port_lid=a,
            primary_remote_port_lid=b, primary_subnet_local=1, path_packet_payload_mtu=4, retry_count=7, max_cm_retries=15,
            remote_cm_response_timeout=20, local_cm_response_timeout=20, primary_local_ack_timeout=14, primary_hop_limit=1,
            primary_local_port_gid=gid(a), primary_remote_port_gid=gid(b), service_id=0x1000000000000001, responder_resources=1,
        )  # fmt: skip
        reply = REP(
            local_communication_id=number + 1, remote_communication_id=number, local_qpn=qps[1], starting_psn=1, responder_resources=1
        )
        self.gmp(a, b, DEFAULT, mads[0] / request, *faults)
        self.gmp(b, a, DEFAULT, mads[1] / reply)

    def port_info(self, path: list[int], host: int, modifier: int = 0, **values: int) -> Iterator[Packet]:
        """PortInfo of a host, or of an external port of the switch, by Get."""
        fields: dict[str, Any] = {
            "gid_prefix": 0xFE80 << 48, "lid": host, "master_sm_lid": 1, "local_port_num": 1, "port_state": 4, "port_physical_state": 5,
            "link_width_enabled": 3, "link_width_supported": 3, "link_width_active": 2, "link_speed_supported": 7,
            "link_speed_active": 4, "link_speed_enabled": 7, "neighbor_mtu": 4, "mtu_cap": 4, "vl_cap": 4, "operational_vls": 4,
            "guid_cap": 8, "subnet_time_out": 18, "resp_time_value": 16, "capability_mask": 0x02010048,
        }  # fmt: skip
        return self.ask(path, GET, PortInfo(), PortInfo(**{**fields, **values}), modifier)

    def identity(self, path: list[int], number: int, kind: int, port: int) -> Iterator[Packet]:
        """NodeInfo of a node."""
        info = NodeInfo(
            base_version=1, class_version=1, node_type=kind, num_ports=PORTS if kind == SWITCH else 1, system_image_guid=GUID + number,
            node_guid=GUID + number, port_guid=GUID + number, partition_cap=32, local_port_num=port,
        )  # fmt: skip
        return self.ask(path, GET, NodeInfo(), info)

    def write(self, host: int, keys: list[int], *faults: Fault) -> Iterator[None]:
        """The SM writes the table of a host; the caller may send something before the answer comes."""
        request, answer = self.ask([1, host], SET, table(keys), table(keys))
        self.add(request, *faults)
        yield
        self.add(answer)


def gid(host: int) -> str:
    """The GID of a host."""
    return f"fe80::2:c903:0:{host:x}"


def discovery(lab: FullLab) -> None:
    """The SM reads all there is, and writes nothing."""
    lab.add(lab.identity([], 1, HOST, 1))
    lab.add(lab.port_info([], 1, 1))
    lab.add(lab.identity([1], SWITCH_LID, SWITCH, 1))
    switch = SwitchInfo(
        linear_fdb_cap=1024, multicast_fdb_cap=1024, linear_fdb_top=SWITCH_LID, life_time_value=18, partition_enforcement_cap=32,
        inbound_enforcement_cap=1, outbound_enforcement_cap=1,
    )  # fmt: skip
    lab.add(lab.ask([1], GET, SwitchInfo(), switch))
    lab.add(lab.port_info([1], SWITCH_LID, 0))
    for host, keys in TABLES.items():
        path = [1, host] if host > 1 else []
        if host > 1:
            lab.add(lab.identity(path, host, HOST, 1))
            lab.add(lab.port_info(path, host, 1))
        if keys is not None:
            lab.add(lab.ask(path, GET, PKeyTable(), table(keys)))
    for host, checks in ((7, 0), (8, 1)):  # two switch ports with the same table; one checks what goes out
        lab.add(lab.port_info([1], 0, host, partition_enforcement_outbound=checks, partition_enforcement_inbound=0))
        lab.add(lab.ask([1], GET, PKeyTable(), table([DEFAULT]), host << 16))


def limited(host: int) -> Fault:
    """A limited member sent to a limited member."""
    return "PKY001", f"host {host} is a limited member of the packet's partition, and the packet says that its sender is one too", 1


def absent(host: int) -> Fault:
    """The destination is not in the partition."""
    return "PKY003", f"the table of host {host} does not hold the packet's partition", 1


def forged(host: int) -> Fault:
    """The sender is not in the partition."""
    return "PKY004", f"the table of host {host}, who sends, does not hold the packet's partition", 1


def both(a: int, b: int, packets: int) -> Fault:
    """Both directions of a pair of queue pairs are limited; the later one proves it."""
    return "PKY021", f"hosts {a} and {b} both send with the limited form", packets


RELIABLE_DATAGRAM: Fault = ("BTH002", "a reliable datagram, which is legal and rare", 1)
UNUSUAL: Fault = ("PKY007", "a management datagram outside of the default partition, which is legal", 1)


def scenes(lab: FullLab) -> None:
    """The whole laboratory, in order."""
    # Before anything is known; the tables that are read later never change before they are read, so they held here as well
    lab.rc(3, 2, LIMITED, limited(2), qp=0x700)
    lab.rc(3, 2, LIMITED, limited(2), qp=0x700, again=True)
    lab.rc(9, 3, LIMITED, qp=0x700)  # its table changes later: what it was here is not relied upon
    lab.rc(9, 5, LIMITED, qp=0x700)
    lab.rc(1, 6, 0x8999, absent(6), forged(1), qp=0x700)
    discovery(lab)
    # Limited and full members, and the default partition
    for a, b, there, back in ((2, 4, LIMITED, FULL), (4, 2, FULL, LIMITED), (2, 3, DEFAULT, DEFAULT)):
        lab.rc(a, b, there)
        lab.ack(b, a, back)
    # Two limited members: no table says more than the packets, but they agree
    lab.rc(2, 9, LIMITED, limited(9), qp=0x200)
    lab.rc(2, 9, LIMITED, limited(9), qp=0x200, again=True)
    lab.ack(9, 2, LIMITED, limited(2), both(2, 9, 3), qp=0x200)
    # ... with a second queue pair between the two hosts it takes CM to know which directions belong together
    in_vain = "PKY022", "hosts 3 and 9 are both limited members of the partition of this connection", 1
    lab.connect(3, 9, LIMITED, (0x303, 0x309), 100, in_vain)
    lab.rc(3, 9, DEFAULT, qp=0x400)
    lab.rc(3, 9, LIMITED, limited(9), qp=0x300)
    lab.ack(9, 3, LIMITED, limited(3), both(3, 9, 2), qp=0x300)
    # ... and without CM nobody knows, so only the tables speak
    lab.rc(3, 2, LIMITED, limited(2), qp=0x600)
    lab.rc(3, 2, DEFAULT, qp=0x610)
    lab.ack(2, 3, LIMITED, limited(3), qp=0x600)
    # ... datagrams name both queue pairs
    lab.ud(2, 3, LIMITED, limited(3))
    lab.ud(3, 2, LIMITED, limited(2), both(2, 3, 2))
    # A connection that leaves its partition
    lab.connect(4, 5, FULL, (0x804, 0x805), 200)
    lab.rc(4, 5, FULL, qp=0x800)
    lab.rc(4, 5, DEFAULT, ("PKY005", "the connection was set up in partition 0x0123", 1), qp=0x800)
    # Ports that hold both forms take everybody, and may send either
    lab.rc(2, 5, LIMITED)
    lab.ack(5, 2, FULL)
    lab.rc(5, 4, LIMITED)
    lab.rc(5, 3, LIMITED, limited(3), qp=0x120)
    # An empty table is the default key
    lab.rc(1, 6, DEFAULT)
    lab.ack(6, 1, DEFAULT)
    lab.rc(4, 6, FULL, absent(6))
    # A limited member of the default partition: full members may talk to it, it may talk to full ones
    lab.rc(1, 7, DEFAULT)
    lab.ack(7, 1, 0x7FFF)
    # QP1: any entry of the table will do, and answers repeat the key of their request
    lab.counters(4, 5, FULL, UNUSUAL, answer=(UNUSUAL,))
    lab.counters(2, 3, LIMITED, limited(3), UNUSUAL, answer=(UNUSUAL,))
    lab.counters(7, 1, 0x7FFF)
    # QP0 checks nothing
    smp = SMP(method=GET, transaction_id=0x9999) / NodeInfo()
    lab.add(
        LRH(slid=1, dlid=4, vl=15) / BTH(p_key=0x8999, destqp=0) / DETH() / smp,
        ("PKY006", "a subnet management packet outside of the default partition, which is legal", 1),
    )
    answer = SMP(method=RESPONSE, transaction_id=0x9999) / NodeInfo(
        base_version=1, class_version=1, node_type=HOST, num_ports=1, system_image_guid=GUID + 4, node_guid=GUID + 4, port_guid=GUID + 4,
        partition_cap=32, local_port_num=1,
    )  # fmt: skip
    lab.add(LRH(slid=4, dlid=1, vl=15) / BTH(destqp=0) / DETH() / answer)
    # Raw packets have no P_Key
    for lnh, ethertype in ((0, b"\0\0\x86\xdd"), (1, b"")):
        lab.add(LRH(slid=2, dlid=3, lnh=lnh) / Raw(ethertype + bytes([0x60]) + bytes(47)), ("LNK014", "a raw packet, which is legal", 1))
    # Reliable datagrams are guarded by the end-to-end context, whose key is one of the port's table
    for a, b, key, faults in ((2, 4, LIMITED, ()), (2, 3, LIMITED, (limited(3),))):
        head = LRH(slid=a, dlid=b) / BTH(p_key=key, destqp=0x900, psn=1, a=1, opcode=RD_ONLY) / RDETH(eecnxt=7)
        lab.add(head / DETH(q_key=PRIVATE_KEY, srcqp=0x901) / Raw(b"reliable"), *faults, RELIABLE_DATAGRAM)
    # Unreliable connections
    lab.add(LRH(slid=2, dlid=3) / BTH(p_key=LIMITED, destqp=0xA03, psn=1, opcode=UC_ONLY) / Raw(b"uc data."), limited(3))
    # No partition at all
    lab.rc(4, 5, 0x8000, ("PKY002", "partition 0 does not exist", 1), qp=0xB00)
    # Multicast: the group has a partition, its members are not known by its LID
    record = MCMemberRecord(
        mgid=GROUP, port_gid=gid(4), q_key=PRIVATE_KEY, mlid=MLID, mtu_selector=2, mtu=4, p_key=FULL, rate_selector=2, rate=3,
        packet_life_time_selector=2, packet_life_time=18, scope=2, join_state=1,
    )  # fmt: skip
    lab.number += 1
    ask = SAFormat(method=SET, transaction_id=lab.number << 32, component_mask=0x1D3C7) / record
    told = SAFormat(method=RESPONSE, transaction_id=lab.number << 32, component_mask=0x1D3C7, attribute_offset=7) / record
    lab.gmp(4, 1, DEFAULT, ask)
    lab.gmp(1, 4, DEFAULT, told)
    lab.ud(4, MLID, FULL, group=GROUP)
    lab.ud(2, MLID, LIMITED, ("PKY019", "a limited member sends to a group of IP over InfiniBand", 1), group=GROUP)
    other = ("PKY017", "the group was created in partition 0x0123", 1), ("PKY020", "the GID of the group names partition 0x0123", 1)
    lab.ud(4, MLID, DEFAULT, *other, group=GROUP)
    lab.ud(1, MLID, FULL, forged(1), group=GROUP)
    # Switch ports that check: host 8's own table is not known
    lab.rc(1, 8, DEFAULT)
    lab.rc(4, 8, FULL, ("PKY003", "the switch port in front of host 8 checks, and its table does not hold the packet's partition", 1))
    # ... and one that does not: host 7 itself refuses
    lab.rc(4, 7, FULL, absent(7), qp=0x110)
    # A table that changes: uncertain between the Set and its answer
    lab.rc(2, 3, LIMITED, limited(3), qp=0xC00)
    under_way = lab.write(3, [DEFAULT, FULL], ("PKY012", "host 3 was a limited member of 0x0123 and becomes a full one", 1))
    next(under_way)
    lab.rc(2, 3, LIMITED, qp=0xC10)
    list(under_way)
    lab.rc(2, 3, LIMITED, qp=0xC00)
    lab.ack(3, 2, FULL, qp=0xC00)
    list(lab.write(4, [DEFAULT]))
    lab.rc(2, 4, LIMITED, absent(4), qp=0xC00)
    lab.ack(4, 2, FULL, forged(4), qp=0xC00)
    complaints(lab)


def complaints(lab: FullLab) -> None:
    """Traps about some of it, acknowledged."""
    refused = TrapPKey(lidaddr1=2, lidaddr2=3, key_value=LIMITED, qp1=0x601, qp2=0xA03)
    stopped = TrapSwitchPKey(data_valid=3, lidaddr1=4, lidaddr2=8, pkey=FULL, qp1=0x104, qp2=0x108, swlidaddr=SWITCH_LID, portno=8)
    why = (
        ("PKY013", "host 3 complains about the unreliable connection of host 2", 1),
        ("PKY014", "the switch complains about the packet of host 4 to host 8", 1),
    )
    for number, lid, details, fault in ((257, 3, refused, why[0]), (259, SWITCH_LID, stopped, why[1])):
        lab.number += 1
        notice = Notice(is_generic=1, type=2, producer_type=2 if lid == SWITCH_LID else 1, trap_number=number, issuer_lid=lid,
                        data_details=bytes(details).ljust(54, b"\0"))  # fmt: skip
        for method, near, far, faults in ((5, lid, 1, (fault,)), (7, 1, lid, ())):
            smp = SMP(method=method, transaction_id=lab.number << 32 | lid) / notice
            lab.add(LRH(slid=near, dlid=far, vl=15) / BTH(destqp=0) / DETH() / smp, *faults)


def build() -> tuple[bytes, str]:
    """The capture, and its truth as JSON."""
    lab = FullLab()
    scenes(lab)
    truth = sorted(lab.truth, key=lambda one: (int(str(one["frame"])), str(one["code"])))
    return as_pcap(lab.packets), json.dumps({"capture": "pkey-lab-full.pcap", "findings": truth}, indent=1) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    capture, text = build()
    (folder / "pkey-lab-full.pcap").write_bytes(capture)
    (folder / "pkey-lab-full.json").write_text(text, encoding="utf-8")
