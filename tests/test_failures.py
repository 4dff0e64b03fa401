"""If a rule, a follower or a plugin function raises, all formats report an incomplete check, and nothing else is lost."""

from __future__ import annotations

import json
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from ibdissect.failures import Failures
from ibdissect.mad.transactions import Transactions
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.pytest_plugin import NotClean, assert_clean
from ibdissect.rules import load
from tests import commands
from tests.cases import every
from tests.craft import erf_pcap, native, smp

(AM001,) = (rule for rule in load() if rule.code == "AM001")

BAD = erf_pcap([smp(1, 0x10, modifier=1), native(), smp(1, 0x10, modifier=1)])
"""AM001 in frames 1 and 3."""
WORDS = """
from ibdissect.lint.rule import *
from ibdissect.lint.rule import on_struct, on_chunk, on_end
from ibdissect.wire.mad import MAD
from ibdissect.wire.expr import Where
class Bad(Rule):
    'Raises.'
    code, name, message = 'BAD001', 'bad', 'x'
"""
HANDLERS = {
    "struct": ("    @on_struct(MAD)\n    def look(self, mad, seen):\n        raise KeyError('a\\nb')\n", "in frame 1 (and 1 more times)"),
    "chunk": ("    @on_chunk\n    def look(self, table, context):\n        yield 1 // 0\n", "in frames 1 to 3"),
    "end": ("    @on_end\n    def look(self, context):\n        raise MemoryError\n", "at the end of the capture"),
    "condition": ("    on, when = MAD, Where(MAD, lambda table: table.nothing)\n", "in frames 1 to 3"),
    "frame": ("    when = Where(None, lambda table: table.located.complete)\n"
              "    def of_frame(self, seen):\n        return self.hit(seen) if seen.frame != 2 else 1 // 0\n", "in frame 2"),
    "waiting": ("    waits = True\n    @on_struct(MAD)\n    def look(self, mad, seen):\n        yield self.hit(seen)\n"
                "    def stands(self, hit, context):\n        return 1 // 0\n", "in frame 1 (and 1 more times)"),
}  # fmt: skip


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pcap").write_bytes(BAD)
    return "bad.pcap"


def lint(*words: str) -> int:
    return commands.status_here("lint", *words)


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_rule_that_raises_is_named_with_its_frame(kind: str, capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, where = HANDLERS[kind]
    path = tmp_path / f"{kind}.py"
    path.write_text(WORDS.replace("BAD001", f"BAD{list(HANDLERS).index(kind):03}") + body)
    assert lint("--plugin", str(path), "--format", "json", "--fail-on", "never", capture) == 2
    printed = capsys.readouterr()
    (entry,) = json.loads(printed.out)["captures"]
    assert entry["status"] == "failed" and f"rule BAD{list(HANDLERS).index(kind):03} failed {where}: " in entry["error"]
    assert f"({kind}.py:" in entry["error"]
    assert entry["error"] in printed.err and len([line for line in printed.err.splitlines() if "failed" in line]) == 1
    assert [finding["frame"] for finding in json.loads(printed.out)["findings"] if finding["code"] == "AM001"] == [1, 3]


@pytest.mark.parametrize("what", ["SystemExit(0)", "SystemExit", "GeneratorExit", "BaseException('key 0xa1b2c3d4')"])
@pytest.mark.parametrize("where", ["a handler", "the module"])
def test_a_plugin_that_ends_the_process_is_no_success(
    what: str, where: str, capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    body = f"    @on_struct(MAD)\n    def look(self, mad, seen):\n        raise {what}\n" if where == "a handler" else f"raise {what}\n"
    name = "".join(letter for letter in what + where if letter.isalpha())
    (tmp_path / f"{name}.py").write_text(WORDS.replace("BAD001", f"BAD{100 + sum(map(ord, name)) % 800}") + body)
    assert lint("--plugin", f"{name}.py", "--fail-on", "never", capture) == 2
    said = capsys.readouterr().err
    assert name in said and "Traceback" not in said and "a1b2c3d4" not in said and what.partition("(")[0] in said


@pytest.mark.slow
def test_a_plugin_that_ends_a_worker_process_is_named(capture: str, tmp_path: Path) -> None:
    body = "    @on_struct(MAD)\n    def look(self, mad, seen):\n        raise SystemExit\n"
    (tmp_path / "ends.py").write_text(WORDS.replace("BAD001", "BAD950") + body)
    (tmp_path / "other.pcap").write_bytes(BAD)
    done = commands.run("lint", "-q", "--jobs", "2", "--plugin", "ends.py", capture, "other.pcap", cwd=tmp_path, text=True)
    assert done.returncode == 2 and done.stderr == "error: plugin ends.py: failed: SystemExit: \n"


def test_what_a_plugin_function_raises_is_told_without_values(capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "from ibdissect.wire.column import column\nfrom ibdissect.wire.headers import BTH\none = column(BTH, 'one', ask, 'One')\n"
    (tmp_path / "col.py").write_text("def ask(view):\n    raise ValueError(f'key {0xa1b2c3d4}')\n" + words)
    assert commands.status_here("show", capture, "--plugin", "col.py", "-e", "bth.one") == 2
    assert "plugin function ask" in (said := capsys.readouterr().err) and said.endswith("failed: ValueError: key #\n")


@pytest.mark.parametrize(
    ("format_", "said"),
    [
        ("text", "1 failed"), ("json", '"status": "failed"'), ("jsonl", "AM001"), ("sarif", '"executionSuccessful": false'),
        ("junit", '<error message="bad.pcap: rule AM001 failed'), ("github", "::error file=bad.pcap,title=failed::"),
    ],
)  # fmt: skip
def test_every_format_says_so(format_: str, said: str, capture: str, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(AM001, "message", "{attribute_modifier:zz}")
    assert lint("--format", format_, "--fail-on", "never", capture) == 2
    printed = capsys.readouterr()
    assert said in printed.out and "rule AM001 failed in frame 1" in printed.err


@pytest.mark.slow
def test_worker_processes_and_the_pytest_plugin_fail_too(capture: str, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    # Forked workers have what the test changed, also where this process runs threads of the test runner.
    monkeypatch.setattr("ibdissect.pipeline.processes._context", lambda: get_context("fork"))
    monkeypatch.setattr(AM001, "message", "{attribute_modifier:zz}")
    Path("other.pcap").write_bytes(BAD)
    assert lint("--jobs", "2", "--fail-on", "never", capture, "other.pcap") == 2
    assert capsys.readouterr().err.count("rule AM001 failed") == 2
    with pytest.raises(NotClean, match=r"not checked to the end: .*rule AM001 failed"):
        assert_clean(capture)


def test_a_follower_that_raises_is_fed_no_more(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(self: Transactions, table: object) -> None:
        raise ValueError("key 0x1122334455667788")

    monkeypatch.setattr(Transactions, "feed", feed)
    report = check(capture, CheckOptions(rules=[*load()]))
    assert report.error is not None and "Transactions failed in frames 1 to 3: ValueError: key # (test_failures.py:" in report.error
    assert {finding.code for finding in report.findings} >= {"AM001"}


def test_what_reading_raises_is_no_finding(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ibdissect.decode.services import Services

    monkeypatch.setattr(Services, "feed", lambda self, table: [].pop())
    report = check(capture, CheckOptions(rules=[AM001]))
    assert (report.status, report.frames) == ("failed", 0) and "the check failed" in str(report.error)


@every(
    ("said", "kept"),
    [
        ("key 0x1122334455667788", "key #"), ("1_234_567 or 305,419,896", "# or #"), ("a1:b2:c3:d4", "#"), ("0x1122_3344", "#"),
        ("array([161, 178,  195], dtype=uint8)", "array(#, dtype=uint8)"), ("[[ 1 2]\n [ 3 4]]", "[# #]"), (str(b"a\'b\"c"), "#"),
        ("index 10 of ports[3], shape (3,)", "index 10 of ports[3], shape (3,)"), ("no attribute 'decade'", "no attribute 'decade'"),
        ("cafebabe", "#"), ("CAFEBABE in a key", "# in a key"), ("ca:fe:ba:be", "#"), ("ca fe ba be", "#"), ("51966 or 9999", "# or 9999"),
        ("(202, 254, 186)", "#"), ("[202, 254]", "#"), ("202 254 186 190", "#"), (r"'shelf\xca\xfe\xba'", "'shelf#'"),
        ("can't decode byte 0xca in position 3", "can't decode byte # in position 3"), ("shapes (2,) and (3, 4)", "shapes (2,) and (3, 4)"),
        ("no field 'added' in a bad face", "no field 'added' in a bad face"), ("bytes 1, 2 and 9", "bytes 1, 2 and 9"),
    ],
)  # fmt: skip
def test_values_are_left_out_of_what_an_exception_says(said: str, kept: str) -> None:
    hidden, shown = Failures(), Failures(show_keys=True)
    for failures in (hidden, shown):
        failures.add("rule R", ValueError(said))
    assert f"ValueError: {kept} (" in hidden.text() and " ".join(said.split()) in shown.text()


def test_many_failures_are_counted() -> None:
    failures = Failures()
    assert not failures
    for number in range(69):
        failures.add(f"rule R{number}", KeyError(b"\x00secret"), 7)
    assert failures.text().count("in frame 7") == 8 and "secret" not in failures.text()
    assert failures.text().endswith("and 61 more failures")


def test_a_failure_of_the_process_that_runs_the_tests_commands_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "server", cache(commands.server.__wrapped__))
    monkeypatch.setattr(commands, "FIRST", {"lint": ("lint --jobs 1", None)})
    with pytest.raises(RuntimeError, match="'NoneType' object has no attribute 'split'"):
        commands.run("rules")


@pytest.mark.slow
def test_a_command_that_dies_or_loads_a_plugin_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    for name, text in (("one", WORDS), ("other", WORDS), ("deadly", "import os\nos.kill(os.getpid(), 9)")):
        (tmp_path / f"{name}.py").write_text(text + "    when = Where(MAD, lambda table: table.nothing)\n" * (text is WORDS))
        (tmp_path / f"{name}.toml").write_text(f'plugins = ["{name}.py"]')
    for name, status in (("one", 0), ("other", 0), ("deadly", -9), ("one", 0)):
        assert commands.run("rules", "BAD001", "--config", f"{name}.toml", cwd=tmp_path).returncode == status, name
