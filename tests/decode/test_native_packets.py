"""The columns of native packets are aligned in mixed captures, and say which LIDs and queue pairs these have."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.decode.native_packets import Native, source_qps
from tests import craft
from tests.cases import every
from tests.decode.made import native_table
from tests.rules.findings import lint
from tests.subnet.made import answer, node, p_keys, port_info


def test_packets_without_transport() -> None:
    raw = craft.native(0x04, bytes(20), lrh={"lnh": 0})
    frames = [raw, craft.native(0x04, slid=7, dlid=8, bth={"p_key": 0x8001, "destqp": 9}), raw]
    table = native_table(frames)
    native = Native(table)
    columns = (native.rows, native.slid, native.dlid, native.p_key, native.dest_qp, native.opcode)
    assert [column.tolist() for column in columns] == [[1], [7], [8], [0x8001], [9], [4]]


@pytest.mark.slow
@every(
    ("opcode", "by_table"),
    [(0x00, True), (0x1F, True), (0x64, True), (0x7F, True), (0x80, False), (0x9F, False), (0xA0, True), (0xBF, True), (0xC0, False),
     (0xFF, False), (0x81, False)],
)  # fmt: skip
def test_services_whose_p_key_is_in_the_table_of_the_port(opcode: int, by_table: bool) -> None:
    """Others are not compared with the table of their sender."""
    known = [answer(lid, 0x11, node(lid)) for lid in (3, 4)] + [answer(lid, 0x15, port_info(lid)) for lid in (3, 4)]
    known += [answer(lid, 0x16, p_keys(0xFFFF)) for lid in (3, 4)]
    packet = craft.native(opcode, bytes(64), slid=3, dlid=4, bth={"p_key": 0x8001, "destqp": 9})
    assert bool(lint([*known, packet], "PKY004")) is by_table


@every("size", [1, 255, 256, 257])
def test_distinct_lids_of_few_and_of_many_packets(size: int) -> None:
    lids = [0xFFFF, 0, 5, 5][:size] + [7] * (size - 4)
    found = Native(native_table([craft.native(slid=lid, dlid=lid ^ 1) for lid in lids]))
    assert found.slids.tolist() == sorted({*lids}) and found.dlids.tolist() == sorted({lid ^ 1 for lid in lids})


@pytest.mark.parametrize("kept", [0, 1, 4])
def test_the_source_qp_of_a_datagram(kept: int) -> None:
    """0 of other packets, and where the frame ends in front of it."""
    whole = craft.ud(bytes(8), src_qp=0xABCDEF, crc=False)
    end = 8 + 12 + 8  # LRH, BTH, DETH
    frames = [whole, whole[: end - kept], craft.native(0x04, bytes(8))]
    table = native_table(frames)
    rows = np.flatnonzero(table.located.at("bth") >= 0)
    found = source_qps(table, rows, table.located.opcode[rows]).tolist()
    assert found == [0xABCDEF, 0 if kept else 0xABCDEF, 0][: len(rows)]
