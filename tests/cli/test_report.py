"""`ibdissect report` writes its page, refuses what makes no sense, and says what could not be read."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.commands import run
from tests.report.pages import safe

pytest.importorskip("jinja2")
pytestmark = pytest.mark.slow


def test_the_page_is_written(repo: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    done = run("report", str(repo / "captures/pkey-lab.pcap"), "-o", str(target), text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = safe(target.read_text(encoding="utf-8"))
    assert "Not healthy: 5 errors found" in page.text
    printed = run("report", str(repo / "captures/pkey-lab.pcap"), text=True)
    assert printed.stdout == target.read_text(encoding="utf-8")  # the same bytes every time
    piped = run("report", "-", stdin=(repo / "captures/pkey-lab.pcap").read_bytes(), text=True)
    assert piped.returncode == 0 and "Not healthy: 5 errors found" in safe(piped.stdout).text


@pytest.mark.slow
def test_the_page_is_the_same_wherever_objects_lie_in_memory(repo: Path) -> None:
    words = [sys.executable, "-m", "ibdissect", "report", "-q", str(repo / "captures/pkey-lab-full.pcap")]
    one, other = (
        subprocess.run(words, capture_output=True, check=True, env=os.environ | more).stdout for more in ({}, {"PYTHONMALLOC": "malloc"})
    )  # fmt: skip
    assert one == other


def test_options_of_lint_count(repo: Path) -> None:
    words = ("--select", "PKY", "--ignore", "PKY001,PKY021", "--max-findings", "1")
    done = run("report", str(repo / "captures/pkey-lab.pcap"), *words, text=True)
    page = safe(done.stdout)
    assert "2 errors found" in page.text and "PKY001" not in page.text.replace("PKY001,PKY021", "")


def test_a_capture_that_cannot_be_read(repo: Path, tmp_path: Path) -> None:
    target, bad = tmp_path / "report.html", tmp_path / "bad.pcap"
    bad.write_bytes(b"x")
    done = run("report", str(bad), str(repo / "captures/pkey-lab.pcap"), "-o", str(target), text=True)
    assert done.returncode == 2 and "bad.pcap" in done.stderr and "Traceback" not in done.stderr
    assert "bad.pcap" in safe(target.read_text(encoding="utf-8")).text
    curtailed = run("report", str(repo / "captures/mkey-enforced.pcap.gz"), "--max-unpacked", "8K", "-o", str(target), text=True)
    assert curtailed.returncode == 2 and "it unpacks to more than 8,192 bytes" in curtailed.stderr
    assert "it unpacks to more than 8,192 bytes" in safe(target.read_text(encoding="utf-8")).text
    alone = run("report", str(bad), "-o", str(tmp_path / "none.html"), text=True)
    assert alone.returncode == 2 and "bad.pcap" in alone.stderr and not (tmp_path / "none.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{0}", "-o", "{0}"), "is one of the captures"),
        (("{0}", "-Y", "ibdissect.code"), "choose rules with --select"),
        (("{0}", "--compare", "none.pcap"), "none.pcap"),
        (("{0}", "--compare", "{1}"), "neither a report nor a baseline"),
        (("nothing",), "nothing"),
    ],
)
def test_refusals(words: tuple[str, ...], said: str, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    capture = tmp_path / "a.pcap"
    capture.write_bytes((repo / "captures/pkey-lab.pcap").read_bytes())
    done = run("report", *(word.format(capture, tmp_path / "x.json") for word in words), text=True)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_lint_writes_the_findings(repo: Path, tmp_path: Path) -> None:
    target = tmp_path / "lint.html"
    done = run("lint", str(repo / "captures/pkey-lab.pcap"), "--format", "html", "--output", str(target), text=True)
    assert done.returncode == 1
    assert "6 findings" in safe(target.read_text(encoding="utf-8")).text


def test_commands_of_the_page_in_the_docs(repo: Path, tmp_path: Path) -> None:
    page = (repo / "docs/report.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ibdissect (.*)$", page, re.M)
    (tmp_path / "captures").mkdir()
    for name in ("pkey-lab.pcap", "pkey-lab-full.pcap", "known.json"):
        shutil.copy(repo / "captures" / name, tmp_path / "captures")
    for command in commands:
        (tmp_path / "report.html").unlink(missing_ok=True)
        done = run(*shlex.split(command), cwd=tmp_path, text=True)
        assert done.returncode == 0, done.stderr
        if "report.html" in command:
            text = safe((tmp_path / "report.html").read_text(encoding="utf-8")).text
            assert ("Before and now" in text) == ("--compare" in command)
    assert len(commands) == 6


def test_the_page_says_when_from_what_and_how(repo: Path, tmp_path: Path) -> None:
    capture = repo / "captures/pkey-lab.pcap"
    words = ("report", str(capture), "-o", str(tmp_path / "x.html"), "--title", "Ticket 12", "--note", "From the second bench.")
    assert run(*words, "--config", "site.m_keys=[0x1122334455667788]", text=True).returncode in (0, 2)
    assert run(*words, "--config", "options.TXN001.patience=5", text=True).returncode == 0
    page = (tmp_path / "x.html").read_text()
    assert "Ticket 12" in page and "From the second bench." in page and sha256(capture.read_bytes()).hexdigest() in page
    assert "2023-11-14 22:13:20" in page and "--title &#39;Ticket 12&#39;" in page and "options.TXN001.patience=5" in page
    assert "1122334455667788" not in page


def test_a_page_about_some_frames(repo: Path, tmp_path: Path) -> None:
    counts = []
    for number, extra in enumerate(((), ("-Y", "lrh.dlid == 3"), ("--frames", "31"))):
        target = tmp_path / f"{number}.html"
        assert run("report", str(repo / "captures/pkey-lab.pcap"), "-o", str(target), *extra, text=True).returncode == 0
        text = target.read_text()
        counts.append(int(re.findall(r"· (\d+) frames? ·", text)[0]))
        assert ("Findings and traffic are those of the frames that" in text) == bool(extra)
    assert counts == [37, 3, 1]


def test_command_lines_have_no_values_of_keys(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "a b.pcap").write_bytes((repo / "captures/pkey-lab.pcap").read_bytes())
    words = ("report", "a b.pcap", "--config", "site.m-keys=[4711]", "--config=site.partitions=[4712]")
    page = safe(run(*words, cwd=tmp_path, text=True).stdout)
    assert "ibdissect report 'a b.pcap' --config site.m-keys=... --config=site.partitions=..." in page.text
    assert "471" not in page.source
