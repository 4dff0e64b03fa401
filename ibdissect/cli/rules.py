"""`ibdissect rules`: lists the rules, or explains one."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ibdissect.cli.common_options import OF_CAPTURES, CommonOptions, common_options, without
from ibdissect.cli.console import echo
from ibdissect.errors import ConfigError, defined_in
from ibdissect.lint import toml_rules
from ibdissect.lint.rule import Rule
from ibdissect.lint.rule_page import OPTIONS, SILENCE, markdown, page, silencing, summary
from ibdissect.lint.rule_selection import select, split_codes
from ibdissect.lint.setting import settings_of


@click.command()
@click.argument("codes", nargs=-1, metavar="[CODE...]")
@click.option("--format", "format_", type=click.Choice(("text", "json", "markdown")), default="text", show_default=True)
@without(*OF_CAPTURES, reason="cannot be used here: no capture is read")
@common_options
def command(codes: tuple[str, ...], format_: str, common: CommonOptions) -> None:
    """List the rules, or explain those named by code, prefix or name: what, why it matters, what to do, reference, example."""
    rules = _named(split_codes(codes), common, "CODE")
    explain = bool(codes) and (len(rules) <= 3 or format_ == "markdown")
    if format_ == "json":
        echo(json.dumps([rule_object(rule) for rule in rules], indent=2, ensure_ascii=False))
    elif format_ == "markdown":
        echo("\n".join(([] if codes else [contents(rules)]) + [text_of(rule, of_many=not codes) for rule in rules]), nl=False)
    elif explain:
        echo("\n".join(text_of(rule, as_markdown=False) for rule in rules), nl=False)
    else:
        for rule in rules:
            echo(f"{rule.code}  {rule.severity.value:<8} {rule.name:<36} {summary(rule)}")


def explained(codes: Sequence[str], common: CommonOptions) -> str:
    """The pages of rules, for a terminal. ConfigError for a code that no rule has."""
    return "\n".join(text_of(rule, as_markdown=False) for rule in _named(codes or [""], common, "--explain"))


def _named(codes: Sequence[str], common: CommonOptions, source: str) -> list[type[Rule]]:
    """The rules with some codes, prefixes or names; all without any."""
    from ibdissect.rules import load

    _, plugin_rules = common.loaded()
    rules = select([*load(), *plugin_rules], codes, source=source)
    if not rules or codes == [""]:
        raise ConfigError(source, ", ".join(codes) or "CODES", "no rule has this code", hint="`ibdissect rules` lists them")
    return rules


def file_of(rule: type[Rule]) -> str:
    """The file that defines a rule; for built-in rules relative to the root of the repository."""
    path = Path(defined_in(rule).removeprefix(f"{toml_rules.__name__}:"))  # the module name of a rule from TOML ends with that file
    package = Path(__file__).parents[1]
    return path.relative_to(package.parent).as_posix() if path.is_relative_to(package) else str(path)


def contents(rules: Sequence[type[Rule]]) -> str:
    """The head of a page of all rules."""
    lines = [f"- [{rule.code} {rule.name}](#{rule.code.lower()}-{rule.name}): {summary(rule)}\n" for rule in rules]
    about = "A rule's code begins with the letters of its family. `ibdissect rules CODE` prints one of these pages."
    return f"# Rules\n\n{about}\n\n## {SILENCE}\n\n{silencing('PKY001')}\n\n## All rules\n\n{''.join(lines)}"


def rule_object(rule: type[Rule]) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "since": rule.since,
        "reference": rule.reference,
        "summary": summary(rule),
        "example": rule.example,
        "defined_in": file_of(rule),
        "options": {
            key: {"default": one.default, "minimum": one.minimum, "meaning": one.meaning} for key, one in settings_of(rule).items()
        },
        "page": text_of(rule),
    }


def text_of(rule: type[Rule], *, as_markdown: bool = True, of_many: bool = False) -> str:
    """The rule's documentation as Markdown, or as plain text for a terminal; `of_many`: without what all rules have."""
    texts = page(rule) | {"Defined in": file_of(rule)}
    if of_many:
        texts.pop(SILENCE)
        if not settings_of(rule):
            texts.pop(OPTIONS)
    about = f"{rule.severity.value}, since {rule.since}"
    if as_markdown:
        return f"## {rule.code} {rule.name}\n\n*{about}* - {summary(rule)}\n\n{markdown(texts, '###')}\n"
    lines = [f"{rule.code} {rule.name} ({about})", "", summary(rule), ""]
    for title, content in texts.items():
        lines += [title, textwrap.indent(content, "  "), ""]
    return "\n".join(lines)
