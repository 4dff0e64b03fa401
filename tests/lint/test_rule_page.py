"""Docstrings of rules read as pages, with headings and without."""

from __future__ import annotations

import re

from ibdissect.lint.rule import Rule, on_event
from ibdissect.lint.rule_page import EVIDENCE, evidence, markdown, page, sections, silencing, summary
from ibdissect.rules import load
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


class Headed(Rule):
    """A fault.

    ## Why it matters
    It hurts.

    It really does.

    # Source
    A book.
    """

    example, reference = "a packet", "a standard"


def test_paragraphs_need_no_heading() -> None:
    assert summary(Plain) == "A fault."
    assert sections(Plain) == {"Why it matters": "It hurts\nmuch.", "What to do": "Mend it.", "Evidence": "Seen.\n\nTwice."}


def test_headings_of_plugins() -> None:
    assert sections(Headed) == {"Why it matters": "It hurts.\n\nIt really does.", "Source": "A book."}
    assert list(page(Headed)) == ["Why it matters", "Source", "Example", "Reference"]
    assert markdown(sections(Headed)).startswith("## Why it matters\nIt hurts.")
    assert sections(Rule) != {} and sections(type("Bare", (Rule,), {"__doc__": "Only this."})) == {}


class Base(Rule):
    """What some rules share."""

    evidence = "Two packets."


class Derived(Base):
    """A fault of two packets."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: object) -> None: ...


class Condition(Rule):
    """A fault of one packet."""

    when = BTH.psn == 1
    needs_crc = True


def test_evidence_of_bases_and_declarations() -> None:
    assert evidence(Derived) == "Two packets.\nSilent if the capture mixes packets of two subnets."
    assert evidence(Condition) == "One packet is enough.\n`--no-crc` switches it off."
    assert evidence(Plain) == "Seen.\n\nTwice." and evidence(Rule) == ""
    assert list(page(Plain))[:3] == ["Why it matters", "What to do", "Evidence"]


def test_what_pages_of_real_rules_imply() -> None:
    """Rules about the subnet are silent if it is two, those about requests and frames are not; most have no options."""
    pages = {rule.code: page(rule) for rule in load()}
    silent = {code for code, one in pages.items() if "mixes packets of two subnets" in one[EVIDENCE]}
    assert {"PKY001", "SMP016"} <= silent and not silent & {"TXN001", "BTH003", "CAP012", "PM009"}
    assert pages["BTH003"]["Options"] == "None." and pages["TXN001"]["Options"].startswith("Below `[options.TXN001]`")


def test_evidence_names_the_rules_that_report_the_cause() -> None:
    unanswered = next(rule for rule in load() if rule.code == "TXN001")
    causes = "MKY001, MKY002, MKY003, .*SA006, SMP016, TXN005[.]"
    assert re.search(f"Not reported where another rule reports the cause: .*{causes}", page(unanswered)[EVIDENCE])


def test_how_to_leave_a_rule_out() -> None:
    text = silencing("PKY001")
    for word in ("`--ignore PKY001`", '`ignore = ["PKY001"]`', "[per-path-ignores]", '`PKY001 = "info"`', "--write-baseline FILE"):
        assert word in text
    assert text in page(next(rule for rule in load() if rule.code == "PKY001")).values()
