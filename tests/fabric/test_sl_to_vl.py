"""Are SL to VL tables of many port pairs learnt like single tables?"""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from ibdissect.fabric.follow import Follower
from ibdissect.fabric.sl_to_vl import SlMaps
from ibdissect.fabric.smp_places import Places
from ibdissect.fabric.smps import Smps
from ibdissect.fabric.tables import Qos
from ibdissect.table.table import ChunkTable
from tests import craft

from .made import ANSWER, node, switch

KNOWN = [craft.smp(ANSWER, 0x11, switch(2, ports=4), path=[1]), craft.smp(ANSWER, 0x11, node(5), path=[1, 2])]


def shown(path: list[int], modifier: int, entry: int) -> bytes:
    return craft.smp(ANSWER, 0x17, bytes([entry]) * 8, path=path, modifier=modifier)


def learnt(frames: list[bytes], window: int) -> dict[tuple[int, int], Any]:
    """Tables, inputs and frame by node and output port."""
    follower = Follower()
    for chunk in open_capture(io.BytesIO(craft.erf_pcap(KNOWN + frames)), window=window).chunks():
        list(follower.feed(ChunkTable(chunk)))
    return {
        (port.node.guid, port.number): (port.qos.first, port.qos.inputs, port.qos.others, port.qos.frame)
        for port in follower.subnet.ports()
        if port.qos is not None
    }


TABLES = st.builds(
    shown, st.sampled_from([[1], [1, 2]]), st.sampled_from([0x0101, 0x0102, 0x0201, 0x0400, 0x0501, 0x10101, 0x20001]), st.integers(0, 2)
)


@pytest.mark.slow
@given(st.lists(TABLES, max_size=20))
def test_together_as_alone(frames: list[bytes]) -> None:
    assert learnt(frames, 16 << 20) == learnt(frames, 16)


def test_equal_tables_are_one_step() -> None:
    frames = [shown([1], 0x0100 | number, 3) for number in range(5)]
    (chunk,) = open_capture(io.BytesIO(craft.erf_pcap(KNOWN + frames))).chunks()
    smps, follower = Smps(ChunkTable(chunk)), Follower()
    assert SlMaps(smps, Places(smps, follower.routes), True).batched.sum() == 5
    assert [value[1:] for value in learnt(frames, 16 << 20).values()] == [(0b11111, None, 7)]


def test_what_single_steps_would_do() -> None:
    qos = Qos()
    assert not qos.learn_same([1, 1], b"a" * 8, 5) and qos.inputs == 0  # which of the two was news?
    assert qos.learn_same([1, 2], b"a" * 8, 5) and (qos.inputs, qos.frame) == (0b110, 5)
    assert qos.learn_same([2], b"a" * 8, 6) and qos.frame == 5
    assert not qos.learn_same([2], b"b" * 8, 7) and not qos.learn_same([3], b"a" * 8, 7) and qos.map(3) is None


def test_tables_of_a_node_that_gets_its_name_and_goes() -> None:
    show = craft.smp(ANSWER, 0x17, bytes(8), modifier=0x0101, path=[1])
    follower = Follower()
    for frames in ([show], [show, craft.smp(ANSWER, 0x11, switch(2, ports=4), path=[1]), show]):
        (chunk,) = open_capture(io.BytesIO(craft.erf_pcap(frames))).chunks()
        list(follower.feed(ChunkTable(chunk)))
    assert [(port.node.guid > 0, port.qos.inputs) for port in follower.subnet.ports() if port.qos is not None] == [(True, 0b10)]
