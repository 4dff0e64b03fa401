"""Every node of a subnet is drawn once, at its level, inside the picture, with its findings."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any  # boxes of a drawing

import pytest

from ibdissect.pictures.subnet import drawing, shortened
from ibdissect.subnet.model import Subnet

from .looks import fat_tree


def drawn(subnet: Subnet) -> Any:
    found = drawing(subnet, {})
    assert found is not None
    return found


def overlap(one: Any, other: Any) -> bool:
    return one.x < other.x + other.width and other.x < one.x + one.width and one.y < other.y + other.height and other.y < one.y + one.height


@pytest.mark.parametrize(
    ("spines", "leaves", "hosts"), [(0, 1, 3), (2, 4, 3), (4, 40, 5), (18, 36, 18), pytest.param(32, 60, 32, marks=pytest.mark.slow)]
)
def test_every_node_has_a_place_of_its_own(spines: int, leaves: int, hosts: int) -> None:
    found = drawn(fat_tree(spines, leaves, hosts))
    assert len(found.boxes) == found.nodes == spines + leaves * (1 + hosts) and not found.left_out
    assert all(box.x >= 0 and box.x + box.width <= 1180 and box.y >= 0 and box.y + box.height <= found.height for box in found.boxes)
    few = found.boxes if len(found.boxes) < 300 else found.boxes[:300]
    assert not [(one.title, other.title) for one, other in combinations(few, 2) if overlap(one, other)]
    leaf_tops = [box.y for box in found.boxes if box.title.startswith("leaf")]
    assert all(box.y + box.height < min(leaf_tops) for box in found.boxes if box.title.startswith("spine"))
    assert min(box.y for box in found.boxes if box.title.startswith("host")) > min(leaf_tops)
    cables = spines * leaves + (leaves * hosts if found.nodes <= 48 else 0)
    assert len(found.cables) == cables
    assert found.height < 2200


def test_few_hosts_have_names_and_many_are_dots() -> None:
    assert {box.label for box in drawn(fat_tree(0, 1, 3)).boxes} == {"leaf0", "host0-0 HCA-1", "host0-1 HCA-1", "host0-2 HCA-1"}
    hosts = [box for box in drawn(fat_tree(2, 4, 40)).boxes if box.title.startswith("host")]
    assert {(box.label, box.width) for box in hosts} == {("", 8)}
    assert "host3-39 HCA-1, channel adapter, LID 166" in {box.title for box in hosts}


def test_findings_colour_the_node_its_cable_and_the_list() -> None:
    subnet = fat_tree(2, 2, 2)
    port = next(port for port in subnet.ports() if port.node.name == b"leaf1" and port.number == 1)
    found = drawing(subnet, {port: SimpleNamespace(level="warning", rank=2, count=3, codes={"PM001": None}, text="3 findings: PM001")})
    assert found is not None
    assert [box.title for box in found.boxes if box.mark] == ["leaf1, switch, LID 6, 3 findings: PM001"]
    assert [cable.title for cable in found.cables if cable.mark] == ["spine0 port 2 to leaf1 port 1: 3 findings: PM001"]
    assert [(name, peer) for name, _, peer, _ in found.ports] == [("leaf1 port 1", "spine0 port 2")]


def test_names_are_cut_where_they_do_not_differ() -> None:
    hosts = [f"node{number:04d} HCA-1" for number in range(16)]
    labels = shortened([*hosts, "leaf1", "node without NodeInfo", "node without NodeInfo"], 12)
    assert len({labels[name] for name in hosts}) == 16 and all(len(label) <= 12 for label in labels.values())
    assert labels["leaf1"] == "leaf1" and "…" in labels["node without NodeInfo"][1:-1]
    assert all(f"{number:02d} HCA-1" in labels[name] for number, name in enumerate(hosts))
    twins = shortened(["a" * 40 + "1" + "b" * 40, "a" * 40 + "2" + "b" * 40], 9)  # no cut tells them apart
    assert set(twins.values()) == {"aaaa…bbbb"}
    assert shortened(["x" * 9 + "1", "x" * 9 + "2"], 4) == {"x" * 9 + "1": "x…x1", "x" * 9 + "2": "x…x2"}


@pytest.mark.slow
def test_nothing_known_is_not_drawn_and_too_much_is_cut() -> None:
    assert drawing(Subnet(), {}) is None
    found = drawn(fat_tree(0, 100, 40))
    assert found.left_out == 100 and len(found.boxes) == 4000
