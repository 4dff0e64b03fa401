"""The reports that the options of `lint` ask for, and the findings that each lists."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests import craft
from tests.commands import run


@pytest.fixture(autouse=True)
def outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def faulty(path: Path, count: int) -> str:
    """A capture with that many findings of AM001."""
    path.write_bytes(craft.erf_pcap([craft.smp(1, 0x10, modifier=7, slid=3, dlid=5 + i) for i in range(count)]))
    return str(path)


@pytest.fixture
def lab(tmp_path: Path) -> str:
    return faulty(tmp_path / "lab.pcap", 2)


def lint(lab: str, *words: str, status: int = 1, cwd: Path | None = None) -> str:
    """What is printed."""
    done = run("lint", "--select", "AM001", lab, *words, text=True, cwd=cwd)
    assert done.returncode == status, done
    return str(done.stdout or done.stderr)


def test_the_first_is_that_of_standard_output(monkeypatch: pytest.MonkeyPatch, lab: str, tmp_path: Path) -> None:
    """Text, or in a job of GitHub annotations, if nothing else is said."""
    assert " error AM001 " in lint(lab, "--output-file", "junit=y=z.xml", cwd=tmp_path)
    assert (tmp_path / "y=z.xml").read_text().startswith("<?xml")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert lint(lab).startswith("::error ") and " error AM001 " in lint(lab, "--format", "text")
    lint(lab, "-o", "x", "--max-findings", "1", cwd=tmp_path)
    assert " error AM001 " in (tmp_path / "x").read_text()
    twice = lint(lab, "--output-file", "json=a", "--output-file", "sarif=b/../a", status=2, cwd=tmp_path)
    assert "is named twice" in twice and not (tmp_path / "a").exists()


def test_people_read_some_and_programs_all(tmp_path: Path) -> None:
    lab = faulty(tmp_path / "lab.pcap", 120)

    def listed(*words: str) -> tuple[int, int]:
        """Findings in the text and in the JSON."""
        text = lint(lab, "--format", "full", *words, "--output-file", "json=x.json", cwd=tmp_path)
        return text.count(" error AM001 "), len(json.loads((tmp_path / "x.json").read_text())["findings"])

    assert listed() == (100, 120) and listed("--max-findings", "none") == (120, 120) and listed("--max-findings", "3") == (3, 3)
    found = json.loads((tmp_path / "x.json").read_text())
    assert (found["captures"][0]["left_out"], found["by_rule"]) == (117, {"AM001": 120}), "what is left out stays counted"


def test_sarif_has_the_digest_of_the_file_and_the_fingerprint_of_a_baseline(lab: str) -> None:
    data = Path(lab).read_bytes()
    known = Path(lab).parent / "known.json"
    report = json.loads(lint("lab.pcap", "--format", "sarif", cwd=known.parent))["runs"][0]
    (found,) = report["artifacts"]
    assert (found["length"], found["hashes"]) == (len(data), {"sha-256": hashlib.sha256(data).hexdigest()})
    lint("lab.pcap", "--write-baseline", "known.json", status=0, cwd=known.parent)
    (entry,) = (one for one in json.loads(known.read_text()) if "fingerprint" in one)
    assert {one["partialFingerprints"]["ibdissect/v2"] for one in report["results"]} == {entry["fingerprint"]}


@pytest.mark.slow
def test_a_dash_is_standard_output_for_every_report(tmp_path: Path, repo: Path) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    for words in (["lint", lab, "-o"], ["report", lab, "-o"], ["report", lab, "--output"], ["lint", lab, "--output-file"]):
        target = "json=-" if words[-1] == "--output-file" else "-"
        done = run(*words, target, cwd=tmp_path, text=True)
        assert len(done.stdout) > 100 and not [*tmp_path.iterdir()], words
