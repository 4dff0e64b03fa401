"""Do rules' docstrings read as pages, with headings and without?"""

from __future__ import annotations

from ibdissect.lint.page import markdown, page, sections, summary
from ibdissect.lint.rule import Rule


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
