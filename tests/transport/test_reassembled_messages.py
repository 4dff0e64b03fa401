"""Messages of several packets are put together as they were sent, and the whole says what one packet with the same bytes says."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect.dissect.tree import outline
from ibdissect.python_interface import Capture
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.transport import reassembled_messages, rpc_rdma_chunks
from ibdissect.wire.ulp import iser, nvme_rdma, rpcrdma
from tests.acme import PASSIVE_QP, connection, message
from tests.cases import few
from tests.commands import run
from tests.craft import erf_pcap, rc

SPAN = 150

PACKET = 256
SEGMENTS = 40
CALL = bytes(8) + (0x123456).to_bytes(8, "big") + bytes(24)
NFS = (
    b"\0\0\0\x07\0\0\0\1\0\0\0\x20\0\0\0\0" + bytes(4)  # header, no read list
    + b"\0\0\0\1" + SEGMENTS.to_bytes(4, "big") + b"".join(bytes([0, 0, 9, i]) + bytes(8) + bytes(3) + bytes([i]) for i in range(SEGMENTS))
    + bytes(8) + b"\0\0\0\x07\0\0\0\0" + b"\0\0\0\2\0\1\x86\xa3\0\0\0\4\0\0\0\1" + CALL
)  # fmt: skip
"""A call with a write list that takes three packets, and RPC behind it."""
LOGIN = (
    b"\x10" + bytes(27) + b"\x43\x87\0\0\0\0\x02\x58" + bytes(40) + b"".join(b"Key%02d=" % i + b"v" * 23 + b"\0" for i in range(20))
)  # fmt: skip
CAPSULE = b"\x01\0\x34\x12" + random.Random(1).randbytes(60) + random.Random(2).randbytes(700)
SERVED = {"nfs": (rpcrdma.SERVICE, b"", NFS), "iser": (iser.SERVICE, bytes(40), LOGIN),
          "nvme": (nvme_rdma.SERVICE, bytes(38) + b"\1" + bytes(29), CAPSULE)}  # fmt: skip


def packets(data: bytes, *, psn: int = 10, size: int = PACKET, pair: int = PASSIVE_QP, last: int = 0x02) -> list[bytes]:
    """A SEND in several packets."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    codes = [0x00, *[0x01] * (len(parts) - 2), last]
    ext = {0x03: {"ImmDt": {}}, 0x16: {"IETH": {}}}.get(last)
    return [
        rc(code, part, bth={"destqp": pair, "psn": (psn + i) % (1 << 24)}, slid=1, dlid=2, ext=ext if code == last else None)
        for i, (code, part) in enumerate(zip(codes, parts, strict=True))
    ]


def completed(capture: str | Sequence[bytes], edges: Iterable[int] = ()) -> dict[int, Any]:
    """The messages by the frame that completed each; the capture is read in pieces that end at `edges`."""
    whole: dict[int, Any] = {}
    with Capture(capture if isinstance(capture, str) else io.BytesIO(erf_pcap(capture))) as opened:
        for table in opened.tables(edges=list(edges)):
            for row, one in table.shown.joined if table.completes else ():
                assert whole.setdefault(table.chunk.first + row, one) is one, "a frame completes one"
    return whole


def found(frames: Sequence[bytes], *, edges: Iterable[int] = ()) -> dict[int, bytes]:
    """Their bytes."""
    return {frame: one.data for frame, one in completed(frames, edges).items()}


def said(nodes: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(node.name, node.value) for layer in nodes for node in layer.walk()]


@few("kind", sorted(SERVED), fast=(2,))
def test_the_whole_says_what_one_packet_would_say(kind: str) -> None:
    service, private, data = SERVED[kind]
    with Capture(io.BytesIO(erf_pcap([*connection(service, private), message(data)]))) as opened:
        tree = opened.dissect(3)
        at = next(layer for layer in tree.layers if layer.label == "BTH")
        alone = [layer for layer in tree.layers if layer.offset >= at.offset + at.length and layer.label not in ("ICRC", "VCRC", "Pad")]
    frames = [*connection(service, private), *packets(data)]
    with Capture(io.BytesIO(erf_pcap(frames))) as opened:
        (whole,) = opened.dissect(len(frames)).joined
    assert whole.raw == data and said(whole.children) == said(alone) and len(said(whole.children)) > 10


@few("last", [0x02, 0x03, 0x16], fast=(0,))
def test_in_order_with_repetitions_and_others_between(last: int) -> None:
    start, parts = connection(rpcrdma.SERVICE), packets(NFS, psn=0xFFFFFE, last=last)
    done = len(start) + len(parts)
    assert found([*start, *parts]) == {done: NFS}
    other = packets(NFS, pair=0x777)
    assert found([*start, *(one for both in zip(parts, other, strict=True) for one in both)]) == {len(start) + 2 * len(parts) - 1: NFS}
    assert found([*start, parts[0], *parts]) == {done + 1: NFS}
    assert found([*start, *parts[:2], *parts[:2], *parts[2:]]) == {done + 2: NFS}
    assert found([*start, *parts, *parts[-1:]]) == {done: NFS}
    assert found([*start, *packets(NFS[:300], psn=3), *parts]) == {len(start) + 2: NFS[:300], done + 2: NFS}
    assert found([*start, *parts], edges=range(2, done + 1)) == {done: NFS}


@pytest.mark.slow
def test_nothing_is_put_together_with_a_gap_or_without_a_service() -> None:
    start, parts = connection(rpcrdma.SERVICE), packets(NFS)
    first, second, *others = parts
    for some in (parts[1:], [first, *others], parts[:-1], [second, first, *others], [first, second[:-40], *others]):
        assert found([*start, *some]) == {}
    assert found(parts) == found([*connection(0x0106_1234), *parts]) == {}
    again = [*start, *parts[:1], *parts[2:], *packets(NFS, psn=10)]
    assert list(found(again).values()) == [NFS], "a message that is sent again as a whole"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    start, parts = connection(rpcrdma.SERVICE), packets(NFS)
    monkeypatch.setattr(reassembled_messages, "MAX_BYTES", 2 * PACKET)
    assert found([*start, *parts]) == {len(start) + len(parts): NFS}
    monkeypatch.setattr(reassembled_messages, "MAX_BYTES", PACKET)
    assert found([*start, *parts]) == {}
    monkeypatch.setattr(reassembled_messages, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_HELD", PACKET)
    assert found([*start, *parts]) == {}
    tiny = packets(NFS[:40], size=1)
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_HELD", 40 * (SPAN + 1))
    assert found([*start, *tiny]) == {len(start) + len(tiny): NFS[:40]}
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_HELD", 20 * (SPAN + 1))
    assert found([*start, *tiny]) == {}, "many packets with few bytes take memory, too"


def test_commands_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([*connection(rpcrdma.SERVICE), *packets(NFS)]))
    last = 2 + -(-len(NFS) // PACKET)
    lines = run("show", str(path), "-e", "frame.number", "-e", "rpcordma.xid", "-e", "rpc.programversion", text=True).stdout.splitlines()
    assert [line for line in lines if line.strip("\t0123456789")] == ["3\t0x00000007\t"] or lines[2].split("\t")[1:] == ["7", ""]
    assert lines[last - 1].split("\t") == [str(last), "", "4"]
    assert run("show", str(path), "--count", "-Y", "rpc.program == 100003", text=True).stdout == "1\n"
    whole = json.loads(run("show", str(path), "--format", "jsonl", "--frames", str(last), text=True).stdout)["message"]
    assert whole["text"] == f"{last - 2} packets, {len(NFS)} bytes, frames 3-{last}"
    assert sum(piece["length"] for piece in whole["pieces"]) == len(NFS) and whole["layers"][0]["layer"] == "RPC-over-RDMA"
    tree = run("show", str(path), "--format", "tree", "--frames", str(last), text=True).stdout
    assert f"Message  {whole['text']}" in tree and tree.count("Write segment") == SEGMENTS and "R_Key#" in tree
    assert "00000927" not in tree.replace(" ", ""), "keys are masked in what is put together, too"


@pytest.mark.slow
def test_one_frame_on_its_own_has_the_whole_message(tmp_path: Path) -> None:
    """In Python and on the screen, as `show` has it; the frame's own nodes stay those of the frame."""
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([*connection(rpcrdma.SERVICE), *packets(NFS)]))
    last = 2 + -(-len(NFS) // PACKET)
    with Capture(str(path)) as opened:
        assert [opened.dissect(frame).joined for frame in range(1, last)] == [[]] * (last - 1)
        tree = opened.dissect(last)
    (whole,) = tree.joined
    assert (whole.label, whole.text) == ("Message", f"{last - 2} packets, {len(NFS)} bytes, frames 3-{last}") and whole.raw == NFS
    program = next(node for node in tree.walk(joined=True) if node.name == "rpc.program")
    assert program not in tree.walk() and NFS[program.offset : program.offset + program.length] == (100003).to_bytes(4, "big")
    assert tree.home(program) is whole and tree.home(tree.layers[0]) is None
    assert tree.at_byte(program.offset, whole)[-1] is program and program not in tree.at_byte(program.offset)
    assert run("show", str(path), "--format", "tree", "--frames", str(last), text=True).stdout == outline(tree)
    model = CaptureModel(str(path))
    model.scan(lambda: None)
    for _ in model.reading.tables():
        pass
    assert model.tree(last).joined == tree.joined
    model.close()
