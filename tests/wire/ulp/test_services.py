"""A payload is shown as what its connection is for, from the REQ on, and as bytes where no REQ was seen."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.wire.tail_walk import MOST
from ibdissect.wire.ulp import ipoib, iser, nvme, nvme_rdma, rds, rpcrdma, srp
from ibdissect.words import Rule, on_struct
from tests.acme import PASSIVE_QP, connection, message
from tests.craft import build, bytes_as, erf_pcap, gmp, rc, ud

UPPER = ("nvme", "nvme_rdma", "rpcrdma", "iser", "iscsi", "rds", "srp", "ipoib", "ip")


def opened(tmp_path: Path, frames: Iterable[bytes]) -> ibdissect.Capture:
    path = tmp_path / "made.pcap"
    path.write_bytes(erf_pcap(frames))
    return ibdissect.open(str(path), show_keys=True)


def layers(capture: ibdissect.Capture, number: int) -> list[str]:
    return [layer.label for layer in capture.dissect(number).layers]


def upper(capture: ibdissect.Capture) -> list[tuple[int, str]]:
    """(frame, structure) of everything that an upper layer says."""
    found = []
    for table in capture.tables():
        for struct in table.catalog.structs:
            ours = struct.__module__.startswith("ibdissect.wire.ulp") and struct not in table.catalog.tail_parts
            if ours and struct.__module__.rpartition(".")[2] in UPPER:
                found += [(table.chunk.first + row, struct.__name__) for row in table.occurrences(struct).rows.tolist()]
    return sorted(found)


COMMAND = build(nvme.NVMeCommandCapsule, opcode=2, command_id=0x3412) + bytes(60)
RESPONSE = bytes(12) + b"\x34\x12\x00\x00"


def nvme_frames() -> list[bytes]:
    return [
        *connection(nvme_rdma.SERVICE, bytes(36) + b"\0\0\1\0\x1f\0\x1e\0", accepted=b"\0\0\x20\0"),
        message(COMMAND), message(RESPONSE, answer=True),
        message(COMMAND, opcode=0x01),
        rc(0x06, COMMAND, bth={"destqp": PASSIVE_QP}, ext={"RETH": {}}), rc(0x04, COMMAND, bth={"destqp": 0x999}),
    ]  # fmt: skip


def test_a_connection_gives_its_messages_a_meaning(tmp_path: Path) -> None:
    with opened(tmp_path, nvme_frames()) as capture:
        names = [name for name in upper(capture) if name[0] > 2]
        assert names == [(3, "NVMeBlocks"), (3, "NVMeIOCapsule"), (4, "NVMeResponse")]
        column = capture.table()["nvme.cmd.cid"]
        assert (column.frame.tolist(), column.value.tolist()) == ([3], [0x1234])


@pytest.mark.parametrize(
    ("queue", "opcode", "name"),
    [(0, 2, "NVMeGetLogPage"), (0, 6, "NVMeIdentify"), (0, 9, "NVMeSetFeatures"), (0, 10, "NVMeGetFeatures"), (0, 0x18, "NVMeCommand"),
     (1, 2, "NVMeBlocks"), (1, 9, "NVMeCommand"), (0x100, 1, "NVMeBlocks"), (1, 0x7F, "NVMeFabricsCommand")],
)  # fmt: skip
def test_the_request_for_the_connection_tells_admin_from_io_queues(tmp_path: Path, queue: int, opcode: int, name: str) -> None:
    private = bytes(36) + b"\0\0" + queue.to_bytes(2, "little")
    frames = [*connection(nvme_rdma.SERVICE, private), message(bytes([opcode]) + bytes(63 + 4)), message(RESPONSE, answer=True)]
    with opened(tmp_path, frames) as capture:
        names = {struct for frame, struct in upper(capture) if frame == 3} - {"NVMeProperty"}
        assert names == {name, "NVMeIOCapsule" if queue else "NVMeCommandCapsule"}
        assert (4, "NVMeResponse") in upper(capture)
        data = [node.raw for node in capture.dissect(3).walk() if node.label == "Data"]
        assert data in ([], [bytes(4)])


def test_get_features_selects_and_set_features_saves(tmp_path: Path) -> None:
    """Bits 10:8 of dword 10 are Select of Get Features and reserved in Set Features, bit 31 is Save of Set Features only."""
    dword10 = (0x8000_0307).to_bytes(4, "little")
    frames = [*connection(nvme_rdma.SERVICE, bytes(68)), *(message(bytes([op]) + bytes(39) + dword10 + bytes(20)) for op in (9, 10))]
    with opened(tmp_path, frames) as capture:
        names = {number: {node.name: node.value for node in capture.dissect(number).walk()} for number in (3, 4)}
    assert names[3]["nvme.cmd.set_features.dword10.sv"] == 1 and names[4]["nvme.cmd.get_features.dword10.sel"] == 3
    assert "nvme.cmd.set_features.dword10.sel" not in names[3] and "nvme.cmd.get_features.dword10.sv" not in names[4]


def test_the_private_data_of_an_answer_is_known_by_its_request(tmp_path: Path) -> None:
    with opened(tmp_path, nvme_frames()) as capture:
        (reply,) = [node for node in capture.dissect(2).walk() if node.name == "nvme-rdma.cm.rsp.crqsize"]
        assert reply.value == 0x20
        assert (1, "NVMeConnectRequest") in upper(capture)
    with opened(tmp_path, nvme_frames()[1:]) as capture:
        assert upper(capture) == [], "without the REQ nobody knows"


def test_a_frame_read_first_knows_earlier_frames(tmp_path: Path) -> None:
    with opened(tmp_path, nvme_frames()) as capture:
        assert "NVMe response" in layers(capture, 4)
        assert "Payload" in layers(capture, 7)


def test_a_pipe_knows_as_much(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(erf_pcap(nvme_frames()))
    with open(path, "rb") as file, ibdissect.open(file) as capture:
        assert "NVMe response" in layers(capture, 4)


def dreq(qp: int) -> bytes:

    body = build("DREQ", local_communication_id=7, remote_communication_id=9, remote_qpn=qp)
    return gmp(0x07, 0x03, 0x0015, body, at=24, slid=1, dlid=2)


def test_a_connection_that_ends_gives_its_queue_pair_back(tmp_path: Path) -> None:
    frames = [*connection(nvme_rdma.SERVICE), message(COMMAND), dreq(PASSIVE_QP), message(COMMAND)]
    with opened(tmp_path, frames) as capture:
        assert "NVMe command" in layers(capture, 3) and "Payload" in layers(capture, 5)


def test_a_queue_pair_serves_one_service_after_the_other(tmp_path: Path) -> None:
    header = build(rds.RDSHeader, sequence=5) + b"data"
    frames = [*connection(nvme_rdma.SERVICE), message(COMMAND), *connection(rds.SERVICE), message(header)]
    with opened(tmp_path, frames) as capture:
        assert "NVMe command" in layers(capture, 3) and "RDS" in layers(capture, 6)


def test_srp_services_are_known_by_their_names(tmp_path: Path) -> None:
    number = 0x0002_C903_0000_1234
    entries = build("ServiceEntry", service_name="SRP.T10:0002C90300001234", service_id=number)
    named = gmp(0x06, 0x81, 0x0012, entries, at=64)
    command = build(srp.SRPCommand, type=2, tag=7)
    frames = [named, *connection(number, build(srp.SRPLoginReq, tag=7), accepted=build(srp.SRPLoginRsp, type=0xC0)), message(command),
              message(build(srp.SRPResponse, type=0xC1, tag=7), answer=True), message(build(srp.SRPCredit, type=0x41, tag=8))]  # fmt: skip
    with opened(tmp_path, frames) as capture:
        assert upper(capture) == [(2, "SRPLoginReq"), (3, "SRPLoginRsp"), (4, "SRPCommand"), (5, "SRPResponse"), (6, "SRPCredit")]
    with opened(tmp_path, frames[1:]) as capture:
        assert upper(capture) == []


def ipv4(payload: bytes, protocol: int, *, options: bytes = b"", fragment: int = 0) -> bytes:
    words = 5 + len(options) // 4
    return build("InnerIPv4", version=4, header_length=words, total_length=words * 4 + len(payload), ttl=9, protocol=protocol,
                 fragment_offset=fragment, source=b"\x0a\0\0\1", destination=b"\x0a\0\0\2") + options + payload  # fmt: skip


@pytest.mark.slow
def test_memory_of_srp_commands_and_rds_messages_is_shown_and_its_keys_are_hidden(tmp_path: Path) -> None:
    """Descriptors behind an additional CDB: a table with two entries for data out, one for data in; RDS extension headers."""
    number, handle = 0x0002_C903_0000_1234, bytes.fromhex("0badcafe")
    entries = gmp(0x06, 0x81, 0x0012, build("ServiceEntry", service_name="SRP.T10:0002C90300001234", service_id=number), at=64)
    memory = [build(srp.SRPDescriptor, virtual_address=i, length=i) for i in range(4)]
    memory = [one[:8] + handle + one[12:] for one in memory]
    command = build(srp.SRPCommand, type=2, buffer_formats=0x21, data_out_count=2, data_in_count=1, additional_cdb_length=4)
    command += b"CDB!" + memory[0] + bytes(4) + b"".join(memory[1:])
    event = build(srp.SRPEvent, type=0x82, sense_length=4) + b"abcd"
    header = bytearray(build(rds.RDSHeader, sequence=5))
    header[32:44] = bytes([5, 0, 1, 3]) + handle + bytes([0, 0, 0, 9])
    cut = bytes(header[:44]) + b"\2" + handle[:3]  # the last extension is cut off
    frames = [entries, *connection(number), message(command), message(event, answer=True),
              *connection(rds.SERVICE), message(bytes(header)), message(cut)]  # fmt: skip
    with opened(tmp_path, frames) as capture:
        assert [name for frame, name in upper(capture) if frame == 4] == ["SRPCommand"] + ["SRPDescriptor"] * 4
        column = capture.table()["infiniband.srp.descriptor.virtualaddress"]
        assert column.value.tolist() == [0, 1, 2, 3]
        assert (5, "SRPEvent") in upper(capture) and (8, "RDSRdmaDestination") in upper(capture) and (8, "RDSRdma") not in upper(capture)
    with ibdissect.open(str(tmp_path / "made.pcap")) as capture:
        capture.number_keys()
        shown = [str([(node.text, node.value) for node in capture.dissect(number).walk()]) for number in (4, 8)]
        hidden = str([(node.text, node.value) for node in capture.dissect(9).walk()])
    assert all(handle.hex() not in text and "R_Key#" in text for text in shown)
    assert handle.hex()[:6] not in hidden and "R_Key" not in hidden and "*" * 32 in hidden


TCP = build("TCP", source_port=5000, destination_port=22, flags=0x12, header_length=5)


def test_ip_inside_ipoib(tmp_path: Path) -> None:
    six = build("InnerIPv6", version=6, next_header=17, payload_length=8) + build(
        "InnerUDP", source_port=53, destination_port=4000, length=8
    )
    bodies = [
        (0x0800, ipv4(TCP, 6, options=bytes(8))), (0x0800, ipv4(TCP, 6, fragment=3)), (0x0800, ipv4(build("ICMP", type=8), 1)),
        (0x86DD, six),
        (0x0800, b"\x4f" + ipv4(TCP, 6)[1:]),
    ]  # fmt: skip
    frames = [ud(build(ipoib.IPoIB, type=kind) + body, dest_qp=0x48, q_key=ipoib.IPOIB_Q_KEY) for kind, body in bodies]
    with opened(tmp_path, frames) as capture:
        asked = {"tcp.port == 22": [1], "tcp.flags.syn": [1], "ip": [1, 2, 3, 5], "icmp.type == 8": [3],
                 "udp.port == 53": [4],
                 "ipv6": [4], "ip.src == 10.0.0.1": [1, 2, 3, 5], "udp": [4], "ip.ttl == 9": [1, 2, 3, 5],
                 "ip.addr == 10.0.0.2": [1, 2, 3, 5]}  # fmt: skip
        for text, frames_wanted in asked.items():
            assert matching(capture, text) == frames_wanted, text
        tcp = next(node for node in capture.dissect(1).walk() if node.name == "tcp.dstport")
        assert (tcp.value, tcp.offset) == (22, 8 + 12 + 8 + 4 + 28 + 2)


def matching(capture: ibdissect.Capture, text: str) -> list[int]:
    from ibdissect.dfilter.compile import compile_filter

    wanted = compile_filter(text, capture.catalog)
    return [table.chunk.first + row for table in capture.tables() for row in wanted.rows(table).nonzero()[0].tolist()]


def test_connected_mode(tmp_path: Path) -> None:
    service = 0x1000_0000_0000_0048
    body = build(ipoib.IPoIB, type=0x0800) + ipv4(TCP, 6)
    with opened(tmp_path, [*connection(service, build(ipoib.IPoIBConnect, ud_qpn=0x48)), message(body)]) as capture:
        assert matching(capture, "tcp.dstport == 22") == [3]


@pytest.mark.slow
def test_random_payloads_are_nothing(tmp_path: Path) -> None:
    """No payload is guessed: not on connections to services that nobody knows, not on those whose REQ is missing."""
    chance = random.Random(5)
    frames = [*connection(0x0000_0000_0106_1234)]
    frames += [message(chance.randbytes(chance.randrange(4, 200)), answer=chance.random() < 0.5) for _ in range(300)]
    frames += [rc(0x04, chance.randbytes(64), bth={"destqp": chance.randrange(2, 1 << 24)}) for _ in range(300)]
    with opened(tmp_path, frames) as capture:
        assert upper(capture) == []
        assert all(not name.startswith("IP") for name in layers(capture, 50))


@pytest.mark.slow
@pytest.mark.parametrize("service", [nvme_rdma.SERVICE, rpcrdma.SERVICE, iser.SERVICE, rds.SERVICE], ids=["nvme", "nfs", "iser", "rds"])
def test_hostile_messages_are_shown_without_a_word(tmp_path: Path, service: int, recwarn: pytest.WarningsRecorder) -> None:
    chance = random.Random(service)
    heads = {
        nvme_rdma.SERVICE: [b"\x7f\0\0\0\x01", b"\x7f\0\0\0\x04", b"\x02"], rds.SERVICE: [b""],
        rpcrdma.SERVICE: [bytes(15) + b"\0", bytes(15) + b"\1" + b"\0\0\0\1" * 8, bytes(12) + b"\0\0\0\4",
                          bytes(20) + b"\0\0\0\1\xff\xff\xff\xff"],
        iser.SERVICE: [b"\x10", b"\x10" + bytes(27) + b"\x43\0\0\0\xff\xff\xff\xff", b"\x20", b"\x30"],
    }[service]  # fmt: skip
    frames = connection(service)
    for i in range(200):
        frames.append(message(heads[i % len(heads)] + chance.randbytes(chance.randrange(0, 160)), answer=i % 3 == 0))
    with opened(tmp_path, frames) as capture:
        for number in range(3, len(frames) + 1, 7):
            tree = capture.dissect(number)
            assert all(node.offset + node.length <= len(tree.data) for node in tree.walk() if not node.in_front)
    assert not [warning for warning in recwarn if "plugin function" in str(warning.message)]


def test_a_read_list_that_never_ends_is_bounded() -> None:
    endless = (b"\0\0\0\1" + bytes(20)) * 100_000
    assert len(rpcrdma.RPCRDMALists(endless).reads) == MOST
    assert rpcrdma.chunk_lists(endless) is None
    keys = bytes_as("ISCSI", b"\x03" + bytes(4) + b"\xff\xff\xff" + bytes(40) + b"a=b\0" * 1000).keys
    assert [one.key_value for one in keys] == ["a=b"] * 1000


def test_rules_see_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.lint.rule.REGISTRY", dict(REGISTRY))

    class Odd(Rule):
        """A command."""

        code, name, severity, message = "ODD001", "odd", Severity.INFO, "x"

        @on_struct(nvme.NVMeIOCapsule)
        def look(self, capsule: Any, seen: Any) -> Iterable[Any]:
            yield self.hit(seen, capsule, nvme.NVMeIOCapsule.opcode)

    REGISTRY.pop("ODD001", None)
    path = tmp_path / "made.pcap"
    path.write_bytes(erf_pcap(nvme_frames()))
    report = check(os.fspath(path), CheckOptions(rules=[Odd]))
    assert [finding.frame for finding in report.findings] == [3]
