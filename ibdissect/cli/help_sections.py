"""Help of commands with many options, in titled sections, and options that have another name now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import click

from .common_options import say

NEW_NAMES: dict[tuple[str, str], str] = {
    ("export", "--to"): "--output", ("scrub", "--to"): "--output", ("annotate", "--to"): "--output", ("fabric", "--write"): "--format",
}  # fmt: skip
"""Options of commands that were renamed, so that each word means one thing everywhere: their old names, and the new ones."""


class Sectioned(click.Command):
    """A command whose help lists its options under titles."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Titles, and the names of parameters below them. Those that are named nowhere come under the last title."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's lists of options."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        left = {option.name: record for option in options if (record := option.get_help_record(ctx)) is not None}
        last = list(self.sections)[-1]
        for title, names in self.sections.items():
            found = [left.pop(name) for name in names if name in left]
            if title == last:
                found += left.values()
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


def with_new_names(command: str, words: Sequence[str]) -> list[str]:
    """A command's words with today's names of its options; says which are old."""
    found: list[str] = []
    for i, word in enumerate(words):
        if word == "--":
            return [*found, *words[i:]]
        name, equals, value = word.partition("=")
        new = NEW_NAMES.get((command, name))
        if new is not None:
            say(f"warning: {name} of `{command}` is called {new} now")
            word = new + equals + value
        found.append(word)
    return found
