"""Reading a TOML file of an unknown author ends, and long keys are refused by every reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect import toml
from tests.cases import every
from tests.commands import run

LONG = "roce" + ".a" * toml.MOST_PARTS


@every("key", [LONG, "a" + ' . "b.\\"c"' * 40, "a" + ".'b'" * 40])
@every("form", ["{} = 1", "[{}]", "[[{}]]", "x = [{{{} = 1}}]", "[x]\ny = 'z.z'\n{} = 1"])
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


HEX = "0x" + "f" * 5000


@pytest.mark.parametrize(("bits", "fits"), [(toml.MOST_BITS, True), (toml.MOST_BITS + 1, False)])
def test_a_number_of_more_bits_than_a_gid_is_refused(bits: int, fits: bool) -> None:
    text = f"a = 1\n[b]\nc = [[{{d = {hex((1 << bits) - 1)}}}]]"
    if fits:
        assert toml.tables(text)["b"]["c"][0][0]["d"].bit_length() == bits
    else:
        with pytest.raises(ValueError, match=r"^b\.c\.d holds a number of more than 128 bits$"):
            toml.tables(text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("select", f"select = [{HEX}]"), ("allow-empty", f"allow-empty = {HEX}"), ("baseline", f"baseline = {HEX}"),
        ("color", f"color = {HEX}"), ("plugins", f"plugins = [{HEX}]"), ("severity.TXN", f"[severity]\nTXN = {HEX}"),
        ("per-path-ignores.*", f"[per-path-ignores]\n'*' = {HEX}"),
        ("rule.code", f"[[rule]]\ncode = {HEX}"), ("options.TXN001.patience", f"[options.TXN001]\npatience = {HEX}"),
        ("unknown", f"unknown = {HEX}"),
    ],
)  # fmt: skip
def test_a_huge_number_of_a_found_configuration_is_an_error_with_its_key(tmp_path: Path, repo: Path, key: str, text: str) -> None:
    (tmp_path / "ibdissect.toml").write_text(text)
    for command in ("lint", "show", "stats"):
        done = run(command, str(repo / "captures/pkey-lab.pcap"), cwd=tmp_path, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "ibdissect.toml" in done.stderr and f"{key} holds a number of more than 128 bits" in done.stderr


def test_every_command_that_reads_a_pyproject_says_it(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ibdissect]\nfail-on = {HEX}")
    for words in (["lint"], ["show"], ["stats"], ["fabric"], ["diagnose"], ["report", "-o", "x.html"], ["rules"], ["lint", "--sandbox"]):
        done = run(*words, *([] if words == ["rules"] else [str(repo / "captures/pkey-lab.pcap")]), cwd=tmp_path, text=True)
        assert "Traceback" not in done.stderr
        assert done.returncode == 2 and "tool.ibdissect.fail-on holds a number" in done.stderr, (words, done.stderr)
