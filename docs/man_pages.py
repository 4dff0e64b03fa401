"""Writes a manual page for each command: `python docs/man_pages.py ~/.local/share/man/man1`, then `man ibdissect-lint`. Needs click-man."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click_man.core import generate_man_page

from ibdissect.cli import COMMANDS, group
from ibdissect.version import VERSION


def man_pages() -> dict[str, str]:
    """Text by file name."""
    top = click.Context(group, info_name="ibdissect")
    group.commands = {name: group.get_command(top, name) for name in COMMANDS}  # click-man lists commands that are loaded
    for name, command in group.commands.items():
        command.short_help = COMMANDS[name].rstrip(".")  # else click cuts the first sentence
    group.short_help = str(group.help).partition(".")[0]
    commands = [top, *(click.Context(command, info_name=name, parent=top) for name, command in group.commands.items())]
    return {f"{one.command_path.replace(' ', '-')}.1": generate_man_page(one, version=VERSION) for one in commands}


if __name__ == "__main__":
    target = Path(*sys.argv[1:2] or ["man1"])
    target.mkdir(parents=True, exist_ok=True)
    for name, text in man_pages().items():
        (target / name).write_text(text, encoding="utf-8")
    print(f"manual pages are in {target}")
