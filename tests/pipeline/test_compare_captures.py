"""Conversations are compared by port, whatever its LID, and findings by their sentence."""

from __future__ import annotations

from pathlib import Path

from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.compare_captures import Contents, changes, contents_of, texts
from ibdissect.rules import load
from tests.craft import erf_pcap, rc
from tests.subnet.files.made_files import subnet_of


def contents(folder: Path, lid: int, p_key: int, packets: int) -> Contents:
    """A capture in which host B, with this LID, sends packets to LID 9, the first with a P_Key."""
    path = folder / f"{lid}.pcap"
    path.write_bytes(erf_pcap(rc(0x04, bytes(8), slid=lid, dlid=9, bth={"p_key": p_key, "psn": i}) for i in range(packets)))
    lids = f"0x0002c903000000b1 0x{lid:04x} 0x{lid:04x}\n"
    return contents_of(str(path), CheckOptions(rules=load()), subnet_of(("guid2lid", lids)))


def test_traffic_and_findings(tmp_path: Path) -> None:
    sides = contents(tmp_path, 4, 0, 100), contents(tmp_path, 5, 0xFFFF, 100)
    found = changes(*sides)
    assert {kind for kind, list_ in found.items() if list_} == {"findings_gone"}, "the same port talks to the same one"
    assert found["findings_gone"][0]["code"] == "PKY002"
    sides[1].seconds *= 3
    sides[1].talks["LID 7", "LID 8"] = 2, 100
    found = changes(*sides)
    assert (found["traffic_changed"][0]["before"]["frames"], found["traffic_new"][0]["bytes"]) == (100, 100)
    assert [line[0] for line in texts(found)] == ["+", "~", "-"]
