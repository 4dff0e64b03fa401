"""Captures become tests with `pytest --ibdissect`, and `assert_clean` explains failures."""

from __future__ import annotations

import os
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ibdissect.errors import ConfigError
from ibdissect.pytest_plugin import NotClean, assert_clean
from tests import commands
from tests.craft import erf_pcap, smp

pytestmark = pytest.mark.slow

BAD = erf_pcap([smp(1, 0x10, modifier=1), smp(1, 0x10, modifier=1, header={"transaction_id": 7})])
WARN = erf_pcap([smp(1, 0x02, modifier=5)])
CLEAN = erf_pcap([smp(1, 0x10)])
MINE = """
from ibdissect.pytest_plugin import assert_clean as check

def test_good(assert_clean):
    assert_clean("captures/clean.pcap")

def test_known(assert_clean):
    assert_clean("captures/bad.pcap", ignore="AM001,TXN")

def test_bad():
    check("captures/bad.pcap")
"""

RAISING = """
from ibdissect.lint.rule import ERROR, Rule, on_struct
from ibdissect.wire.mad import MAD

class Bad(Rule):
    "Raises."
    code, name, message, severity = "OWN001", "bad", "x", ERROR

    @on_struct(MAD)
    def look(self, mad, seen):
        raise KeyError("nothing")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    captures = tmp_path / "captures"
    captures.mkdir()
    for name, data in (("bad", BAD), ("warn", WARN), ("clean", CLEAN)):
        (captures / f"{name}.pcap").write_bytes(data)
    (captures / "text.pcapng").write_text("no capture\n" * 20)
    (captures / "notes.txt").write_text("nothing")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> CompletedProcess[str]:
    """Run pytest with only our plugin, as in an environment where it is installed; PYTEST_ADDOPTS may name options of others."""
    words = ("pytest", "-p", "ibdissect.pytest_plugin", "-p", "no:cacheprovider", "--color=no", *words)
    return commands.run(*words, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}, text=True)


def outcomes(done: CompletedProcess[str]) -> dict[str, str]:
    """PASSED or FAILED by test id, from the output of `pytest -v`."""
    lines = [line.split() for line in done.stdout.splitlines() if " PASSED" in line or " FAILED" in line]
    return {words[0]: words[1] for words in lines if "::" in words[0]}


def test_what_looks_like_a_capture_fails_and_prints_nothing_raw(project: Path) -> None:
    """Links to nothing, pipes and captures under other names; names that would control a terminal or a CI system."""
    (project / "captures/gone.pcap").symlink_to("nowhere")
    os.mkfifo(project / "captures/pipe.pcap")
    (project / "captures/dump").write_bytes(BAD)
    (project / "captures/a\x1b]52;c;eA==\x07.pcap").write_bytes(BAD)
    (project / "captures/b\u202e\nx.pcap").write_bytes(b"?")
    (project / "ibdissect.toml").write_text('ignore = ["LNK"]\n')
    for words in ("-v",), ("-q", "-rA"):
        done = run(*words, "--ibdissect", "captures", "--junitxml=j.xml")
        told, written = done.stdout + done.stderr, (project / "j.xml").read_text()
        for name in ("gone.pcap", "pipe.pcap", "dump", "text.pcapng", r"a\x1b]52;c;eA==\x07.pcap", r"b\u202e\nx.pcap"):
            assert name.replace("\\n", "\\x0a") in told and done.returncode == 1, told
        assert all(line.isprintable() for line in (told + written).split("\n")) and not re.search("^::", told, re.M)
        assert "not readable: captures/pipe.pcap: is a pipe" in told and "is a link to nowhere" in told
        assert told.count("configuration ibdissect.toml: ignore") == 1
        assert 'name="ibdissect" value="configuration ibdissect.toml: ignore"' in written
    assert run("-v", "--ibdissect", "captures/pipe.pcap").returncode == 1


def test_captures_are_collected_when_asked_for(project: Path) -> None:
    assert "no tests ran" in run("captures").stdout
    done = run("-v", "--ibdissect", "captures")
    assert done.returncode == 1
    assert outcomes(done) == {
        "captures/bad.pcap::lint": "FAILED", "captures/clean.pcap::lint": "PASSED", "captures/text.pcapng::lint": "FAILED",
        "captures/warn.pcap::lint": "PASSED",
    }  # fmt: skip
    assert "captures/bad.pcap:1: ✖ error AM001" in done.stdout and "Explain a rule: ibdissect rules AM001" in done.stdout
    assert "not readable: captures/text.pcapng" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_options_and_configuration_decide(project: Path) -> None:
    only = run("-v", "--ibdissect", "--ibdissect-select", "PKY", "captures/bad.pcap")
    assert only.returncode == 0 and outcomes(only) == {"captures/bad.pcap::lint": "PASSED"}
    strict = run("-v", "--ibdissect", "--ibdissect-fail-on", "warning", "--ibdissect-ignore", "TXN", "captures/warn.pcap")
    assert strict.returncode == 1 and "AM027" in strict.stdout
    (project / "ibdissect.toml").write_text('[per-path-ignores]\n"captures/bad*" = ["AM001"]\n')
    assert run("--ibdissect", "captures/bad.pcap").returncode == 0
    wrong = run("--ibdissect", "--ibdissect-ignore", "AM0O1", "captures/clean.pcap")
    assert wrong.returncode == 1 and "no rule has this code" in wrong.stdout and "Traceback" not in wrong.stdout


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("select = [", "file: not valid TOML"), ('selct = ["PKY"]', "selct: there is no such key"), ("select = 3", "select: must be"),
        ('fail-on = "x"', "fail-on: "), ('severity.AM001 = "x"', "severity.AM001: "),
        (f"select = [0x{'f' * 5000}]", "file: not valid TOML"),
        ("\0\xff", "file: not valid TOML"), ('"a\\u001b]0;\\n::error::" = 1', r"a\x1b]0;\x0a::error::: there is no such key"),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_wrong_configuration_that_was_found_is_a_usage_error(text: str, key: str, project: Path) -> None:
    (project / "ibdissect.toml").write_text(text)
    for words in (), ("-q",):
        done = run(*words, "--ibdissect", "captures")
        assert done.returncode == pytest.ExitCode.USAGE_ERROR and f"ERROR: ibdissect: {project}/ibdissect.toml: {key}" in done.stderr
        assert "INTERNALERROR" not in done.stdout and "\x1b" not in done.stderr and "Traceback" not in done.stderr
    assert run("captures").returncode == pytest.ExitCode.NO_TESTS_COLLECTED, "who does not ask for captures is not disturbed"


@pytest.mark.parametrize("name", ["pipe", "gone", "..", "/dev/zero"])
def test_a_baseline_that_cannot_be_read_fails_the_test(name: str, project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "ibdissect.toml").write_text(f'baseline = "{name}"')
    done = run("--ibdissect", "captures/clean.pcap")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED and f"{project}/ibdissect.toml: baseline: " in done.stdout
    assert "INTERNALERROR" not in done.stdout and "Traceback" not in done.stdout


def test_collection_ends_wherever_links_lead(project: Path) -> None:
    """Back, from two places, or to a folder of the kernel, which leads everywhere."""
    (project / "captures/day").mkdir()
    for name in ("one", "two", "day/one", "day/two"):
        (project / "captures" / name).symlink_to(project / "captures")
    (project / "captures/day/kernel").symlink_to("/proc/self")
    done = run("-v", "--ibdissect", "captures", "--ibdissect-ignore", "AM,TXN")
    found = outcomes(done)
    assert found["captures/clean.pcap::lint"] == "PASSED" and len(found) < 20 and done.returncode == 1
    if Path("/proc/self").exists():
        assert found["captures/day/kernel::lint"] == "FAILED"
        assert "captures/day/kernel: is in a file system of the kernel (proc), which is not searched" in done.stdout
        assert run("--ibdissect", "/proc/self").returncode == 1


def test_rules_of_plugins_are_checked(project: Path) -> None:
    (project / "site.toml").write_text('[[rule]]\ncode = "SITE001"\nname = "any"\nseverity = "error"\nwhen = "lrh"\nmessage = "seen"\n')
    done = run("--ibdissect", "--ibdissect-plugin", "site.toml", "captures/clean.pcap")
    assert done.returncode == 1 and "SITE001" in done.stdout


def test_known_findings_do_not_fail(project: Path) -> None:
    assert commands.run("lint", "-q", "captures/bad.pcap", "--write-baseline", "known.json").returncode == 0
    assert run("--ibdissect", "--ibdissect-baseline", "known.json", "captures/bad.pcap").returncode == 0
    (project / "captures/bad.pcap").write_bytes(erf_pcap([smp(1, 0x10, modifier=3)]))
    again = run("--ibdissect", "--ibdissect-baseline", "known.json", "captures/bad.pcap")
    assert again.returncode == 1 and "1 finding at or above error (AM001)" in again.stdout


def test_the_function_and_the_fixture(project: Path) -> None:
    (project / "test_mine.py").write_text(MINE)
    done = run("-v", "test_mine.py")
    assert outcomes(done) == {"test_mine.py::test_good": "PASSED", "test_mine.py::test_known": "PASSED", "test_mine.py::test_bad": "FAILED"}
    assert "NotClean: captures/bad.pcap: 2 findings at or above error (AM001)" in done.stdout
    assert "pytest_plugin.py" not in done.stdout  # no traceback through our own code


def test_a_rule_that_raises_fails_the_test(project: Path) -> None:
    (project / "own.py").write_text(RAISING)
    (project / "test_mine.py").write_text('def test(assert_clean):\n    assert_clean("captures/clean.pcap", plugins=["own.py"])\n')
    done = run("-v", "test_mine.py")
    assert done.returncode == 1 and outcomes(done) == {"test_mine.py::test": "FAILED"}
    assert "not checked to the end" in done.stdout and "rule OWN001 failed" in done.stdout


def test_called_without_pytest(project: Path) -> None:
    assert_clean(project / "captures/clean.pcap")
    assert_clean(project / "captures/bad.pcap", select=["PKY", "MKY"])
    assert_clean(project / "captures/bad.pcap", fail_on="never")
    with pytest.raises(NotClean, match="AM001") as caught:
        assert_clean("captures/bad.pcap", ignore=["TXN"])
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(NotClean, match="not readable"):
        assert_clean("captures/missing.pcap")
    with pytest.raises(ConfigError, match="loud"):
        assert_clean("captures/clean.pcap", fail_on="loud")
