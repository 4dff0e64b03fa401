"""Captured frames come back from Scapy byte for byte, and recomputed lengths and CRCs equal the captured ones."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import PcapReader, rdpcap, wrpcap

from ibdissect.layers import BTH, ERF, GRH, LRH, RWH
from ibdissect.wire import crc
from tests.conftest import a_third_of, shared_captures

pytestmark = pytest.mark.slow

LIMIT = 100
CAPTURES = shared_captures()
CORRUPTED = {"netem_corrupt.pcap", "k612_netem_mess.pcap"}
"""Captures in which frames were damaged on purpose: their ICRC is wrong."""


def _frames(path: Path) -> list[Packet]:
    with PcapReader(str(path)) as reader:
        return list(islice(reader, LIMIT))


def _strip(pkt: Any) -> Any:
    """A copy without everything that can be computed."""
    bare = pkt.copy()
    for name in ("icrc", "pad_bytes", "padcnt"):
        delattr(bare[BTH], name)
    if LRH in bare:
        for name in ("vcrc", "pktlen", "lnh"):
            delattr(bare[LRH], name)
    if GRH in bare:
        del bare[GRH].pay_len
    if UDP in bare:
        del bare[UDP].len
    if IP in bare:
        del bare[IP].len
    return bare


@pytest.mark.parametrize("path", a_third_of(CAPTURES), ids=lambda path: path.name)
def test_frames_come_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "debug_dissector", True)
    frames = _frames(path)
    assert frames
    computed = 0
    for number, pkt in enumerate(frames, 1):
        original = bytes(pkt.original)
        assert pkt.build() == original, number
        if BTH not in pkt or number % 4 > 1:
            continue  # building from the fields takes its time
        rebuilt = pkt.copy()
        rebuilt.clear_cache()
        assert rebuilt.build() == original, number
        if pkt[BTH].icrc != b"" and path.name not in CORRUPTED:
            assert _strip(pkt).build() == original, number
            computed += 1
    assert computed or path.name in CORRUPTED or "snaplen" in path.name


@pytest.mark.parametrize("path", shared_captures("real"), ids=lambda path: path.name)
def test_crcs_of_the_public_sample(path: Path) -> None:
    for pkt in _frames(path):
        frame = bytes(pkt[LRH])[: pkt[LRH].pktlen * 4 + 2]
        assert crc.vcrc(frame[:-2]).to_bytes(2, "little") == frame[-2:]
        assert crc.icrc_native(frame[:-6], GRH in pkt).to_bytes(4, "little") == frame[-6:-2]


def test_damaged_frames_are_noticed(shared: Path) -> None:
    wrong = [
        pkt for pkt in _frames(shared / "captures/rxe/netem_corrupt.pcap") if BTH in pkt and _strip(pkt).build() != bytes(pkt.original)
    ]
    assert 0 < len(wrong) < 30


def test_cut_frames_have_no_icrc(shared: Path) -> None:
    frames = [pkt for pkt in _frames(shared / "captures/rxe/fmt_snaplen96.pcap") if BTH in pkt]
    cut = [pkt for pkt in frames if pkt.wirelen > len(pkt.original)]
    assert cut
    assert all(pkt[BTH].icrc == b"" and pkt[BTH].pad_bytes == b"" for pkt in cut)
    assert all(isinstance(pkt[BTH].icrc, int) for pkt in frames if pkt.wirelen == len(pkt.original))


@pytest.mark.parametrize("name", ["01-sweep-net1.pcap", "01-sweep-net1-lt247.pcap"])
def test_written_captures_keep_link_type_and_bytes(shared: Path, tmp_path: Path, name: str) -> None:
    source = shared / "captures/opensm" / name
    copy = tmp_path / name
    frames = rdpcap(str(source))
    assert type(frames[0]) is (LRH if "247" in name else ERF)
    wrpcap(str(copy), frames)
    assert copy.read_bytes()[20:24] == source.read_bytes()[20:24]
    assert [bytes(pkt.original) for pkt in rdpcap(str(copy))] == [bytes(pkt.original) for pkt in frames]


SEEDS = [bytes(pkt.original) for path in CAPTURES[::6] for pkt in rdpcap(str(path), 4)]


@given(data=st.data())
def test_mutated_frames_never_raise_and_come_back(shared: Path, data: st.DataObject) -> None:
    frame = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(0, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(1, len(frame)))])
    conf.debug_dissector = True
    try:
        for outermost in (ERF, LRH, GRH, BTH, RWH):
            assert outermost(cut).build() == cut
    finally:
        conf.debug_dissector = False
    if len(cut) >= 14:
        assert Ether(cut).payload is not None


@given(st.binary(max_size=600))
def test_any_bytes_come_back(data: bytes) -> None:
    for outermost in (ERF, LRH, GRH, BTH, RWH):
        pkt = outermost(data) if data else Raw(data)
        assert pkt.build() == data
