"""The Markdown report lists all findings, as text whatever they hold."""

from __future__ import annotations

import json
import re

import pytest

from ibdissect.lint.finding import Severity
from ibdissect.lint.rule_page import unmarked
from ibdissect.lint.toml_rules import rules_of
from ibdissect.report import Run, render
from ibdissect.rules import load
from tests.report.test_formats import BROKEN, finding, report


def test_markdown_shows_text_of_captures_as_text() -> None:
    hostile = finding(message="a | b\n<img src=x> `c` [d](http://e) @f #1 www.g")
    text = render("markdown", [report(hostile, finding(severity=Severity.WARNING)), BROKEN], Run(rules=tuple(load())))
    (row,) = [line for line in text.splitlines() if "img" in line]
    assert row.endswith("a \\| b \\<img src=x\\> \\`c\\` \\[d\\](http\\://e) \\@f \\#1 www\\.g (×2) |")
    assert row.startswith("| ✖ error | AM001 nodedescription-am | a b.pcap | 12 |")
    assert "- ✖ unreadable: x\\<\\&\\>.pcap" in text and "\x1b" not in text
    assert text.count("<details><summary>AM001 ") == 1 and "Why it matters" in text


def test_texts_of_rules_in_files_are_no_markup() -> None:
    """A configuration that was found may be a stranger's; the texts of our own rules are Markdown."""
    hostile = "1. <img src=x> [a](http://e)\n# head\n\n- x `c`\n\n## <b>T</b>\n    code | @all"
    table = {"code": "OURS001", "name": "own-rule", "when": "infiniband.bth", "message": "m", "docs": hostile, "reference": "<i> *r*"}
    rules = rules_of([table], "ibdissect.toml")
    text = render("markdown", [report(finding(code="OURS001"))], Run(rules=tuple(rules)))
    page = text[text.index("<details>") :]
    summary, _, rest = page.partition("\n")
    assert summary == "<details><summary>OURS001 own-rule: 1. &lt;img src=x&gt; [a](http://e)</summary>"
    body = rest.removesuffix("\n\n</details>\n")
    assert re.findall(r"(?<!\\)[<>`\[\]*_@|]", body) == [] and {line[:2] for line in body.splitlines()} >= {"##", "\\-"}
    (run,) = json.loads(render("sarif", [report(finding(code="OURS001"))], Run(rules=tuple(rules))))["runs"]
    help_text = run["tool"]["driver"]["rules"][0]
    assert re.findall(r"(?<!\\)[<>`\[\]_@|]", help_text["help"]["markdown"]) == []
    assert [unmarked(text) for text in ("12. a", "- a", "+a", "= a", "www.a", "3 a")] == [
        "12\\. a", "\\- a", "\\+a", "\\= a", "www\\.a", "3 a",
    ]  # fmt: skip


def test_a_long_markdown_report_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.report.markdown.MOST_BYTES", 200)
    text = render("markdown", [report(*(finding(frame=frame) for frame in range(1, 9)))], Run())
    assert text.count("| ✖ error") == 2 and "6 more findings not listed." in text
    hidden = report(finding())
    hidden.by_rule["AM001"] = 5
    assert "4 more findings beyond `--max-findings`." in render("markdown", [hidden], Run())


def test_notes_are_counted_and_listed_with_infos_only() -> None:
    """AM009's advice is to do nothing."""
    note = finding(code="AM009", severity=Severity.INFO)
    rules = tuple(load())
    for reports, listed in ([report(finding(), note)], 1), ([report(note)], 0):
        text = render("markdown", reports, Run(rules=rules))
        assert text.count("| ℹ info |") == 0 and text.count("| ✖ error |") == listed and "<summary>AM009" not in text
        assert "1 info of rules whose advice is to do nothing: --infos lists them" in text
        assert render("github", reports, Run(rules=rules)).count("::notice ") == 0
        for run in (Run(rules=rules, infos=True), Run()):
            assert "advice is to do nothing" not in render("markdown", reports, run) and "| ℹ info |" in render("markdown", reports, run)
            assert render("github", reports, run).count("::notice ") == 1
