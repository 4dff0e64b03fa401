"""The Info line is what a person expects, packet by packet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import astuple

import ibdissect
from ibdissect.dissect.info_line import summaries
from tests.cases import every
from tests.craft import erf_pcap, ethernet_pcap, rc, smp

from .frames import all_frames, ethernet_frames


def lines(data: bytes) -> list[Any]:
    with ibdissect.open(io.BytesIO(data)) as capture:
        return [line for table in capture.tables() for line in summaries(table, np.arange(len(table)))]


EXPECTED = [
    ("LID 65535", "LID 65535", "SMP", "SubnGet(SMInfo) DR 0-1-3"),
    ("LID 65535", "LID 65535", "SMP", "SubnGetResp(SMInfo) DR 0-1-3"),
    ("LID 1", "LID 2", "SMP", "SubnGetResp(NodeDescription)"),
    ("LID 7", "LID 1", "SMP", "SubnTrap(Notice) trap 256 (Bad M_Key)"),
    ("LID 1", "LID 2", "SA", "SubnAdmGet(PathRecord) DGID=ff12:401b:ffff::ffff:ffff SGID=fe80::2:c903:0:1491"),
    ("LID 1", "LID 2", "SMP", "SubnGet(attribute 0x7777)"),
    ("LID 1", "LID 2", "RC", "RDMA WRITE Only QP 0x000012 PSN 1 VA 0x1000 DMA len 3 len 3"),
    ("LID 1", "LID 2", "RC", "NAK PSN sequence error QP 0x000012 PSN 1 MSN 5"),
    ("LID 1", "LID 2", "RC", "RNR NAK 0.64 ms QP 0x000012 PSN 1 MSN 5"),
    ("LID 1", "LID 2", "UD", "SEND Only QP 0x000048 PSN 1 from QP 0x000001 len 5"),
    ("LID 1", "LID 2", "UD", "SEND Only QP 0x000048 PSN 1 from QP 0x000001 len 5"),
    ("fe80::2:c903:0:1491", "::1", "RC", "SEND Only QP 0x000012 PSN 1 len 40"),
    ("LID 1", "LID 2", "RC", "SEND Only QP 0x000012 PSN 1 len ? [Malformed: LRH.PktLen is larger than the frame]"),
    ("LID 1", "LID 2", "InfiniBand", "LRH with LNH 2, 15 bytes"),
    ("LID 1", "LID 2", "RC", "SEND Only QP 0x000012 PSN 1 len 4"),
    ("LID 1", "LID 2", "BTH", "OpCode 0x1f QP 0x000012 PSN 1"),
    ("LID 1", "LID 2", "PM", "PerfGet(PortCounters) port 7"),
]


@every(("found", "wanted"), list(zip(lines(erf_pcap(all_frames())), EXPECTED, strict=True)))
def test_native_frames(found: Any, wanted: tuple[str, ...]) -> None:
    assert (found.source, found.destination, found.protocol, found.info) == wanted


def test_frames_on_ethernet() -> None:
    found = lines(ethernet_pcap(ethernet_frames()))
    assert [line.protocol for line in found] == ["RC", "CNP", "ARP", "LLDP", "Data"]
    assert found[0].source.count(".") == 3
    assert found[1].info == "Congestion Notification QP 0x000012"
    assert found[2].info == "Who has 192.168.77.2? Tell 0.0.0.0"


@every(
    ("attribute", "modifier", "wanted"),
    [
        (0x15, 1, "SubnGet(PortInfo) port 1"),
        (0x15, 0x80000001, "SubnGet(PortInfo) port 1"),
        (0x16, 0x30002, "SubnGet(P_KeyTable) port 3 block 2"),
        (0x17, 0x0203, "SubnGet(SLtoVLMappingTable) in 2 out 3"),
        (0x17, 0x30000, "SubnGet(SLtoVLMappingTable) in all out all"),
        (0x18, 0x30005, "SubnGet(VLArbitrationTable) port 5 high 0-31"),
        (0x19, 7, "SubnGet(LinearForwardingTable) block 7"),
        (0x1B, 0x20000003, "SubnGet(MulticastForwardingTable) block 3 ports 32-47"),
        (0x11, 5, "SubnGet(NodeInfo) modifier 0x5"),
    ],
)
def test_what_a_modifier_chooses(attribute: int, modifier: int, wanted: str) -> None:
    assert lines(erf_pcap([smp(0x01, attribute, modifier=modifier)]))[0].info == wanted


def test_a_status_is_shown() -> None:
    assert lines(erf_pcap([smp(0x81, 0x15, header={"status": 0x1C})]))[0].info == "SubnGetResp(PortInfo) port 0 status: invalid field value"


def test_congestion_bits_are_reported() -> None:
    assert lines(erf_pcap([rc(0x04, b"abcd", bth={"fecn": 1, "becn": 1})]))[0].info.endswith("len 4 FECN BECN")


def test_the_public_sample(shared: Path) -> None:
    """As the contract and Wireshark have it."""
    with ibdissect.open(str(shared / "captures/real/infiniband.pcap")) as capture:
        found = [line for table in capture.tables() for line in summaries(table, np.arange(len(table)))]
    assert astuple(found[6]) == ("LID 4", "LID 1", "CM", "ConnectRequest")
    assert found[9].info.startswith("ICMP Echo request 10.0.1.34 → 10.0.0.58 (RC SEND Only QP 0xfc0407")
    assert found[4].info.startswith("ARP Who has 10.0.0.58? Tell 10.0.1.34")
    assert found[32].info == "SubnAdmGetResp(PathRecord) 1 record"
