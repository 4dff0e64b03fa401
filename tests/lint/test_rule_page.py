"""Docstrings of rules read as pages, with headings and without."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.rules.pages import pages

PLUGIN = '''
from ibdissect.lint.rule import ERROR, Rule, on_event
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.wire.headers import BTH


class Plain(Rule):
    """A fault.

    It hurts
    much.

    Mend it.

    Seen.

    Twice.
    """

    code, name, severity, message, example, reference = "ZZP001", "plain", ERROR, "wrong", "a packet", "a standard"
    on, when = BTH, BTH.psn == 1


class Headed(Plain):
    """A fault.

    ## Why it matters
    It hurts.

    It really does.

    # Source
    A book.
    """

    code, name = "ZZP002", "headed"


class Bare(Plain):
    """Only this."""

    code, name = "ZZP003", "bare"


class Base(Rule):
    """What some rules share."""

    evidence = "Two packets."


class Derived(Base):
    """A fault of two packets."""

    code, name, severity, message, example, reference = "ZZP004", "derived", ERROR, "wrong", "a packet", "a standard"

    @on_event(ChunkFollowed)
    def chunk(self, event, context): ...


class Condition(Plain):
    """A fault of one packet."""

    code, name = "ZZP005", "condition"
    needs_crc = True
'''


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    path = Path(tmp_path_factory.mktemp("rules")) / "pages.py"
    path.write_text(PLUGIN)
    return pages("ZZP", "--plugin", str(path))


def test_paragraphs_need_no_heading(told: dict[str, dict[str, Any]]) -> None:
    plain = told["ZZP001"]
    assert plain["summary"] == "A fault."
    assert list(plain["page"].items())[:3] == [
        ("Why it matters", "It hurts\nmuch."), ("What to do", "Mend it."), ("Evidence", "Seen.\n\nTwice."),
    ]  # fmt: skip


def test_headings_of_plugins(told: dict[str, dict[str, Any]]) -> None:
    headed = told["ZZP002"]["page"]
    assert headed["Why it matters"] == "It hurts.\n\nIt really does." and headed["Source"] == "A book."
    assert "What to do" not in headed and [*headed][-3:] == ["Example", "Reference", "Defined in"]
    assert told["ZZP003"]["summary"] == "Only this." and "Why it matters" not in told["ZZP003"]["page"]


def test_evidence_of_bases_and_declarations(told: dict[str, dict[str, Any]]) -> None:
    assert told["ZZP004"]["page"]["Evidence"] == (
        "Two packets.\n"
        "Silent if the capture mixes packets of two subnets and shows it; where nothing tells them apart, record each by itself."
    )
    assert told["ZZP005"]["page"]["Evidence"] == "One packet is enough.\n`--no-crc` switches it off."


@pytest.mark.slow
def test_what_pages_of_real_rules_imply() -> None:
    """Rules about the subnet are silent if it is two, those about requests and frames are not; most have no options."""
    found = {code: one["page"] for code, one in pages().items()}
    silent = {code for code, one in found.items() if "mixes packets of two subnets" in one["Evidence"]}
    assert {"PKY001", "SMP016"} <= silent and not silent & {"TXN001", "BTH003", "CAP012", "PM009"}
    assert found["BTH003"]["Options"] == "None." and found["TXN001"]["Options"].startswith("Below `[options.TXN001]`")
    causes = "MKY001, MKY002, MKY003, .*SA006, SMP016, TXN005[.]"
    assert re.search(f"Not reported where another rule reports the cause: .*{causes}", found["TXN001"]["Evidence"])


def test_how_to_leave_a_rule_out() -> None:
    text = pages("PKY001")["PKY001"]["page"]["How to silence it"]
    for word in ("`--ignore PKY001`", '`ignore = ["PKY001"]`', "[per-path-ignores]", '`PKY001 = "info"`', "--write-baseline FILE"):
        assert word in text
