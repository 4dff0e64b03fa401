"""Configuration files are read correctly, and every mistake in one is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.cli.config import Config, read_config
from ibdissect.cli.frame_selection import parse_frames
from ibdissect.errors import ConfigError

ENDLESS = (1 << 63) - 1


def test_the_nearest_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    (tmp_path / "pyproject.toml").write_text('[tool.ibdissect]\nselect = ["PKY"]\n')
    assert read_config(None).select == ("PKY",)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_config(None).select == ("PKY",)
    (tmp_path / "a" / "ibdissect.toml").write_text('ignore = "AM"\nfail-on = "warning"\nplugins = ["p.py", "module"]\n')
    found = read_config(None)
    assert (found.ignore, found.fail_on, found.select) == (("AM",), "warning", ())
    assert read_config(found.source).plugins == (str(tmp_path / "a" / "p.py"), "module")


def test_nothing_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_config(None) == Config()


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("selct = ['PKY']", "selct", "did you mean select?"), ("select = 3", "select", "not 3"), ("fail-on = 'bad'", "fail-on", ""),
        ("severity = 'error'", "severity", ""), ("severity = {PKY001 = 'loud'}", "severity.PKY001", "'loud' is none of"), ("=", "file", ""),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, text: str, key: str, hint: str) -> None:
    path = tmp_path / "ibdissect.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(str(path))
    assert (caught.value.source, caught.value.key) == (str(path), key)
    assert hint in str(caught.value)


@pytest.mark.parametrize("broken", ["[tool.x]\na = 1\na = 2\n", "[tool.x\n", "x = \xff\n"])
def test_a_mistake_of_another_tool_does_not_hide_our_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """In a repository of captures nobody else reads that file, and without our `fail-on` the job would pass."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f'[tool.ibdissect]\nfail-on = "warning"\n{broken}', encoding="latin-1")
    with pytest.raises(ConfigError, match=r"pyproject.toml: .*not valid TOML: .*(at line [345]|position)"):
        read_config(None)
    (tmp_path / "pyproject.toml").write_text(f"[tool.other]\n{broken}", encoding="ascii", errors="ignore")
    assert read_config(None) == Config()  # it says nothing about us


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1", ((1, 1),)), ("1-10,17", ((1, 10), (17, 17))), ("5-", ((5, ENDLESS),)), ("-3", ((1, 3),)), (" 2 - 4 ", ((2, 4),))],
)
def test_frames(text: str, wanted: tuple[tuple[int, int], ...]) -> None:
    assert parse_frames(text) == wanted


@pytest.mark.parametrize("text", ["", "a", "1-2-3", "0", "5-4", "1,,2", "-", "１"])
def test_bad_frames(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_frames(text)
