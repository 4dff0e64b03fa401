"""Are all pictures of a capture there, and is each told about where it cannot be drawn?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.pictures.capture import pictures

from .looks import portrait

pytest.importorskip("jinja2")


def test_all_pictures(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as found:
        made = pictures(found, 1, 4)
        assert sum(made.packets) == 37 and len(made.details) == 4
    for said in ("Management datagrams by class", "Packets by partition", "Packets by OpCode", "The subnet", "Who may talk to whom",
                 "Conversations: latency and loss", "Management requests: latency and loss", "packet by packet"):  # fmt: skip
        assert said in made.html
    assert made.html.count('class="bad"') == 3


def test_missing_nodes_and_tables_are_named(repo: Path) -> None:
    with portrait(repo / "captures/rxe-rping.pcap") as found:
        html = pictures(found, 1, 4).html
    assert "nodes and cables are not known" in html and "No P_Key tables are known" in html and "packet by packet" not in html
