"""The rules, family by family: the text of docs/rules.md, and of that page of the site."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import groupby

from ibdissect.lint.rule import Rule, family
from ibdissect.lint.rule_page import summary
from ibdissect.rules import load

HEAD = """# Rules

`ibdissect rules CODE` prints what is behind a rule: why the fault matters, what to do, what the rule must see, an example, how to
silence it. The site has the same as a page for each. A rule's code begins with the letters of its family.
"""


def _place(rule: type[Rule]) -> str:
    """The code, with a place that links from reports lead to."""
    return f'<a id="{rule.code.lower()}-{rule.name}"></a>{rule.code}'


def page(code_of: Callable[[type[Rule]], str] = _place) -> str:
    """The page; `code_of` writes the code of a rule."""
    lines = [HEAD]
    for letters, rules in groupby(load(), key=lambda rule: family(rule.code)):
        about = str(importlib.import_module(f"ibdissect.rules.{letters}").__doc__).partition(".")[0].removeprefix("Rules about ")
        lines += [f"## {letters} - {about}\n", "| rule | name | severity | the fault |", "|---|---|---|---|"]
        lines += [f"| {code_of(rule)} | {rule.name} | {rule.severity.value} | {summary(rule)} |" for rule in rules]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
