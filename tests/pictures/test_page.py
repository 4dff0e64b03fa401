"""The page of `ibdissect report` is safe and whole for any capture, with all pictures, and shows what changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibdissect.pictures import page as made_page
from ibdissect.pictures.page import pictures
from tests import test_hostile
from tests.cli.followed import here
from tests.commands import run
from tests.report.pages import Page, safe
from tests.screen_model import made

from .looks import portrait

pytest.importorskip("jinja2")


def shown(*paths: Path | str, before: str | None = None) -> Page:
    """The page that `report` writes."""
    return safe(here("report", *map(str, paths), *(["--compare", before] if before is not None else []))[1])


@pytest.mark.slow
def test_one_capture(repo: Path) -> None:
    found = shown(repo / "captures/pkey-lab.pcap")
    assert "Not healthy: 5 errors found" in found.text and "6 findings, 6 with the decoded frame" in found.text
    assert len(found.all("details", class_="finding")) == 6
    assert len(found.svgs()) > 8 and len(found.all("svg", class_="ladder")) == 2


@pytest.mark.slow
def test_what_failed_stands_on_top_with_its_proofs(repo: Path) -> None:
    found = shown(repo / "captures/slow-lab.pcap")
    text = found.text
    order = ("What failed, and why", "2 connections wait for receive buffers", "The others", "Where the time went", "worst thing")
    assert [text.index(what) for what in order] == sorted(text.index(what) for what in order)
    assert "8 connections: 2 failed, 3 slow, 3 healthy" in text and "What to do: Compare the MTU" in text
    assert len(found.all("svg", class_="times")) == 4 and len(found.all("details", class_="proof")) == 10
    assert "frame 441: what decides it" in text and "100 % waiting for time-outs" in text


@pytest.mark.slow
def test_frames_of_further_stories_lead_to_their_findings(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_page, "DECODED", 1)
    found = shown(repo / "captures/slow-lab.pcap", repo / "captures/rxe-rping.pcap")
    assert len(found.all("details", class_="proof")) == 2 and "slow-lab.pcap: 8 connections" in found.text
    assert "frame 82: what decides it" in found.text and "frame 75: where it began" in found.text
    assert len([one for one in found.all("a") if one["href"].startswith("#f0-")]) >= 4


@pytest.mark.slow
def test_many_captures_and_a_file_that_is_none(repo: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"nothing")
    found = shown(repo / "captures/pkey-lab.pcap", bad, repo / "captures/rxe-rping.pcap")
    assert "3 captures" in found.text and "unreadable" in found.text and len(found.all("section", class_="capture")) == 2


@pytest.mark.slow
def test_pictures_that_would_be_too_big_are_left_out(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_page, "PICTURED", 10_000)
    found = shown(repo / "captures/pkey-lab.pcap", repo / "captures/rxe-nak-bad-rkey.pcap")
    assert "2 captures have no pictures here" in found.text and "Who may talk to whom" not in found.text


@pytest.mark.slow
def test_hostile_text_stays_text(tmp_path: Path) -> None:
    path = tmp_path / test_hostile.FILE_NAME
    path.write_bytes(test_hostile.capture())
    found = shown(path)
    text = found.source
    assert text.count("<script") == 1 and {c for c in text if not c.isprintable()} == {"\n"}
    assert "<script>alert(1)</script>" in text.replace("&lt;", "<").replace("&gt;", ">") and "\\u202egpj.exe" in found.text


@pytest.mark.slow
def test_keys_are_hidden(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    found = shown(path)
    assert len(found.all("polygon", class_="packets")) == 1 and "The same as a table" in found.text
    assert "abcdef" not in found.text.replace(" ", "").lower() and "1234567" not in found.text.replace(" ", "")


@pytest.mark.slow
def test_before_and_now(repo: Path, tmp_path: Path) -> None:
    full, part = repo / "captures/pkey-lab-full.pcap", repo / "captures/pkey-lab.pcap"
    found = shown(full, before=str(part))
    assert "Before and now" in found.text and len(found.all("span", class_="badge new")) > 3
    same = shown(part, before=str(part))
    assert "0 new" in same.text and "0 fixed" in same.text and "6 as before" in same.text and not same.all("ul", class_="changes")
    report = tmp_path / "earlier.json"
    report.write_bytes(run("lint", str(part), "--format", "json").stdout)
    assert "0 new" in shown(part, before=str(report)).text
    findings = json.loads(report.read_text(encoding="utf-8"))
    findings["findings"].pop()
    report.write_text(json.dumps(findings), encoding="utf-8")
    assert "1 new" in shown(part, before=str(report)).text


@pytest.mark.slow
def test_changes_of_the_subnet(repo: Path) -> None:
    found = shown(repo / "captures/pkey-lab.pcap", before=str(repo / "captures/opensm-first-sweep.pcap"))
    assert "Changes in the subnet" in found.text and any(text.strip().startswith("+") for text in found.said)
    assert len(found.all("span", class_="badge new")) == 6 and "6 new, 1 fixed, 0 as before" in found.text


pytest.importorskip("jinja2")


@pytest.mark.slow
def test_all_pictures(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as found:
        made = pictures(found, 1, 4)
        assert sum(made.packets) == 37 and len(made.details) == 4
    for said in ("Management datagrams by class", "Packets by partition", "Packets by OpCode", "The subnet", "Who may talk to whom",
                 "Conversations: latency and loss", "Management requests: latency and loss", "packet by packet"):  # fmt: skip
        assert said in made.html
    assert made.html.count('class="bad"') == 3


def test_missing_nodes_and_tables_are_named(repo: Path) -> None:
    with portrait(repo / "captures/rxe-rping.pcap") as found:
        html = pictures(found, 1, 4).html
    assert "nodes and cables are not known" in html and "No P_Key tables are known" in html and "packet by packet" not in html
