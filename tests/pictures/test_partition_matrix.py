"""The P_Key matrix says who may talk to whom, and where forbidden packets were seen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ibdissect.pictures.partition_matrix import matrix
from ibdissect.screen_model.findings_store import FindingsStore
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.p_keys import PKeys
from tests.subnet.made import p_keys

from .looks import SWITCH, fat_tree, portrait


@pytest.mark.slow
def test_the_lab_capture(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as lab:
        found = matrix(lab)
    assert found is not None
    assert ["".join(cell.sign or "." for cell in line.cells) for line in found.lines] == [".○○○", "○.✕●", "○✕.○", "○●✕."]
    assert found.lines[1].name == "0x0002c90300000002 port 1 (LID 2)" and found.lines[1].keys == "0x0123 limited, 0x7fff limited"
    assert found.lines[3].cells[2].text == "forbidden: 1 packet; allowed in 0x0123"
    assert found.lines[1].cells[3].text == "allowed in 0x0123, and sent"


def with_tables(subnet: Subnet, kinds: int) -> Subnet:
    hosts = [port for port in subnet.ports() if port.node.kind != SWITCH and port.number]
    for i, port in enumerate(hosts):
        port.p_keys = PKeys()
        port.p_keys.learn(0, p_keys(0x7FFF, 0x8001 + i % kinds), 5)
    return subnet


def known(subnet: Subnet) -> Any:
    """A capture that shows this subnet and nothing else."""
    nothing = SimpleNamespace(findings=FindingsStore())
    return SimpleNamespace(subnet=subnet, model=nothing, shot=SimpleNamespace(conversations=[]), ends=lambda frames: dict.fromkeys(frames))


def test_ports_with_equal_tables_share_a_line() -> None:
    few = matrix(known(with_tables(fat_tree(1, 4, 6), 3)))
    assert few is not None and len(few.lines) == few.ports == 24
    many = matrix(known(with_tables(fat_tree(1, 10, 10), 3)))
    assert many is not None and many.ports == 100
    assert [line.name for line in many.lines] == [
        "34 ports: host0-0 HCA-1, host0-3 HCA-1, ...",
        "33 ports: host0-1 HCA-1, host0-4 HCA-1, ...", "33 ports: host0-2 HCA-1, host0-5 HCA-1, ...",
    ]  # fmt: skip
    assert [[cell.kind for cell in line.cells] for line in many.lines] == [["may", "", ""], ["", "may", ""], ["", "", "may"]]
    more = matrix(known(with_tables(fat_tree(1, 10, 10), 53)))
    assert more is not None and len(more.lines) == 48 and more.left_out == 5


def test_without_tables_there_is_no_matrix() -> None:
    assert matrix(known(fat_tree(1, 2, 2))) is None
