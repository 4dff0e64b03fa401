"""Findings that are the same fault as before, in captures, JSON reports and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.followed import here
from tests.commands import run
from tests.craft import erf_pcap, rc

from .pages import safe

pytest.importorskip("jinja2")


def lab(path: Path, psn: int, qp: int, slid: int = 3) -> str:
    """A capture in which a LID sends a packet twice, after others."""
    path.write_bytes(erf_pcap([rc(0x04, bytes(8), slid=slid, bth={"psn": one, "destqp": qp}) for one in (*range(psn), psn - 1)]))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["captures", "json", "baseline"])
def test_the_same_fault_is_found_again(kind: str, tmp_path: Path) -> None:
    was = lab(tmp_path / "was.pcap", 5, 0x12)
    if kind != "captures":
        before = tmp_path / "before.json"
        words = ["--format", "json", "-o", str(before)] if kind == "json" else ["--write-baseline", str(before)]
        run("lint", "--select", "RC002", was, *words)
        was = str(before)
    again, other = lab(tmp_path / "again.pcap", 9, 0x37), lab(tmp_path / "other.pcap", 5, 0x12, slid=4)
    page = safe(here("report", "--select", "RC002", again, other, "--compare", was)[1])
    assert "1 new, 0 fixed, 1 as before" in page.text, "numbers of a packet are other ones each time; a LID is not"


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not valid JSON"), ('{"a": 1}', "neither"), ('{"findings": [1]}', "neither"), ("[]", "not a baseline")]
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    status, out, err = here("report", "--select", "RC002", lab(tmp_path / "x.pcap", 5, 0x12), "--compare", str(tmp_path / "x.json"))
    assert status == 2 and not out and said in err


@pytest.mark.slow
def test_numbers_that_pass_make_no_new_finding_and_others_do(tmp_path: Path) -> None:
    old = {"code": "RC002", "message": "RC LID 3 → LID 2 QP 0x000037: PSN 99 was sent before"}
    (tmp_path / "x.json").write_text(json.dumps({"findings": [old, old | {"message": old["message"].replace("LID 3", "LID 4")}]}))
    path = lab(tmp_path / "x.pcap", 5, 0x12)
    page = safe(here("report", "--select", "RC002", path, "--compare", str(tmp_path / "x.json"))[1])
    assert "0 new, 1 fixed, 1 as before" in page.text
