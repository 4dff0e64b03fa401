"""Packets before the facts are judged the same in one piece and in many chunks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.lint.finding import Evidence, Finding
from ibdissect.lint.linter import Linter
from ibdissect.rules import load
from ibdissect.subnet import early_packets
from tests import craft
from tests.cases import few
from tests.decode.made import tables_of
from tests.rules.MKY.cases import KEY, KEYED, NODE, REFUSED
from tests.rules.PKY.cases import EARLY_TABLE as TABLE
from tests.rules.PKY.cases import early_send as send
from tests.subnet.made import answer, ask, port_info

RULES = [rule for rule in load() if rule.code.startswith(("PKY", "MKY"))]
PORT_INFO = 0x15


def lint(frames: Sequence[bytes], window: int = 1 << 20) -> list[Finding]:
    """What the P_Key and M_Key rules find, with chunks of about `window` bytes."""
    linter = Linter(RULES, max_findings=None)
    for table in tables_of(craft.erf_pcap(frames), window):
        linter.feed(table)
    return linter.finish()


EARLY = [*[send(0x9999, psn) for psn in range(1, 6)], send(0x1234, 6), *NODE, *TABLE]
"""Data in front of all facts."""


@few("window", [200, 400, 1000, 1 << 20], fast=(0, 3))
def test_chunks_change_nothing(window: int) -> None:
    whole = [(f.code, f.frame, f.count, f.evidence, tuple(f.related)) for f in lint(EARLY)]
    assert {(code, frame, count, evidence) for code, frame, count, evidence, _ in whole} == {
        ("PKY003", 1, 5, Evidence.INFERRED), ("PKY001", 6, 1, Evidence.INFERRED),
    }  # fmt: skip
    assert [(f.code, f.frame, f.count, f.evidence, tuple(f.related)) for f in lint(EARLY, window)] == whole


def test_a_request_before_the_key_that_refuses_it() -> None:
    assert [f.code for f in lint([*NODE, REFUSED, *KEYED])] == ["MKY002", "MKY005"]


@pytest.mark.slow
def test_flows_that_share_a_slot_are_counted_apart() -> None:
    """Many partitions at once: every flow has its own exact count."""
    frames = [send(0x8100 + i, i + 1) for i in range(300) for _ in range(2)]
    found = [f for f in lint([*frames, *TABLE], 20_000) if f.code == "PKY003"]
    assert sum(f.count for f in found) == 600 and {f.count for f in found} == {2}


@pytest.mark.slow
def test_early_packets_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest flows go first, their counts with them, and it is said (CAP016)."""
    monkeypatch.setattr(early_packets, "MAX_FLOWS", 4)
    capped = [rule for rule in load() if rule.code in ("PKY003", "CAP016")]
    linter = Linter(capped, max_findings=None)
    frames = [send(0x8100 + i // 3, i + 1) for i in range(30)]
    for table in tables_of(craft.erf_pcap([*frames, *TABLE]), 400):
        linter.feed(table)
    found = linter.finish()
    assert [(f.frame, f.count) for f in found if f.code == "PKY003"] == [(19, 3), (22, 3), (25, 3), (28, 3)]
    assert [f.count for f in found if f.code == "CAP016"] == [6]


HIDDEN = [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))]


@few("window", [100, 300, 350, 1000], fast=(0, 3))
def test_a_key_shown_to_a_get_of_the_chunk_before(window: int) -> None:
    found = [f for f in lint([*NODE, *HIDDEN], window) if f.code == "MKY004"]
    assert [(f.frame, f.count, [one.frame for one in f.related]) for f in found] == [(4, 1, [3])]
    knows = [ask(5, PORT_INFO, m_key=KEY), HIDDEN[1]]
    assert "MKY004" not in {f.code for f in lint([*NODE, *knows], window)}
