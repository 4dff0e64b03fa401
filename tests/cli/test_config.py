"""Configuration files are read correctly, and every mistake in one is reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.followed import LAB, followed, here, refused


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.ibdissect]\nselect = ["PKY"]\n')
    assert followed(cwd=below)["select"] == ["PKY"]
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert followed(cwd=below)["select"] == ["PKY"]
    (tmp_path / "a" / "ibdissect.toml").write_text('ignore = "AM"\nfail-on = "warning"\n\n')
    found = followed(cwd=below)
    assert "AM" not in found["select"] and "TXN" in found["select"] and found["fail-on"] == "warning"
    assert found["#"][0] == f"configuration: {tmp_path / 'a' / 'ibdissect.toml'}"
    for name, shown in (("p.py", tmp_path / "a" / "p.py"), ("no_such_module", "no_such_module")):
        (tmp_path / "a" / "ibdissect.toml").write_text(f'plugins = ["{name}"]\n')
        assert f"error: plugin {shown}: " in refused("--config", str(tmp_path / "a" / "ibdissect.toml"), cwd=below)


def test_nothing_is_fine(tmp_path: Path) -> None:
    found = followed(cwd=tmp_path)
    assert found["fail-on"] == "error" and found["#"][0].startswith("configuration: none")


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
    said = refused("--config", str(path))
    assert said.startswith(f"error: {path}: {key}") and hint in said


@pytest.mark.parametrize("broken", ["[tool.x]\na = 1\na = 2\n", "[tool.x\n", "x = \xff\n"])
def test_a_mistake_of_another_tool_does_not_hide_our_table(tmp_path: Path, broken: str) -> None:
    """In a repository of captures nobody else reads that file, and without our `fail-on` the job would pass."""
    (tmp_path / "pyproject.toml").write_text(f'[tool.ibdissect]\nfail-on = "warning"\n{broken}', encoding="latin-1")
    assert re.search(r"pyproject.toml: .*not valid TOML: .*(at line [345]|position)", refused(cwd=tmp_path))
    (tmp_path / "pyproject.toml").write_text(f"[tool.other]\n{broken}", encoding="ascii", errors="ignore")
    assert followed(cwd=tmp_path)["fail-on"] == "error", "it says nothing about us"


@every(
    ("text", "wanted"),
    [("1", [1]), ("1-10,17", [*range(1, 11), 17]), ("35-", [35, 36, 37]), ("-3", [1, 2, 3]), (" 2 - 4 ", [2, 3, 4])],
)
def test_frames(text: str, wanted: list[int]) -> None:
    assert [*map(int, here("show", LAB, f"--frames={text}", "--format", "fields", "-e", "frame.number")[1].split())] == wanted


@every("text", ["", "a", "1-2-3", "0", "5-4", "1,,2", "-", "１"])
def test_bad_frames(text: str) -> None:
    status, out, err = here("show", LAB, f"--frames={text}")
    assert status == 2 and "--frames" in err and not out
