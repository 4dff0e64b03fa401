"""Ctrl+C ends everything at once, keeps the findings so far and marks them as incomplete."""

from __future__ import annotations

import array
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibdissect.capture.windows import allow_reads, interrupt_reads, waited
from ibdissect.lint.finding import CaptureReport
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.report import FORMATS, Run, render
from ibdissect.rules import load
from tests.craft import erf_pcap, gmp, smp

pytestmark = pytest.mark.slow

CAPTURE = erf_pcap([smp(1, 0x10, modifier=9), *[smp(1, 0x10)] * 20])


@contextmanager
def lint(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "ibdissect", "lint", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def taken(pipe: int) -> None:
    """Wait until a pipe has been read empty."""
    left = array.array("i", [1])
    while left[0]:
        time.sleep(0.05)
        fcntl.ioctl(pipe, termios.FIONREAD, left)


RULE = """
import sys, time
from ibdissect.lint.rule import Moment, Rule, fault, on_chunk
class Endless(Rule):
    'Never ends.'
    code, name, message = 'BAD001', 'bad', 'x'
    @on_chunk
    def look(self, table, context):
        print('asleep', file=sys.stderr, flush=True)
        while True:
            {body}
        yield
"""
SLEEPS = RULE.format(body="time.sleep(1)")
STUBBORN = RULE.format(body="""
            try:
                time.sleep(10)
            except KeyboardInterrupt:
                raise
            except BaseException:
                pass
""")  # fmt: skip
YIELDS = RULE.format(body="yield fault(Moment(2, 0), {})")
STRUCTURE = """
import sys
from ibdissect.wire.places import Mad, Parsed
from ibdissect.wire.spec import Struct, rest, uint
from ibdissect.wire.column import column
class X(Struct):
    'x.'
    prefix, key, section, size = 'bb', 'x', 'B', 2
    carried_by = (Mad(0x30, 0x10),)
    n = uint(16, 'N')
    body = rest('Body')
def endless(data):
    print('asleep', file=sys.stderr, flush=True)
    while True:
        pass
{rest}
"""
PARSES = STRUCTURE.format(
    rest="""
class Y(Struct):
    'y.'
    prefix, key, section, size = 'bb', 'y', 'B', 2
    carried_by = (Parsed(X.body, endless),)
    a = uint(16, 'A')
"""
)
COMPUTES = STRUCTURE.format(rest="Y = column(X, 'y', endless, 'Y')")


@pytest.mark.parametrize(
    ("plugin", "words", "where"),
    [
        (SLEEPS, (), "rule BAD001 failed in frames 1 to 22: Interrupted: Ctrl+C ended it at endless.py:11"),
        (YIELDS, (), "rule BAD001 failed in frames 1 to 22: Interrupted: Ctrl+C ended it at endless.py:"),
        (PARSES, ("-Y", "bb.y or frame"), "plugin function endless"),
        (COMPUTES, ("-Y", "bb.x.y == 1 or frame"), "plugin function endless"),
    ],
    ids=["a rule sleeps", "a rule reports without end", "a function finds parts", "a function computes"],
)
def test_a_plugin_that_never_ends(tmp_path: Path, plugin: str, words: tuple[str, ...], where: str) -> None:
    """One Ctrl+C ends it, as it ends a test of pytest; all else in the window is checked, and the message says where it was."""
    (tmp_path / "endless.py").write_text(plugin)
    (tmp_path / "x.pcap").write_bytes(erf_pcap([*[smp(1, 0x10, modifier=9)] * 21, gmp(0x30, 1, 0x10)]))
    with lint(str(tmp_path / "x.pcap"), "--format", "json", *words, "--plugin", str(tmp_path / "endless.py")) as process:
        assert process.stderr is not None and any(line == b"asleep\n" for line in process.stderr)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = (text.decode() for text in process.communicate(timeout=60))
    assert process.returncode == 130 and "Traceback" not in err
    (report,) = json.loads(out)["captures"]
    assert report["status"] == "interrupted" and report["frames"] == 22
    assert where in err and "interrupted: only frames 1 to 22 were checked" in err
    assert any(finding["code"] == "AM001" for finding in json.loads(out)["findings"])


def test_a_second_signal_ends_what_the_first_one_cannot(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "x.pcap").write_bytes(CAPTURE)
    with lint(str(tmp_path / "x.pcap"), "--plugin", str(tmp_path / "stubborn.py")) as process:
        assert process.stderr is not None and any(line == b"asleep\n" for line in process.stderr)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize("form", ["text", "json", *(pytest.param(form, marks=pytest.mark.thorough) for form in [*FORMATS][2:])])
def test_a_pipe_that_continues(form: str) -> None:
    """The writer stops in the middle of a record without closing the pipe: a single Ctrl+C is enough."""
    with lint("-", "--format", form) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(CAPTURE[:-100])
        process.stdin.flush()
        taken(process.stdin.fileno())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        out, err = process.stdout.read().decode(), process.stderr.read().decode()
    assert "AM001" in out and "interrupted: only frames 1 to 20 were checked" in err and "Traceback" not in err
    assert "CAP014" not in out and "CAP015" not in out, "the record is not cut off: it was not waited for"


def test_a_pipe_that_gives_nothing() -> None:
    with lint("-", "--format", "json") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(CAPTURE[:4])
        process.stdin.flush()
        taken(process.stdin.fileno())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert json.loads(process.stdout.read())["captures"][0]["status"] == "interrupted"


def test_a_named_pipe_without_a_writer(tmp_path: Path) -> None:
    """The next capture is not checked, and the report says so."""
    fifo, behind = tmp_path / "a.pcap", tmp_path / "b.pcap"
    os.mkfifo(fifo)
    behind.write_bytes(CAPTURE)
    with lint(str(fifo), str(behind), "--format", "json") as process:
        assert process.stdout is not None
        while b"wait_for_partner" not in (now := Path(f"/proc/{process.pid}/wchan").read_bytes()) and now not in (b"", b"0"):
            time.sleep(0.05)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (130, -signal.SIGINT)
        out = process.stdout.read()
    if out:  # otherwise the interrupt came before the check started
        assert [capture["status"] for capture in json.loads(out)["captures"]] == ["interrupted", "interrupted"]


def test_every_report_says_that_it_is_a_part() -> None:
    rules = load()
    report = check(io.BytesIO(CAPTURE), CheckOptions(rules=rules), stop=lambda: True)
    assert report.status == "interrupted" and report.incomplete == "interrupted: only frames 1 to 21 were checked"
    reports = [report, CaptureReport(path="later.pcap", status="interrupted")]
    text = {form: render(form, reports, Run(rules=tuple(rules))) for form in FORMATS}
    assert [capture["status"] for capture in json.loads(text["json"])["captures"]] == ["interrupted"] * 2
    (invocation,) = json.loads(text["sarif"])["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    said = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert said == [report.incomplete, "interrupted: it was not checked"]
    suites = ET.fromstring(text["junit"])
    assert suites.attrib["errors"] == "2"
    for suite in suites:
        whole = next(case for case in suite if case.attrib["name"] == "checked")  # a test of its own beside those of the families
        assert int(suite.attrib["tests"]) == len(suite) and whole[0].tag == "error"
    assert "title=interrupted::interrupted: only frames 1 to 21" in text["github"] and "later.pcap" in text["github"]
    assert "21 frames in 1 capture checked" in text["text"] and "2 interrupted" in text["text"]
    for form in FORMATS:
        assert "AM001" in text[form]


def test_reads_are_ended_until_they_are_wanted_again() -> None:
    try:
        assert waited(lambda size: interrupt_reads() or b"1" * size, 5, b"") == b""
        assert waited(bytes, 3, b"") == b"", "one that follows gives nothing either"
        interrupt_reads()  # no exception between reads
    finally:
        allow_reads()
    assert waited(bytes, 3, b"") == bytes(3)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["ibdissect.cli", "click"])
def test_ctrl_c_while_modules_are_imported_says_nothing(module: str) -> None:
    code = f"""
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
real = builtins.__import__
def imported(name, *more):
    if name == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *more)
builtins.__import__ = imported
sys.argv = ["ibdissect", "fields"]
from ibdissect.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
