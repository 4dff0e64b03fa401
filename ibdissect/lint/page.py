"""What does a rule's page say? Its docstring: the fault, why it matters, what to do, the evidence, and what else has a heading."""

from __future__ import annotations

import inspect
import re

from .rule import Rule
from .setting import settings_of

TITLES = WHY, TO_DO, _ = "Why it matters", "What to do", "Evidence"
"""Headings of the first paragraphs behind the first line; the last is for those behind them, too."""


def summary(rule: type[Rule]) -> str:
    """The first line of the rule's documentation: the fault."""
    return (rule.__doc__ or "").strip().partition("\n")[0]


def sections(rule: type[Rule]) -> dict[str, str]:
    """Text by title. Paragraphs behind the first line need no heading: why it matters, what to do, and how it is known (`TITLES`)."""
    found: dict[str, str] = {}
    title = ""
    _, _, body = inspect.cleandoc(rule.__doc__ or "").partition("\n")
    for block in re.split(r"\n\s*\n|\n(?=#)", body.strip()):
        if block.startswith("#"):
            heading, _, block = block.partition("\n")
            title = heading.lstrip("# ")
        name = title or TITLES[min(len(found), len(TITLES) - 1)]
        if block.strip():
            found[name] = f"{found[name]}\n\n{block}" if name in found else block
    return found


def page(rule: type[Rule]) -> dict[str, str]:
    """All sections: those of the documentation, its options, example and reference."""
    options = "\n".join(f"`{key} = {one.default}`: {one.meaning}" for key, one in settings_of(rule).items())
    return sections(rule) | ({"Options": options} if options else {}) | {"Example": rule.example, "Reference": rule.reference}


def markdown(texts: dict[str, str], level: str = "##") -> str:
    """Sections with their titles as headings."""
    return "\n\n".join(f"{level} {title}\n{text}" for title, text in texts.items())
