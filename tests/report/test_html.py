"""The page of findings is safe, complete, small, and says first what matters."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from msgspec import structs

from ibdissect.capture.digest import Digest
from ibdissect.errors import ConfigError
from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.report import Run, first_of_each, render
from ibdissect.report.html import About, Pictures, environment, page_text, span_text, verdict
from ibdissect.report.new_and_fixed import before_of_reports, compare
from ibdissect.rules import load

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


@pytest.mark.parametrize(
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
    found = verdict(reports)
    assert found[0] == level and said in found[1]
    assert bool(found[2]) == any(one.incomplete for one in reports)


def test_the_page_says_what_it_is_about() -> None:
    one = report(finding(), first_ns=1_795_000_203_000_000_000, last_ns=1_795_000_221_250_000_000)
    run = structs.replace(RUN, digests={"a b.pcap": Digest(1234, "ab12")})
    about = About(f"Ticket {HOSTILE}", "First line.\n\nSecond line.", f"ibdissect report {HOSTILE}")
    page = safe(page_text([one], run, about=about))
    for said in ("Ticket", "First line.", "Second line.", "2026-11-18", "UTC (18.250 s)", "1,234 bytes, SHA-256 ab12", "ibdissect report"):
        assert said in page.text, said
    bare = safe(page_text([report(finding())], RUN)).text
    assert "SHA-256" not in bare and "UTC" not in bare
    both = safe(page_text([one, report(finding())], run)).text
    assert "ab12" in both and "UTC (18.250 s)" in both


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        (0, 5, ""),
        (1, 1 << 63, ""),
        (1_700_000_000_000_000_000, 0, "2023-11-14 22:13:20 to 22:13:20 UTC (0.000 s)"),
        (1_700_000_000_000_000_000, 1_700_010_000_000_000_000, "2023-11-14 22:13:20 to 2023-11-15 01:00:00 UTC (10,000.000 s)"),
    ],
)
def test_when_it_was_recorded(first: int, last: int, wanted: str) -> None:
    assert span_text(first, last) == wanted or (not wanted and "9" not in span_text(first, last)[:1])


def test_doubts_are_reported() -> None:
    page = safe(render("html", [report(status="truncated", infiniband=43), report(finding())], RUN))
    assert "a b.pcap: the file is truncated" in page.text and "no InfiniBand or RoCE was found" in page.text
    assert verdict([BROKEN])[2] == ["x<&>.pcap: is empty\x1b"]


def test_the_head_leads_to_captures_and_names_theirs() -> None:
    page = safe(render("html", [report(finding(f"PKY00{i}")) for i in (1, 3)], RUN))
    assert [link["href"] for link in page.all("a")][:2] == ["#findings", "#captures-title"]
    assert page.text.count("(a b.pcap, frame 12)") == 2


def test_words_in_backquotes_are_code() -> None:
    coded = environment().filters["coded"]
    assert coded("`full` or <b>`") == "<code>full</code> or &lt;b&gt;`"


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
    detail = Pictures("<p>picture</p>", (), {})
    text = page_text([many(10_000, codes)], RUN, [detail], limit=100)
    listed = text.count('<tr id="')
    assert len(text) < 5_000_000 and "10,000 findings" in text
    assert listed == min(100 * codes, 4000 // codes * codes) and f"{listed:,} are listed" in text
    assert f"{(10_000 - listed) // codes:,} more of {next(iter(many(codes, codes).by_rule))}" in text


def test_new_and_fixed() -> None:
    old, new = replace(finding(), stable="old"), replace(finding("PKY001", frame=5), stable="new")
    here = [report(new)]
    compared = compare(before_of_reports("before.pcap", [report(old)]), here, ["+ link  a"])
    page = safe(page_text(here, RUN, compared=compared))
    assert "Compared with before.pcap : 1 new , 1 fixed, 0 as before" in page.text.replace("pcap:", "pcap :").replace("new,", "new ,")
    assert len(page.all("span", class_="badge new")) == 1 and "+ link a" in page.text


def test_a_time_line_stands_above_the_packets_of_its_time() -> None:
    page = safe(page_text([many(50, 2)], RUN, [Pictures("<p>more</p>", (1, 0, 3))], limit=10))
    assert len(page.all("polygon", class_="packets")) == 1 and page.all("rect", class_="fill error")
    assert "The same as a table" in page.text and "<p>more</p>" in page.source


def test_first_of_each() -> None:
    found = [finding("A", frame=1), finding("B", frame=2), finding("A", frame=3)]
    assert [one.frame for one in first_of_each(found, 1)] == [1, 2] and first_of_each(found, None) == found


def test_without_jinja_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError, match=r"ibdissect\[report\].*pip install"):
        render("html", [report()], RUN)
    environment.cache_clear()
