"""pcap records are read exactly: both byte orders, both resolutions, any window, cut off anywhere."""

from __future__ import annotations

import io
import struct
import subprocess
from itertools import islice
from pathlib import Path
from shutil import which

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapReader

from ibdissect.capture.opening import open_capture
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, erf_record, packets, pcap, pcap_rows, read
from tests.cases import every
from tests.conftest import shared_captures

ORDERS = [("<", False), ("<", True), (">", False), (">", True)]
DAYS = [Packet(1_600_000_000 + day * 86_400 * 40, day, bytes([day]) * (day * 7 % 90), day) for day in range(60)]


@pytest.mark.slow
@given(made=packets(), form=st.sampled_from(ORDERS), link=st.sampled_from([1, 113, 242, 247, 276]), window=st.integers(1, 4096))
def test_every_record_in_any_window(made: list[Packet], form: tuple[str, bool], link: int, window: int) -> None:
    order, nano = form
    rows, reader = read(pcap(made, order, nano, link), window)
    assert rows == pcap_rows(made, nano, link)
    assert reader.damage == [] and reader.link_types == [link]


@pytest.mark.slow
@given(made=packets(), form=st.sampled_from(ORDERS))
def test_dpkt_and_scapy_agree(made: list[Packet], form: tuple[str, bool]) -> None:
    blob = pcap(made, *form)
    rows, _ = read(blob)
    theirs = list(dpkt.pcap.Reader(io.BytesIO(blob)))
    assert [row[3] for row in rows] == [data for _, data in theirs]
    scale = 1 if form[1] else 1000
    scapys = [(meta.sec * 10**9 + meta.usec * scale, meta.wirelen, meta.caplen, data) for data, meta in RawPcapReader(io.BytesIO(blob))]
    assert [row[:4] for row in rows] == scapys


@pytest.mark.parametrize(("order", "nano"), ORDERS)
def test_captures_spanning_years(order: str, nano: bool) -> None:
    # Enough bytes for the walkers: the key byte changes many times within a window.
    made = [Packet(p.second, p.sub, p.data * 40, p.more) for p in DAYS] * 10
    rows, reader = read(pcap(made, order, nano))
    assert rows == pcap_rows(made, nano)
    assert reader.damage == []


@every(("order", "nano"), ORDERS)
def test_cut_off_at_every_byte(order: str, nano: bool) -> None:
    made = DAYS[:3]
    whole, expected = pcap(made, order, nano), pcap_rows(made, nano)
    ends = [24]
    for packet in made:
        ends.append(ends[-1] + 16 + len(packet.data))
    for size in range(1, len(whole)):
        if size < 24:
            with pytest.raises(CaptureError):
                open_capture(io.BytesIO(whole[:size]))
            continue
        rows, reader = read(whole[:size], 64)
        count = sum(end <= size for end in ends[1:])
        assert rows == expected[:count]
        if size in ends:
            assert reader.damage == []
        else:
            (damage,) = reader.damage
            assert (damage.kind, damage.offset, damage.frame, damage.resumed) == ("cut-off", ends[count], count, None)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=60),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**32 - 1),
            st.sampled_from([2, 20, 21, 25, 28]),
            st.integers(0, 255),
            st.integers(0, 4),
        )
    ),
    st.integers(1, 500),
)
def test_erf_inside(made: list[tuple[bytes, int, int, int, int, int]], window: int) -> None:
    records = [erf_record(d, second=s, fraction=f, kind=k, flags=g, extensions=e) for d, s, f, k, g, e in made]
    rows, reader = read(pcap([Packet(7, 7, record) for record in records], link=197), window)
    expected = []
    for data, second, fraction, kind, flags, _ in made:
        time_ns = second * 10**9 + (fraction * 10**9 + 2**31 >> 32)
        expected.append((time_ns, len(data), len(data), data, 1 if kind in (2, 20) else 197, flags & 3, True))
    assert rows == expected
    assert reader.damage == []


def test_erf_header_cut_short_keeps_its_row() -> None:
    record = erf_record(b"x" * 40, second=9, extensions=2, flags=1)
    for size in range(len(record)):
        ((time_ns, length, caplen, data, link, _, pseudo),), _ = read(pcap([Packet(7, 7, record[:size])], link=197))
        assert (caplen, data, link) == (max(0, size - 32), record[32:size], 197)
        assert pseudo == (size >= 32)
        assert time_ns == (9_000_000_000 if size >= 16 else 7_000_000_007)
        assert length == (40 if size >= 16 else 0)


def test_erf_length_is_not_that_of_padding(shared: Path) -> None:
    rows, _ = read(shared / "captures/real/infiniband.pcap")
    assert len(rows) == 43
    assert rows[1][0] % 10**6 == 762550  # CONTRACT: rounded to the nearest nanosecond
    assert rows[0][1:3] == (290, 290)


@pytest.mark.parametrize(("link", "name"), [(105, "IEEE 802.11"), (127, "radiotap"), (9999, "9999")])
def test_links_without_infiniband(link: int, name: str) -> None:
    with pytest.raises(CaptureError, match=f"link type {link}.*carries no InfiniBand") as caught:
        open_capture(io.BytesIO(pcap([], link=link)))
    assert name in str(caught.value)


def test_frame_check_sequence_bits_are_not_the_link_type() -> None:
    blob = bytearray(pcap(DAYS[:2]))
    struct.pack_into("<I", blob, 20, 0x94000001)
    assert len(read(bytes(blob))[0]) == 2


@pytest.mark.skipif(which("mergecap") is None, reason="needs tshark")
def test_tshark_agrees(shared: Path, tmp_path: Path) -> None:
    """All captures joined, as each start of tshark takes half a second."""
    paths = [path for path in shared_captures() if "lt247" not in path.name and path.stat().st_size < 600_000]
    subprocess.run(["mergecap", "-a", "-w", tmp_path / "all.pcapng", *paths], check=True)
    rows, theirs = [read(path, 100_000)[0] for path in paths], iter(tshark(tmp_path / "all.pcapng"))
    assert sum(map(len, rows)) > 20_000
    for path, ours in zip(paths, rows, strict=True):
        assert [row[:3] for row in ours] == list(islice(theirs, len(ours))), path
    assert not list(theirs)


def tshark(path: Path) -> list[tuple[int, int, int]]:
    names = ["frame.time_epoch", "frame.len", "frame.cap_len"]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *(word for name in names for word in ("-e", name))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [(int(time.replace(".", "")), int(length), int(caplen)) for time, length, caplen in map(str.split, lines)]
