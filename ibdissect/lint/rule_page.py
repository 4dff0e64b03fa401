"""The page of a rule: the fault, why it matters, what to do, what the rule must see, and the docstring's own headings."""

from __future__ import annotations

import inspect
import re

from ibdissect.wire.text import printable

from .handlers import conclusions_of
from .rule import REGISTRY, Rule, family
from .setting import settings_of

SILENCE, OPTIONS = "How to silence it", "Options"
TITLES = WHY, TO_DO, EVIDENCE = "Why it matters", "What to do", "Evidence"
"""Headings of the paragraphs after the first line; the last one holds all further paragraphs."""


def summary(rule: type[Rule]) -> str:
    """The first line of the rule's documentation: the fault."""
    return (rule.__doc__ or "").strip().partition("\n")[0]


def sections(rule: type[Rule]) -> dict[str, str]:
    """The docstring's text by title. Paragraphs after the first line need no heading: they are `TITLES`, in that order."""
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


TWO_SUBNETS = "Silent if the capture mixes packets of two subnets and shows it; where nothing tells them apart, record each by itself."


def evidence(rule: type[Rule]) -> str:
    """What the rule must see, and what silences it: the words of its docstring or base class, then what its declarations imply."""
    own = sections(rule).get(EVIDENCE) or rule.evidence or ("" if rule.when is None else "One packet is enough.")
    code = getattr(rule, "code", None)
    causes = ", ".join(sorted(other.code for other in REGISTRY.values() if {code, family(code or "")} & {*other.explains}))
    implied = [
        f"Not reported where another rule reports the cause: {causes}." if causes else "",
        TWO_SUBNETS if conclusions_of(rule) else "",
        "`--no-crc` switches it off." if rule.needs_crc else "",
    ]
    return "\n".join(text for text in (own, *implied) if text)


def silencing(code: str) -> str:
    """How to leave a rule out, for all captures or some, to make it count less, and to accept what is known."""
    lines = (
        f"`--ignore {code}`, or `ignore = [\"{code}\"]` in the configuration.",
        f"For some captures: `\"captures/old/**\" = [\"{code}\"]` below `[per-path-ignores]`.",
        f"To fail no job: `{code} = \"info\"` below `[severity]`.",
        "What is found today: `--write-baseline FILE`, then `--baseline FILE`.",
    )
    return "\n".join(lines)


def page(rule: type[Rule]) -> dict[str, str]:
    """All sections: those of the docstring, the evidence, the rule's options, how to silence it, example and reference."""
    known = evidence(rule)
    options = "\n".join(f"`{key} = {one.default}`: {one.meaning}" for key, one in settings_of(rule).items())
    code = getattr(rule, "code", "")  # a base class has none
    options = f"Below `[options.{code}]` in the configuration:\n{options}" if options else ""
    texts = sections(rule)
    others = {title: texts.pop(title) for title in tuple(texts) if title not in TITLES}
    texts |= {EVIDENCE: known} if known else {}
    configured = {OPTIONS: options or "None.", SILENCE: silencing(code)} if code else {}
    return texts | others | configured | {"Example": rule.example, "Reference": rule.reference}


def unmarked(text: str) -> str:
    """A text of a stranger on one line, in which no Markdown reader takes anything for markup, HTML, a link or a mention."""
    escaped = re.sub(r"([\\`*_\[\]<>|~#@&$:]|(?<=www)\.)", r"\\\1", " ".join(map(printable, text.split("\n"))).strip())
    return re.sub(r"^(\d*)(?=[-+=.)])", r"\1\\", escaped)


def markdown(texts: dict[str, str], level: str = "##", *, plain: bool = False) -> str:
    """Sections with their titles as headings. `plain`: nothing in them is markup."""
    if plain:
        paragraphs = {title: re.split(r"\n\s*\n", text) for title, text in texts.items()}
        texts = {unmarked(title): "\n\n".join(map(unmarked, found)) for title, found in paragraphs.items()}
    return "\n\n".join(f"{level} {title}\n{text}" for title, text in texts.items())
