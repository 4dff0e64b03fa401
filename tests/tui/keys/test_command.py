"""Every key has one command, and the page of the terminal UI lists them all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ibdissect.tui.app import COMMANDS
from ibdissect.tui.keys.command import help_groups


def test_every_key_has_one_command() -> None:
    keys = Counter(key for command in COMMANDS for key in command.keys.split(","))
    assert [key for key, times in keys.items() if times > 1] == []


def test_the_page_lists_all_keys(repo: Path) -> None:
    lines = ["| to | key | does |", "|---|---|---|"]
    for group, entries in help_groups(COMMANDS).items():
        lines += [f"| {group} | `{'` `'.join(keys.split('  '))}` | {what} |" for keys, what in entries]
    table = "\n".join(lines) + "\n"
    assert table in (repo / "docs/the-screen.md").read_text(encoding="utf-8"), f"the section Keys must hold this table:\n{table}"
