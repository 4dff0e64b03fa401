"""Does reading a TOML file of an unknown author end, and are long keys refused by every reader?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect import toml
from tests.commands import run

LONG = "roce" + ".a" * toml.MOST_PARTS


@pytest.mark.parametrize("key", [LONG, "a" + ' . "b.\\"c"' * 40, "a" + ".'b'" * 40])
@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]", "x = [{{{} = 1}}]", "[x]\ny = 'z.z'\n{} = 1"])
def test_a_key_of_many_parts_is_refused(key: str, form: str) -> None:
    line = form.count("\n") + 1
    with pytest.raises(ValueError, match=rf"key of more than 32 parts \(at line {line}, column 1\)"):
        toml.tables(form.format(key))


def test_other_files_are_read() -> None:
    key = ".".join("abcdefgh" * (toml.MOST_PARTS // 8))
    text = f"{key} = '{'a-' * 40} {'1.5, ' * 40}'\n# {'So. Be it. ' * 40}..{'.' * 40}\n"
    assert list(toml.tables(text)) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a." * 1_000_000, "a" * 2_000_000, '"' * 1_000_000, "a'" * 1_000_000, "a . " * 31 + " " * 1_000_000])
def test_what_is_looked_for_is_found_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"at line 1\b|at end"):
        toml.tables(text)


def test_no_file_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toml, "MOST_TEXT", 4)
    assert toml.tables("a =1") == {"a": 1}
    with pytest.raises(ValueError, match="longer than"):
        toml.tables("a = 1")


@pytest.mark.parametrize("option", ["--config", "--plugin", "--subnet"])
def test_every_reader_says_so(tmp_path: Path, repo: Path, option: str) -> None:
    file = tmp_path / "long.toml"
    file.write_text(f"{LONG} = 1\n")
    name = f"roce:{file}" if option == "--subnet" else str(file)
    done = run("lint", str(repo / "captures/pkey-lab.pcap"), option, name, text=True)
    assert done.returncode == 2 and str(file) in done.stderr and "A key of more than 32 parts" in done.stderr
