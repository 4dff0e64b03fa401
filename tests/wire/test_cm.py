"""The communication management structures, and the private data of RDMA services, read captured messages as they should."""

from __future__ import annotations

import ipaddress
import re
import shutil
import struct as packing
import subprocess
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ibdissect.wire import cm_names
from ibdissect.wire.catalog import builtin
from ibdissect.wire.text import plain_value, value_text
from ibdissect.words import CmService, Inside, QKey, Struct
from tests.cases import every
from tests.craft import bytes_as, named

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")

TSHARK_WRONG = frozenset(f"infiniband.cm.req.{path}_{field}" for path in ("prim", "alt") for field in ("flowlabel", "reserved0", "pktrate"))
"""Names that tshark 4.0.17 misreads, see `test_tshark_reads_three_bytes_of_the_flow_label`."""


def read(name: str, text: str) -> Any:
    """Hex text as a message of connection management, padded with zeros to its 232 bytes."""
    return bytes_as(name, bytes.fromhex(text).ljust(232, b"\0"))


NVME_REQ = read(
    "REQ",
    # Linux rdma_rxe, nvme connect over RoCE v2 from 192.168.77.1 to 192.168.77.2 port 4420 (own capture ul_nvme_connect_io.pcap, frame 1)
    "1fece42d000000000000000001061144505400fffe77000100000000000000000000c08000000000000000a15661f8a7ffff57f0ffffffff"
    "00000000000000000000ffffc0a84d0100000000000000000000ffffc0a84d0217908000004000980000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000408fbc000000000000000000000000c0a84d01000000000000000000000000c0a84d02"
    "0000000020001f00",
)


def text_of(view: Struct, name: str) -> str:
    field = getattr(type(view), name)
    return value_text(field, field.read(view, field.bit))


def test_request() -> None:
    assert text_of(NVME_REQ, "service_id") == "0x0000000001061144 (RDMA IP CM, TCP port 4420, NVMe)"
    assert (NVME_REQ.service_prefix, NVME_REQ.service_protocol, NVME_REQ.service_port) == (1, 6, 4420)
    assert (NVME_REQ.local_qpn, NVME_REQ.starting_psn) == (0xC0, 0x5661F8)
    assert (NVME_REQ.responder_resources, NVME_REQ.initiator_depth) == (128, 0)
    assert (NVME_REQ.remote_cm_response_timeout, NVME_REQ.transport_service_type, NVME_REQ.end_to_end_flow_control) == (20, 0, True)
    assert (NVME_REQ.local_cm_response_timeout, NVME_REQ.retry_count) == (20, 7)
    assert text_of(NVME_REQ, "path_packet_payload_mtu") == "4096 (5)"
    assert text_of(NVME_REQ, "rnr_retry_count") == "7 (infinite)"
    assert text_of(NVME_REQ, "primary_local_port_gid") == "::ffff:192.168.77.1"
    assert (NVME_REQ.primary_flow_label, NVME_REQ.primary_packet_rate, NVME_REQ.primary_hop_limit) == (0x17908, 0, 64)
    assert text_of(NVME_REQ, "primary_local_ack_timeout") == "19 (2.147 s)"
    assert not NVME_REQ.sap_supported and not any(NVME_REQ.alternate_remote_port_gid)


def test_ip_cm_and_nvme_private_data() -> None:
    header = bytes_as("IPCMPrivateData", NVME_REQ.private_data, 0, 92)
    assert (header.major_version, header.ip_version, header.source_port) == (0, 4, 0x8FBC)
    assert (header.source_ipv4, header.destination_ipv4) == (bytes([192, 168, 77, 1]), bytes([192, 168, 77, 2]))
    assert len(header.private_data) == 56
    request = bytes_as("NVMeConnectRequest", NVME_REQ.private_data)
    texts = [text_of(request, field.name) for field in type(request).fields if field.kind == "uint"]
    assert texts == ["0", "0 (admin)", "32", "31 (32 entries)", "0"]
    assert text_of(bytes_as("NVMeConnectReply", bytes.fromhex("00002000") + bytes(28)), "controller_receive_queue_size") == "32"


def test_addresses_apply_only_to_their_ip_version() -> None:
    views = [bytes_as("IPCMPrivateData", bytes.fromhex(head) + bytes(32), 0, 36) for head in ("0060d459", "0040d459")]
    assert [type(view).source_ipv4.applies(view) for view in views] == [False, True]


def test_other_services_private_data() -> None:
    iser = bytes_as("ISERConnectRequest", bytes(36) + b"\x80\0\0\0")  # ul_iser.pcap frame 1: the initiator knows no zero-based addresses
    assert iser.no_zero_based_addresses and not iser.no_send_invalidate
    assert bytes_as("ISERConnectReply", b"\x80\0\0\0").no_zero_based_addresses  # frame 2
    nfs = bytes_as("RPCRDMAConnectRequest", bytes(36) + bytes.fromhex("f6ab0e1801010303"))  # ul_nfs_v4_2.pcap frame 1
    assert text_of(nfs, "magic") == "RPC-over-RDMA (0xf6ab0e18)"
    assert nfs.remote_invalidate and text_of(nfs, "send_size") == "3 (4096 bytes)"
    rds = bytes_as("RDSConnectRequest", bytes(36) + bytes.fromhex("c0a84d01c0a84d0203010003") + bytes(16))  # ul_rds.pcap frame 1
    assert (rds.source, rds.major_version, rds.minor_version, rds.minor_version_mask) == (bytes([192, 168, 77, 1]), 3, 1, 3)
    header = bytes_as("RDSHeader", bytes.fromhex("00000000000000010000000000000000000000321e141e14020000000000c1a4") + bytes(16))  # frame 8
    assert (header.sequence, header.length, header.source_port, header.ack_required, header.checksum) == (1, 50, 7700, True, 0xC1A4)


def test_acknowledgement_and_datagram_service() -> None:
    mra = read("MRA", "d68831fc39ece42d00c0")  # cm_mra.pcap frame 3
    assert text_of(mra, "message_mraed") == "REQ (0)" and text_of(mra, "service_timeout") == "24 (68.72 s)"
    assert len(mra.private_data) == 222
    request = read("SIDRReq", "58ece42dffff00000000000001111c060040a395")  # cm_sidr_no_listener.pcap frame 1
    assert (request.partition_key, request.service_protocol, request.service_port) == (0xFFFF, 0x11, 7174)
    reply = read("SIDRRep", "58ece42d01000000000000000000000001111c06")  # frame 2
    assert text_of(reply, "status") == "Service ID not supported (1)"
    assert (reply.request_id, reply.service_id) == (request.request_id, request.service_id)


def test_rejection() -> None:
    reject = read("REJ", "0000000059ece42d00000008")  # cm_reject_no_listener.pcap frame 2
    assert text_of(reject, "reason") == "Invalid Service ID (8)" and text_of(reject, "message_rejected") == "REQ (0)"


@every(("reason", "names"), [(4, ["RejectedTimeout"]), (25, ["PortRedirect"]), (24, ["CMRedirect"]), (8, [])])
def test_additional_reject_information(reason: int, names: list[str]) -> None:
    view = read("REJ", "00000000" * 2 + "0000" + f"{reason:04x}")
    found = [s.__name__ for p, s in builtin().inside[type(view)] if all(f.read(view, f.bit) in values for f, values in p.when)]
    assert found == names


def test_reasons_and_statuses_are_complete() -> None:
    assert set(cm_names.REJ_REASONS) == {*range(1, 34), 35}
    assert set(cm_names.AP_STATUS) == set(range(14)) and set(cm_names.SIDR_STATUS) == set(range(6))


@every(
    ("service_id", "text"),
    [
        (0x0000000001061D4C, "RDMA IP CM, TCP port 7500"),
        (0x0000000001111C06, "RDMA IP CM, UDP port 7174"),
        (0x0000000001990001, "RDMA IP CM, protocol 153 port 1"),
        (0x0000000000011234, "SDP, port 4660"),
        (0x1000000000000404, "IPoIB connected mode, QP 0x000404"),
        (0x0200000000000001, "OS administered"),
        (0x7000000000000001, ""),
    ],
)
def test_service_ids(service_id: int, text: str) -> None:
    assert cm_names.service_text(service_id) == f"0x{service_id:016x}" + (f" ({text})" if text else "")


def test_ipoib() -> None:
    qpn_gid = bytes.fromhex("00000404fe800000000000000002c9020020b4dd")
    arp = bytes.fromhex("002008001404") + b"\0\x01" + qpn_gid + bytes([10, 0, 0, 1]) + qpn_gid + bytes([10, 0, 0, 2])
    frame = bytes_as("IPoIB", bytes.fromhex("08060000") + arp, 0, 60)
    view = bytes_as("IPoIBAddressResolution", frame.payload)
    place = next(p for p in type(view).carried_by if isinstance(p, Inside))
    assert place.field is type(frame).payload and frame.type in place.when[0][1]
    assert (view.sender_qpn, view.sender_ip, view.target_ip) == (0x404, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    assert text_of(view, "hardware_type") == "InfiniBand (32)"
    assert QKey(0x0B1B) in type(frame).carried_by


def test_sdp_hello_and_rpc_headers() -> None:
    data = bytes(n for n in range(64))
    hello = bytes_as("SDPHello", data)
    assert (hello.bsdh.buffers, hello.major_version, hello.max_adverts, hello.local_port) == (0x0203, 1, 19, 0x1C1D)
    rpc = bytes_as("RPCRDMA", bytes.fromhex("6674cd3c000000010000008000000000"), 0, 16)
    assert (rpc.version, rpc.credits, rpc.message_type, rpc.body) == (1, 128, 0, b"")
    control = bytes_as("ISERControl", bytes.fromhex("18000000") + bytes(24))
    assert text_of(control, "opcode") == "iSCSI control-type PDU (0x1)" and control.wsv and not control.rsv


def services(message: int, service_id: int, data: bytes) -> Iterator[Struct]:
    """Structures that the private data of a message about a service holds."""
    for place, struct in builtin().others:
        if isinstance(place, CmService) and message in place.messages and service_id & place.mask == place.service_id & place.mask:
            yield struct(data, 0, len(data))


def flat(view: Struct, at: int) -> Iterator[tuple[str, int, Any]]:
    """Name, byte in the MAD and JSON value of every field that applies; what fills a field is followed."""
    for field in type(view).fields:
        if not field.applies(view):
            continue
        value = field.read(view, field.bit)
        if field.kind == "nested":
            yield from flat(value, at + field.bit // 8)
        else:
            yield field.filter_name, at + field.bit // 8, plain_value(field, value)
        for place, inner in builtin().inside.get(type(view), ()):
            if place.field is field and all(f.read(view, f.bit) in values for f, values in place.when):
                yield from flat(inner(view.buffer, view.offset + field.bit // 8), at + field.bit // 8)
        if field.name == "private_data" and type(view).__name__ in ("REQ", "SIDRReq"):
            message = 0x0010 if type(view).__name__ == "REQ" else 0x0017
            for inner_view in services(message, view.service_id, value):
                yield from flat(inner_view, at + field.bit // 8)


def decode(data: bytes) -> dict[str, list[tuple[int, Any]]]:
    found: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for struct in builtin().formats[0x07, 1]:
        for name, at, value in flat(struct(data), 0):
            found[name].append((at, value))
    for _, struct in builtin().attributes.get((0x07, bytes_as("MAD", data).attribute_id), ()):
        for name, at, value in flat(struct(data, 24), 24):
            found[name].append((at, value))
    return found


def same(value: Any, digits: str) -> bool:
    if isinstance(value, int):
        return int(value) == int(digits, 16)
    try:
        return int(ipaddress.ip_address(value)) == int(digits, 16)
    except ValueError:
        return bool(value == digits.lower())


def messages(path: Path) -> Iterator[tuple[bytes, list[tuple[str, int, int, str]]]]:
    """Bytes of each CM MAD of a capture, and tshark's leaf fields behind the common header: name, byte, size, hex digits."""
    done = subprocess.run(
        ["tshark", "-n", "-r", str(path), "-T", "pdml", "-Y", "infiniband.mad.mgmtclass==7", "-o", "infiniband.try_heuristic_first:FALSE"],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    skip = 16 if packing.unpack_from(order + "I", data, 20)[0] == 197 else 0
    records, at = [], 24
    while at < len(data):
        size = packing.unpack_from(order + "I", data, at + 8)[0]
        records.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    for packet in re.findall(r"<packet>.*?</packet>", done.stdout, re.S):
        fields = list(ET.fromstring(packet).iter("field"))
        number = next(int(f.get("show", "")) for f in fields if f.get("name") == "num")
        base = next(int(f.get("pos", "0")) for f in fields if f.get("name") == "infiniband.mad.baseversion")
        yield (
            records[number - 1][skip + base : skip + base + 256],
            [
                (f.get("name", ""), int(f.get("pos", "0")) - base, int(f.get("size", "0")), f.get("value", ""))
                for f in fields
                if f.get("name", "").startswith(("infiniband.cm.", "infiniband.smplid.")) and not len(f) and f.get("value")
            ],
        )


def differences(path: Path) -> tuple[int, list[str]]:
    compared, faults = 0, []
    for data, leaves in messages(path):
        ours = decode(data)
        for name, at, size, digits in leaves:
            if ".reserved" in name or name in TSHARK_WRONG:
                continue
            compared += 1
            hit = next((have for have in ours[name] if at <= have[0] < at + max(size, 1) and same(have[1], digits)), None)
            if hit is None:
                faults.append(f"{name} at {at}: tshark {digits}, here {ours[name]}")
            else:
                ours[name].remove(hit)
    return compared, faults


@needs_tshark
@pytest.mark.parametrize(
    ("capture", "least"),
    [
        ("rxe/cm_client_killed", 75), ("rxe/cm_mra", 120), ("rxe/cm_reject_no_listener", 60), ("rxe/cm_sidr_no_listener", 2),
        ("rxe/cm_udaddy", 4), ("rxe/cm_ucmatose_tos_v6", 75), ("rxe/ul_nvme_connect_io", 200), ("real/infiniband", 150),
    ],
)  # fmt: skip
def test_same_as_tshark(shared: Path, capture: str, least: int) -> None:
    compared, faults = differences(shared / f"captures/{capture}.pcap")
    assert not faults, "\n".join(faults)
    assert compared >= least


def roce_frame(mad: bytes) -> bytes:
    """An Ethernet frame with a MAD to QP 1 over RoCE v2."""
    bth = bytes([0x64, 0, 0xFF, 0xFF]) + packing.pack(">II", 1, 1)
    body = bth + packing.pack(">II", 0x80010000, 1) + mad + bytes(4)
    udp = packing.pack(">HHHH", 50000, 4791, 8 + len(body), 0) + body
    ip = packing.pack(">BBHIBBH", 0x45, 0, 20 + len(udp), 0, 64, 17, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    return bytes(12) + b"\x08\x00" + ip + udp


def cm_mad(attr_id: int, data: bytes) -> bytes:
    return bytes([1, 7, 2, 3]) + packing.pack(">IQHHI", 0, 7, attr_id, 0, 0) + data


def write_pcap(path: Path, frames: list[bytes]) -> Path:
    records = [packing.pack("<IIII", n, 0, len(f), len(f)) + f for n, f in enumerate(frames)]
    path.write_bytes(packing.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))
    return path


@pytest.mark.slow
@needs_tshark
def test_every_message_on_random_bytes(tmp_path: Path) -> None:
    random = Random(12)
    mads = [cm_mad(attr_id, random.randbytes(232)) for attr_id in range(0x11, 0x17) for _ in range(10)]
    for n in range(20):  # tshark takes every primary GID for IPv4 when IPv4 carries the packet, so they must be
        data = bytearray(random.randbytes(232))
        data[56:68] = data[72:84] = bytes(10) + b"\xff\xff"
        if n % 2:  # RDMA IP CM of both families
            data[8:14], data[141] = bytes.fromhex("000000000106"), (4 if n % 4 == 1 else 6) << 4
        mads.append(cm_mad(0x10, bytes(data)))
    compared, faults = differences(write_pcap(tmp_path / "random.pcap", [roce_frame(mad) for mad in mads]))
    assert not faults, "\n".join(faults)
    assert compared > 1000


@pytest.mark.slow
@needs_tshark
def test_tshark_reads_three_bytes_of_the_flow_label(tmp_path: Path) -> None:
    """The proven mistake: bytes 88-91 hold 20 + 4 + 2 + 6 bits (IBA 12.6.5), tshark shows bits of other bytes."""
    data = bytearray(232)
    data[88:92] = bytes.fromhex("7255a003")
    [(_, leaves)] = messages(write_pcap(tmp_path / "one.pcap", [roce_frame(cm_mad(0x10, bytes(data)))]))
    seen = {name.rpartition("_")[2]: int(digits, 16) for name, _, _, digits in leaves if name in TSHARK_WRONG and "prim" in name}
    assert seen == {"flowlabel": 0x725, "reserved0": 1, "pktrate": 0x32}
    ours = bytes_as("REQ", bytes(data))
    assert (ours.primary_flow_label, ours.primary_packet_rate) == (0x7255A, 3)


def test_ipv4_variant_needs_the_whole_prefix() -> None:
    place = named("PrimaryLocalIPv4").carried_by[0]
    for gid, mapped in ((bytes(10) + b"\xff\xff\n\0\0\1", True), (b"\xfe\x80" + bytes(8) + b"\xff\xff\n\0\0\1", False), (bytes(16), False)):
        view = bytes_as("REQ", bytes(56) + gid + bytes(160))
        assert all(f.read(view, f.bit) in values for f, values in place.when) is mapped


def test_reply_and_connected_mode_of_a_real_fabric(shared: Path) -> None:
    """IPoIB connected mode: the request's service id and the reply's private data name the same UD queue pair."""
    data = (shared / "captures/real/infiniband.pcap").read_bytes()
    start = data.index(bytes.fromhex("0107020300000000000000102786"))
    request = bytes_as("REQ", data, start + 24)
    assert text_of(request, "service_id").endswith("(IPoIB connected mode, QP 0x000404)")
    reply = bytes_as("REP", data, data.index(bytes.fromhex("0107020300000000000000102786"), start + 256) + 24)
    assert reply.remote_communication_id == request.local_communication_id
    assert (reply.local_qpn, reply.starting_psn, reply.target_ack_delay, reply.srq) == (0xFC0407, 0xD40A55, 15, True)
    connect = bytes_as("IPoIBConnect", reply.private_data)
    assert (connect.ud_qpn, connect.receive_mtu) == (0x404, 65524)


def test_alternate_path_messages() -> None:
    lap = read("LAP", "00000001000000020000000000002af8000000000004000500" + "00" * 31 + "12345b020003f8a8")
    assert (lap.remote_qpn, lap.remote_cm_response_timeout) == (0x2A, 31)
    assert (lap.alternate_local_port_lid, lap.alternate_remote_port_lid) == (4, 5)
    assert (lap.alternate_flow_label, lap.alternate_traffic_class, lap.alternate_hop_limit) == (0x12345, 2, 0)
    assert (lap.alternate_packet_rate, lap.alternate_sl, lap.alternate_subnet_local, lap.alternate_local_ack_timeout) == (3, 15, True, 21)
    apr = read("APR", "000000010000000248070000")
    assert apr.additional_information_length == 72 and text_of(apr, "ap_status") == "Invalid LID (7)"


@every(
    ("service", "extended", "name"),
    [(0, 0, "RC"), (1, 0, "UC"), (2, 0, "RD"), (0, 1, "RC"), (3, 0, "other"), (3, 1, "XRC"), (3, 2, "other"), (3, 3, "other")],
)
def test_transport_services(service: int, extended: int, name: str) -> None:
    assert cm_names.service_name(service, extended) == name
