"""A rule is added to `ignore` of a configuration file, and nothing else in the file is touched."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace  # a configuration, of which only the source counts

import pytest

from ibdissect.cli.config_edit import ignore, written
from ibdissect.errors import CaptureError, ConfigError

SITE = '[site]\nignore = ["not ours"]\n'


def ignored(path: Path, text: str) -> str | None:
    """The text of a file after a rule was added; None if that was refused, and the file is as it was."""
    path.write_bytes(text.encode())
    try:
        ignore(str(path), "PKY001")
    except ConfigError:
        assert path.read_bytes() == text.encode()
        return None
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", 'ignore = ["PKY001"]\n'), ("# ours\n", '# ours\nignore = ["PKY001"]\n'),
        ("fail-on = 'error'", "fail-on = 'error'\nignore = [\"PKY001\"]\n"),
        ("ignore = []\n", 'ignore = ["PKY001"]\n'), ("ignore = ['CAP001', ]  # ]\n", "ignore = ['CAP001', \"PKY001\", ]  # ]\n"),
        ('ignore = "CAP001,MAD"\n', 'ignore = ["CAP001", "MAD", "PKY001"]\n'), ('"ignore" = []\n', None),
        ("ignore = [\n  # [\n  'CAP001', # why\n]\n", "ignore = [\n  # [\n  'CAP001', \"PKY001\", # why\n]\n"),
        (SITE, 'ignore = ["PKY001"]\n' + SITE), ("x = 1\r\n", 'x = 1\r\nignore = ["PKY001"]\r\n'),
        ("ignore = ['PKY001']\n", "ignore = ['PKY001']\n"), ('a = """\nignore = []"""\n', 'a = """\nignore = []"""\nignore = ["PKY001"]\n'),
        ("ignore = 3\n", None), ("not toml", None), ("ignore = [['x']]\n", None),
    ],
)  # fmt: skip
def test_of_our_own_file(text: str, changed: str | None, tmp_path: Path) -> None:
    assert ignored(tmp_path / "ibdissect.toml", text) == changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("[project]\nname = 'x'\n", "[project]\nname = 'x'\n\n[tool.ibdissect]\nignore = [\"PKY001\"]\n"),
        ("[tool.ibdissect]\nselect = ['PKY']\n[tool.x]\nignore = []\n",
         "[tool.ibdissect]\nignore = [\"PKY001\"]\nselect = ['PKY']\n[tool.x]\nignore = []\n"),
        ("[tool.x]\nignore = []\n[tool.ibdissect]\nignore = ['A']\n",
         "[tool.x]\nignore = []\n[tool.ibdissect]\nignore = ['A', \"PKY001\"]\n"),
    ],
)  # fmt: skip
def test_of_a_project(text: str, changed: str, tmp_path: Path) -> None:
    assert ignored(tmp_path / "pyproject.toml", text) == changed


def test_the_file_that_was_read_is_changed_or_a_new_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    none, given, found = (SimpleNamespace(source=source) for source in ("", "--config", "a.toml"))
    assert written(none) == written(given) == str(tmp_path / "ibdissect.toml") and written(found) == "a.toml"
    ignore(written(none), "PKY001")
    ignore(written(none), "CAP001")
    assert tomllib.loads((tmp_path / "ibdissect.toml").read_text()) == {"ignore": ["PKY001", "CAP001"]}


def test_a_file_that_is_not_understood_stays(tmp_path: Path) -> None:
    path = tmp_path / "ibdissect.toml"
    path.write_text("ignore = 3")
    with pytest.raises(ConfigError, match="by hand"):
        ignore(str(path), "PKY001")
    assert path.read_text() == "ignore = 3"
    with pytest.raises(CaptureError):
        ignore(str(tmp_path / "none" / "ibdissect.toml"), "PKY001")
