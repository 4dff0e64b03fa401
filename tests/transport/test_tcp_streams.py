"""A PDU of a TCP connection is found once, where its last byte is, however segments cut it, come again or early; never behind a gap."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from ibdissect.decode import reassembled
from ibdissect.pipeline import reading
from ibdissect.python_interface import Capture
from ibdissect.transport import tcp_streams
from ibdissect.wire.encapsulation import IPv4, IPv6
from tests import commands
from tests.cases import few
from tests.craft import build, ethernet_pcap

PORT = 7420
PLUGIN = f"""
from ibdissect.wire.places import Stream, TcpPort
from ibdissect.wire.spec import Struct, nested, rest, secret, uint


class Pdu(Struct):
    "One PDU."

    prefix, key, section, size = "tcpx", "pdu", "X 1", 6
    length = uint(16, "Length", at="0", unit="bytes")
    token = secret(32, "X_Key", "Token", at="2")
    data = rest("Data", at="6")
    carried_by = Stream(TcpPort({PORT}), length=length)
"""
KEY = bytes.fromhex("cafebabe")
SYN, ACK, FIN, RST = 2, 0x10, 1, 4


def pdu(size: int) -> bytes:
    return size.to_bytes(2, "big") + KEY + bytes(number % 7 + 1 for number in range(size - 6))


def segment(
    data: bytes, at: int, *, flags: int = ACK, answer: bool = False, port: int = 40000, ip6: bool = False, behind: bytes = b""
) -> bytes:
    """A segment to the port, or from it; `at`: its sequence number."""
    ports = (PORT, port) if answer else (port, PORT)
    tcp = struct.pack(">HHIIBBHHH", *ports, at % (1 << 32), 1, 6 << 4, flags, 1000, 0, 0) + b"\1\1\1\0" + data
    ends = (b"\x0a\0\0\2", b"\x0a\0\0\1") if answer else (b"\x0a\0\0\1", b"\x0a\0\0\2")
    if ip6:
        ends = bytes(12) + ends[0], bytes(12) + ends[1]
        head = b"\x86\xdd" + build(IPv6, version=6, payload_length=len(tcp), next_header=6, source=ends[0], destination=ends[1])
    else:
        sizes = {"header_length": 5, "total_length": 20 + len(tcp)}
        head = b"\x08\0" + build(IPv4, version=4, **sizes, ttl=64, protocol=6, source=ends[0], destination=ends[1])
    return bytes(range(2, 14)) + head + tcp + behind


def opening(at: int = 999, **kw: Any) -> list[bytes]:
    return [segment(b"", at, flags=SYN, **kw)]


def found(folder: Path, frames: list[bytes]) -> list[str]:
    """`frame=lengths` of each frame that completes PDUs."""
    (folder / "x.py").write_text(PLUGIN)
    (folder / "x.pcap").write_bytes(ethernet_pcap(frames))
    with Capture(str(folder / "x.pcap"), plugins=[folder / "x.py"]) as capture:
        column = capture.table()["tcpx.pdu.length"]
    of: dict[int, list[str]] = {}
    for frame, value in zip(column.frame.tolist(), column.value.tolist(), strict=True):
        of.setdefault(frame, []).append(str(value))
    return [f"{frame}={','.join(sizes)}" for frame, sizes in of.items()]


DATA = pdu(6) + pdu(100) + pdu(40)


@pytest.mark.parametrize("ip6", [False, True])
@few("start", [1000, (1 << 32) - 60], fast=(1,))
def test_pdus_of_several_segments_and_several_in_one(tmp_path: Path, start: int, ip6: bool) -> None:
    def part(a: int, b: int, **kw: bytes) -> bytes:
        return segment(DATA[a:b], start + a, ip6=ip6, **kw)

    first = opening(start - 1, ip6=ip6)
    assert found(tmp_path, [*first, part(0, 146)]) == ["2=6,100,40"]
    assert found(tmp_path, [*first, part(0, 146, behind=b"\xff" * 7)]) == ["2=6,100,40"], "padding is no data"
    assert found(tmp_path, [*first, part(0, 3), part(3, 50), part(50, 145), part(145, 146)]) == ["3=6", "4=100", "5=40"]
    assert found(tmp_path, [*first, part(0, 50), part(0, 50), part(20, 110), part(106, 146)]) == ["2=6", "4=100", "5=40"], "again"
    assert found(tmp_path, [*first, part(0, 50), part(100, 146), part(50, 100)]) == ["2=6", "4=100,40"], "early"
    assert found(tmp_path, [*first, part(0, 50), part(60, 146)]) == ["2=6"], "a gap"
    assert found(tmp_path, [part(0, 146)]) == [], "no beginning"


def test_directions_connections_and_ends(tmp_path: Path) -> None:
    both = [*opening(), *opening(answer=True), segment(DATA[:50], 1000), segment(DATA, 1000, answer=True), segment(DATA[50:], 1050)]
    assert found(tmp_path, both) == ["3=6", "4=6,100,40", "5=100,40"]
    other = [*opening(), segment(DATA[:50], 1000), segment(DATA[50:], 1050, port=40001)]
    assert found(tmp_path, other) == ["2=6"]
    again = [*opening(), segment(DATA[:50], 1000), *opening(4999), segment(DATA, 5000, flags=ACK | FIN), segment(DATA, 5146)]
    assert found(tmp_path, again) == ["2=6", "4=6,100,40"], "a connection that was opened again, and ended"
    assert found(tmp_path, [*opening(), segment(DATA[:50], 1000, flags=RST | ACK), segment(DATA[50:], 1050)]) == ["2=6"]


@pytest.mark.slow
def test_a_wrong_length_ends_it_and_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = pdu(6) + b"\0\5" + bytes(4) + pdu(6)
    assert found(tmp_path, [*opening(), segment(wrong, 1000), segment(pdu(6), 1000 + len(wrong))]) == ["2=6"]
    monkeypatch.setattr(tcp_streams, "MAX_EARLY", 2)
    early = [segment(pdu(6), 1000 + 6 * number) for number in range(1, 5)]
    assert found(tmp_path, [*opening(), *early[:2], segment(pdu(6), 1000)]) == ["4=6,6,6"]
    assert found(tmp_path, [*opening(), *early[:3], segment(pdu(6), 1000)]) == []


def shown(folder: Path, frames: list[bytes], form: str, plugin: str = PLUGIN) -> str:
    (folder / "x.py").write_text(plugin)
    (folder / "x.pcap").write_bytes(ethernet_pcap(frames))
    done = commands.run("show", "--plugin", str(folder / "x.py"), str(folder / "x.pcap"), "--format", form, text=True)
    assert done.returncode == 0, done
    return str(done.stdout.lower().replace(" ", ""))


@few("form", ["tree", "jsonl"], fast=(0,))
@pytest.mark.parametrize("streamed", [True, False])
def test_keys_of_segments_whose_lengths_contradict_are_hidden(tmp_path: Path, streamed: bool, form: str) -> None:
    plain = PLUGIN.replace(f"Stream(TcpPort({PORT}), length=length)", f"TcpPort({PORT})")
    frames = []
    for port, (at, value) in enumerate(((17, 30), (46, 0x40), (46, 0x00)), 40000):
        frame = bytearray(segment(DATA, 1000, port=port))
        frame[at] = value
        frames += [*opening(port=port), bytes(frame)]
    assert "cafebabe" not in shown(tmp_path, frames, form, PLUGIN if streamed else plain)


def test_early_segments_are_bounded_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    early = [segment(pdu(100), 1000 + 100 * number) for number in range(1, 5)]
    monkeypatch.setattr(tcp_streams, "MAX_EARLY_BYTES", 300)
    assert found(tmp_path, [*opening(), *early[:3], segment(pdu(100), 1000)]) == ["5=100,100,100,100"]
    monkeypatch.setattr(tcp_streams, "MAX_EARLY_BYTES", 299)
    assert found(tmp_path, [*opening(), *early[:3], segment(pdu(100), 1000)]) == []


@few("form", ["tree", "dump", "jsonl"], fast=(0, 2))
def test_keys_are_hidden_wherever_segments_cut_them(tmp_path: Path, form: str) -> None:
    frames = []
    for port, cut in enumerate((1, 3, 4, 5, 7), 40000):
        frames += [*opening(port=port), segment(DATA[:cut], 1000, port=port)]
        frames += [segment(DATA[cut:120], 1000 + cut, port=port), segment(DATA[130:], 1130, port=port)]
    said = shown(tmp_path, frames, form)
    assert [said[max(0, at.start() - 200) : at.end()] for at in re.finditer("cafe|feba|babe", said)] == []


ONE = reassembled.OVERHEAD // 2 + reassembled.SPAN
"""Memory of a PDU in one segment."""


def many(folder: Path) -> tuple[str, list[str]]:
    """A capture with a PDU in each of 40 frames behind the first, and the option that names the plugin."""
    (folder / "x.py").write_text(PLUGIN)
    (folder / "x.pcap").write_bytes(ethernet_pcap([*opening(), *(segment(pdu(6), 1000 + 6 * number) for number in range(40))]))
    return str(folder / "x.pcap"), ["--plugin", str(folder / "x.py")]


def seen(opened: Capture, *edges: int) -> int:
    ((_, pdus),) = opened.catalog.streams
    return sum(len(table.shown.occurrences(pdus)) for table in opened.tables(edges=edges))


def test_what_is_forgotten_is_put_together_again_for_the_next_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = many(tmp_path)
    monkeypatch.setattr(reading, "MAX_MESSAGE_BYTES", 20 * ONE)
    with Capture(path, plugins=[tmp_path / "x.py"]) as capture:
        assert [seen(capture, *range(4, 41, 4)) for _ in range(3)] == [40, 40, 40]
        assert capture.joined_messages.forgotten_to and not any(one.count for one in capture.dropped)
        for frame in (2, 41, 3):
            assert "tcpx.pdu.length" in {node.name for node in capture.dissect(frame).walk()}, frame


@pytest.mark.slow
def test_pdus_without_room_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, options = many(tmp_path)
    columns = ("show", *options, path, "-e", "tcpx.pdu.length")
    monkeypatch.setattr(reading, "MAX_MESSAGE_BYTES", 40 * ONE)
    assert not commands.run(*columns, text=True, here=True).stderr
    monkeypatch.setattr(reading, "MAX_MESSAGE_BYTES", 39 * ONE)
    said = commands.run(*columns, text=True, here=True).stderr
    assert "x.pcap: too many messages and PDUs of one window to remember: 20 from frame 2 on are not shown" in said
    linted = commands.run("lint", *options, path, "--infos", "--select", "CAP016", "--format", "github", text=True, here=True).stdout
    assert "too many messages and PDUs of one window to remember, some were forgotten" in linted
