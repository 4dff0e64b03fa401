"""Completion of command lines in bash, zsh and fish, with captures, rule codes and filter names."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def teach(command: click.Command) -> click.Command:
    """Add completion of arguments and options to a command; needed only when a shell asks."""
    for parameter in command.params:
        found = BY_NAME.get(parameter.name or "")
        if found is not None:
            parameter._custom_shell_complete = found  # set by the argument `shell_complete` of click's decorators
    return command


def files(_context: click.Context, _parameter: click.Parameter | None, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def codes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Rule codes, families and names; also after a comma."""
    from ibdissect.rules import load

    before, comma, word = incomplete.rpartition(",")
    rules = load()
    families = sorted({rule.code.rstrip("0123456789") for rule in rules})
    named = [(family, "all of them") for family in families]
    named += [(rule.code, rule.name) for rule in rules]
    named += [(rule.name, rule.code) for rule in rules if word and word[0].islower()]
    return [CompletionItem(before + comma + text, help=label) for text, label in named if text.lower().startswith(word.lower())]


def filters(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completions for the end of a display filter."""
    from ibdissect.dfilter.complete import complete

    found = complete(incomplete, len(incomplete))
    return [CompletionItem(incomplete[: one.start] + one.text, help=one.label) for one in found]


def names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of fields; the prefix `infiniband.` is optional, as in filters."""
    from ibdissect.wire.catalog import builtin

    known = sorted(builtin().names)
    full = [name for name in known if name.startswith(incomplete)]
    short = [name.removeprefix("infiniband.") for name in known if name.startswith("infiniband." + incomplete)] if incomplete else []
    return [CompletionItem(name) for name in (*full, *short)]


BY_NAME: dict[str, Complete] = {
    **dict.fromkeys(
        ("capture", "captures", "paths", "before", "after", "folders", "subnet", "cache", "config", "plugins", "target", "output",
         "baseline", "write_baseline"), files,
    ),
    "codes": codes, "selected": codes, "ignored": codes, "filter": filters, "prefix": names, "names": names,
}  # fmt: skip
"""By parameter name, the same in every command."""
