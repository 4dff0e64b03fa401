"""`Command`: a key of the main screen with its action, and its texts in help, key bar and palette."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..app import TuiApp

SIGNS = {"slash": "/", "plus": "+", "equals_sign": "=", "comma": ",", "question_mark": "?", "number_sign": "#",
         "less_than_sign": "<", "greater_than_sign": ">", "right_square_bracket": "]", "left_square_bracket": "[",
         "apostrophe": "'", "quotation_mark": '"', "alt+left": "Alt+←", "alt+right": "Alt+→",
         "up": "↑", "down": "↓", "left": "←", "right": "→", "enter": "Enter", "escape": "Esc", "tab": "Tab", "asterisk": "*",
         "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "shift+left": "Shift+←", "shift+right": "Shift+→",
         "space": "Space", "shift+f10": "Shift+F10", "f1": "F1"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """A key of the main screen."""

    keys: str
    """Names that Textual gives to keys, with commas; the first one is shown."""
    title: str
    """In the palette."""
    run: Callable[[TuiApp], object]
    group: str = ""
    help: str = ""
    """Under this heading, with these words, in the help; neighbours with the same words share a line."""
    word: str = ""
    rank: int = 0
    """Word in the key bar, and its importance: 1 stays longest. A negative rank stands at the right end."""

    @property
    def key(self) -> str:
        """The key as a person writes it."""
        return key_text(self.keys.partition(",")[0])


def key_text(name: str) -> str:
    """A key as a person writes it, by Textual's name."""
    return SIGNS.get(name, f"Ctrl+{name[5:].upper()}" if name.startswith("ctrl+") else name)


def help_groups(commands: tuple[Command, ...]) -> dict[str, list[tuple[str, str]]]:
    """Keys and what they do, by heading."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for command in commands:
        if not command.help:
            continue
        lines = groups.setdefault(command.group, [])
        if lines and lines[-1][1] == command.help:
            lines[-1] = f"{lines[-1][0]}  {command.key}", command.help
        else:
            lines.append((command.key, command.help))
    return groups
