"""Chunks of RPC-over-RDMA are put back into their messages, and only where the capture shows that they belong there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect.python_interface import Capture
from ibdissect.transport import rpc_rdma_chunks
from ibdissect.wire.ulp import rpcrdma
from tests.acme import ACTIVE_QP, PASSIVE_QP, connection
from tests.cases import few
from tests.commands import run
from tests.craft import rc
from tests.transport.test_reassembled_messages import completed

SPAN = 150

KEY, AT = 0x00000927, 0x1000_0000_0000
CALL = b"\0\0\0\x07" + bytes(4) + b"\0\0\0\2\0\1\x86\xa3\0\0\0\4\0\0\0\1" + bytes(40)
REPLY = b"\0\0\0\x07\0\0\0\1" + bytes(24) + b"what was asked for"
DATA = bytes(range(250)) * 4
POSITION = 48
START = connection(rpcrdma.SERVICE)
Where = tuple[int, int, int]


def word(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big") for value in values)


def segment(size: int, key: int = KEY, at: int = AT) -> bytes:
    return word(key, size) + at.to_bytes(8, "big")


def header(kind: int, reads: Iterable[tuple[int, bytes]] = (), reply: Sequence[bytes] = ()) -> bytes:
    """A transport header: the read chunks with their positions, no write list, and a reply chunk."""
    of_reads = b"".join(word(1, position) + one for position, one in reads)
    return word(7, 1, 32, kind) + of_reads + word(0, 0) + (word(1, len(reply)) + b"".join(reply) if reply else word(0))


def packet(code: int, data: bytes = b"", *, back: bool = False, psn: int = 0, where: Where | None = None) -> bytes:
    """From the client to the server, or back; `where`: R_Key, address and length of a RETH."""
    ends = {"slid": 2, "dlid": 1} if back else {"slid": 1, "dlid": 2}
    ext = {"RETH": {"r_key": where[0], "va": where[1], "dmalen": where[2]}} if where else None
    return rc(code, data, bth={"destqp": ACTIVE_QP if back else PASSIVE_QP, "psn": psn}, ext=ext, **ends)


EVERYTHING = (KEY, AT, len(DATA))


def ask(where: Where = EVERYTHING, psn: int = 0xFFFFFF) -> bytes:
    return packet(0x0C, back=True, psn=psn, where=where)


def given(data: bytes = DATA, psn: int = 0xFFFFFF, size: int = 400) -> list[bytes]:
    """READ responses."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    codes = [0x0D, *[0x0E] * (len(parts) - 2), 0x0F] if len(parts) > 1 else [0x10]
    return [packet(code, part, psn=(psn + i) % (1 << 24)) for i, (code, part) in enumerate(zip(codes, parts, strict=True))]


def written(data: bytes, key: int = KEY, at: int = AT, *, psn: int = 50, size: int = 16) -> list[bytes]:
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    codes = [0x06, *[0x07] * (len(parts) - 2), 0x08] if len(parts) > 1 else [0x0A]
    where = [(key, at, len(data)), *[None] * len(parts)]
    return [packet(codes[i], part, back=True, psn=psn + i, where=where[i]) for i, part in enumerate(parts)]


def found(frames: Sequence[bytes], *, edges: Iterable[int] = ()) -> dict[int, Any]:
    """The messages by the frame that completed each."""
    return completed([*START, *frames], edges)


HEAD = header(0, [(POSITION, segment(len(DATA)))])
SENT = packet(0x04, HEAD + CALL)
WITH_DATA = HEAD + CALL[:POSITION] + DATA + CALL[POSITION:]


@few("edges", [(), range(2, 8)], fast=(0,))
def test_a_read_chunk_is_put_where_it_belongs(edges: Iterable[int]) -> None:
    (frame, whole), *others = found([SENT, ask(), *given()], edges=edges).items()
    assert (frame, whole.data, others) == (7, WITH_DATA, [])
    assert [span.frame for span in whole.spans] == [3, 5, 6, 7, 3] and [span.frame for span in whole.chunks] == [5, 6, 7]
    assert whole.known == len(HEAD) + POSITION


@pytest.mark.slow
def test_repetitions_parts_and_several_segments() -> None:
    first, second, third = given()
    for frames in (
        [SENT, ask(), first, first, second, second, third, third], [SENT, ask(), ask(), first, second, third],
        [SENT, ask(), first, ask((KEY, AT + 400, 600), 0), *given(DATA[400:], 0)],
        [SENT, ask((KEY, AT, 500), 9), ask((KEY, AT + 500, 500), 30), *given(DATA[:500], 9), *given(DATA[500:], 30)],
        [SENT, ask((KEY, AT, 500), 9), *given(DATA[:500], 9)[:1], ask(), *given()],
    ):  # fmt: skip
        assert [one.data for one in found(frames).values()] == [WITH_DATA]
    two = header(0, [(POSITION, segment(600)), (POSITION, segment(400, KEY + 1, 0))])
    frames = [packet(0x04, two + CALL), ask((KEY, AT, 600), 9), ask((KEY + 1, 0, 400), 30), *given(DATA[:600], 9), *given(DATA[600:], 30)]
    assert [one.data for one in found(frames).values()] == [two + CALL[:POSITION] + DATA + CALL[POSITION:]]


def test_a_call_that_is_in_chunks_altogether() -> None:
    long = header(1, [(0, segment(len(CALL)))])
    (whole,) = found([packet(0x04, long), ask((KEY, AT, len(CALL)), 3), *given(CALL, 3, 40)]).values()
    assert whole.data == long + CALL and whole.known == len(long)
    both = header(1, [(0, segment(len(CALL))), (POSITION, segment(len(DATA), KEY + 1))])
    frames = [packet(0x04, both), ask((KEY, AT, len(CALL)), 3), *given(CALL, 3), ask((KEY + 1, AT, len(DATA)), 8), *given(DATA, 8)]
    assert [one.data for one in found(frames).values()] == [both + CALL[:POSITION] + DATA + CALL[POSITION:]]


def test_nothing_is_put_back_that_the_capture_does_not_prove() -> None:
    parts = given()
    foreign = rc(0x0C, bth={"destqp": ACTIVE_QP, "psn": 0xFFFFFF}, ext={"RETH": {"r_key": KEY, "va": AT, "dmalen": 1000}}, slid=3, dlid=1)
    inline = header(0, [(0, segment(len(DATA)))])
    places = header(0, [(8, segment(500)), (POSITION, segment(500, KEY + 1))])
    far = header(0, [(len(CALL) + 4, segment(len(DATA)))])
    for frames in (
        [SENT, *parts], [ask(), *parts], [SENT, ask(), *parts[1:]], [SENT, ask(), parts[0], parts[2]], [SENT, foreign, *parts],
        [SENT, ask((KEY + 1, AT, len(DATA))), *parts], [SENT, ask((KEY, AT - 1, len(DATA))), *parts],
        [SENT, ask((KEY, AT, len(DATA) + 1)), *parts], [SENT, ask(), parts[0], parts[1][:-50], parts[2]],
        [SENT, ask(), *parts[:2], SENT, parts[2]],
        [packet(0x04, places + CALL), ask((KEY, AT, 500), 9), *given(DATA[:500], 9), ask((KEY + 1, AT, 500), 30), *given(DATA[500:], 30)],
        [packet(0x04, far + CALL), ask(), *parts], [packet(0x04, inline + CALL), ask(), *parts],
        [packet(0x04, HEAD[:-4] + word(1) + CALL), ask(), *parts],
    ):  # fmt: skip
        assert found(frames) == {}


def test_a_reply_that_was_written() -> None:
    offer = packet(0x04, header(0, reply=[segment(64), segment(64, KEY + 1)]) + CALL)
    done = header(1, reply=[segment(len(REPLY))])
    (frame, whole), *others = found([offer, *written(REPLY), packet(0x04, done, back=True)]).items()
    assert (frame, whole.data, others) == (8, done + REPLY, []) and whole.known == len(done)
    both = header(1, reply=[segment(32), segment(len(REPLY) - 32, KEY + 1)])
    frames = [offer, *written(REPLY[:32]), *written(REPLY[32:], KEY + 1, psn=70), packet(0x04, both, back=True)]
    assert [one.data for one in found(frames).values()] == [both + REPLY]
    last, longer = packet(0x04, done, back=True), packet(0x04, header(1, reply=[segment(len(REPLY) + 4)]), back=True)
    for frames in (
        [*written(REPLY), last], [offer, *written(REPLY)[1:], last], [offer, *written(REPLY, KEY + 2), last],
        [offer, last, *written(REPLY)],
        [offer, *written(REPLY), longer], [offer, *written(REPLY[:32], psn=20), last], [offer, *written(REPLY), offer, last],
    ):  # fmt: skip
        assert found(frames) == {}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [SENT, ask(), *given()]
    held = len(HEAD + CALL) + 4 * SPAN + len(DATA)
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_HELD", held)
    assert len(found(frames)) == 1
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_HELD", held - 1)
    assert found(frames) == {}
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_HELD", held)
    assert len(found(frames * 5)) == 5, "what is complete takes no memory"
    monkeypatch.setattr(rpc_rdma_chunks, "MAX_BYTES", len(DATA) - 1)
    assert found(frames) == {}


def test_recorded_nfs(shared: Path) -> None:
    """Frames and bytes as `tshark -T fields -e frame.number -e rpcordma.reassembled.length` has them, the RPC replies named."""
    path = shared / "captures/rxe/ul_nfs_v4_2.pcap"
    lengths = {12: 100, 17: 100, 132: 356, 146: 356, 160: 356, 174: 356, 188: 356, 213: 356, 307: 300200, 325: 348, 443: 1456}
    whole = completed(str(path))
    lists = {frame: rpcrdma.chunk_lists(one.data[16:]) for frame, one in whole.items()}
    assert {frame: len(whole[frame].data) - 16 - one.rpc for frame, one in lists.items() if one is not None} == lengths
    with Capture(str(path)) as opened:
        (layer,) = opened.dissect(307).joined
    assert (layer.children[-1].label, layer.children[-1].text) == ("Moved by RDMA", "300000 bytes, 74 packets, frames 234-307")
    replies = run("show", str(path), "-Y", "rpcordma.msg_type == 1 && rpc.msgtyp == 1", "--format", "jsonl", text=True).stdout
    assert [json.loads(line)["frame"] for line in replies.splitlines()] == [frame for frame in lengths if frame != 307]
