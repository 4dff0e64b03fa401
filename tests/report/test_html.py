"""The page of findings is safe, complete, small, and says first what matters."""

from __future__ import annotations

import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from ibdissect.errors import ConfigError
from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.report import Run, render
from ibdissect.report.html import environment
from ibdissect.rules import load
from tests import craft
from tests.cases import every
from tests.cli.followed import here

from .pages import safe
from .test_formats import BROKEN, finding, report

RUN = Run(rules=tuple(load()))
HOSTILE = "<script>alert(1)</script>\"'&amp;{{7*7}}\u202e\x1b\ud800</style></svg>"


def test_the_page_says_first_what_matters() -> None:
    found = [finding(), finding("PKY001", frame=3), finding("PKY001", frame=4)]
    found += [finding("RC002", Severity.INFO), finding("RC004", Severity.WARNING)]
    page = safe(render("html", [report(*found)], RUN))
    assert "Not healthy: 3 errors found" in page.text and "The three worst things" in page.text
    worst = page.text.partition("The three worst things")[2].partition("5 findings")[0]
    places = [worst.index(text) for text in ("A limited member of a partition sends to another limited member", "AM001", "RC004")]
    assert places == sorted(places) and "RC002" not in worst
    assert worst.count("What to do:") == 3 and "PKY001, 2 findings" in worst
    assert len(page.all("tr", role="row")) == 1 + len(found)
    assert "why it matters, what to do Why it matters" in page.text  # the page of each rule is folded in


@every(
    ("reports", "level", "said"),
    [
        ([report()], "good", "Healthy: nothing"),
        ([report(finding(severity=Severity.INFO))], "info", "No errors or warnings, 1 info"),
        ([report(replace(finding(severity=Severity.INFO), count=9))], "info", "No errors or warnings, 1 info"),
        ([report(replace(finding(severity=Severity.INFO), count=40))], "warning", "AM001 nodedescription-am 40 times in 43 frames"),
        ([report(finding(severity=Severity.WARNING)), report(finding(severity=Severity.WARNING))], "warning", "2 warnings"),
        ([BROKEN], "warning", "Nothing can be said"),
        ([report(), BROKEN], "warning", "Nothing was found in what was read"),
        ([report(status="truncated", error="a b.pcap: it unpacks to more")], "warning", "Nothing was found in what was read"),
    ],
)
def test_the_verdict(reports: list[CaptureReport], level: str, said: str) -> None:
    for one in reports:
        one.infiniband = one.frames
    page = safe(render("html", reports, RUN))
    assert page.all("h1") == [{"class": level}] and said in page.text
    assert bool(page.all("ul", class_="doubts")) == any(one.incomplete for one in reports)


def test_the_page_says_what_it_is_about() -> None:
    one = report(finding(), first_ns=1_795_000_203_000_000_000, last_ns=1_795_000_221_250_000_000)
    page = safe(render("html", [one], RUN))
    assert all(said in page.text for said in ("2026-11-18", "UTC (18.250 s)")) and "SHA-256" not in page.text
    bare = safe(render("html", [report(finding())], RUN)).text
    assert "SHA-256" not in bare and "UTC" not in bare
    assert "UTC (18.250 s)" in safe(render("html", [one, report(finding())], RUN)).text


def test_the_page_has_a_title_a_note_and_its_command(tmp_path: Path) -> None:
    path, title = tmp_path / "x.pcap", f"Ticket {HOSTILE[:-20]}"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))]))
    digest = f"{path.stat().st_size} bytes, SHA-256 {sha256(path.read_bytes()).hexdigest()}"
    page = safe(here("report", str(path), "--title", title, "--note", "First line.\n\nSecond line.")[1])
    for said in ("Ticket <script>alert(1)</script>", "First line.", "Second line.", f"ibdissect report {path} --title", "UTC", digest):
        assert said in page.text, said


@every(
    ("first", "last", "wanted"),
    [
        (0, 5, ""),
        (1, 1 << 63, "1970-01-01 00:00:00 to 2262-04-11 23:47:16 UTC (9,223,372,036.855 s)"),
        (1_700_000_000_000_000_000, 0, "2023-11-14 22:13:20 to 22:13:20 UTC (0.000 s)"),
        (1_700_000_000_000_000_000, 1_700_010_000_000_000_000, "2023-11-14 22:13:20 to 2023-11-15 01:00:00 UTC (10,000.000 s)"),
    ],
)
def test_when_it_was_recorded(first: int, last: int, wanted: str) -> None:
    text = safe(render("html", [report(finding(), first_ns=first, last_ns=last)], RUN)).text
    assert f"captured{wanted}" in text.replace("captured ", "captured") if wanted else " UTC (" not in text


def test_doubts_are_reported() -> None:
    page = safe(render("html", [report(status="truncated", infiniband=43), report(finding())], RUN))
    assert "a b.pcap: the file is truncated" in page.text and "no InfiniBand or RoCE was found" in page.text
    assert "x<&>.pcap: is empty\\x1b" in safe(render("html", [BROKEN], RUN)).text


def test_the_head_leads_to_captures_and_names_theirs() -> None:
    page = safe(render("html", [report(finding(f"PKY00{i}")) for i in (1, 3)], RUN))
    assert [link["href"] for link in page.all("a")][:2] == ["#findings", "#captures-title"]
    assert page.text.count("(a b.pcap, frame 12)") == 2


def test_words_in_backquotes_are_code() -> None:
    page = safe(render("html", [report(finding("MKY002"))], RUN))
    assert "<code>m_key</code>" in page.source and "opensm: m_key and the guid2mkey file" in page.text


def test_hostile_text_stays_text() -> None:
    bad = replace(finding(message=HOSTILE), context=HOSTILE, name=HOSTILE, capture=HOSTILE)
    text = render("html", [structs.replace(report(bad), path=HOSTILE), structs.replace(BROKEN, error=HOSTILE)], Run())
    page = safe(text)
    text.encode()
    assert "<script>alert(1)</script>" in page.text and text.count("<script") == 1 and "{{7*7}}" in page.text
    assert {c for c in text if not c.isprintable()} == {"\n"}
    assert "\\x1b" in page.text and "\\u202e" in page.text and "\\ud800" in page.text


def many(count: int, codes: int) -> CaptureReport:
    names = [rule.code for rule in RUN.rules][:codes]
    message = "P_Key 0x0123 (limited) from LID 2 to QP 0x203 of 0x0002c90300000003 port 1 (LID 3), which is a limited member of it too"
    found: list[Finding] = []
    for i in range(count):
        found.append(replace(finding(names[i % codes], Severity.ERROR, i + 1, f"{message} ({i})"), time_ns=i * 1000))
    return structs.replace(report(*found[:1]), findings=found, counts={"error": count, "warning": 0, "info": 0},
                           by_rule={code: count // codes for code in names}, last_ns=count * 1000)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("codes", [1, 100])
def test_ten_thousand_findings_fit(codes: int) -> None:
    text = render("html", [many(10_000, codes)], RUN)
    listed = text.count('<tr id="')
    assert len(text) < 5_000_000 and "10,000 findings" in text
    assert listed == 4000 and f"{listed:,} are listed" in text
    assert f"{(10_000 - listed) // codes:,} more of {next(iter(many(codes, codes).by_rule))}" in text


def test_without_jinja_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError, match=r"ibdissect\[report\].*pip install"):
        render("html", [report()], RUN)
    environment.cache_clear()
