"""RoCE is read behind every kind of link and IPv6 extension header, as tshark does; pause frames are told from everything else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ibdissect.decode.crcs import icrc
from ibdissect.wire.encapsulation import IP6Fragment, IPv6, Pause, PriorityPause, RoutingHeader
from ibdissect.wire.headers import BTH
from tests import commands, craft
from tests.cases import every
from tests.decode.made import ethernet_table, table_of
from tests.standard import LINK_LOOP, LINK_NULL, LINK_PPP, LINKS_RAW_IP

MAX_EXTENSIONS = 8

FRAME = craft.roce2(0x04, bytes(range(40)))
PACKET = FRAME[14:]
UDP = PACKET[20:]
HEADS = {
    LINK_NULL: (b"\2\0\0\0", b"\0\0\0\2"), LINK_LOOP: (b"\0\0\0\2",), LINK_PPP: (b"\xff\3\0\x21",), **dict.fromkeys(LINKS_RAW_IP, (b"",)),
}  # fmt: skip


def v6(protocol: int, behind: bytes) -> bytes:
    """An IPv6 packet."""
    ends = (bytes(15) + bytes([last]) for last in (1, 2))
    head = dict(zip(("source", "destination"), ends, strict=True))
    return craft.build(IPv6, version=6, payload_length=len(behind), next_header=protocol, hop_limit=9, **head) + behind


def extended(*numbers: int, length: int = 0, last: int = 17, behind: bytes = UDP) -> bytes:
    """An IPv6 packet with extension headers of 8 bytes and `length` times 8 more."""
    following = (*numbers[1:], last)
    return v6(numbers[0], b"".join(struct.pack(">BBBB", n, length, 4, 1) + bytes(4 + 8 * length) for n in following) + behind)


@every("link", HEADS)
def test_links_without_addresses(link: int) -> None:
    for head in HEADS[link]:
        for packet in (PACKET, v6(17, UDP)):
            table = table_of(craft.ethernet_pcap([head + packet, head + packet[:11]], link=link))
            assert table.values(BTH.psn).tolist() == [1] and table.located.malformed.tolist() == [0, 0]
            start = int(table.chunk.offset[0]) + len(head) + len(packet) - len(UDP)
            assert table.located.at("udp").tolist() == [start, -1]


@every("head", [b"\xff\3\0\x23", b"\xff\2\0\x21", b"\x21", b"\xff\3\0"])
def test_other_frames_of_ppp(head: bytes) -> None:
    """Another protocol, another frame, compressed fields, a cut header."""
    frame = head + (PACKET if len(head) == 4 else b"")
    assert not len(table_of(craft.ethernet_pcap([frame], link=LINK_PPP)).values(BTH.psn))


def packets(*inner: bytes) -> list[int]:
    frames = [FRAME[:12] + b"\x86\xdd" + packet for packet in inner]
    return [int(at >= 0) for at in ethernet_table(frames).located.at("bth")]


def test_extension_headers() -> None:
    most = [60] * MAX_EXTENSIONS
    assert packets(extended(0), extended(43), extended(60), extended(0, 60, 43, 60), extended(43, length=3)) == [1] * 5
    assert packets(extended(*most), extended(*most, 60)) == [1, 0]
    assert packets(extended(44), extended(59), extended(0, 44)) == [0, 0, 0]  # fragments, no next header
    assert packets(extended(43, length=255)[:2087], extended(60, length=255)[:50]) == [0, 0]  # lead behind the frame
    assert packets(extended(43)[:47], extended(43)[:48]) == [0, 0]
    assert packets(extended(43, last=4, behind=PACKET), extended(43, last=41, behind=v6(17, UDP))) == [1, 1]  # SRv6
    table = ethernet_table([FRAME[:12] + b"\x86\xdd" + extended(43, last=4, behind=PACKET), FRAME])
    assert table.values(RoutingHeader.segments_left).tolist() == [1]
    assert table.located.at("ip6_routing.0").tolist() == [int(table.chunk.offset[0]) + 54, -1]


def test_fragment_headers_of_whole_packets() -> None:
    """Reserved bits mean nothing; an offset, or more fragments, make it a fragment."""
    assert packets(*(v6(44, struct.pack(">BBHI", 17, 0, bits, 7) + UDP) for bits in (0, 2, 4, 6, 1, 8, 0x8000))) == [1, 1, 1, 1, 0, 0, 0]
    whole = v6(0, struct.pack(">BB6s", 44, 0, b"") + struct.pack(">BBHI", 60, 255, 0, 7) + struct.pack(">BB6s", 17, 0, b"") + UDP)
    cut = v6(44, struct.pack(">BBHI", 17, 0, 0, 7))[:-1]
    table = ethernet_table([FRAME[:12] + b"\x86\xdd" + packet for packet in (whole, cut)])
    assert table.values(BTH.psn).tolist() == [1] and table.values(IP6Fragment.identification).tolist() == [7]


def test_authentication_headers() -> None:
    for words, size, found in ((1, 12, 1), (4, 24, 1), (255, 1028, 1), (0, 8, 0), (4, 23, 0)):
        header = struct.pack(">BBHII", 17, words, 0, 5, 6) + bytes(1020)
        assert packets(v6(51, header[:size] + UDP)) == [found], (words, size)
    assert packets(v6(51, struct.pack(">BBHII", 17, 1, 0, 5, 6))[:-1]) == [0]


def test_no_checksum_is_judged_behind_extension_headers() -> None:
    """What else the ICRC leaves out there is not said anywhere; the packet inside SRv6 has an ordinary one."""
    table = ethernet_table([FRAME[:12] + b"\x86\xdd" + packet for packet in (extended(43), extended(43, last=4, behind=PACKET))])
    assert table.once(icrc).rows.tolist() == [1] and not table.once(icrc).bad.any()


def pause(opcode: int, *numbers: int) -> bytes:
    return FRAME[:12] + b"\x88\x08" + struct.pack(f">{1 + len(numbers)}H", opcode, *numbers)


PFC = pause(0x0101, 1 << 3 | 1 << 7, 0, 0, 0, 0xFFFF, 0, 0, 0, 0)


def test_pause_frames() -> None:
    table = ethernet_table([PFC, PFC[:-1], pause(1, 0x1234), pause(1)[:16], pause(0x0100, *range(9)), FRAME])
    assert table.occurrences(PriorityPause).rows.tolist() == [0] and table.occurrences(Pause).rows.tolist() == [2]
    assert table.values(PriorityPause.time3).tolist() == [0xFFFF] and table.values(Pause.time).tolist() == [0x1234]


@pytest.mark.slow
def test_pause_frames_are_said_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(craft.ethernet_pcap([PFC, pause(1, 5), pause(0x0101, *[0] * 9)]))
    shown = commands.run("show", str(tmp_path / "a.pcap")).stdout.decode().splitlines()
    assert [line.split("  ")[-1].strip() for line in shown] == [
        "pause priority 3 for 65535 quanta, resume priority 7", "pause the link for 5 quanta", "no priority",
    ]  # fmt: skip
    told = commands.run("stats", str(tmp_path / "a.pcap")).stdout.decode()
    assert "Pause frames" in told and "PFC" in told
    chosen = commands.run("show", str(tmp_path / "a.pcap"), "-Y", "macc.cbfc.enbv.c7 == 1", "-e", "macc.cbfc.pause_time.c3")
    assert chosen.stdout.decode().split() == ["65535"]


@pytest.mark.slow
@pytest.mark.parametrize("link", HEADS)
def test_scapy_shows_them_too(link: int, tmp_path: Path) -> None:
    """A packet that is too short for its class stays bytes."""
    head = HEADS[link][0]
    (tmp_path / "a.pcap").write_bytes(craft.ethernet_pcap([head + PACKET, head[:2], (head + v6(17, UDP))[:30]], link=link))
    shown = commands.run("show", str(tmp_path / "a.pcap"), "--format", "scapy")
    assert shown.returncode == 0 and b"###[ BTH ]###" in shown.stdout
