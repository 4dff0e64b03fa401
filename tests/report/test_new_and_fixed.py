"""Findings that are the same fault as before, in captures, JSON reports and baselines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import run
from tests.craft import erf_pcap, rc

from .pages import safe

pytest.importorskip("jinja2")


def lab(path: Path, psn: int, qp: int, slid: int = 3) -> str:
    """A capture in which a LID sends a packet twice, after others."""
    path.write_bytes(erf_pcap([rc(0x04, bytes(8), slid=slid, bth={"psn": one, "destqp": qp}) for one in (*range(psn), psn - 1)]))
    return str(path)


def compared(folder: Path, before: str) -> list[str]:
    """What the page says of the fault with other numbers, and of that of another LID, beside `before`: new, fixed, as before."""
    said = []
    for path in (lab(folder / "again.pcap", 9, 0x37), lab(folder / "other.pcap", 5, 0x12, slid=4)):
        page = safe(run("report", "--select", "RC002", path, "--compare", before, text=True).stdout)
        said += re.findall(r"(\d+ new, \d+ fixed, \d+ as before)", page.text)
    return said


@pytest.mark.parametrize("kind", ["baseline", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("captures", "json"))])
def test_the_same_fault_is_found_again(kind: str, tmp_path: Path) -> None:
    was = lab(tmp_path / "was.pcap", 5, 0x12)
    if kind != "captures":
        before = tmp_path / "before.json"
        words = ["--format", "json", "-o", str(before)] if kind == "json" else ["--write-baseline", str(before)]
        run("lint", "--select", "RC002", was, *words)
        was = str(before)
    assert compared(tmp_path, was) == ["0 new, 0 fixed, 1 as before", "1 new, 1 fixed, 0 as before"]


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not valid JSON"), ('{"a": 1}', "neither"), ('{"findings": [1]}', "neither"), ("[]", "not a baseline")]
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    done = run("report", lab(tmp_path / "x.pcap", 5, 0x12), "--compare", str(tmp_path / "x.json"), text=True)
    assert done.returncode == 2 and said in done.stderr


def test_a_report_without_findings_makes_everything_new(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"findings": []}')
    path = lab(tmp_path / "x.pcap", 5, 0x12)
    page = safe(run("report", "--select", "RC002", path, "--compare", str(tmp_path / "x.json"), text=True).stdout)
    assert "1 new, 0 fixed, 0 as before" in page.text
