"""A payload is read as a person says, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.decode.services import ACTIVE, PASSIVE
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.decode_as import decodings
from tests import craft

KEEP_ALIVE = bytes([0x18, 0x40, 7, 0]).ljust(64, b"\0")
"""A command capsule of NVMe over Fabrics."""
FRAMES = [
    craft.roce2(0x04, KEEP_ALIVE), craft.roce2(0x04, KEEP_ALIVE, bth={"destqp": 0x13}), craft.roce2(0x04, KEEP_ALIVE),
    craft.roce2(0x11, headers=bytes(4)), craft.roce2(0x04, KEEP_ALIVE, udp={"destination_port": 4799}),
]  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> CaptureModel:
    path = tmp_path / "messages.pcap"
    path.write_bytes(craft.ethernet_pcap(FRAMES))
    found = CaptureModel(str(path))
    found.scan(lambda: None)
    return found


def names(model: CaptureModel, frame: int) -> set[str]:
    return {layer.struct.__name__ for layer in model.tree(frame).layers if layer.struct is not None}


def test_messages_to_a_queue_pair(model: CaptureModel) -> None:
    found = decodings(model, 1)
    assert {one.side for one in found} == {ACTIVE, PASSIVE} and all(one.qp == 0x12 and not one.port for one in found)
    said = [one.what for one in found]
    assert len(set(said)) == len(said), "each is offered once, though several services carry it"
    before = {frame: names(model, frame) for frame in (1, 2, 3)}
    model.decode(next(one for one in found if one.what.startswith("NVMe command")))
    after = {frame: names(model, frame) for frame in (1, 2, 3)}
    assert after[1] == after[3] != before[1] and after[2] == before[2], "another queue pair is still not guessed"


def test_what_cannot_be_said(model: CaptureModel) -> None:
    assert not decodings(model, 4), "an acknowledgement begins no message"
    assert [(one.carrier, one.what, one.port) for one in decodings(model, 5)] == [("UDP port 4799", "RoCE v2", 4799)]
    model.live = True
    assert not decodings(model, 5), "a pipe cannot be read again"
