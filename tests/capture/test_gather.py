"""Bytes and numbers read from many places are those that reading one by one gives."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

import ibdissect
from tests.craft import LINK_INFINIBAND, ethernet_pcap, native

NAMES = ("bth.psn", "bth.p_key", "bth.opcode", "bth.m", "lrh.slid", "lrh.pktlen", "bth.destqp")


def columns(capture: bytes) -> dict[str, list[int]]:
    with ibdissect.open(io.BytesIO(capture)) as opened:
        table = opened.table()
        return {name: table[name].value.tolist() for name in NAMES}


@given(st.lists(st.tuples(st.integers(0, (1 << 24) - 1), st.integers(0, 0xFFFF), st.integers(0, 9)), max_size=9))
def test_reading_at_many_places(sent: list[tuple[int, int, int]]) -> None:
    """At any place of the window: payloads have any length, and so have the frames."""
    frames = [native(0x04, bytes(size), slid=key, bth={"psn": psn, "p_key": key, "m": psn & 1}) for psn, key, size in sent]
    found = columns(ethernet_pcap(frames, link=LINK_INFINIBAND))
    assert list(zip(found["bth.psn"], found["bth.p_key"], strict=True)) == [(psn, key) for psn, key, _ in sent]
    assert found["lrh.slid"] == [key for _, key, _ in sent] and found["bth.m"] == [psn & 1 for psn, *_ in sent]
    assert found["lrh.pktlen"] == [len(frame) // 4 for frame in frames]
    assert {*found["bth.opcode"]} <= {4} and {*found["bth.destqp"]} <= {0x12}
