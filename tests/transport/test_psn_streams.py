"""All events in RC and UC streams are found, and no others."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.engine.psn_gaps import distance
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.transport.psn_streams import Streams
from tests import craft
from tests.cases import every
from tests.conftest import shared_captures
from tests.decode.made import ethernet_table, tables_of
from tests.rules.RC.cases import WRITE_FIRST, WRITE_LAST, answer, ask

from .plain import counted

NAMES = {"repeated": "repeated", "middle_restarts": "middle_restarts", "repeated_reads": "repeated_reads", "gap_count": "gaps",
         "missing": "missing", "rnr": "rnr"}  # fmt: skip
LINK_SLL2_OR_CUT = {"fmt_any_sll2.pcap", "fmt_snaplen96.pcap"}
"""The plain reader knows Ethernet and whole packets only."""
ROCE = [path for path in shared_captures("rxe") if path.name not in LINK_SLL2_OR_CUT]
CLEAN = ("rc_", "uc_", "ud_", "pp_", "ul_", "cm_rping", "rsocket_", "vlan_", "fmt_")


def followed(path: Path | str, window: int = 16 << 20) -> tuple[Streams, Counter[str]]:
    """The streams of a capture, and our counts over all of them."""
    streams, count = Streams(), Counter[str]()
    for table in tables_of(str(path), window):
        for _ in streams.feed(table):
            pass
    for stream in streams.all:
        for name, counted_as in NAMES.items():
            count[counted_as] += getattr(stream, name)
        for code, number in (stream.naks or {}).items():
            count[f"nak{code}"] += number
    return streams, +count


@pytest.mark.parametrize("path", ROCE, ids=lambda path: path.stem)
def test_counts_agree_with_a_plain_count(path: Path) -> None:
    assert followed(path)[1] == counted(path)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("netem_loss_send_bw", 64 << 10), ("netem_loss_read_bw", 64 << 10), ("rnr_recover", 64 << 10), ("rc_write_mtu1024", 64 << 10),
        ("k612_netem_mess", 64 << 10), ("k612_netem_mess", 3000), ("netem_corrupt", 3000),
    ],
)  # fmt: skip
def test_chunks_make_no_difference(shared: Path, name: str, window: int) -> None:
    path = shared / f"captures/rxe/{name}.pcap"
    assert followed(path, window)[1] == followed(path)[1]


@every("window", [100, 300, 400, 1 << 20])
def test_a_gap_in_requests_says_nothing_about_later_answers(window: int) -> None:
    """Windows end before and behind the answer to what follows the gap: it tells the MSN anew."""
    frames = [ask(5), answer(5, 3), ask(7), answer(7, 5), ask(8), answer(8, 60)]
    streams = Streams()
    chunks = open_capture(io.BytesIO(craft.ethernet_pcap(frames)), window=window).chunks()
    events = [event for chunk in chunks for event in streams.feed(ChunkTable(chunk))]
    assert [(type(event).__name__, event.frame) for event in events] == [("MsnJumped", 6)]


@pytest.mark.parametrize("path", [p for p in shared_captures("rxe") if p.name.startswith(CLEAN)], ids=lambda path: path.stem)
def test_clean_transfers_are_silent(path: Path) -> None:
    report = check(str(path), CheckOptions(rules=[rule for rule in load() if rule.code.startswith("RC")]))
    refused = {"RC004"} if path.stem == "rc_send_inv" else set()  # its WRITEs through a dead key are refused, as INDEX.md says
    assert {f.code for f in report.findings if f.severity != "info"} == refused


def test_every_direction_finds_its_other_one(shared: Path) -> None:
    streams, _ = followed(shared / "captures/rxe/rc_write_mtu1024.pcap")
    pairs = [streams.other(stream) for stream in streams.all]
    assert len(pairs) == 8 and None not in pairs
    assert all(streams.other(other) is stream for stream, other in zip(streams.all, pairs, strict=True))


def test_gaps_that_are_forgotten_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ibdissect.engine.psn_gaps.MAX_GAPS", 2)
    path = tmp_path / "gaps.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, b"data", bth={"psn": 2 * i}) for i in range(9)]))
    streams, _ = followed(path)
    assert [(one.what, one.count, one.frame) for one in streams.dropped if one.count] == [("gaps of one stream", 6, 4)]


def test_gaps_that_packets_divide_are_bounded_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A packet in the middle of a gap leaves two: without a bound every late packet would take more memory."""
    monkeypatch.setattr("ibdissect.engine.psn_gaps.MAX_GAPS", 4)
    path = tmp_path / "divided.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, b"data", bth={"psn": psn}) for psn in (0, 1000, *range(2, 200, 2))]))
    (stream,) = followed(path)[0].all
    assert len(stream.gaps) == stream.told.gaps.count == 4 and stream.told.gaps.dropped.count == 1 + 99 - 4


def test_gaps_of_all_streams_together_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ibdissect.engine.psn_gaps.MAX_ALL_GAPS", 10)
    monkeypatch.setattr("ibdissect.engine.lanes.MAX_ORDERS", 8)
    path = tmp_path / "many.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, b"data", bth={"psn": 2 * i, "destqp": 2 + k}) for i in range(9) for k in range(8)]))
    streams, _ = followed(path)
    held, total = sum(len(stream.gaps) for stream in streams.all), streams.all[0].told.gaps
    assert held == total.count == 10 and total.dropped.count == 8 * 8 - 10
    for stream in streams.all:
        stream.forget()
    assert total.count == 0 and not any(stream.gaps for stream in streams.all)


def test_streams_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ibdissect.engine.lanes.MAX_ORDERS", 8)
    path = tmp_path / "many.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, b"data", bth={"destqp": 2 + i}) for i in range(60)]))
    streams, _ = followed(path)
    assert len(streams.all) == 8 and streams.dropped[0].count == 52
    assert sum(map(len, streams.between.values())) == 8


def test_distance_wraps() -> None:
    assert distance(0, 0xFFFFFF) == 1 and distance(0xFFFFFF, 0) == -1 and distance(5, 5) == 0


@pytest.mark.parametrize("packets", [600, pytest.param(3000, marks=pytest.mark.slow)])
def test_random_transport_bytes_never_raise(packets: int) -> None:
    rnd = np.random.default_rng(7)
    frames = []
    for _ in range(packets):
        body = rnd.integers(0, 256, int(rnd.integers(0, 40)), np.uint8).tobytes()
        bth = {"opcode": int(rnd.integers(0, 256)), "destqp": int(rnd.integers(2, 5)), "psn": int(rnd.integers(0, 8)) * 0x1FFFFF & 0xFFFFFF}
        frames.append(craft.native(bth["opcode"], body, bth=bth))
    streams = Streams()
    for table in tables_of(craft.erf_pcap(frames)):
        for event in streams.feed(table):
            assert event.ends.text
    assert sum(stream.packets for stream in streams.all) > packets // 10


def test_events_come_in_frame_order() -> None:
    """Those of clean streams, which columns find, and of repeated ones: of many findings the first are kept, whatever the window."""
    wrong, again = (20, 3, 17, 8, 11, 5, 14, 2), 6
    parts = ((1, WRITE_FIRST, {"RETH": {"r_key": 7, "dmalen": 600}}), (2, WRITE_LAST, {}))
    packets = [craft.roce2(code, bytes(256), bth={"psn": psn, "destqp": to}, ext=ext) for to in wrong for psn, code, ext in parts]
    packets[again : again + 2] = packets[again : again + 2] * 2
    table = ethernet_table(packets)
    frames = [event.frame for event in Streams().feed(table)]
    assert len(frames) > len(wrong) and frames == sorted(frames)
