"""A scrubbed capture is clean of everything planted in it, and lints the same. (Of proofs, tests/rules/test_rules.py asks that.)"""

from __future__ import annotations

import io
import random
import struct
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest

from ibdissect import Capture
from ibdissect.capture.writing import CaptureWriter
from ibdissect.decode import crcs
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.plugins import load as load_plugins
from ibdissect.rules import load
from ibdissect.scrub.kinds import ScrubKind, kind_of
from ibdissect.scrub.rewrite import write_scrubbed
from ibdissect.wire.catalog import builtin
from ibdissect.wire.cm import REQ
from ibdissect.wire.headers import BTH, GRH, LRH
from ibdissect.wire.sm import NodeDescription, NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from tests import commands
from tests.conftest import a_third_of, shared_captures
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, native, put, rc, roce2, smp, ud
from tests.decode.made import table_of
from tests.scrub.made import ones, scrubbed

pytestmark = pytest.mark.slow

RULES = load()
NAME, GUID, PREFIX, M_KEY, PRIVATE = b"vault-17 HCA-2", 0x0002C9A1B2C3D4E5, 0xFE80000000BADC0D, 0xDEADBEEFCAFEF00D, b"my private words"


def findings(source: str) -> tuple[list[tuple[str, int, int]], dict[str, int]]:
    report = check(source, CheckOptions(rules=list(RULES), max_findings=None))
    assert report.error is None
    return sorted((f.code, f.frame, f.count) for f in report.findings), report.by_rule


@pytest.mark.parametrize("path", a_third_of([p for p in shared_captures() if p.stat().st_size < 2_500_000], 1), ids=lambda path: path.name)
def test_captures_lint_the_same(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.pcap"
    target.write_bytes(scrubbed(path.read_bytes()))
    assert findings(str(path)) == findings(str(target))


def attributes() -> list[bytes]:
    """Every attribute of every class, its bytes drawn by lot."""
    rnd = random.Random(8)
    frames = []
    for (mgmt_class, attribute), found in sorted(builtin().attributes.items()):
        for place, _ in found:
            method = min(place.methods) if place.methods else 0x81
            if place.base_version != 1:
                continue
            frame = bytearray(gmp(mgmt_class, method, attribute, rnd.randbytes(232), at=24))
            if mgmt_class in (0x03, 0x04, 0x06):  # no RMPP header by chance
                frame[28 + 24 : 28 + 36] = bytes(12)
            frames.append(bytes(frame))
    return frames


def transports() -> list[bytes]:
    """Every OpCode, its headers and payload drawn by lot, over native links, with a GRH and over RoCE v2."""
    from ibdissect.wire.opcodes import OPCODES

    rnd = random.Random(9)
    frames = []
    for opcode in OPCODES:
        drawn = rnd.randbytes(120)
        grh = {"sgid": PREFIX.to_bytes(8, "big") + rnd.randbytes(8), "dgid": b"\xff\x12\x40\x1b\xff\xff\0\0" + rnd.randbytes(8)}
        bth = {"destqp": rnd.randrange(0x1000, 0x500000)}
        frames += [native(opcode, drawn, bth=bth), native(opcode, drawn, grh=grh, bth=bth)]
    return frames


def planted(table: ChunkTable) -> list[tuple[str, bytes]]:
    """The bytes of every field of four bytes and more that must not survive, by name."""
    found = []
    for struct_ in table.catalog.structs:
        for field in struct_.fields:
            kind = kind_of(field)
            if field.kind in ("nested", "hole", "rest") or field.part_of is not None or field.bits < 32 or field.bits % 8:
                continue
            if kind is ScrubKind.KEEP:
                continue
            size = field.bits // 8
            for row in table.matrix(struct_):
                found += [(field.filter_name, row[bit // 8 : bit // 8 + size].tobytes()) for bit in field.entries()]
    return found


@pytest.mark.parametrize("frames", [attributes, transports], ids=lambda made: made.__name__)
def test_nothing_planted_survives(frames: Any) -> None:
    blob = erf_pcap(frames())
    after = scrubbed(blob)
    before = planted(table_of(blob))
    assert len({name for name, _ in before}) >= (100 if frames is attributes else 10)
    public = (b"\x80\x01\0\0", b"\xff" * 4)
    left = {name for name, value in before if value.strip(b"\0") and value not in public and value in after}
    assert not left


def test_small_identities_change_field_by_field() -> None:
    frames = [ud(b"x", slid=100 + i, dlid=300 + i, dest_qp=0x1234 + i, src_qp=0x9876 + i, q_key=0x1111 + i) for i in range(20)]
    old, new = (table_of(blob) for blob in (erf_pcap(frames), scrubbed(erf_pcap(frames))))
    for name in ("lrh.slid", "lrh.dlid", "bth.destqp", "deth.srcqp", "deth.q_key"):
        field = builtin().fields(name)[0]
        was, now = old.values(field).tolist(), new.values(field).tolist()
        assert len(set(now)) == 20 and all(a != b for a, b in zip(was, now, strict=True))


def sweep() -> list[bytes]:
    """The same identities in many places: SMPs, GRH, connection management, descriptions."""
    description, info = bytearray(64), build(NodeInfo, node_guid=GUID, port_guid=GUID + 1, system_image_guid=GUID)
    put(description, NodeDescription.node_string, NAME)
    gid = PREFIX.to_bytes(8, "big") + (GUID + 1).to_bytes(8, "big")
    request = build(REQ, local_ca_guid=GUID, primary_local_port_gid=gid, primary_local_port_lid=77, local_qpn=0xABCDE, private_data=PRIVATE)
    port = build(PortInfo, m_key=M_KEY, gid_prefix=PREFIX, lid=77, master_sm_lid=3)
    return [
        smp(0x81, 0x0010, bytes(description), path=[1, 2], m_key=M_KEY),
        smp(0x81, 0x0011, info, path=[1, 2], m_key=M_KEY),
        smp(0x81, 0x0015, port, path=[1, 2], m_key=M_KEY),
        smp(0x01, 0x7777, PRIVATE * 4),
        gmp(0x07, 0x03, 0x0010, request, at=24, slid=77),
        native(0x04, PRIVATE, grh={"sgid": gid, "dgid": gid}, slid=77, bth={"destqp": 0xABCDE}),
        native(0x04, b"", bth={"destqp": 0xABCDE}) + PRIVATE,
        rc(0x0A, PRIVATE, ext={"RETH": {"va": 0x1000, "r_key": 0xFEEDF00D, "dmalen": len(PRIVATE)}}),
    ]


def test_the_same_value_has_the_same_substitute_everywhere() -> None:
    after = table_of(scrubbed(erf_pcap(sweep())))

    def values(field: Any) -> list[Any]:
        found = after.values(field)
        return [row.tobytes() for row in found] if field.kind == "gid" else [int(value) for value in found]

    guid, other = values(NodeInfo.node_guid)[0], values(NodeInfo.port_guid)[0]
    assert guid not in (GUID, other) and values(NodeInfo.system_image_guid) == values(REQ.local_ca_guid) == [guid]
    gids = values(GRH.sgid) + values(GRH.dgid) + values(REQ.primary_local_port_gid)
    assert len(gids) == 3 and set(gids) == {values(PortInfo.gid_prefix)[0].to_bytes(8, "big") + other.to_bytes(8, "big")}
    assert values(PortInfo.gid_prefix)[0] != PREFIX
    assert values(REQ.local_qpn)[0] == values(BTH.destqp)[5] == values(BTH.destqp)[6] != 0xABCDE
    lids = values(PortInfo.lid) + values(REQ.primary_local_port_lid) + values(LRH.slid)[4:6]
    assert len(set(lids)) == 1 and lids[0] != 77
    assert values(PortInfo.m_key) == [1]  # M_Key#1 of the other commands


def test_no_word_of_it_is_left_in_any_container(tmp_path: Path) -> None:
    source, target = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    with CaptureWriter(source) as writer:
        writer.comments = ["recorded in vault-17"]
        for number, frame in enumerate(sweep()):
            extension = bytes([0x80 | 5]) + PRIVATE[:7] + bytes([5]) + PRIVATE[7:14]
            head = struct.pack(">BBHHH", 0x80 | 21, 4, 16 + 16 + len(frame), 0, len(frame))
            writer.write(
                struct.pack("<Q", 5 << 32) + head + extension + frame, link=197, time_ns=5 * 10**9, comments=[f"vault-17 port {number}"]
            )
        arp = bytes.fromhex("ffffffffffff0002c9a1b2c3080600010800060400010002c9a1b2c3c0a84d01000000000000c0a84d02")
        writer.write(arp + PRIVATE, link=1, time_ns=6 * 10**9)
        writer.write(PRIVATE * 3, link=113, time_ns=6 * 10**9)
    done = commands.run("scrub", str(source), "--output", str(target), text=True)
    assert done.returncode == 0 and "10 frames written" in done.stderr
    text = target.read_bytes()
    secrets = [b"vault", PRIVATE[:7], PRIVATE[7:14], GUID.to_bytes(8, "big")[:7], PREFIX.to_bytes(8, "big"), M_KEY.to_bytes(8, "big")]
    secrets += [(0xFEEDF00D).to_bytes(4, "big"), bytes.fromhex("0002c9a1b2c3"), bytes.fromhex("c0a84d")]
    assert [secret for secret in secrets if secret not in source.read_bytes()] == []
    assert [secret for secret in secrets if secret in text] == []
    old, new = table_of(source.read_bytes()), table_of(text)
    assert old.chunk.time_ns.tolist() == new.chunk.time_ns.tolist() and old.chunk.caplen.tolist() == new.chunk.caplen.tolist()
    if which("tshark"):
        lines = subprocess.run(
            ["tshark", "-r", str(target), "-T", "fields", "-e", "frame.comment"], capture_output=True, text=True, check=True
        )
        assert lines.stdout == "\n" * 10


def test_checksums_are_right_where_they_were_right() -> None:
    def corrupted(frame: bytes, at: int) -> bytes:
        return frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]

    good = native(0x04, PRIVATE)
    frames = [good, corrupted(good, -1), corrupted(good, -4), corrupted(good, 25), native(0x04, PRIVATE, crc=False)]
    frames += [native(0x04, PRIVATE, grh={"hop_lmt": 3}), good[:30]]
    old, new = (table_of(blob) for blob in (erf_pcap(frames), scrubbed(erf_pcap(frames))))
    for kind in (crcs.icrc, crcs.vcrc):
        assert (kind(old).bad == kind(new).bad).all() and (kind(old).zero == kind(new).zero).all()
    assert crcs.icrc(new).bad.tolist()[:5] == [False, False, True, True, False]


@pytest.mark.parametrize("wrong", [False, True])
def test_internet_checksums_too(wrong: bool) -> None:
    frame = bytearray(roce2(0x04, PRIVATE + b"odd"))
    udp = bytes(frame[26:34]) + struct.pack(">HH", 17, len(frame) - 34) + bytes(frame[34:])
    frame[40:42] = struct.pack(">H", 0xFFFF - ones(udp))
    if wrong:
        frame[41] ^= 1
        frame[25] ^= 1
    after = table_of(scrubbed(ethernet_pcap([bytes(frame)]))).chunk.frame_bytes(0)
    assert PRIVATE not in after and after[26:34] != bytes(frame[26:34])
    assert (ones(after[14:34]) == 0xFFFF) is not wrong
    assert (ones(after[26:34] + struct.pack(">HH", 17, len(after) - 34) + after[34:]) == 0xFFFF) is not wrong
    assert not crcs.icrc(table_of(scrubbed(ethernet_pcap([bytes(frame)])))).bad.any()


def test_options_of_ip_headers_are_dropped_and_the_checksums_hold() -> None:
    frames = [b"\x33" * 12 + b"\x08\x06" + bytes(46)]
    for options in (b"", b"\x94\x04\x12\x34", bytes(range(1, 41))):
        for wrong in (0, 1):
            frame = bytearray(roce2(0x04, PRIVATE))
            frame[34:34] = options
            frame[14] += len(options) // 4
            frame[16:18] = struct.pack(">H", len(frame) - 14)
            frame[24:26] = bytes(2)
            stop = 34 + len(options)
            frame[24:26] = struct.pack(">H", (0xFFFF - ones(bytes(frame[14:stop]))) ^ wrong)
            frames.append(bytes(frame))
    after = table_of(scrubbed(ethernet_pcap(frames)))
    for row, before in enumerate(frames[1:], 1):
        frame = after.chunk.frame_bytes(row)
        stop = 14 + 4 * (before[14] & 15)
        assert not any(frame[34:stop]) and frame[26:34] != before[26:34] and len(frame) == len(before)
        assert (ones(frame[14:stop]) == 0xFFFF) is (ones(before[14:stop]) == 0xFFFF) is (row % 2 == 1)


def test_forwarding_tables_follow_their_lids() -> None:
    ports = list(range(1, 65))
    frames = [smp(0x81, 0x0019, build(LinearForwardingTable, port=ports), modifier=2, path=[1])]
    frames += [native(0x04, b"", slid=128 + i, dlid=2000, bth={"psn": i}) for i in range(64)]
    after = table_of(scrubbed(erf_pcap(frames)))
    table = after.values(LinearForwardingTable.port)[0].tolist()
    lids = after.values(builtin().fields("lrh.slid")[0])[1:].tolist()
    assert sorted(table) == ports and table != ports and set(lids) == set(range(128, 192))
    assert [table[lid - 128] for lid in lids] == ports


def test_substitutes_do_not_depend_on_how_the_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from ibdissect import python_interface as session
    from ibdissect.capture.opening import open_capture

    blob = erf_pcap([*sweep(), *attributes()])
    whole = scrubbed(blob)
    monkeypatch.setattr(session, "open_capture", lambda source, follow: open_capture(source, window=2000, follow=follow))
    with Capture(io.BytesIO(blob)) as opened:
        assert sum(1 for _ in opened.chunks()) > 10
    assert scrubbed(blob) == whole


def test_no_bytes_are_too_strange() -> None:
    rnd = random.Random(3)
    frames = [rnd.randbytes(rnd.randrange(0, 400)) for _ in range(200)]
    damaged = [bytes(byte ^ (rnd.random() < 0.02) * rnd.randrange(256) for byte in frame) for frame in [*sweep(), *attributes()]]
    for blob in (erf_pcap([*frames, *damaged]), ethernet_pcap([*frames, *(roce2(0x04, b"x")[:n] for n in range(70))])):
        after = table_of(scrubbed(blob))
        assert np.array_equal(after.chunk.caplen, table_of(blob).chunk.caplen)
        assert np.array_equal(after.located.malformed, table_of(blob).located.malformed)


def test_a_choice_of_frames_gets_the_same_substitutes(tmp_path: Path) -> None:
    source = tmp_path / "in.pcap"
    source.write_bytes(erf_pcap(sweep()))
    for name, more in (("all", []), ("some", ["--frames", "5-6"])):
        done = commands.run("scrub", str(source), "--output", str(tmp_path / f"{name}.pcap"), "-q", *more)
        assert (done.returncode, done.stderr) == (0, b"")
    every, some = (table_of((tmp_path / f"{name}.pcap").read_bytes()).chunk for name in ("all", "some"))
    assert [some.frame_bytes(i) for i in range(len(some))] == [every.frame_bytes(i) for i in (4, 5)]


PLUGIN = """
from ibdissect.wire.places import Mad
from ibdissect.wire.spec import Struct, array, enum, flag, lid, pad, part, qpn, raw, secret, uint

class AcmeRoute(Struct):
    key, section, carried_by = "acmeroute", "test", (Mad(0x0A, 0x0077),)
    next_hop = uint(16, "NextHop")
    through = lid("Through")
    serial = uint(64, "Serial", base="hex")
    halves = uint(16, "Halves")
    upper = part(halves, 15, 8, "Upper")
    seats = array(2, uint(8, "Seats"))
    degrees = uint(8, "Degrees", unit="C")
    rounds = uint(8, "Rounds", holds="number")
    state = enum(8, {1: "up", 2: "down"}, "State")
    on = flag("On")
    spare = pad(7)
    peer = qpn("Peer")
    opener = secret(32, "Q_Key")
    exits = raw(4, "Exits", holds="ports")
    notes = raw(4, "Notes")
"""


def test_fields_that_a_plugin_does_not_classify_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "acme.py"
    path.write_text(PLUGIN)
    route = next(s for s in load_plugins([str(path)]).catalog.structs if s.__name__ == "AcmeRoute")
    given = build(
        route, next_hop=77, through=77, serial=0x1122334455667788, halves=0x4142, seats=[5, 6], degrees=41, rounds=9, state=2, on=True,
        spare=0x55, peer=0xABCDE, opener=0xFEEDF00D, exits=b"\1\2\3\4", notes=b"mine",
    )  # fmt: skip
    blob = erf_pcap([gmp(0x0A, 0x81, 0x0077, given, at=24, slid=77), native(0x04, b"", bth={"destqp": 0xABCDE})])
    out = io.BytesIO()
    with Capture(io.BytesIO(blob), plugins=[str(path)]) as opened:
        write_scrubbed(opened, out, "pcap")
    with Capture(io.BytesIO(out.getvalue()), plugins=[str(path)]) as opened:
        table = next(iter(opened.tables()))
        after = {field.name: table.values(field)[0] for field in route.fields}
    for dropped in ("next_hop", "serial", "halves", "upper"):
        assert int(after[dropped]) == 0, dropped
    assert after["seats"].tolist() == [0, 0] and not after["notes"].any()
    assert (int(after["degrees"]), int(after["rounds"]), int(after["state"]), bool(after["on"])) == (41, 9, 2, True)
    assert after["exits"].tobytes() == b"\1\2\3\4" and int(after["spare"]) == 1
    assert int(after["through"]) == int(table.values(LRH.slid)[0]) != 77
    assert int(after["peer"]) == int(table.values(BTH.destqp)[1]) != 0xABCDE
    assert int(after["opener"]) not in (0, 0xFEEDF00D)


def test_a_structure_survives_in_mads_but_not_in_payloads(tmp_path: Path) -> None:
    path = tmp_path / "acme.py"
    path.write_text(
        "from ibdissect.wire.places import DestQP, Mad\nfrom ibdissect.wire.spec import Struct, uint\n\n"
        "class AcmeRounds(Struct):\n"
        '    key, section, carried_by = "acmerounds", "test", (Mad(0x0A, 0x0078), DestQP(0xACE))\n'
        '    rounds = uint(32, "Rounds", holds="number")\n'
    )
    frames = [gmp(0x0A, 0x81, 0x0078, b"\0\0\0\x09", at=24), native(0x04, b"\0\0\0\x09", bth={"destqp": 0xACE})]
    out = io.BytesIO()
    with Capture(io.BytesIO(erf_pcap(frames)), plugins=[str(path)]) as opened:
        write_scrubbed(opened, out, "pcap")
    with Capture(io.BytesIO(erf_pcap(frames)), plugins=[str(path)]) as opened:
        (rounds,) = (struct for struct in opened.catalog.structs if struct.__name__ == "AcmeRounds")
        (table,) = opened.tables()
        assert table.occurrences(rounds).rows.tolist() == [0, 1]
    after = table_of(out.getvalue()).chunk
    assert [after.frame_bytes(row)[at : at + 4] for row, at in ((0, 28 + 24), (1, 20))] == [b"\0\0\0\x09", bytes(4)]
