"""Compiled and interpreted steps learn the same of every capture, and find the same place for each SMP."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.engine import smps
from ibdissect.subnet import FabricFollower
from tests import craft
from tests.conftest import REPO, shared_captures
from tests.decode.made import tables_of
from tests.engine.plain import interpreted
from tests.standard import TRAP
from tests.subnet.made import ANSWER, GET, REPRESS, SET, answer, ask, node, port_info, switch

CAPTURES = [*sorted((REPO / "captures").glob("*.pcap*")), *shared_captures()]
MOST = 4_000_000
"""Bytes of a capture that the interpreted steps are given."""


def told(source: Any) -> tuple[Any, ...]:
    """All events, the place of each SMP, and what was learnt in the end."""
    follow, capture, tables = (import_module(f"ibdissect.{name}") for name in ("subnet.follower", "capture.opening", "decode.chunk_table"))
    follower = follow.FabricFollower()
    events, places = list[tuple[str, int, str]](), list[tuple[int, ...]]()
    for chunk in capture.open_capture(source, window=16 << 20).chunks():
        for event in follower.feed(tables.ChunkTable(chunk)):
            if isinstance(event, follow.ChunkFollowed):
                columns = (event.smps.rows, event.smps.slot, event.smps.entered, event.smps.kind, event.smps.ports)
                places += zip(*(column.tolist() for column in columns), strict=True)
            else:
                values = " ".join(str(getattr(event, name)) for name in event.__struct_fields__)
                events.append((type(event).__name__, event.frame, re.sub(" at 0x[0-9a-f]+>", "", values)))
    learnt = import_module("ibdissect.subnet.describe").describe(follower.subnet, lambda kind, value: f"{kind} {value:x}")
    return events, places, learnt


def both(make: Callable[[], Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What compiled and interpreted steps tell of a source."""
    with interpreted():
        second = told(make())
    return told(make()), second


def test_the_second_one_is_interpreted() -> None:
    with interpreted():
        assert not import_module("ibdissect.engine.common").COMPILED and import_module("ibdissect.engine.smps") is not smps


@pytest.mark.parametrize("path", [path for path in CAPTURES if path.stat().st_size < MOST], ids=lambda path: path.name)
def test_compiled_and_interpreted_learn_the_same(path: Path) -> None:
    compiled, second = both(lambda: str(path))
    assert compiled == second


PATHS = st.sampled_from([[], [1], [1, 2], [1, 3], [1, 2, 4]])
LIDS = st.sampled_from([2, 5, 6])
BODIES = st.sampled_from([
    (0x11, switch(2)), (0x11, node(5)), (0x11, node(6)), (0x11, node(5, num_ports=2, local_port_num=2)), (0x11, node(7, node_guid=0)),
    (0x11, node(5, node_type=3)), (0x11, node(5, partition_cap=9)), (0x15, port_info(5)), (0x15, port_info(6)),
    (0x15, port_info(5, m_key=9)), (0x15, port_info(5, lmc=1)), (0x15, port_info(0xFFFF)), (0x16, bytes(64)),
    (0x16, b"\x80\1" * 32), (0x14, bytes(64)), (0x20, bytes(64)),
])  # fmt: skip
MODIFIERS = st.sampled_from([0, 1, 2, 0x10000, 0x20001, 0xFFFFFFFF])
SMPS = st.one_of(
    st.builds(
        lambda path, method, what, m: craft.smp(method, what, path=path, modifier=m),
        PATHS, st.sampled_from([GET, SET]), st.sampled_from([0x11, 0x15, 0x16]), MODIFIERS,
    ),
    st.builds(lambda path, body, m: craft.smp(ANSWER, body[0], body[1], path=path, modifier=m), PATHS, BODIES, MODIFIERS),
    st.builds(ask, LIDS, st.sampled_from([0x11, 0x15])),
    st.builds(lambda lid, body: answer(lid, *body), LIDS, BODIES),
    st.builds(lambda method, path: craft.smp(method, 0x02, bytes(64), path=path), st.sampled_from([TRAP, REPRESS]), PATHS),
    st.builds(lambda path: craft.smp(GET, 0x15, path=path, dr={"dr_slid": 5}), PATHS),
    st.builds(lambda path: craft.smp(GET, 0x15, path=path, dr={"dr_dlid": 5}), PATHS),
)  # fmt: skip


@given(st.lists(SMPS, min_size=1, max_size=30))
def test_they_learn_the_same_of_made_packets(frames: list[bytes]) -> None:
    capture = craft.erf_pcap(frames)
    compiled, second = both(lambda: io.BytesIO(capture))
    assert compiled == second


def test_few_exchanges_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smps, "MAX_EXCHANGED", 2)
    follower = FabricFollower()
    frames = [answer(5, 0x11, node(5)), *(answer(5, 0x16, bytes(64), modifier=block) for block in range(4))]
    for table in tables_of(craft.erf_pcap(frames)):
        assert len(list(follower.feed(table))) > 1
    assert len(follower.steps.exchanged) == 2
