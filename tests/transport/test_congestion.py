"""Marks and notifications are counted by pair of ports, and marks without notification found wherever chunks end."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.transport.congestion import Congestion
from tests.craft import ethernet_pcap, roce2
from tests.decode.made import tables_of

MAX_PORTS = 64

HERE, THERE, ELSEWHERE = (bytes([192, 168, 0, last]) for last in (1, 2, 3))
STEP_NS = 400_000_000


def sent(*, ce: bool = False, port: int = 0xC000, qp: int = 0x12, to: bytes = THERE) -> bytes:
    return roce2(bth={"destqp": qp}, udp={"source_port": port}, ip={"ecn": 3 if ce else 2, "source": HERE, "destination": to})


def notified(by: bytes = THERE) -> bytes:
    return roce2(0x81, bytes(16), headers=b"", bth={"destqp": 0x34, "psn": 0, "becn": 1}, ip={"source": by, "destination": HERE})


def followed(frames: list[bytes], window: int = 1 << 20) -> dict[tuple[bytes, bytes], Any]:
    """The pairs of a capture with 0.4 s between frames; a notification is late after 1 s."""
    congestion = Congestion()
    for table in tables_of(ethernet_pcap(frames, step_ns=STEP_NS), window):
        congestion.feed(table)
    congestion.finish()
    return congestion.pairs


MARK, PLAIN = sent(ce=True), sent()


@pytest.mark.parametrize("window", [150, 400, 1 << 20])
@pytest.mark.parametrize(
    ("frames", "ignored"),
    [
        ([MARK, PLAIN, notified(), PLAIN, PLAIN, PLAIN], 0),
        ([MARK, PLAIN, PLAIN, PLAIN, PLAIN], 1),
        ([PLAIN, MARK, PLAIN, PLAIN, PLAIN, notified()], 2),
        ([MARK, notified(), PLAIN, MARK, PLAIN, PLAIN, PLAIN], 4),
        ([MARK, PLAIN, PLAIN], 0),
        ([MARK, notified(by=ELSEWHERE), PLAIN, PLAIN, PLAIN], 1),
        ([MARK, MARK, MARK, MARK, MARK, MARK], 1),
    ],
    ids=["answered", "ignored", "too late", "the second one", "nobody waited long enough", "somebody else", "marked again and again"],
)
def test_marks_without_notification(frames: list[bytes], ignored: int, window: int) -> None:
    assert followed(frames, window)[HERE, THERE].ignored_frame == ignored


def test_counts_of_a_pair_and_of_its_way_back() -> None:
    forward = roce2(bth={"fecn": 1}, ip={"source": HERE, "destination": THERE})
    pairs = followed([MARK, MARK, PLAIN, notified(), sent(ce=True, to=ELSEWHERE), forward])
    there, back = pairs[HERE, THERE], pairs[THERE, HERE]
    assert (there.ce, there.fecn, there.notifications, there.becn) == (2, 1, 0, 0)
    assert (back.ce, back.notifications, back.becn) == (0, 1, 0), "a notification's own BECN is none of a packet"
    assert pairs[HERE, ELSEWHERE].ce == 1 and there.texts == ("192.168.0.1", "192.168.0.2")


def test_source_ports_and_queue_pairs_are_bounded() -> None:
    frames = [sent(port=0xC000 + i % 4, qp=0x100 + i) for i in range(3 * MAX_PORTS)]
    pair = followed(frames)[HERE, THERE]
    assert pair.ports == {0xC000, 0xC001, 0xC002, 0xC003} and len(pair.queue_pairs) == MAX_PORTS
    many = followed([sent(port=0xC000 + i) for i in range(2 * MAX_PORTS)])[HERE, THERE]
    assert len(many.ports) == MAX_PORTS and many.queue_pairs == {0x12}
