"""The payloads of a connection are put together once for each PSN, both ways, with keys masked."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # messages as they are shown

from ibdissect.pipeline.check import CheckOptions
from ibdissect.screen_model.payload import as_text, followed
from tests import craft
from tests.screen_model.made import opened, studied


def said_in(path: Path, *frames: int) -> list[list[Any] | None]:
    """The messages around some frames."""
    learnt, model = opened(path), opened(path)
    studied(learnt, CheckOptions(rules=[]))
    messages = learnt.answers.messages
    assert messages is not None
    return [followed(messages, frame, model.table, show_keys=False) for frame in frames]


def write(psn: int, opcode: int, text: bytes) -> bytes:
    return craft.rc(opcode, text, slid=1, dlid=2, bth={"psn": psn, "destqp": 9})


def back(psn: int, opcode: int, text: bytes = b"") -> bytes:
    return craft.rc(opcode, text, slid=2, dlid=1, bth={"psn": psn, "destqp": 8})


def test_both_ways_and_no_copy(tmp_path: Path) -> None:
    """And an ATOMIC between others, which has no payload."""
    ack = craft.rc(0x11, slid=1, dlid=2, bth={"psn": 70, "destqp": 9})
    frames = [write(5, 0x06, b"one "), write(6, 0x08, b"two!"), write(6, 0x08, b"two!"), back(6, 0x11), write(7, 0x0C, b""),
              back(7, 0x10, b"read"), back(70, 0x04, b"sent"), ack,
              craft.rc(0x14, slid=3, dlid=4, bth={"psn": 5, "destqp": 9}, ext={"AtomicETH": {"va": 0x1000}}),
              craft.rc(0x12, slid=4, dlid=3, bth={"psn": 5, "destqp": 8})]  # fmt: skip
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.erf_pcap(frames))
    found, atomic = said_in(path, 2, 9)
    assert found is not None and atomic is not None
    assert [(said.kind, bytes(said.data), said.forward, said.asked) for said in found] == [
        ("WRITE", b"one two!", True, True), ("READ", b"read", False, False), ("SEND", b"sent", False, False),
    ]  # fmt: skip
    assert found[0].title == "WRITE 8 bytes, frames 1-4, LID 1 → LID 2"
    assert [said.title for said in atomic] == ["ATOMIC without payload, frames 9-10, LID 3 → LID 4"]


def test_frames_without_messages(repo: Path) -> None:
    assert said_in(repo / "captures/rxe-rping.pcap", 1) == [None]


def test_forms(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.erf_pcap([write(5, 0x04, b"Hi\x00\n" + bytes(range(65, 85)))]))
    ((said,),) = said_in(path, 1)
    said.hidden.append((4, 8))
    assert list(as_text(said, "ascii")) == ["Hi.", "****EFGHIJKLMNOPQRST"]
    assert list(as_text(said, "hex")) == [
        "00000000  48 69 00 0a ** ** ** **  45 46 47 48 49 4a 4b 4c  Hi..****EFGHIJKL",
        "00000010  4d 4e 4f 50 51 52 53 54                           MNOPQRST",
    ]  # fmt: skip
    assert list(as_text(said, "raw")) == ["4869000a********45464748494a4b4c4d4e4f5051525354"]
