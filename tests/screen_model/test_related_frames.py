"""Frames that belong to the selected one: its answer, its conversation, its RMPP transfer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.screen_model.background_analysis import BackgroundAnalysis, Snapshot
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.related_frames import counterpart, filter_for_frame, find_transfer
from tests import craft
from tests.cases import every
from tests.mad.test_rmpp_records import FIRST, LAST, MIDDLE
from tests.mad.transfers import segment
from tests.screen_model.made import opened, studied, written

GET, ANSWER = 1, 0x81


def asked(tid: int, method: int, *, lid: int = 1, peer: int = 2) -> bytes:
    """A PortCounters request, or its answer."""
    ends = {"slid": lid, "dlid": peer} if method == GET else {"slid": peer, "dlid": lid}
    return craft.gmp(4, method, 0x12, header={"transaction_id": tid}, **ends)


def data(psn: int, *, qp: int = 0x10) -> bytes:
    return craft.rc(0x04, bytes(8), slid=1, dlid=2, bth={"destqp": qp, "psn": psn})


def ack(psn: int, *, qp: int = 0x20) -> bytes:
    return craft.rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, slid=2, dlid=1, bth={"destqp": qp, "psn": psn})


FRAMES = [asked(1, GET), data(5), asked(2, GET), data(6), asked(1, ANSWER), ack(6), data(7), ack(7), asked(3, GET),
          craft.ud(bytes(8), dest_qp=0x40, src_qp=0x41, slid=1, dlid=2), craft.ud(bytes(8), dest_qp=0x41, src_qp=0x40, slid=2, dlid=1),
          craft.ud(bytes(8), dest_qp=0x41, src_qp=0x99, slid=2, dlid=1)]  # fmt: skip


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[CaptureModel, BackgroundAnalysis, Snapshot]:
    """The frames with all that is known of them."""
    path = written(tmp_path_factory.mktemp("together"), *FRAMES)
    model = opened(path)
    study, shot = studied(model)
    again = opened(path)
    again.answers = model.answers
    return again, study, shot


@every(
    ("frame", "other"), [(1, 5), (5, 1), (3, None), (9, None), (2, 6), (4, 6), (6, 4), (7, 8), (8, 7), (10, None)]
)  # fmt: skip
def test_counterparts(learnt: tuple[CaptureModel, BackgroundAnalysis, Snapshot], frame: int, other: int | None) -> None:
    model, _, _ = learnt
    assert counterpart(model, frame) == other


def test_a_nak_whose_packet_the_capture_lacks(repo: Path) -> None:
    """Frame 26 asks for PSN 12, which comes again behind it."""
    path = repo / "docs/examples/lost/server.pcap"
    model = opened(path)
    studied(model)
    assert counterpart(model, 26) is None


def test_no_conversation_without_infiniband(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    path.write_bytes(craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(28), craft.roce2(0x04, bytes(4))]))
    model = opened(path)
    assert filter_for_frame(model, 1, (), ()) is None and find_transfer(model, 1, lambda: True) is None
    assert counterpart(model, 1) is None
    model.close()


OTHER = craft.gmp(4, 1, 0x12, slid=1, dlid=2)
ACK = segment(3, 1, 67, b"", kind=2, method=0x12, slid=2, dlid=1)


@pytest.mark.parametrize(("frame", "frames"), [(1, None), (2, [2, 3, 5]), (3, [2, 3, 5]), (5, [2, 3, 5]), (4, [2, 3, 5]), (6, None)])
def test_which_transfer_a_frame_belongs_to(tmp_path: Path, frame: int, frames: list[int] | None) -> None:
    """Segments, and the acknowledgement between them; a request of the same ends is none of it."""
    model = opened(written(tmp_path, OTHER, FIRST, MIDDLE, ACK, LAST, OTHER))
    found = find_transfer(model, frame, lambda: True)
    assert (sorted(found.frames) if found is not None else None) == frames
    model.close()


def test_a_transfer_that_has_no_end_is_found_too(tmp_path: Path) -> None:
    model = opened(written(tmp_path, FIRST, OTHER, MIDDLE))
    found = find_transfer(model, 3, lambda: True)
    assert found is not None and sorted(found.frames) == [1, 3] and not found.end_frame
    model.close()


def test_a_cancelled_search_stops(tmp_path: Path) -> None:
    model = opened(written(tmp_path, FIRST, MIDDLE, LAST))
    assert find_transfer(model, 1, lambda: False) is None
    model.close()
