"""Frames are in the order of their lines, although only few of the lines are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.info_line_order import alike
from ibdissect.dissect.shown_value import Presenter
from tests import craft
from tests.screen_model.made import written

CAPTURES = Path(__file__).parents[2] / "captures"
ARP = bytes.fromhex("0806 0000 0020 0800 14 04 0001" + "00000001" + "fe80" + "00" * 13 + "0a" + "0a000001")
ARP += bytes.fromhex("00000002" + "fe80" + "00" * 13 + "0b" + "0a000002")
ODD = [
    craft.native(0x64, bytes(8) + ARP, slid=1, dlid=2), craft.native(0x64, bytes(8) + ARP[:20], slid=1, dlid=2),
    craft.native(0x11, b"\x1f\0\0\1", slid=1, dlid=2), craft.native(0x11, b"\x63\0\0\1", slid=1, dlid=2),
    craft.native(0x3F, bytes(8), slid=1, dlid=2), craft.native(0x0A, bytes(20), slid=1, dlid=2)[:-20],
]  # fmt: skip
"""An IPoIB packet and one that only begins so, ACK and NAK, an OpCode that does not exist, a WRITE that was cut off."""


def first_table(path: Path) -> ChunkTable:
    opened = ibdissect.open(str(path))
    return opened.table_of(next(iter(opened.chunks())))


@pytest.mark.parametrize("name", ["rxe-rping.pcap", "opensm-first-sweep.pcap", "pkey-lab-full.pcap", "rxe-atomic-write.pcap", ""])
def test_each_row_has_the_text_that_its_line_begins_with(tmp_path: Path, name: str) -> None:
    table = first_table(CAPTURES / name if name else written(tmp_path, *ODD))
    lines = summaries(table, np.arange(len(table)), Presenter())
    for column in ("protocol", "info"):
        seen, known = [], dict[int, str]()
        for one in [*alike(table, column, Presenter(), known)]:
            seen += one.rows.tolist()
            for i, row in enumerate(one.rows.tolist()):
                line = getattr(lines, column)[row]
                if one.numbers is None:
                    assert line == one.text
                else:
                    qp, psn = divmod(int(one.numbers[i]), 1 << 24)
                    assert line.startswith(f"{one.text}0x{qp:06x} PSN {psn}"), line
        assert sorted(seen) == list(range(len(table)))
        if name == "opensm-first-sweep.pcap" and column == "info":
            assert 0 < len(known) < len(table)
            assert {one.text for one in alike(table, column, Presenter(), dict.fromkeys(known, "known"))} >= {"known"}
