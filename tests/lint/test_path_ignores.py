"""Globs of per-path-ignores match the right captures, whatever the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest
import re2

from ibdissect.errors import ConfigError
from ibdissect.lint.path_ignores import PathIgnores
from ibdissect.rules import load
from ibdissect.words import Rule
from tests.cases import every
from tests.commands import run


def codes(rules: list[type[Rule]]) -> set[str]:
    return {rule.code for rule in rules}


@pytest.mark.parametrize(
    ("glob", "hit", "missed"),
    [
        ("captures/*.pcap", ["captures/a.pcap"], ["captures/deep/a.pcap", "a.pcap", "captures/a.pcapng"]),
        ("captures/**/*.pcap", ["captures/a.pcap", "captures/x/y/a.pcap"], ["a.pcap"]),
        ("captures", ["captures/a.pcap", "x/captures/a.pcap"], ["captures2/a.pcap", "a.pcap"]),
        ("./captures/", ["captures/a.pcap"], ["a.pcap"]),
        ("lab-?.pcap", ["lab-1.pcap", "deep/lab-2.pcap"], ["lab-10.pcap", "lab-/.pcap"]),
        ("lab-[12].pcap", ["lab-1.pcap"], ["lab-3.pcap"]),
        ("lab-[!12].pcap", ["lab-3.pcap"], ["lab-1.pcap"]),
        ("lab-[z-a].pcap", ["lab-[z-a].pcap"], ["lab-b.pcap"]),
        ("a+b(1).pcap", ["a+b(1).pcap"], ["aab1.pcap"]),
        ("**", ["a.pcap", "x/a.pcap"], []),
    ],
)
def test_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, glob: str, hit: list[str], missed: list[str]) -> None:
    ignores = PathIgnores(str(tmp_path), ((glob, ("PKY001",)),))
    rules = [rule for rule in load() if rule.code in ("PKY001", "PKY002")]
    monkeypatch.chdir(tmp_path)
    for path in hit:
        assert codes(ignores.rules_for(path, rules)) == {"PKY002"}, path
        assert codes(ignores.rules_for(str(tmp_path / path), rules)) == {"PKY002"}, path
    for path in missed:
        assert codes(ignores.rules_for(path, rules)) == {"PKY001", "PKY002"}, path


def test_an_absolute_glob_and_links(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    rules = load()
    linked = PathIgnores(str(tmp_path / "link"), (("sub/*.pcap", ("PKY",)),))
    assert "PKY001" not in codes(linked.rules_for(str(real / "sub/a.pcap"), rules))
    assert "PKY001" not in codes(
        PathIgnores("/elsewhere", ((f"{real}/*.pcap", ("limited-to-limited",)),)).rules_for(str(real / "a.pcap"), rules)
    )


def test_globs_that_backtrack_and_names_that_are_no_text(tmp_path: Path) -> None:
    """Python's own expressions need longer than the universe exists for these."""
    path = "/".join(["a" * 60] * 4) + "/\udcff" + "a" * 120 + ".pcap"
    globs = ("**/a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "**/**/**/**/**/**/**/**/**/**/x")
    rules = load()
    assert PathIgnores(str(tmp_path), tuple((glob, ("PKY",)) for glob in globs)).rules_for(path, rules) == list(rules)
    assert len(PathIgnores(str(tmp_path), (("?" + "a" * 120 + ".pcap", ("PKY",)),)).rules_for(path, rules)) < len(rules)


@every(
    ("glob", "names", "missed"),
    [
        ("[a].pcap", ["a.pcap"], ["[a].pcap"]), ("[].pcap", ["[].pcap"], ["a.pcap"]), ("[!a].pcap", ["b.pcap", "!.pcap"], ["a.pcap"]),
        ("[a", ["[a"], ["a"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]), ("[]a]", ["]", "a"], ["b"]), ("a[^b]", ["a^", "ab"], ["ac"]),
    ],
)  # fmt: skip
def test_choices_of_characters(glob: str, names: list[str], missed: list[str]) -> None:
    rules = [rule for rule in load() if rule.code == "PKY001"]
    ignores = PathIgnores("/", ((glob, ("PKY001",)),))
    assert [name for name in (*names, *missed) if not ignores.rules_for(f"/{name}", rules)] == names


def test_a_pattern_that_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    glob = "x" * 100
    monkeypatch.setattr(re2, "escape", lambda _: "(")
    with pytest.raises(ConfigError, match=r"^x\.toml: .*is not a valid pattern: .*missing") as caught:
        PathIgnores("/x", ((glob, ("PKY",)),), "x.toml").rules_for("a.pcap", load())
    assert caught.value.key == "per-path-ignores." + "x" * 60


@pytest.mark.parametrize(("size", "fits"), [(1024, True), (1025, False)])
def test_a_glob_that_is_too_large_is_an_error_with_file_and_key(size: int, fits: bool) -> None:
    ignores = PathIgnores("/x", (("**/" * (size // 3) + "a" * (size % 3), ("PKY",)),), "x.toml")
    if fits:
        assert ignores.rules_for("a.pcap", load())
    else:
        with pytest.raises(ConfigError, match=r"^x\.toml: per-path-ignores\.\*\*/.*: is a pattern of more than 1024 characters$"):
            ignores.rules_for("a.pcap", load())


def test_re2_prints_nothing_itself(tmp_path: Path, repo: Path) -> None:
    """A glob within the limit that RE2 needs much memory for, and one that it refuses."""
    for glob in ("**/a" * 250 + "**", "[" * 1000, "?" * 1000, "[!-" * 300):
        (tmp_path / "ibdissect.toml").write_text(f"[per-path-ignores]\n'{glob}' = ['PKY']\n")
        done = run("lint", "-q", "--select", "PKY001", str(repo / "captures/pkey-lab.pcap"), cwd=tmp_path, text=True)
        assert "re2" not in done.stderr.lower() and "absl" not in done.stderr, (glob[:9], done.stderr)
