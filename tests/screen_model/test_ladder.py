"""A ladder marks what was sent again, refused and lost."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path

import numpy as np

from ibdissect.screen_model.ladder import Ladder, short_ends, shorter
from tests import craft
from tests.cases import every
from tests.commands import run
from tests.screen_model.made import opened


def send(psn: int) -> bytes:
    return craft.rc(0x04, bytes(4), slid=1, dlid=2, bth={"psn": psn, "destqp": 9})


def read(psn: int) -> bytes:
    return craft.rc(0x0C, slid=1, dlid=2, bth={"psn": psn, "destqp": 9}, ext={"RETH": {"dmalen": 9000}})


def nak(psn: int) -> bytes:
    return craft.rc(0x11, slid=2, dlid=1, bth={"psn": psn, "destqp": 8}, ext={"AETH": {"syndrome": 0x60}})


def ladder(frames: Iterable[bytes], tmp_path: Path, repeated: Container[int] = (), times: Sequence[int] = ()) -> Ladder:
    """The ladder of some InfiniBand packets, a millisecond apart or at times in nanoseconds."""
    path = tmp_path / "x.pcapng"
    path.write_bytes(craft.interfaces_pcapng([(0, frame) for frame in frames], times=times))
    return ladder_of(path, repeated)


def ladder_of(path: Path, repeated: Container[int] = ()) -> Ladder:
    """The ladder of all packets of a capture. `repeated`: frames known to be sent before."""
    model = opened(path)
    found = Ladder(model.presenter(0), repeated)
    if total := model.index.frames:
        found.feed(model.table(range(1, total + 1)), np.arange(total))
    model.close()
    return found


def test_marks(tmp_path: Path) -> None:
    found = ladder([send(1), send(4), nak(2), send(2), send(3), send(4), read(5), send(99)], tmp_path)
    assert [step.mark for step in found.steps] == ["", "lost", "refused", "", "", "again", "", ""]  # a READ uses an unknown number of PSNs
    assert found.steps[1].note == "2 packets before it are missing" and found.ends == ["LID 1", "LID 2"]


def test_the_psn_of_another_message_is_not_sent_again(tmp_path: Path) -> None:
    """A PSN used for two messages, or a damaged copy: both have other data. A READ may ask for the rest."""
    other = craft.rc(0x04, b"else", slid=1, dlid=2, bth={"psn": 1, "destqp": 9})
    rest = craft.rc(0x0C, slid=1, dlid=2, bth={"psn": 3, "destqp": 9}, ext={"RETH": {"dmalen": 5000}})
    found = ladder([send(1), send(2), other, send(1), read(3), rest], tmp_path).steps
    assert [step.mark for step in found] == ["", "", "other", "again", "", "again"] and found[2].note == "PSN as before, other data"


def response(psn: int, kind: int = 0x0E) -> bytes:
    ext = {} if kind == 0x0E else {"AETH": {"syndrome": 0x1F, "msn": 1}}
    return craft.rc(kind, bytes(256), slid=2, dlid=1, bth={"psn": psn, "destqp": 8}, ext=ext)


def test_responses_of_a_read_that_are_missing(tmp_path: Path) -> None:
    frames = [read(5), response(5, 0x0D), response(6), response(9), response(10, 0x0F), nak(50), response(60, 0x10)]
    found = ladder(frames, tmp_path).steps
    assert [step.mark for step in found] == ["", "", "", "lost", "", "refused", ""] and found[3].note == "2 responses before it are missing"
    cut = ladder([response(5, 0x0D), response(8, 0x10), response(5, 0x0D)], tmp_path).steps
    assert [(step.mark, step.note) for step in cut] == [("", ""), ("lost", "2 responses before it are missing"), ("again", "sent again")]


def test_requests_behind_a_read_whose_length_is_known(tmp_path: Path) -> None:
    most = -(-9000 // 256)  # the READ uses as many numbers as it has responses
    for psn, mark in ((5 + most, ""), (5 + most + 1, "lost")):
        steps = ladder([read(5), response(5, 0x0D), send(psn)], tmp_path).steps
        assert steps[-1].mark == mark, psn


def test_a_read_of_the_rest_is_sent_again(tmp_path: Path) -> None:
    frames = [send(1), read(2), read(5)]
    assert [step.mark for step in ladder(frames, tmp_path, {3}).steps] == ["", "", "again"]


def test_a_request_of_management_that_comes_again(tmp_path: Path) -> None:
    ask = craft.gmp(4, 1, 0x12, slid=1, dlid=2)
    assert [step.mark for step in ladder([ask, craft.gmp(4, 1, 0x1D, slid=1, dlid=2), ask], tmp_path).steps] == ["", "", "again"]


def test_what_is_not_kept_is_counted(tmp_path: Path) -> None:
    found, model = ladder([send(1), send(2)], tmp_path), opened(tmp_path / "x.pcapng")
    found.steps *= 4999
    for left_out in (0, 2):
        found.feed(model.table([1, 2]), np.arange(2))
        assert (len(found.steps), found.left_out) == (10_000, left_out)
    model.close()


def test_show(repo: Path) -> None:
    out = run("show", str(repo / "captures/rxe-nak-bad-rkey.pcap"), "--format", "ladder", "--frames", "1-5").stdout.decode().splitlines()
    sent = [line for line in out if "▶│" in line or "│◀" in line]
    assert len(sent) == 5 and "192.168.77.1" in out[0] and "192.168.77.2" in out[0]
    assert "─ ConnectRequest ─" in sent[0] and "│◀─" in sent[4] and "NAK Remote access error" in sent[4]
    assert [line.strip(" ┊") for line in out if "no packet" in line] == ["87.8 ms no packet", "214 ms no packet"]


def test_ends_are_named_as_shortly_as_they_differ() -> None:
    ends = ["a HCA-1", "a HCA-1 port 1", "b HCA-1 port 1", "b HCA-1 port 2", "c HCA-1", "c HCA-2", "LID 5", "10.0.0.1", ""]
    assert list(short_ends(ends).items()) == [
        ("a HCA-1", "a"), ("a HCA-1 port 1", "a"), ("b HCA-1 port 1", "b port 1"), ("b HCA-1 port 2", "b port 2"),
        ("c HCA-1", "c HCA-1"), ("c HCA-2", "c HCA-2"), ("LID 5", "LID 5"), ("10.0.0.1", "10.0.0.1"),
    ]  # fmt: skip


READ = "RDMA READ Response Middle QP 0x0000b0 PSN 13825123 MSN 7 len 1024"


@every(
    ("label", "room", "expected"),
    [
        (READ, 65, READ), (READ, 64, READ.replace(" QP 0x0000b0", "")), (READ, 51, "RDMA READ Response Middle PSN 13825123 MSN 7 len 1…"),
        (READ, 38, "RDMA READ Response Middle PSN 13825123"), (READ, 37, "READ Response Middle PSN 13825123"),
        (READ, 32, "READ resp. Middle PSN 13825123"), (READ, 20, "READ r… PSN 13825123"), (READ, 15, "R… PSN 13825123"),
        (READ, 14, "PSN 13825123"),
        (READ, 12, "PSN 13825123"), (READ, 8, "13825123"), (READ, 6, "…25123"), ("SubnGet(PortInfo) port 1", 12, "SubnGet(Por…"),
        ("RDMA WRITE Last with Immediate QP 0x000001 PSN 5 imm 0x1", 25, "WRITE Last imm PSN 5"),
        ("ACK QP 0x000001 PSN 5 MSN 1", 9, "ACK PSN 5"),
    ],
)  # fmt: skip
def test_the_psn_is_what_stays_of_a_label(label: str, room: int, expected: str) -> None:
    assert shorter(label, room) == expected and len(expected) <= room
