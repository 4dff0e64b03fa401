"""Remembered reports are those of a check, and never taken for a capture, option or rule they are not about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ibdissect.capture.file_names import CaptureSet
from ibdissect.errors import ConfigError
from ibdissect.lint.finding import Severity
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.pipeline import cache as session_cache
from ibdissect.pipeline.cache import Cache
from ibdissect.pipeline.check import CheckOptions
from ibdissect.report import Run, render
from ibdissect.rules import load
from tests.cases import few
from tests.commands import run
from tests.rules.test_rules import CASES

PKY = [rule for rule in load() if rule.code.startswith("PKY")]
OPTIONS = CheckOptions(rules=PKY)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was checked and not remembered."""
    seen: list[Any] = []
    real = session_cache.check

    def check(unit: Any, *words: Any, **named: Any) -> Any:
        seen.append(unit)
        return real(unit, *words, **named)

    monkeypatch.setattr(session_cache, "check", check)
    return seen


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(CASES["PKY001"][0].bad)
    return path


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def asked(tmp_path: Path, unit: Any, options: CheckOptions = OPTIONS, *chosen: str | None) -> str:
    return render("json", [Cache.of(str(tmp_path / "cache"), options, *chosen).check(unit, options)], Run())


@pytest.mark.slow
def test_the_same_report(capture: Path, tmp_path: Path, checks: list[Any]) -> None:
    first = asked(tmp_path, str(capture))
    assert asked(tmp_path, str(capture)) == first and len(checks) == 1 and "PKY001" in first
    copy = capture.with_name("b.pcap")
    capture.rename(copy)
    assert asked(tmp_path, str(copy)) == first.replace("a.pcap", "b.pcap") and len(checks) == 1
    assert all(path.stat().st_mode & 0o077 == 0 for path in entries(tmp_path / "cache"))


@pytest.mark.slow
def test_other_options(capture: Path, tmp_path: Path, checks: list[Any]) -> None:
    first = asked(tmp_path, str(capture))
    others = (
        replace(OPTIONS, rules=PKY[1:]), replace(OPTIONS, max_findings=1), replace(OPTIONS, severities={"PKY001": Severity.INFO}),
        replace(OPTIONS, policy=SitePolicy(m_keys=frozenset({7, 8}))), replace(OPTIONS, settings={"PKY001": {"a": 1.0}}),
    )  # fmt: skip
    for number, other in enumerate(others, 2):
        asked(tmp_path, str(capture), other)
        assert len(checks) == number, other
    assert asked(tmp_path, str(capture)) == first and len(checks) == 1 + len(others)


@pytest.mark.slow
def test_other_bytes_filters_and_versions(capture: Path, tmp_path: Path, checks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked(tmp_path, str(capture))
    asked(tmp_path, str(capture), OPTIONS, "bth", None)
    capture.write_bytes(capture.read_bytes()[:-20])
    assert '"truncated"' in asked(tmp_path, str(capture)) and '"truncated"' in asked(tmp_path, str(capture))
    assert len(checks) == 3
    monkeypatch.setattr(session_cache, "VERSION", "0.0")
    asked(tmp_path, str(capture))
    assert len(checks) == 4


def test_plugins_are_known_by_their_text(capture: Path, tmp_path: Path, checks: list[Any]) -> None:
    plugin = tmp_path / "acme.py"
    for text in ("A = 1", "A = 1", "A = 2"):
        plugin.write_text(text)
        asked(tmp_path, str(capture), replace(OPTIONS, plugins=(str(plugin),)))
    assert len(checks) == 2


@pytest.mark.slow
def test_damaged_and_foreign_entries(capture: Path, tmp_path: Path, checks: list[Any]) -> None:
    first = asked(tmp_path, str(capture))
    (entry,) = entries(tmp_path / "cache")
    whole = entry.read_bytes()
    for number, data in enumerate((b"", b"no JSON", b"0" * 64 + b'{"path":"x"}'), 2):
        entry.write_bytes(data)
        assert asked(tmp_path, str(capture)) == first and len(checks) == number, data
        assert entry.read_bytes() == whole, "it was written anew"
    entry.write_bytes(whole.replace(b"limited", b"LIMITED"))
    assert "LIMITED" not in asked(tmp_path, str(capture))
    capture.write_bytes(capture.read_bytes()[:-20])
    asked(tmp_path, str(capture))
    (other,) = (path for path in entries(tmp_path / "cache") if path != entry)
    other.write_bytes(whole)
    assert asked(tmp_path, str(capture)) != first and len(checks) == 7, "the entry of another capture under this one's name"


def test_a_set(repo: Path, tmp_path: Path, checks: list[Any]) -> None:
    files = tuple(sorted(map(str, (repo / "docs/examples/ring").iterdir())))
    first = asked(tmp_path, CaptureSet("x", files))
    assert asked(tmp_path, CaptureSet("x", files)) == first and len(checks) == 1 and '"file_frame": 7' in first
    asked(tmp_path, CaptureSet("x", files[1:]))
    assert len(checks) == 2


def test_unreadable_captures_are_not_cached_and_bad_options_are_refused(capture: Path, tmp_path: Path) -> None:
    capture.write_bytes(b"no capture")
    assert '"unreadable"' in asked(tmp_path, str(capture))
    assert '"unreadable"' in asked(tmp_path, str(tmp_path / "missing.pcap"))
    assert entries(tmp_path / "cache") == []
    for options in (replace(OPTIONS, show_keys=True), replace(OPTIONS, timing=True)):
        with pytest.raises(ConfigError, match="cannot be used with"):
            Cache.of(str(tmp_path / "cache"), options)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        Cache.of(str(tmp_path / "file"), OPTIONS)


@pytest.mark.slow
def test_a_capture_that_grows_meanwhile(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = session_cache.check

    def check(unit: Any, *words: Any, **named: Any) -> Any:
        os.utime(unit, (1, 1))
        return real(unit, *words, **named)

    monkeypatch.setattr(session_cache, "check", check)
    asked(tmp_path, str(capture))
    assert entries(tmp_path / "cache") == []


@pytest.mark.slow
def test_lint(repo: Path, tmp_path: Path) -> None:
    words = ("lint", str(repo / "captures/pkey-lab.pcap"), str(repo / "captures/rxe-rping.pcap"), "--statistics")
    plain = run(*words)
    for jobs in ("1", "2", "1"):
        cached = run(*words, "--cache", str(tmp_path / "cache"), "--jobs", jobs)
        assert (cached.stdout, cached.returncode) == (plain.stdout, plain.returncode)
    assert len(entries(tmp_path / "cache")) == 2


def poisoned(entry: Path, old: bytes, new: bytes) -> None:
    """Change an entry as somebody does who knows how entries are sealed."""
    data = entry.read_bytes()[session_cache.HASH :]
    assert old in data
    data = data.replace(old, new)
    entry.write_bytes(session_cache._seal(entry, data) + data)


POISON = (
    (b"(limited)", rb"\u001b]52;c;AAAA\u0007"), (b"(limited)", rb"\n::error::x"), (b"PKY001", b"ZZZ001"), (b'"a.pcap"', rb'"\u202e"'),
    (b'"limited-to-limited"', rb'"\u001b[2J"'), (b'"status":"ok"', b'"status":"unreadable"'), (b'"frame"', b'"FRAME"'),
    (b'"limited-to-limited"', b'"<script>"'), (b'"arguments":{}', b'"arguments":{"a":' + b"[" * 100_000),
)  # fmt: skip


@pytest.mark.slow
def test_a_poisoned_entry_is_not_used(capture: Path, tmp_path: Path, checks: list[Any]) -> None:
    first = asked(tmp_path, str(capture))
    (entry,) = entries(tmp_path / "cache")
    for number, (old, new) in enumerate(POISON, 2):
        poisoned(entry, f'"{capture}"'.encode() if old == b'"a.pcap"' else old, new)
        assert asked(tmp_path, str(capture)) == first and len(checks) == number, (old, new)


@pytest.mark.slow
def test_an_entry_that_is_larger_than_memory_is_not_read(
    capture: Path, tmp_path: Path, checks: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked(tmp_path, str(capture))
    (entry,) = entries(tmp_path / "cache")
    os.truncate(entry, 1 << 42)
    assert asked(tmp_path, str(capture)) == first and len(checks) == 2 and entry.stat().st_size < 1 << 20, "it is written anew"
    size = entry.stat().st_size
    monkeypatch.setattr(session_cache, "MOST_BYTES", size)
    assert asked(tmp_path, str(capture)) == first and len(checks) == 2
    monkeypatch.setattr(session_cache, "MOST_BYTES", size - 1)
    assert asked(tmp_path, str(capture)) == first and len(checks) == 3
    entry.unlink()
    asked(tmp_path, str(capture))
    assert entries(tmp_path / "cache") == []


@pytest.mark.parametrize("what", ["folder", "inner folder", "entry"])
@few("how", ["others write", "another owner", "link"], fast=(1, 2))
def test_what_others_may_have_written_is_not_used(what: str, how: str, capture: Path, tmp_path: Path, checks: list[Any]) -> None:
    first = asked(tmp_path, str(capture))
    (entry,) = entries(tmp_path / "cache")
    path = {"folder": tmp_path / "cache", "inner folder": entry.parent, "entry": entry}[what]
    if how == "others write":
        path.chmod(path.stat().st_mode | 0o022)
    elif how == "link":
        if what == "folder":
            pytest.skip("the user names it")
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif os.geteuid() == 0:
        os.chown(path, 12_345, -1)
    else:
        pytest.skip("only root can make another user's files")
    poisoned(entry, b"(limited)", b"(LIMITED)")
    if how == "another owner" and what == "entry":
        os.chown(path, 12_345, -1)
    assert asked(tmp_path, str(capture)) == first and len(checks) == 2
    if what == "folder":
        done = run("lint", str(capture), "--cache", str(tmp_path / "cache"), text=True)
        assert "warning: --cache" in done.stderr and "so it is not used" in done.stderr and "LIMITED" not in done.stdout
