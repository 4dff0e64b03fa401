"""Packets that are built from a few words."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, Dot1Q, Ether
from scapy.packet import Padding, Raw, fuzz

from ibdissect.layers import (  # type: ignore[attr-defined, unused-ignore]  # the derived ones exist at run time only
    AETH,
    BTH,
    DETH,
    ERF,
    GRH,
    LRH,
    MAD,
    REQ,
    RETH,
    SMP,
    CMFormat,
    CongestionControlFormat,
    CongestionLog,
    FlowControl,
    IPoIB,
    MadLayer,
    NodeInfo,
    PKeyEntry,
    PKeyTable,
    PortInfo,
    SMPDirected,
    layer,
)
from ibdissect.wire import crc
from ibdissect.wire.catalog import builtin
from ibdissect.wire.encapsulation import ETHERTYPES_VLAN
from tests.cases import every


def test_smp_from_the_attribute_alone() -> None:
    built = (LRH(slid=1, dlid=2) / BTH() / DETH() / SMP() / PortInfo(lid=5)).build()
    assert len(built) == 8 + 12 + 8 + 256 + 4 + 2
    pkt: Any = LRH(built)
    assert (pkt.vl, pkt.lnh, pkt.pktlen) == (15, 2, 72)
    assert (pkt[BTH].opcode, pkt[BTH].destqp, pkt[BTH].padcnt, pkt[DETH].q_key) == (0x64, 0, 0, 0)
    assert (pkt[SMP].base_version, pkt[SMP].mgmt_class, pkt[SMP].method, pkt[SMP].attribute_id) == (1, 1, 1, 0x15)
    assert pkt[PortInfo].lid == 5
    assert built[-2:] == crc.vcrc(built[:-2]).to_bytes(2, "little")
    assert built[-6:-2] == crc.icrc_native(built[:-6], False).to_bytes(4, "little")


def test_paths_of_a_directed_route_lie_behind_the_attribute() -> None:
    built = (SMPDirected(initial_path=b"\0\1\2", hop_count=2) / NodeInfo(num_ports=36)).build()
    assert len(built) == 256
    assert (built[1], built[7], built[64 + 3], built[128:131]) == (0x81, 2, 36, b"\0\1\2")
    assert SMPDirected(built)[NodeInfo].num_ports == 36


def test_management_of_other_classes_goes_to_qp1() -> None:
    built = (LRH() / BTH() / DETH() / MAD() / REQ()).build()
    assert built == (LRH() / BTH() / DETH() / CMFormat() / REQ()).build()
    pkt: Any = LRH(built)
    assert (pkt.vl, pkt[BTH].destqp, pkt[DETH].srcqp, pkt[DETH].q_key) == (0, 1, 1, 0x80010000)
    mad = pkt[MadLayer]
    assert (mad.mgmt_class, mad.class_version, mad.method, mad.attribute_id) == (7, 2, 3, 0x10)


def test_attribute_that_starts_before_its_form_says() -> None:
    built = (CongestionControlFormat() / CongestionLog(log_type=2)).build()
    assert (len(built), built[32]) == (256, 2)
    assert CongestionControlFormat(built)[CongestionLog].log_type == 2


def test_changed_fields_get_new_crcs_once_deleted() -> None:
    pkt: Any = LRH((LRH() / BTH() / DETH() / SMP() / PKeyTable(p_key_table_block=[PKeyEntry(p_key=0xFFFF)])).build())
    before = (pkt.vcrc, pkt.icrc)
    pkt[PKeyTable].p_key_table_block[3].p_key = 0x8005
    stale: Any = LRH(pkt.build())
    assert stale[PKeyTable].p_key_table_block[3].p_key == 0x8005
    assert (stale.vcrc, stale.icrc) == before
    del pkt.icrc, pkt.vcrc
    fresh: Any = LRH(pkt.build())
    assert fresh.icrc != before[0] and fresh.vcrc != before[1]
    assert PKeyTable().p_key_table_block[3].p_key == 0, "packets share no default entries"


@every("size", range(1, 6))
@every("ip", [IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fe80::1", dst="fe80::2")])
def test_roce2_lengths_pad_and_icrc(ip: Any, size: int) -> None:
    built = (ip / UDP(sport=49152) / BTH(psn=7) / RETH(dmalen=size) / Raw(b"x" * size)).build()
    pkt: Any = type(ip)(built)
    assert (pkt[BTH].padcnt, pkt[BTH].pad_bytes) == (-size % 4, bytes(-size % 4))
    assert pkt[BTH].opcode == 0x0A
    assert built[-4:] == crc.icrc_roce2(built[:-4]).to_bytes(4, "little")
    assert pkt[UDP].dport == 4791


def test_roce1_ends_where_the_grh_says() -> None:
    built = (Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / GRH(dgid="fe80::2") / BTH() / AETH(syndrome=0x60)).build()
    assert built[-4:] == crc.icrc_roce1(built[14:-4]).to_bytes(4, "little")
    pkt: Any = Ether(built + bytes(6))
    assert (pkt.type, pkt[GRH].pay_len, pkt[BTH].opcode, pkt[Padding].load) == (0x8915, 20, 0x11, bytes(6))
    assert pkt.build() == built + bytes(6)


@pytest.mark.parametrize("tag", ETHERTYPES_VLAN)
def test_roce_behind_every_vlan_tag(tag: int) -> None:
    """Of Ethernet and cooked captures, once and twice tagged; a built frame keeps Scapy's Ethertype."""
    inner = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=4791) / BTH(opcode=4) / Raw(b"1234"))
    for tags in (b"\0\5" + b"\x08\0", b"\0\5" + tag.to_bytes(2, "big") + b"\0\6" + b"\x08\0"):
        for link, head in ((Ether, bytes(12)), (CookedLinux, bytes(14))):
            assert link(head + tag.to_bytes(2, "big") + tags + inner)[BTH].opcode == 4
    assert (Ether() / Dot1Q()).type == 0x8100


def test_ipoib_is_recognized() -> None:
    datagram = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / Raw(b"hello!")
    pkt: Any = LRH((LRH() / BTH(destqp=9) / DETH() / IPoIB() / datagram).build())
    assert (pkt[IP].dst, pkt[Raw].load) == ("10.0.0.2", b"hello!")
    longer: Any = LRH((LRH() / BTH(destqp=9) / DETH() / IPoIB() / datagram / Raw(b"tail")).build())
    longer[IP].len -= 4
    other: Any = LRH(longer.build())
    assert IP not in other
    assert other.build() == longer.build()


def test_erf_records() -> None:
    record = ERF() / LRH() / BTH() / DETH() / SMP() / PortInfo()
    record.time = 1.5
    built = record.build()
    assert (built[8], built[10:12], built[14:16]) == (21, (16 + 290).to_bytes(2, "big"), (290).to_bytes(2, "big"))
    assert built[:8] == (3 << 31).to_bytes(8, "little")
    padded = ERF(built + bytes(6))
    assert padded[Padding].load == bytes(6)
    assert padded.build() == built + bytes(6)
    extended = built[:8] + b"\x95" + built[9:16] + b"\x81" + bytes(7) + b"\x01" + bytes(7) + built[16:]
    assert ERF(extended)[PortInfo].lid == 0
    assert ERF(extended).extensions == extended[16:32]
    assert ERF(extended).build() == extended
    flow = ERF((ERF() / FlowControl(fccl=9)).build())
    assert (flow.types, flow[FlowControl].fccl) == (25, 9)
    frame = (ERF() / Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x9000) / Raw(b"abc")).build()
    assert (frame[8], frame[16:18], ERF(frame)[Ether].type) == (2, bytes(2), 0x9000)


@pytest.mark.slow
def test_udp_port_4791_is_ours_whoever_came_first_and_can_be_given_back(repo: Path) -> None:
    back = re.search(r"^```py\n(.*?)^```$", (repo / "docs/plugins.md").read_text(encoding="utf-8"), re.M | re.S)
    assert back is not None
    code = f"""
import warnings
from scapy.all import IP, UDP, conf, ls
from scapy.contrib import roce
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from ibdissect import layers
packet = bytes(IP() / UDP(sport=50000, dport=4791) / bytes(16))
assert layers.BTH in IP(packet) and roce.BTH not in IP(packet) and ["4791" in str(one.message) for one in said] == [True]
ls(layers.PortInfo)
assert any(name == "ibdissect.layers" for name, _ in conf.layers.layers())
{back[1]}
assert roce.BTH in IP(packet) and layers.BTH not in IP(packet)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LongField" in done.stdout and "ByteEnumField" in done.stdout


@pytest.mark.slow
def test_scapys_shell_lists_every_layer() -> None:
    code = """
import os
from scapy.all import conf, ls
from tests.cases import every
for conf.interactive in (True, False):
    if os.fork() == 0:
        from ibdissect import layers
        ls("portinfo")
        print(len(conf.layers.ldict["ibdissect.layers"]), flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    words = [line.split()[0] for line in done.stdout.splitlines()]
    ends = [i for i, word in enumerate(words) if word.isdecimal()]
    whole, other = words[: ends[0]], words[ends[0] + 1 : ends[1]]
    names = {"PortInfo", "PortInfoExtended", "PortInfoRecord"}
    assert names <= set(whole) and int(words[ends[0]]) > 300
    assert not names <= set(other) and int(words[ends[1]]) <= 300


@pytest.mark.slow
def test_every_class_can_be_fuzzed() -> None:
    random.seed(1)
    for struct in builtin().structs:
        assert len(bytes(fuzz(layer(struct)()))) >= struct.size, struct
