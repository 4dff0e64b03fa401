"""Scrubbed bytes: what stays of each kind of field, byte for byte, and of the bytes around the packet."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest

from ibdissect import Capture
from ibdissect.capture.writing import CaptureWriter
from ibdissect.scrub import substitutes as subs
from ibdissect.scrub.rewrite import write_scrubbed
from ibdissect.wire.cm import REP, REQ
from ibdissect.wire.dm import ServiceEntry
from ibdissect.wire.encapsulation import IPv6
from ibdissect.wire.mad import MAD
from ibdissect.wire.nvidia_routers import AdjSiteLocalSubnetEntry
from ibdissect.wire.sa_paths import PathRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import SMP, NodeInfo
from ibdissect.wire.sm_port import PortInfo
from tests import commands, tunnels
from tests.cases import every, few
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, mad, native, roce2, smp, ud
from tests.decode.made import tables_of
from tests.scrub.made import scrub, scrubbed

FILL = bytes(range(1, 200))


def scrubbed_records(capture: bytes) -> list[bytes]:
    """The frames of a capture, with what stands before them in their record, after scrubbing."""
    found = []
    for table in tables_of(scrubbed(capture, "pcapng")):
        chunk = table.chunk
        for row in range(len(chunk)):
            start = int(chunk.pseudo[row]) if chunk.pseudo[row] >= 0 else int(chunk.offset[row])
            found.append(chunk.data[start : int(chunk.offset[row] + chunk.caplen[row])].tobytes())
    return found


def recorded(frame: bytes, link: int) -> bytes:
    out = io.BytesIO()
    with CaptureWriter(out, container="pcapng") as writer:
        writer.write(frame, link=link, time_ns=5 * 10**9)
    return out.getvalue()


def mad_of(frame: bytes) -> bytes:
    return frame[16 + 28 : 16 + 28 + 256]


def test_types_of_erf_extension_headers_stay_and_nothing_else_of_them() -> None:
    for count in range(4):
        types = [0x80 * (i + 1 < count) | 5 + i for i in range(count)]
        extensions = b"".join(bytes([kind]) + FILL[7 * i : 7 * i + 7] for i, kind in enumerate(types))
        frame = native(0x04, b"")
        head = struct.pack(">BBHHH", (0x80 if count else 0) | 21, 4, 16 + len(extensions) + len(frame), 0, len(frame))
        (after,) = scrubbed_records(recorded(struct.pack("<Q", 5 << 32) + head + extensions + frame, 197))
        assert after[8:16] == head and after[16 : 16 + 8 * count] == b"".join(bytes([kind]) + bytes(7) for kind in types)


@pytest.mark.slow
def test_the_ethertype_of_ip_over_infiniband_stays() -> None:
    for size in (43, 44, 45, 60):
        frame = FILL[:40] + b"\x08\x06\0\7" + FILL[:16]
        (after,) = scrubbed_records(recorded(frame[:size], 242))
        assert after[40:44] == (frame[40:44] if size >= 44 else b"\0" * (size - 40)) and not any(after[44:])


def test_packets_behind_many_extension_headers_stay_readable() -> None:
    """Kind and size of each header stay, also where a kind comes again; its options do not."""
    datagram = roce2(0x04, b"data")[34:]
    kinds, sizes = (60, 43, 60, 60, 17), (0, 2, 1, 0)
    headers = b"".join(bytes([kind, size]) + b"secret" + FILL[: 8 * size] for kind, size in zip(kinds[1:], sizes, strict=True))
    ip = build(IPv6, version=6, payload_length=len(headers) + len(datagram), next_header=kinds[0], hop_limit=9)
    (after,) = scrubbed_records(ethernet_pcap([bytes(range(2, 14)) + b"\x86\xdd" + ip + headers + datagram]))
    at = 54
    for kind, size in zip(kinds[1:], sizes, strict=True):
        assert after[at : at + 2] == bytes([kind, size]) and b"secret" not in after
        at += 8 + 8 * size
    assert after[at + 2 : at + 6] == datagram[2:6] and after[at + 8] == 0x04


@pytest.mark.parametrize("part", [0x0001, 0x0008, 0x2E41], ids=["first", "second", "middle"])
def test_a_fragment_of_ipv6_stays_a_fragment(part: int) -> None:
    """Its offset and More fragments stay: with zeros it would be a whole packet, and its data be read."""
    header = bytes([17, 0]) + struct.pack(">HI", part, 0xDEADBEEF)
    ip = build(IPv6, version=6, payload_length=72, next_header=44, hop_limit=9)
    (after,) = scrubbed_records(ethernet_pcap([bytes(range(2, 14)) + b"\x86\xdd" + ip + header + FILL[:64]]))
    assert after[54:62] == bytes([0, 0]) + struct.pack(">H", part) + bytes(4) and not any(after[62:])


RMPP = {
    (1, 1, 1): True, (1, 4, 0x0F): True, (1, 2, 0xF1): True, (1, 3, 7): True,
    (0, 1, 1): False, (2, 1, 1): False, (1, 0, 1): False, (1, 5, 1): False, (1, 1, 0): False, (1, 1, 2): False,
}  # fmt: skip


def test_rmpp_headers_of_performance_management_stay() -> None:
    """A rule reports them: version, type, and that the flag is set. Of anything else there only stays that it is not zero."""
    after = scrubbed_records(erf_pcap([gmp(0x04, 0x01, 0x12, bytes(head) + FILL, at=24) for head in RMPP]))
    kept = {head: bytes([1, head[1], 1]) + bytes(37) if stays else bytes(39) + b"\1" for head, stays in RMPP.items()}
    assert {head: mad_of(one)[24:64] for head, one in zip(RMPP, after, strict=True)} == kept


CUT = [
    (mgmt_class, spans, size)
    for mgmt_class, spans in ((0x03, [(24, 36), (44, 46), (48, 56)]), (0x30, [(24, 36)]), (0x07, []))
    for size in (35, 36, 45, 46, 55, 56, 200)
]


def test_a_mad_that_is_cut_off_keeps_what_tells_its_records() -> None:
    """RMPP header, AttributeOffset and ComponentMask, each if it is whole; no key."""
    out = io.BytesIO()
    with CaptureWriter(out, container="pcapng") as writer:
        for mgmt_class, _, size in CUT:
            frame = gmp(mgmt_class, 0x92, 0x0011, FILL, at=24)
            writer.write(frame[: 28 + size], link=247, time_ns=5 * 10**9, length=len(frame))
    for (mgmt_class, spans, size), after in zip(CUT, scrubbed_records(out.getvalue()), strict=True):
        kept = [at for low, high in spans if high <= size for at in range(low, high)]
        assert after[28 + 24 :] == bytes(FILL[at - 24] if at in kept else 0 for at in range(24, size)), (mgmt_class, size)


@pytest.mark.slow
def test_nothing_of_an_unknown_class_is_kept() -> None:
    for mgmt_class in (0x5F, 0x70, 0xFE):
        (after,) = scrubbed_records(erf_pcap([gmp(mgmt_class, 0x01, 0x7777, b"\1\1\1" + FILL, at=24)]))
        assert not any(mad_of(after)[24:])


@every(
    ("lane", "first", "mgmt_class", "size", "stays"),
    [(15, 1, 0x81, 256, True), (15, 1, 0x01, 256, True), (15, 1, 0x04, 256, False), (15, 0x80, 0x81, 256, False), (0, 1, 0x81, 256, False),
     (15, 1, 0x81, MAD.size, True), (15, 1, 0x81, MAD.size - 4, False), (15, 1, 0x81, MAD.size + 4, True)],
)  # fmt: skip
def test_smps_to_other_queue_pairs_stay_recognizable(lane: int, first: int, mgmt_class: int, size: int, stays: bool) -> None:
    data = bytes([first, mgmt_class, 1, 0x81]) + FILL[:100] * 3
    (after,) = scrubbed_records(erf_pcap([ud(data[:size], dest_qp=0x99, src_qp=5, lrh={"vl": lane})]))
    payload = after[16 + 28 : 16 + 28 + size]
    assert payload == (bytes([1, mgmt_class, 0, 0x81]) if stays else bytes(4)) + bytes(size - 4)


def test_private_data_is_dropped_though_it_could_be_read() -> None:
    """The IP addresses that rdma_cm puts into private data of a REQ."""
    private = bytes([0, 0x40, 0x12, 0x34]) + bytes(12) + bytes([10, 1, 2, 3]) + bytes(12) + bytes([10, 1, 2, 4])
    request = build(REQ, service_id=0x0000000001061234, local_qpn=0xABCDE, private_data=private)
    (after,) = scrubbed_records(erf_pcap([gmp(0x07, 0x03, 0x0010, request, at=24)]))
    at = 24 + REQ.private_data.bit // 8
    assert not any(mad_of(after)[at:]) and any(mad_of(after)[24:at])


@pytest.mark.slow
def test_reserved_fields_keep_only_that_they_are_set() -> None:
    for value, after in ((0, 0), (1, 1), (0x2AAA, 1), (0x3FFF, 1)):
        record = build(PathRecord, dgid=5, reserved_466=value, reserved_480=value << 3, reverse_path_p_key_member_bit=2)
        (frame,) = scrubbed_records(erf_pcap([gmp(0x03, 0x81, 0x35, struct.pack(">12xQHHQ", 0, 8, 0, 1) + record, at=24)]))
        found = PathRecord(mad_of(frame), 56)
        assert (found.reserved_466, found.reserved_480, found.reverse_path_p_key_member_bit) == (after, after, 2)


def test_text_ends_at_its_first_zero() -> None:
    """What follows it may be an earlier, longer one."""
    texts = [b"vault-17", b"vault-17\0old secret", b"", b"\0only later"]
    frames = scrubbed_records(erf_pcap([smp(0x81, 0x10, text.ljust(64, b"\0"), path=[1]) for text in texts]))
    strings = [mad_of(frame)[64:128].rstrip(b"\0") for frame in frames]
    assert strings == [b"node_string 1", b"node_string 1", b"", b""]


def test_what_is_replaced_is_known() -> None:
    out = io.BytesIO()
    progress: list[tuple[int, int]] = []
    info = build(NodeInfo, node_guid=0x0002C90300001491, port_guid=0x0002C90300001492)
    frames = [smp(0x81, 0x11, info, path=[1]), smp(0x81, 0x15, build(PortInfo, m_key=0xDEADBEEFCAFEF00D, lid=7), path=[1])]
    with Capture(io.BytesIO(erf_pcap(frames))) as opened:
        opened.progress = lambda *how_far: progress.append(how_far)
        _, scrubber = write_scrubbed(opened, out, "pcap")
    replaced = {name: set(values) for name, values in scrubber.replaced() if values}
    assert progress == [(2, progress[0][1])] * 2  # learning, then writing
    assert replaced == {
        "guid": {bytes.fromhex("0002C90300001491"), bytes.fromhex("0002C90300001492")}, "key M_Key": {bytes.fromhex("DEADBEEFCAFEF00D")},
    }  # fmt: skip


def test_addresses_and_names_that_are_replaced_are_known_in_their_size() -> None:
    frame = bytearray(roce2(0x04, b"", bth={"destqp": 0xABCDE}))
    frame[:12] = bytes.fromhex("0002c90102030002c9010204")
    gid = bytes.fromhex("fe80000000badc0d0002c90300001493")
    group = bytes.fromhex("ff3e004020010db80000000012345678")
    text = smp(0x81, 0x10, b"vault-17".ljust(64, b"\0"), path=[1])
    _, scrubber = scrub(ethernet_pcap([bytes(frame)]))
    found = {name: set(values) for name, values in scrubber.replaced() if values}
    assert found.pop("mac") == {bytes.fromhex("0002c9010203"), bytes.fromhex("0002c9010204")}
    assert found == {"ip4": {bytes(frame[26:30]), bytes(frame[30:34])}}
    _, scrubber = scrub(erf_pcap([native(0x04, b"", grh={"sgid": gid, "dgid": group}), text]))
    assert {name: set(values) for name, values in scrubber.replaced() if values} == {
        "prefix": {gid[:8]}, "guid": {gid[8:]}, "site": {group[:8]}, "group": {group[8:]}, "text": {b"vault-17"},
    }  # fmt: skip


def test_a_service_without_a_key_stays_without_one() -> None:
    keys = [bytes(16), FILL[:16], bytes(16)]
    frames = [gmp(0x03, 0x81, 0x31, build(ServiceRecord, service_id=number, service_key=key), at=56) for number, key in enumerate(keys)]
    (table,) = tables_of(scrubbed(erf_pcap(frames)))
    assert [int.from_bytes(key.tobytes(), "big") for key in table.values(ServiceRecord.service_key)] == [0, 1, 0]


def test_an_m_key_with_its_bytes_reversed_stays_the_reverse_of_the_other() -> None:
    """A rule compares them: a tool on a little-endian machine does not swap the bytes."""
    key = 0xDEADBEEFCAFEF00D
    frames = [smp(1, 0x15, m_key=one) for one in (key, int.from_bytes(key.to_bytes(8, "big"), "little"), 0, key + 1)]
    (table,) = tables_of(scrubbed(erf_pcap(frames)))
    assert table.values(SMP.m_key).tolist() == [1, 1 << 56, 0, 3]


HCA = 0x0002_C903_00A1_B2C3


def connected(service: int, guid: int = HCA, qp: int = 0x4321) -> bytes:
    """A list of services, a REQ for one and its REP, from the HCA of that GUID."""
    return erf_pcap([
        gmp(0x06, 0x81, 0x0012, build(ServiceEntry, service_name="SRP.T10:x", service_id=service), at=64),
        gmp(0x07, 0x03, 0x0010, build(REQ, service_id=service, local_qpn=qp), at=24),
        gmp(0x07, 0x03, 0x0013, build(REP, local_ca_guid=guid, local_qpn=qp), at=24),
    ])  # fmt: skip


def number_in(frame: bytes, field: Any, at: int) -> int:
    """A field of whole bytes of a structure `at` bytes into the MAD."""
    low, high = field.span
    return int.from_bytes(mad_of(frame)[at + low : at + high], "big")


def test_a_service_id_that_is_a_guid_is_replaced_as_the_guid(tmp_path: Path) -> None:
    """As of SRP targets. The copy passes `--verify`, which it never did while the id stayed."""
    path = tmp_path / "a.pcap"
    path.write_bytes(connected(HCA))
    done = commands.run("scrub", str(path), "--to", str(tmp_path / "b.pcap"), "--verify", text=True)
    assert done.returncode == 0, done.stderr
    entry, req, rep = scrubbed_records(connected(HCA))
    ids = number_in(entry, ServiceEntry.service_id, 64), number_in(req, REQ.service_id, 24), number_in(rep, REP.local_ca_guid, 24)
    assert len(set(ids)) == 1 and ids[0] not in (0, HCA)


@every(("service", "stays"), [
    (0, True), (0x0106_1144, True), (0x01_1234, True), ((1 << 40) - 1, True), (1 << 40, False), (HCA, False),
    (0x0200_0000_0000_0001, False),
])  # fmt: skip
def test_service_ids_of_protocols_stay(service: int, stays: bool) -> None:
    _, req, _ = scrubbed_records(connected(service))
    assert (number_in(req, REQ.service_id, 24) == service) is stays


def test_the_queue_pair_in_a_service_id_of_ipoib_is_the_same_as_elsewhere() -> None:
    _, req, _ = scrubbed_records(connected(0x1000_0000_0000_4321))
    service, qp = number_in(req, REQ.service_id, 24), number_in(req, REQ.local_qpn, 24)
    assert service >> 24 == 0x10_0000_0000 and service & 0xFFFFFF == qp != 0x4321


def test_the_end_of_a_site_local_prefix_is_that_of_its_substitute() -> None:
    entries = b"".join(build(AdjSiteLocalSubnetEntry, subnet_prefix=number) for number in (0x1234, 0x1235, 0))
    frames = [smp(0x81, 0x15, build(PortInfo, gid_prefix=0xFEC0_0000_0000_1234)), smp(0x81, 0xFFD2, entries.ljust(64, b"\0"))]
    info, table = scrubbed_records(erf_pcap(frames))
    prefix = number_in(info, PortInfo.gid_prefix, 64)
    ends = [number_in(table, AdjSiteLocalSubnetEntry.subnet_prefix, 64 + 8 * i) for i in range(3)]
    assert prefix >> 48 == 0xFEC0 and ends[0] == prefix & 0xFFFF != 0x1234 and ends[1] not in (0, 0x1235, ends[0]) and ends[2] == 0


def test_the_attackers_capture_of_a_site_prefix(shared: Path) -> None:
    data = (shared / "attack/site-prefix.pcap").read_bytes()
    info, table = (frame[28 + 64 : 28 + 128] for frame in scrubbed_records(data))  # without ERF headers
    assert table[2:4] == info[14:16] and info[8:10] == b"\xfe\xc0"
    assert not [number for number in range(0x1234, 0x123C) if number.to_bytes(2, "big") in info + table]


VLANS = [(0, 0), (1, 1), (0xFFF, 0xFFF), (2, 2), (77, 3), (0xFFE, 4), (77, 3)]


def test_vlans_are_numbered_and_what_is_beside_them_stays() -> None:
    """Zero, the default VLAN and the reserved one say nothing and stay; the first other one is 2."""
    frames = [roce2(vlan=0xB000 | number) for number, _ in VLANS]
    after = [int.from_bytes(frame[14:16], "big") for frame in scrubbed_records(ethernet_pcap(frames))]
    assert after == [0xB000 | new for _, new in VLANS]


@few("kind", ["VXLAN", "VXLAN over IPv6", "VXLAN-GPE", "GENEVE", "ERSPAN II", "ERSPAN III"], fast=(0, 1, 2, 3, 5))
def test_captures_that_differ_only_in_numbers_of_networks_become_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def capture(number: int) -> bytes:
        monkeypatch.setattr(tunnels, "VNI", number)
        frames = [tunnels.wrapped(kind, roce2(vlan=number >> 8 & 0xFFF))[0] for _ in range(2)]
        if kind.startswith("ERSPAN"):
            at = frames[0].index(b"\x10\1" if kind == "ERSPAN II" else b"\x20\1")
            frames = [frame[:at] + bytes([frame[at] | number >> 16 & 0xF, number >> 8 & 0xFF]) + frame[at + 2 :] for frame in frames]
        return ethernet_pcap(frames)

    one, other = capture(0x0ABCDE), capture(0x0FEDCB)
    assert one != other and scrubbed(one) == scrubbed(other)


def test_source_ports_that_follow_from_queue_pairs_are_replaced() -> None:
    ports = [0xBFFF, 0xC000, 0xFFFF, 0xC123, 0xC000]
    frames = scrubbed_records(ethernet_pcap([roce2(udp={"source_port": n}) for n in ports]))
    after = [struct.unpack(">HH", frame[34:38]) for frame in frames]
    assert after == [(n, 4791) for n in (0xBFFF, 0xC000, 0xC001, 0xC002, 0xC000)]


def test_a_port_of_roce_of_ones_own_stays() -> None:
    assert [subs.port(number, (4791, 0xC001, 0xC002)) for number in (1, 2, 3)] == [0xC000, 0xC003, 0xC004]
    data = ethernet_pcap([roce2(udp={"destination_port": 0xC001, "source_port": 0xD000})])
    out = io.BytesIO()
    with Capture(io.BytesIO(data), roce_ports=[0xC001]) as opened:
        write_scrubbed(opened, out, "pcapng")
    assert b"\xc0\x00\xc0\x01" in out.getvalue()


def test_flow_labels_are_the_same_in_requests_and_packets() -> None:
    """Drivers compute them from queue pairs, and from them the source ports."""
    frames = [native(0x04, b"", grh={"flow_label": n}) for n in (0, 0xFFFFF, 0x12345)]
    frames.append(gmp(0x07, 0x03, 0x0010, build(REQ, primary_flow_label=0xFFFFF, primary_reserved0=0), at=24))
    *packets, req = scrubbed_records(erf_pcap(frames))
    heads = [int.from_bytes(frame[16 + 8 : 16 + 12], "big") for frame in packets]
    assert [head & 0xFFFFF for head in heads] == [0, 1, 2] and {head >> 28 for head in heads} == {6}
    assert int.from_bytes(mad_of(req)[24 + 88 : 24 + 91], "big") >> 4 == 1


KEYS = """
from ibdissect.words import Struct, VendorOui, secret, uint


class Lock(Struct, prefix="lock", key="lock", section="L 1", carried_by=VendorOui(0x00ACE9, 0x32, 0x0300)):
    number = uint(8, "Number", at="0", holds="number")
    narrow = secret(32, "L_Key", "Narrow", at="1")
    wide = secret(64, "L_Key", "Wide", at="5")
    three = uint(3, "Three", at="13[0]", holds="number")
    five = secret(5, "L_Key", "Five", at="13[3]")
    half = uint(4, "Half", at="14[0]", holds="number")
    between = secret(16, "L_Key", "Between", at="14[4]")
    other = uint(4, "Other", at="16[4]", holds="number")
    four = uint(4, "Four", at="17[0]", holds="number")
    across = secret(64, "L_Key", "Across", at="17[4]")
    last = uint(4, "Last", at="25[4]", holds="number")
"""


def test_keys_of_any_width_are_replaced_and_what_is_beside_them_stays(tmp_path: Path) -> None:
    plugin = tmp_path / "lock.py"
    plugin.write_text(KEYS)
    wide, across = 0xD00DFEEDCAFEBABE, 0xA1B2C3D4E5F60718
    body = b"\7\xca\xfe\xba\xbe" + wide.to_bytes(8, "big") + bytes([5 << 5 | 0x1D]) + (9 << 20 | 0xBEEF << 4 | 6).to_bytes(3, "big")
    body += (3 << 68 | across << 4 | 0xC).to_bytes(9, "big")
    data = bytearray(mad(0x32, 0x81, 0x0300, body, at=40))
    data[37:40] = b"\0\xac\xe9"
    out = io.BytesIO()
    with Capture(io.BytesIO(erf_pcap([ud(bytes(data))])), plugins=[str(plugin)]) as opened:
        write_scrubbed(opened, out, "pcap")
    names = ("number", "narrow", "wide", "three", "five", "half", "between", "other", "four", "across", "last")
    with Capture(io.BytesIO(out.getvalue()), plugins=[str(plugin)], show_keys=True) as opened:
        columns = opened.table()
        found = [int(columns[f"lock.lock.{name}"].value[0]) for name in names]
    assert found == [7, 1, 2, 5, 3, 9, 4, 6, 3, 0, 0xC], "keys are numbered by kind; one in nine bytes is dropped"
