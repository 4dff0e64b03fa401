"""Names that are no declared fields have the values in columns that filters see, and no bytes of keys."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.writing import CaptureWriter
from ibdissect.dfilter.names import names_of
from ibdissect.errors import FilterError
from tests.craft import erf_pcap, ethernet_pcap, native, smp
from tests.subnet.made import answer, node

KEY = 0x1122334455667788


def test_comments_can_be_filtered_and_shown(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "x.pcapng") as writer:
        for i in range(3):
            writer.write(native(payload=bytes(8)), link=247, time_ns=10**18 + i, comments=[f"remark {i}", "twice"][: 3 - i])
    with ibdissect.open(tmp_path / "x.pcapng") as capture:
        table = capture.table()
        assert table.filter('frame.comment contains "remark 1"').frames().tolist() == [2]
        comments = table["frame.comment"]
        assert comments.frame.tolist() == [1, 1, 2, 2, 3]
        assert comments.value.tolist() == ["remark 0", "twice", "remark 1", "twice", "remark 2"]


def test_comments_of_a_set_are_at_their_frames(tmp_path: Path) -> None:
    for name in ("x_00001.pcapng", "x_00002.pcapng"):
        with CaptureWriter(tmp_path / name) as writer:
            for i in range(2):
                writer.write(native(payload=bytes(8)), link=247, time_ns=10**18 + i, comments=[name] * i)
    with ibdissect.open([str(tmp_path / "x_00001.pcapng"), str(tmp_path / "x_00002.pcapng")], set=True) as capture:
        assert capture.table()["frame.comment"].frame.tolist() == [2, 4]
        assert capture.table().filter('frame.comment contains "00002"').frames().tolist() == [4]


def test_interfaces_without_names_have_none(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "x.pcapng") as writer:
        writer.write(native(payload=bytes(8)), link=247, time_ns=10**18)
    (tmp_path / "x.pcap").write_bytes(erf_pcap([native(payload=bytes(8))]))
    for name in ("x.pcapng", "x.pcap"):
        with ibdissect.open(tmp_path / name) as capture:
            assert not len(capture.table()["frame.interface_name"])
            assert not len(capture.table().filter('frame.interface_name != "a"').frames())


def test_the_summary_line_is_a_field_like_others() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([native(payload=bytes(8)), smp(1, 0x11)]))) as capture:
        table = capture.table()
        info = table["_ws.col.Info"].value.tolist()
        assert info[1] == capture.dissect(2).summary.info
        assert table.filter('_ws.col.info contains "NodeInfo"').frames().tolist() == [2]
        assert table.filter(f'_ws.col.info == "{info[0]}" && _ws.col.protocol == "RC"').frames().tolist() == [1]
        assert table["frame.time_delta"].value.tolist() == [0, 1_000_000]


def test_marks_and_structures_are_columns() -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(46)
    with ibdissect.open(io.BytesIO(ethernet_pcap([arp, bytes(60)]))) as capture:
        assert capture.table()["arp"].frame.tolist() == [1]
        assert capture.table()["eth"].value.tolist() == [arp[:14].hex(), bytes(14).hex()]


@pytest.mark.parametrize("show_keys", [False, True])
def test_bytes_with_keys_are_hidden(show_keys: bool) -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([smp(1, 0x11), smp(1, 0x11, m_key=KEY)])), show_keys=show_keys) as capture:
        for name in ("frame", "infiniband"):
            found = capture.table()[name]
            plain, keyed = found.value.tolist()
            assert found.frame.tolist() == [1, 2] and plain is not None, name
            assert (keyed is None) is not show_keys and (not show_keys or f"{KEY:016x}" in keyed), name


def test_names_of_nodes() -> None:
    shown = [answer(5, 0x11, node(5)), answer(5, 0x10, b"host".ljust(64, b"\0")), native(slid=5), native(slid=6)]
    with ibdissect.open(io.BytesIO(erf_pcap(shown))) as capture:
        senders = capture.table()["ibdissect.src.node"]
        assert senders.frame.tolist() == [1, 2, 3] and set(senders.value.tolist()) == {"host"}, "a later frame may say who it was"
        assert capture.table().filter('ibdissect.src.node == "host" && bth.opcode == 4').frames().tolist() == [3]


def test_an_unknown_name() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([native()]))) as capture, pytest.raises(FilterError, match="did you mean frame"):
        names_of(capture.catalog).named("frame.nmber")
