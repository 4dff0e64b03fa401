"""A PDU of several packets is read by what its connection has shown, alike everywhere, and by nothing of an earlier connection."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests import commands
from tests.cases import few
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, mad, rc, ud
from tests.decode import agreed

PLUGIN = agreed.__file__
SYN, ACK = 2, 0x10
CHANGES = 32
"""Latest connections of two ports that are known."""
NAMES = ("agreed.old.value", "agreed.new.value")
SHOW = [word for name in ("frame.number", *NAMES, "agreed.new.key") for word in ("-e", name)]


def hello(version: int) -> bytes:
    return struct.pack(">HHH", agreed.HELLO, 6, version)


def value(number: int, version: int, rows: int = 0) -> bytes:
    body = b"\7" + number.to_bytes(4, "big") + (b"\xca\xfe\xba\xbe" if version == 2 else b"") + bytes(range(1, 5)) * rows
    return struct.pack(">HH", agreed.VALUES, 4 + len(body)) + body


def tcp(data: bytes, at: int, flags: int = ACK, *, answer: bool = False, acknowledged: int = 1, port: int = 40000) -> bytes:
    """A segment; `answer`: from the port."""
    ports = (agreed.PORT, port) if answer else (port, agreed.PORT)
    segment = struct.pack(">HHIIBBHHH", *ports, at, acknowledged, 5 << 4, flags, 1000, 0, 0) + data
    source, to = (bytes([10, 0, 0, 1 + (number ^ answer)]) for number in (0, 1))
    ip = build("IPv4", version=4, header_length=5, total_length=20 + len(segment), ttl=64, protocol=6, source=source, destination=to)
    return build("Ethernet", source=b"\2\0\0\0\0\1", destination=b"\2\0\0\0\0\2", type=0x0800) + ip + segment


def talk(version: int, number: int, at: int) -> list[bytes]:
    """A connection: SYN, hello, and a value in two segments. Five frames; the value is complete in the last one."""
    whole = value(number, version)
    return [
        tcp(b"", at - 1, SYN), tcp(b"", 7, SYN | ACK, answer=True, acknowledged=at), tcp(hello(version), at), tcp(whole[:7], at + 6),
        tcp(whole[7:], at + 13),
    ]  # fmt: skip


def capture(path: Path, frames: list[bytes]) -> str:
    path.write_bytes(ethernet_pcap(frames))
    return str(path)


def run(*words: str) -> str:
    done = commands.run(words[0], "--plugin", PLUGIN, *words[1:], text=True)
    assert done.returncode == 0, done
    return str(done.stdout)


def columns(path: str) -> list[str]:
    """Frame, old and new value, and the key, of frames with a value."""
    return [" ".join(line.split("\t")) for line in run("show", path, *SHOW).splitlines() if line.strip("\t").count("\t")]


def tree(path: str, *words: str) -> str:
    return run("show", path, "--format", "tree", *words)


def segments(version: int, number: int) -> list[bytes]:
    """A value in two RMPP segments of a vendor's MADs."""
    whole, made = value(number, version, 60), []
    for i, part in enumerate((whole[:216], whole[216:]), 1):
        data = bytearray(mad(0x32, 0x81, 0x0400, part, at=40))
        size = 8 + len(whole) if i == 1 else 4 + len(part)
        data[24:36] = bytes([1, 1, 3 if i == 1 else 5, 0]) + i.to_bytes(4, "big") + size.to_bytes(4, "big")
        data[37:40] = agreed.OUI.to_bytes(3, "big")
        made.append(ud(bytes(data)))
    return made


def vendor_hello(version: int) -> bytes:
    data = bytearray(mad(0x32, 0x81, 0x0400, hello(version), at=40))
    data[37:40] = agreed.OUI.to_bytes(3, "big")
    return ud(bytes(data))


@few("late", [False, True], fast=(1,))
def test_a_vendors_mads_of_several_segments(tmp_path: Path, late: bool) -> None:
    first, last = segments(2, 9)
    (tmp_path / "a.pcap").write_bytes(erf_pcap([vendor_hello(2), *((last, first) if late else (first, last)), vendor_hello(1)]))
    path = str(tmp_path / "a.pcap")
    assert columns(path) == ["3  9 Agreed_Key#1"] and tree(path, "--frames", "3").count("Agreed_Key#1") == 1
    frames = run("show", path, "--format", "json")
    assert "cafebabe" not in frames.lower()
    frame = json.loads(frames)[2]
    assert "agreed.new.value" in str(frame["reassembled" if "reassembled" in frame else "message"]), frame


@pytest.mark.slow
def test_a_vendors_mads_everywhere(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(erf_pcap([vendor_hello(2), *segments(2, 9), vendor_hello(1)]))
    path = str(tmp_path / "a.pcap")
    for words in ([], ["-Y", "agreed.new.value == 9"]):
        assert tree(path, *words).count("Agreed_Key#1") == 1, words
    run("export", "--records", path, "-o", str(tmp_path / "a.csv"))
    assert '""agreed.new.value"": 9' in (tmp_path / "a.csv").read_text()
    assert "agreed.new.value" in run("sql", path, "select fields from records")


def test_a_pdu_of_several_packets(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", talk(2, 9, 1000))
    assert columns(path) == ["5  9 Agreed_Key#1"] and tree(path, "--frames", "5").count("Agreed_Key#1") == 1


@pytest.mark.slow
def test_a_pdu_of_several_packets_of_a_selection_and_in_a_query(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", talk(2, 9, 1000))
    for words in ([], ["-Y", "agreed.new.value == 9"]):
        assert tree(path, *words).count("Agreed_Key#1") == 1, words
    assert "cafebabe" not in run("show", path, "--format", "json").lower()
    assert "9" in run("sql", path, "select agreed_new_value from packets where agreed_new_value is not null", "-e", "agreed.new.value")


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_export_reads_the_same(tmp_path: Path, jobs: str) -> None:
    path = capture(tmp_path / "a.pcap", [*talk(2, 9, 1000), *talk(1, 8, 2000)])
    run("export", path, "-o", str(tmp_path / "a.csv"), "-e", "frame.number", "-e", NAMES[0], "-e", NAMES[1], "--jobs", jobs)
    lines = (tmp_path / "a.csv").read_text().replace('"', "").splitlines()
    assert [line for line in lines[1:] if line.strip(",").count(",")] == ["5,,9", "10,8,"]


def test_a_new_connection_begins_anew_with_its_syn(tmp_path: Path) -> None:
    def read(frames: list[bytes]) -> list[str]:
        return [line.split()[0] for line in columns(capture(tmp_path / "a.pcap", frames))]

    first, (syn, answer, again, *rest) = talk(2, 9, 1000), talk(2, 8, 90000)
    assert read([*first, syn, answer, again, *rest]) == ["5", "10"]
    assert read([*first, syn, answer, tcp(value(8, 2), 90000)]) == ["5"], "its hello is missing"
    assert read([*first, tcp(b"", 4_000_000, SYN | ACK, answer=True, acknowledged=90000), *talk(2, 9, 1000)[2:]]) == ["5"]
    assert read([*first[:3], first[1], *first[3:]]) == ["6"], "the answer to the SYN comes again"
    assert read([*first[:3], tcp(b"", 5, SYN, port=40001), *first[3:]]) == ["6"], "another connection"
    again = tcp(b"", 20, SYN | ACK, answer=True, acknowledged=1000 + (1 << 16))
    assert read([*first[:3], again, *first[3:]]) == [], "an answer to another SYN"


@pytest.mark.parametrize(("syns", "known"), [(CHANGES - 1, True), (CHANGES, False)])
def test_connections_beyond_the_bound_make_what_was_before_unknown(tmp_path: Path, syns: int, known: bool) -> None:
    more = [tcp(b"", 100_000 * number, SYN) for number in range(2, syns + 2)]
    assert (columns(capture(tmp_path / "a.pcap", [*talk(1, 9, 1000), *more])) == ["5 9  "]) == known


def request(number: int) -> bytes:
    body = build(
        "REQ", 232, local_communication_id=number, local_qpn=0x60, service_id=agreed.SERVICE, starting_psn=50, primary_local_port_lid=3,
        primary_remote_port_lid=4, primary_subnet_local=1,
    )  # fmt: skip
    return gmp(7, 3, 0x10, body, at=24, slid=3, dlid=4)


def reply(number: int) -> bytes:
    body = build("REP", 232, local_communication_id=number + 100, remote_communication_id=number, local_qpn=0x50, starting_psn=100)
    return gmp(7, 3, 0x13, body, at=24, slid=4, dlid=3)


def send(data: bytes, psn: int, opcode: int = 4) -> bytes:
    return rc(opcode, data, slid=3, dlid=4, bth={"destqp": 0x50, "psn": psn, "padcnt": -len(data) % 4})


def test_a_new_connection_of_the_same_queue_pairs_begins_anew(tmp_path: Path) -> None:
    whole, path = value(9, 2), tmp_path / "a.pcap"
    said = [send(hello(2), 100), send(whole[:8], 101, 0), send(whole[8:], 102, 2)]
    path.write_bytes(erf_pcap([request(7), reply(7), *said, request(9), reply(9), send(whole, 100)]))
    assert columns(str(path)) == ["5  9 Agreed_Key#1"]
    path.write_bytes(erf_pcap([request(7), reply(7), *said, request(9), reply(9), send(hello(2), 100), send(whole, 101)]))
    assert [line.split()[0] for line in columns(str(path))] == ["5", "9"]
