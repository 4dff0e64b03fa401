"""State of the screen from one run to the next: its own files in the user's state folder, nothing else."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

from ibdissect.errors import CaptureError
from ibdissect.wire.text import printable

MAX_SIZE = 1 << 18
"""Larger files were not written by us, and are not read."""
MAX_COLUMNS = 64
KEPT = 200
"""Filters remembered."""


def state_folder() -> Path | None:
    """The platform's folder for a user's program state, never one relative to where the program was started; None without any."""
    import platformdirs

    folder = Path(platformdirs.user_state_dir("ibdissect", appauthor=False))
    return folder if folder.is_absolute() else None


def read_text(path: Path | None) -> str | None:
    """A small text file; None when there is none. OSError and ValueError when it cannot be read, or is no text."""
    if path is None or not path.exists():
        return None
    with path.open("rb") as file:
        raw = file.read(MAX_SIZE + 1)
    if len(raw) > MAX_SIZE:
        raise ValueError("it is too large")
    return raw.decode("utf-8")


def replace_text(path: Path | None, text: str) -> None:
    """Write a file as a whole or not at all; failures are ignored."""
    if path is None:
        return
    from ibdissect.export.whole_files import replacing  # not needed for the first rows

    with contextlib.suppress(OSError, CaptureError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(str(path)) as file:
            file.write(text.encode())


class Profile:
    """The look of the screen, saved under a name. `note` says why the look of the last run cannot be used, if so."""

    def __init__(self, path: Path | None = None) -> None:
        folder = state_folder() if path is None else None
        self.path = folder / "screen.json" if folder is not None else path
        self.columns: list[str] = []
        """Keys in order; empty: the default ones."""
        self.look: dict[str, str] = {}
        """`theme`, `time`, and by kind and name: `width COLUMN`, `size PANE`, `pane PANE`, `color FILTER`, `filter NAME`. In the default
        profile `profile` is the one that was used last. Empty texts are forgotten."""
        self.note = ""
        try:
            text = read_text(self.path)
            if text is not None:
                found = json.loads(text)
                self.columns = _columns(found)
                self.look = {str(key): value for key, value in found.items() if isinstance(value, str)}
        except (OSError, ValueError, RecursionError) as error:
            self.note = f"the saved columns, colors and filters cannot be read: {error}"

    @property
    def name(self) -> str:
        """Empty for the default profile."""
        return self.path.stem.partition("-")[2] if self.path is not None else ""

    def others(self) -> list[str]:
        """The names of the profiles that were saved."""
        names = (path.stem.partition("-")[2] for path in self.path.parent.glob("screen-*.json")) if self.path is not None else ()
        return sorted(name for name in names if unusable(name) is None)

    def other(self, name: str) -> Profile:
        """Switch to the profile with a name (empty: the default one), and remember it as the one used last."""
        if self.path is None:
            return self
        default = Profile(self.path.with_name("screen.json"))
        default.keep("profile", name)
        return Profile(self.path.with_name(f"screen-{name}.json")) if name else default

    def last(self) -> Profile:
        """Of the default profile: the one that was used last."""
        name = self.look.get("profile", "")
        return self.other(name) if name in self.others() else self

    def save_as(self, name: str) -> Profile:
        """A profile of another name that looks the same."""
        found = self.other(name)
        found.columns, found.look = self.columns, {key: text for key, text in self.look.items() if key != "profile"}
        found._write()
        return found

    def delete(self) -> Profile:
        """Delete the profile; the default profile, which is never deleted, becomes the one used last."""
        default = self.other("")
        if self.path is not None and self.name:
            with contextlib.suppress(OSError):
                self.path.unlink()
        return default

    def by_kind(self, kind: str) -> dict[str, str]:
        """What is remembered of a kind, by name."""
        return {key.removeprefix(f"{kind} "): text for key, text in self.look.items() if key.startswith(f"{kind} ") and text}

    def keep_columns(self, keys: list[str]) -> None:
        self.columns = keys[:MAX_COLUMNS]
        self._write()

    def keep(self, what: str, value: str) -> None:
        if self.look.get(what) != value:
            self.look[what] = value
            self._write()

    def _write(self) -> None:
        look = {key: text for key, text in self.look.items() if text}
        replace_text(self.path, json.dumps({"columns": self.columns, **look}, indent=1) + "\n")


def unusable(name: str) -> str | None:
    """Why a profile cannot have a name; None when it can."""
    if name == "default":
        return "another name: this is the one without a file of its own"
    return None if re.fullmatch(r"\w[\w .-]{0,39}", name) else "letters, digits, dots, hyphens and spaces, at most 40"


def _columns(found: object) -> list[str]:
    """The columns of a parsed file; ValueError when it is not as we write it."""
    keys = found.get("columns", []) if isinstance(found, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or len(keys) > MAX_COLUMNS:
        raise ValueError("it is not what this program writes")
    return list(dict.fromkeys(keys))


class FilterHistory:
    """Filters entered before, newest last; or other lines, in a file of another name."""

    def __init__(self, path: Path | None = None, name: str = "filters") -> None:
        folder = state_folder() if path is None else None
        self.path = folder / name if folder is not None else path
        self.texts: list[str] = []
        self.note = ""
        try:
            text = read_text(self.path)
            self.texts = [line for line in (text or "").splitlines() if line and line.isprintable()][-KEPT:]
        except (OSError, ValueError) as error:
            self.note = f"the filters of the last run cannot be read: {error}"

    def add(self, text: str, *, path: bool = False) -> None:
        """Remember a text; the spaces of a `path` stay."""
        text = printable(text if path else " ".join(text.split()))
        if text:
            self.texts = [*(old for old in self.texts if old != text), text][-KEPT:]
            replace_text(self.path, "\n".join(self.texts) + "\n")

    def forget(self) -> None:
        """Forget all of them."""
        self.texts = []
        replace_text(self.path, "")
