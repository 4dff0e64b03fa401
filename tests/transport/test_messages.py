"""Messages are what an independent walk over the packets finds, whatever the reading window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ibdissect
from ibdissect.capture import records
from ibdissect.decode.crcs import icrc
from ibdissect.transport import messages as follower
from ibdissect.transport.message_table import MessageTable
from tests.cases import few
from tests.conftest import REPO, SHARED
from tests.craft import erf_pcap
from tests.decode.made import tables_of
from tests.diagnosis.lab import MS, US, Lab
from tests.transport import messages_one_by_one as plain
from tests.transport.test_message_parts import ack, write

RXE = SHARED / "captures/rxe"
NAMES = ["rc_read_mtu1024", "netem_loss_read_bw", "netem_loss_both", "k612_netem_mess", "netem_dup", "netem_corrupt", "netem_loss_uc_write",
         "netem_reorder_resp", "k612_ops_batch", "ul_nfs_v4_2"]  # fmt: skip
KINDS = "SEND", "WRITE", "READ", "ATOMIC", "ATOMIC WRITE", "FLUSH"
ROWS = records.ROWS
SAMPLES = [REPO / f"captures/rxe-{name}.pcap" for name in ("rping", "nak-bad-rkey", "atomic-write")]


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    yield
    records.ROWS = ROWS


def found(path: Path, rows: int = ROWS) -> tuple[list[plain.Message], set[int]]:
    """RDMA messages of a capture read in windows of some frames, and the frames with a wrong ICRC."""
    records.ROWS, damaged = rows, set[int]()
    table = MessageTable()
    with ibdissect.open(str(path)) as capture:
        for chunk in capture.tables():
            damaged |= {chunk.chunk.first + row for row in np.flatnonzero(icrc(chunk).bad).tolist()}
            table.feed(chunk)
    table.finish()
    m = table.columns()
    columns = (m.kind, m.first_frame, m.ack_frame, m.bytes, m.packets, m.retries, m.naks, m.complete, m.place)
    return sorted(
        plain.Message(KINDS[kind], first, ack, size, packets, retries, naks, complete)
        for kind, first, ack, size, packets, retries, naks, complete, place in zip(*(column.tolist() for column in columns), strict=True)
        if place >= 0
    ), damaged


@pytest.mark.parametrize("path", SAMPLES + [RXE / f"{name}.pcap" for name in NAMES if RXE.is_dir()], ids=lambda path: path.stem)
def test_as_found_packet_by_packet(path: Path) -> None:
    ours, damaged = found(path)
    with ibdissect.open(str(path)) as capture:
        frames = [(frame.number, frame.data) for frame in capture]
    assert ours and ours == sorted(plain.messages(frames, damaged))


@pytest.mark.slow
@pytest.mark.parametrize("path", [*SAMPLES, *(RXE / f"{name}.pcap" for name in ("netem_loss_both", "netem_corrupt", "netem_reorder_resp")
                                              if RXE.is_dir())], ids=lambda path: path.stem)  # fmt: skip
def test_the_reading_window_does_not_matter(path: Path) -> None:
    usual = found(path)[0]
    for rows in (1, 7, 50) if path in SAMPLES else (7,):
        assert found(path, rows)[0] == usual


def test_messages_ended_early_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "MAX_OPEN", 1)
    table = MessageTable()
    for chunk in tables_of(erf_pcap([write(5), ack(5), write(6, 0x06), write(7, 0x07)])):
        table.feed(chunk)
    assert table.follower.dropped.count == 2 and table.columns().first_frame.tolist() == [1, 3]


def messages_of(capture: bytes, window: int = 1 << 20) -> list[tuple[int, int, int, bool]]:
    """First frame, acknowledgement, retries and completeness of each message between queue pairs."""
    table = MessageTable()
    for chunk in tables_of(capture, window):
        table.feed(chunk)
    table.finish()
    m = table.columns()
    every = zip(*(column.tolist() for column in (m.place, m.first_frame, m.ack_frame, m.retries, m.complete)), strict=True)
    return [tuple(one) for place, *one in every if place >= 0]


@few("late_ns", [0, 5 * MS, 20 * MS], fast=(1, 2))
def test_answers_that_were_recorded_ahead_of_their_requests_end_no_message(late_ns: int) -> None:
    """The responder's clock is behind."""
    lab = Lab()
    start = lab.up(100 * MS) + 50 * MS
    for i in range(300):
        lab.ask(start + i * 100 * US, 100 + i)
        lab.answer(start + i * 100 * US + 5 * US - late_ns, 100 + i, msn=i + 1)
    found = messages_of(lab.pcap())
    assert len(found) == 300 and all((retries, complete) == (0, True) for _, _, retries, complete in found)


def test_a_request_that_comes_after_a_later_one_has_a_message_in_any_window() -> None:
    frames = [one for psn in (5, 7, 6, 8) for one in (write(psn), ack(psn))]
    capture = erf_pcap(frames)
    assert messages_of(capture) == messages_of(capture, 1) == messages_of(capture, 300)
    assert [first for first, *_ in messages_of(capture)] == [1, 5, 3, 7]
