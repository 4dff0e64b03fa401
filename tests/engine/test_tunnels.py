"""A packet in a tunnel is read like one without, and no tunnel hides, changes or breaks anything."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ibdissect
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.finding import Finding
from ibdissect.wire.encapsulation import ERSPAN2, GENEVE, GRE, MPLS, VXLAN, OuterIPv4, OuterUDP
from ibdissect.wire.headers import BTH
from tests import commands, craft, tunnels
from tests.cases import every
from tests.conftest import shared_captures
from tests.decode.made import Row, chunk_of, ethernet_table
from tests.robustness.compare import findings_of
from tests.robustness.manipulations import ETHERNET, SECOND, Pcap, Record, read
from tests.standard import LINK_ETHERNET

KINDS = [*tunnels.FRAMES, *tunnels.PACKETS]
FRAME = craft.roce2(0x0A, bytes(range(40)), ext={"RETH": {"va": 0x1234, "r_key": 9, "dmalen": 40}}, vlan=5)
HEADS = ("eth", "vlan", "ip4", "ip6", "udp", "bth", "payload", "icrc")


def test_the_inner_headers_are_where_they_are_without_the_tunnel() -> None:
    """Also of a frame that was cut; a tunnel of IP packets keeps the Ethernet header of its own frame."""
    sizes = len(FRAME), len(FRAME) - 1, 80, 60
    cases = [(kind, size, *tunnels.wrapped(kind, FRAME[:size], len(FRAME))) for kind in KINDS for size in sizes]
    bare, inside = (ChunkTable(chunk_of(rows)) for rows in (
        [Row(FRAME[:size], LINK_ETHERNET, len(FRAME)) for _, size, _, _ in cases],
        [Row(data, LINK_ETHERNET, len(FRAME) + more) for _, _, data, more in cases],
    ))  # fmt: skip

    def of(table: ChunkTable, row: int, names: Sequence[str], outer: int) -> list[object]:
        located, start = table.located, table.chunk.offset[row] + outer
        found = [(name, located.at(name)[row] - start) for name in names if located.at(name)[row] >= 0]
        return [*found, located.malformed[row], located.complete[row], located.snapped[row]]

    wrong = []
    for row, (kind, size, _, more) in enumerate(cases):
        names = HEADS if kind in tunnels.FRAMES else HEADS[2:]
        located, starts = inside.located, inside.chunk.offset[row] + more + (0 if kind in tunnels.FRAMES else 18)
        same = of(inside, row, names, more) == of(bare, row, names, 0)
        if not (same and located.in_tunnel[row] and located.at("inner")[row] == starts):
            wrong.append((kind, size))
    assert wrong == []


def trees(frames: Sequence[bytes]) -> list[Any]:
    """The tree of each frame."""
    with ibdissect.open(io.BytesIO(craft.ethernet_pcap(frames))) as capture:
        return [capture.dissect(number) for number in range(1, len(frames) + 1)]


@pytest.mark.slow
def test_every_byte_of_the_tunnel_is_named() -> None:
    """Options and subheaders are plain data; everything else is a field."""
    frames = [tunnels.wrapped(kind, FRAME)[0] for kind in KINDS]
    wrong = []
    for kind, data, tree in zip(KINDS, frames, trees(frames), strict=True):
        layers = tree.layers
        titles = [layer.label for layer in layers]
        edges = sorted((layer.offset, layer.offset + layer.length) for layer in layers)
        covered = [0, *(stop for _, stop in edges)] == [*(start for start, _ in edges), len(data)]
        plain = titles.count("Data") == ("options" in kind or "subheader" in kind or "word" in kind)
        if not (covered and plain and titles[-6:] == ["IPv4", "UDP", "BTH", "RETH", "Payload", "ICRC"]):
            wrong.append((kind, titles))
    assert wrong == []


def test_checksums_of_the_tunnel_do_not_tell_a_key() -> None:
    """They cover the whole packet, so that they and the other bytes give 16 bits of its R_Key."""
    for kind, name in (("VXLAN in ERSPAN", "udp.checksum"), ("GRE with all", "gre.checksum")):
        (tree,) = trees([tunnels.wrapped(kind, FRAME)[0]])
        outer = next(node for node in tree.walk() if node.name == name)
        assert outer.text == "hidden: it tells the key"
        assert any(start <= outer.offset and outer.offset + 2 <= stop for start, stop in tree.secret_bytes)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("VXLAN", "VXLAN", "VNI 703710"), ("VXLAN-GPE", "VXLAN-GPE", "VNI 703710"), ("GENEVE", "GENEVE", "VNI 703710"),
        ("GRE", "GRE", "Transparent Ethernet bridging (0x6558)"), ("MPLS", "MPLS", "label 200"), ("VXLAN", "Outer UDP", "55555 → 4789"),
    ],
)  # fmt: skip
def test_the_line_of_a_header_says_which_tunnel(kind: str, name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(craft.ethernet_pcap([tunnels.wrapped(kind, FRAME)[0]]))
    tree = commands.run("show", str(tmp_path / "a.pcap"), "--format", "tree", text=True).stdout
    layer = [line for line in tree.splitlines() if re.match(rf"{name}\b", line)][-1]
    assert layer.endswith(said)


@pytest.mark.slow
def test_names_are_those_of_tshark(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(craft.ethernet_pcap([tunnels.wrapped(kind, FRAME, number=7)[0] for kind in KINDS]))
    names = ("vxlan.vni", "geneve.vni", "gre.proto", "gre.sequence_number", "erspan.version", "mpls.label", "ip.src", "infiniband.bth.psn")
    words = [word for name in names for word in ("-e", name)]
    said = commands.run("show", str(tmp_path / "a.pcap"), *words).stdout.decode().splitlines()
    found = dict(zip(KINDS, (line.split("\t") for line in said), strict=True))
    assert found["VXLAN in ERSPAN"] == ["703710", "", "0x88be", "7", "1", "", "172.31.255.1,172.31.255.1,192.168.0.1", "1"]
    assert found["MPLS"][5:] == ["100,200", "192.168.0.1", "1"]
    assert found["GENEVE"][1] == "0x0abcde" and found["VXLAN-GPE"][0] == "703710"
    words = ["select ip_src, eth_src, vxlan_vni from packets", "--format", "csv", "-e", "vxlan.vni", "-e", "eth.src"]
    said = commands.run("sql", str(tmp_path / "a.pcap"), *words).stdout.decode().splitlines()
    assert said[1 + KINDS.index("VXLAN in ERSPAN")] == '"192.168.0.1","08:09:0a:0b:0c:0d",703710'  # one value: that of the packet
    filtered = commands.run("show", str(tmp_path / "a.pcap"), "-Y", "erspan and vxlan and ip.src == 172.31.255.1 and ip.src == 192.168.0.1")
    assert filtered.stdout.count(b"\n") == 1


def test_an_outer_header_is_not_taken_for_the_packets_own() -> None:
    table = ethernet_table([tunnels.wrapped("VXLAN in ERSPAN", FRAME)[0], FRAME])
    assert len(table.occurrences(OuterIPv4)) == 2 and len(table.occurrences(OuterUDP)) == 1
    assert table.values(ERSPAN2.session).tolist() == [1] and table.values(VXLAN.vni).tolist() == [tunnels.VNI]
    assert table.located.at("ip4")[1] - table.located.at("eth")[1] == 18 and table.located.in_tunnel.tolist() == [True, False]
    assert table.values(BTH.psn).tolist() == [1, 1]


def packets(*frames: bytes) -> list[int]:
    return [int(at >= 0) for at in ethernet_table(frames).located.at("bth")]


def test_what_is_not_read() -> None:
    """Fragments, other ports and versions, deeper tunnels."""
    good = [tunnels.wrapped(kind, FRAME)[0] for kind in ("VXLAN", "GRE", "ERSPAN II", "IP in IP")]
    assert packets(*good) == [1] * 4
    for at, value in ((20, 0x60), (20, 0x20), (21, 1)):  # more fragments; a later fragment
        assert packets(*(frame[:at] + bytes([value]) + frame[at + 1 :] for frame in good)) == [0] * 4

    def changed(kind: str, at: int, value: int) -> int:
        data = bytearray(tunnels.wrapped(kind, FRAME)[0])
        data[at] = value
        return packets(bytes(data))[0]

    assert not changed("VXLAN", 37, 0xB4) and not changed("VXLAN", 42, 0)  # port 4788, no VNI
    assert not changed("GENEVE", 42, 0x40) and not changed("GENEVE", 44, 9)
    assert not changed("GRE", 35, 1) and not changed("GRE", 34, 0x40)  # version 1, source routes
    assert not changed("ERSPAN II", 42, 0x20) and not changed("ERSPAN III", 42, 0x10)
    assert not changed("VXLAN-GPE", 45, 4) and not changed("VXLAN-GPE", 45, 99)
    deeper = tunnels.wrapped("GRE", tunnels.wrapped("VXLAN in ERSPAN", FRAME)[0])[0]
    assert packets(deeper) == [0]


def test_a_stack_of_labels_has_a_limit() -> None:
    """RFC 3032 has none; networks use few."""

    def stack(number: int) -> bytes:
        return tunnels.ethernet(0x8847, b"\0\6\x40\x40" * (number - 1) + b"\0\6\x41\x40" + FRAME[18:])

    most = 4
    assert packets(stack(1), stack(most), stack(most + 1)) == [1, 1, 0]
    assert len(ethernet_table([stack(most)]).occurrences(MPLS)) == most
    assert packets(tunnels.ethernet(0x8847, b"\0\6\x41\x40" + FRAME)) == [1]  # without a control word


def test_a_port_of_roce_is_no_tunnel() -> None:
    """--roce-port 4789 is RoCE, whatever else uses that port."""
    frame = bytearray(craft.roce2(payload=bytes(8)))
    frame[36:38] = (4789).to_bytes(2, "big")
    table = ethernet_table([bytes(frame)])
    assert table.located.at("bth")[0] < 0
    table = ChunkTable(table.chunk, table.catalog.with_roce([4789]))
    assert table.located.at("bth")[0] >= 0 and not table.located.in_tunnel[0]


def test_a_packet_that_the_mirror_cut_is_not_malformed() -> None:
    """Switches send only the beginning of a mirrored packet if told so; the record then has all bytes of the outer frame."""
    data, more = tunnels.wrapped("ERSPAN II", FRAME[:80])
    located = ethernet_table([data]).located
    assert not located.malformed[0] and located.snapped[0] and not located.complete[0] and located.length[0] == len(FRAME) + more
    found = findings_of(craft.ethernet_pcap([data]))
    (cut,) = found
    assert cut.code == "CAP001"
    assert cut.message.endswith(f": only {len(data)} of {len(FRAME) + more} bytes were captured; what is missing cannot be checked")


def test_copies_of_a_mirror_are_recognised() -> None:
    """The tunnel numbers them, so that their outer headers differ."""
    frames = [tunnels.wrapped("ERSPAN II", FRAME, number=number)[0] for number in (1, 2)]
    found = findings_of(craft.ethernet_pcap(frames, step_ns=100))
    (copy,) = found
    assert copy.code == "CAP012" and copy.message.endswith(f": the same {len(FRAME)} bytes as frame 1, 0.1 us apart")


def test_a_capture_of_tunnels_that_were_cut_may_hold_roce() -> None:
    """CAP018 says nothing then; of a whole packet that is something else it does."""
    kind, other = "VXLAN over IPv6", craft.roce2(udp={"destination_port": 53})
    data, more = tunnels.wrapped(kind, FRAME)
    cut = Pcap(ETHERNET, (Record(1, SECOND, data[: more + 10], len(data)),))
    assert [one.code for one in findings_of(cut.packed())] == ["CAP001"]
    assert [one.code for one in findings_of(craft.ethernet_pcap([tunnels.wrapped(kind, other)[0]]))] == ["CAP018"]


def told(raw: bytes) -> list[tuple[object, ...]]:
    """Findings without offsets. The sizes in CAP001 are those of the outer frames, and a tunnel of IP leaves out Ethernet in CAP012."""

    def parts(one: Finding) -> tuple[object, ...]:
        message = one.message if one.code not in ("CAP001", "CAP012") else ""
        frames = [[span.frame for span in spans] for spans in (one.spans, one.related)]
        return one.code, one.frame, one.severity, one.evidence, message, one.count, *map(tuple, frames)

    return [parts(one) for one in findings_of(raw)]


@pytest.mark.parametrize(("number", "path"), list(enumerate(shared_captures("rxe"))), ids=lambda value: getattr(value, "stem", ""))
def test_findings_are_those_of_the_capture_without_the_tunnel(number: int, path: Path) -> None:
    """Each capture whole in one of the tunnels, and cut in another one."""
    pcap = read(path)
    if pcap.link != ETHERNET:
        pytest.skip("no Ethernet")
    pcap = pcap.with_records(list(pcap.records[:300]))
    for snap, kind in ((None, KINDS[number % len(KINDS)]), (96, KINDS[(number + 7) % len(KINDS)])):
        bare = pcap.with_records([replace(record, data=record.data[:snap]) for record in pcap.records])
        assert told(tunnels.capture(pcap, kind, snap).packed()) == told(bare.packed()), kind


def test_nothing_of_a_tunnel_survives_scrubbing(tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS for _ in range(3)]
    psns = [256 * i + psn for i in range(len(KINDS)) for psn in (1, 2, 4)]
    inner = [craft.roce2(payload=bytes(8), bth={"psn": psn}) for psn in psns]
    frames = [tunnels.wrapped(kind, frame, number=psn)[0] for kind, frame, psn in zip(kinds, inner, psns, strict=True)]
    whole = craft.ethernet_pcap(frames)
    (tmp_path / "a.pcap").write_bytes(whole)
    done = commands.run("scrub", str(tmp_path / "a.pcap"), "-o", str(tmp_path / "b.pcap"), "--verify")
    assert done.returncode == 0, done.stderr
    scrubbed = read(tmp_path / "b.pcap")
    secrets = [tunnels.OUTER_MACS[:6], tunnels.OUTER_MACS[6:], *tunnels.OUTER_IPS, *tunnels.OUTER_IP6, tunnels.GRE_KEY, b"\x2a\0\0\0"]
    secrets += [b"\xbe\xef\0\0", b"\x12\x34"]  # checksums over what was removed
    told = [(kind, secret) for kind, one in zip(kinds, scrubbed.records, strict=True) for secret in secrets if secret in one.data]
    labels = [kind for kind, one in zip(kinds, scrubbed.records, strict=True) if re.search(rb"\x88\x47\0[\4\6]|\0\x0c\x81", one.data)]
    assert (told, labels) == ([], [])
    facts = [[(one.code, one.frame) for one in findings_of(data)] for data in (scrubbed.packed(), whole)]
    assert facts[0] == facts[1]


def test_broken_tunnels_are_no_error() -> None:
    """Any byte may be anything, and a frame may end anywhere."""
    rnd = random.Random(11)
    rows = []
    for kind in KINDS:
        whole, more = tunnels.wrapped(kind, FRAME)
        for _ in range(400):
            data = bytearray(whole)
            for _ in range(rnd.randrange(4)):
                data[rnd.randrange(12, more + 40)] = rnd.choice((0, 1, 0x45, 0x47, 0x80, 0xFF, rnd.randrange(256)))
            del data[rnd.choice((len(data), rnd.randrange(len(data) + 1))) :]
            rows.append(Row(bytes(data), LINK_ETHERNET, rnd.choice((-1, len(whole)))))
    for some in (rows, rows[::-1]):
        chunk = chunk_of(some, around=b"")
        before = chunk.offset.copy()
        table = ChunkTable(chunk)
        located = table.located
        assert np.array_equal(chunk.offset, before)
        for name, at in located.start.items():
            there = at >= 0
            assert ((at[there] >= chunk.offset[there]) & (at[there] <= located.end[there])).all(), name
        for struct in (VXLAN, GENEVE, GRE, MPLS, OuterIPv4):
            found = table.occurrences(struct)
            assert (found.stop <= located.end[found.rows]).all()


def test_the_frame_type_of_erspan_3_says_what_it_carries() -> None:
    """0 is a frame, 2 an IP packet; what 1 and 3 carry is not read."""
    head = tunnels.FRAMES["ERSPAN III"](len(FRAME), 1)
    for kind in range(4):
        data = head[:-2] + bytes([kind << 2, 0]) + FRAME
        assert (ethernet_table([data]).located.at("bth")[0] >= 0) == (kind == 0), kind
    packet = FRAME[FRAME.index(b"\x08\x00\x45") + 2 :]
    data = tunnels.FRAMES["ERSPAN III"](len(packet), 1)[:-2] + bytes([2 << 2, 0]) + packet
    assert ethernet_table([data]).located.at("bth")[0] >= 0


def inner_at(*frames: bytes) -> list[int | None]:
    """Where the packet inside a tunnel starts in each frame; None: it is not read."""
    table = ethernet_table(frames)
    found = zip(table.located.at("inner").tolist(), table.chunk.offset.tolist(), strict=True)
    return [at - start if at >= 0 else None for at, start in found]


def test_geneve_has_options_of_any_size() -> None:
    """Six bits count words; the two above are the version, and another one is not read."""
    frames = []
    for first in range(256):
        head = bytes([first, 0, 0x65, 0x58]) + tunnels.vni(5) + bytes(range(1, 1 + 4 * (first & 0x3F)))
        frames.append(tunnels.ip4(17, tunnels.udp(6081, head, len(FRAME)), len(FRAME)) + FRAME)
    assert inner_at(*frames) == [14 + 20 + 8 + 8 + 4 * first if first < 0x40 else None for first in range(256)]


def test_each_option_of_gre_takes_four_bytes() -> None:
    known = 0x8000 | 0x4000 | 0x2000 | 0x1000 | 0x0007
    all_flags = [flags for flags in range(1 << 16) if not flags & ~known or not flags & (flags - 1)]  # other bits one by one
    options = [sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000)) for flags in all_flags]
    heads = [flags.to_bytes(2, "big") + b"\x65\x58" + bytes(4 * count) for flags, count in zip(all_flags, options, strict=True)]
    assert inner_at(*(tunnels.ip4(47, head, len(FRAME)) + FRAME for head in heads)) == [
        None if flags & 0x4007 else 14 + 20 + 4 + 4 * count for flags, count in zip(all_flags, options, strict=True)
    ]


@every("bit", range(8))
def test_which_bits_of_vxlan_say_that_there_is_a_network(bit: int) -> None:
    def inner(port: int, flags: int) -> bool:
        data = tunnels.ip4(17, tunnels.udp(port, bytes([flags, 0, 0, 3]) + tunnels.vni(5), len(FRAME)), len(FRAME)) + FRAME
        return inner_at(data) != [None]

    assert inner(4789, 1 << bit) == (bit == 3) and inner(4789, 0xFF ^ 1 << bit) == (bit != 3)
    assert inner(4790, 0x0C ^ 1 << bit) == (bit in (0, 1, 6, 7)), "GPE: version 0, network and next protocol"
