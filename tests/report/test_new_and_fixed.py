"""Findings that are the same fault as before, in captures, JSON reports and baselines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint.baseline import Baseline, baseline_text, entries_of
from ibdissect.report import Run, render
from ibdissect.report.new_and_fixed import before_of_json, before_of_reports, compare

from .test_formats import finding, report

OLD = replace(finding(message="PSN 17 of LID 3 port 2 after 0.5 ms, QP 0x00001a"), stable="PSN # of LID 3 port 2 after # ms, QP #")
AGAIN = replace(OLD, message="PSN 99 of LID 3 port 2 after 12.25 ms, QP 0x0000ff", frame=99)
OTHER = replace(OLD, message=OLD.message.replace("LID 3", "LID 4"), stable=OLD.stable.replace("LID 3", "LID 4"))


@pytest.mark.parametrize("kind", ["captures", "json", "baseline"])
def test_the_same_fault_is_found_again(kind: str) -> None:
    was = [report(OLD)]
    before = {
        "captures": lambda: before_of_reports("x", was),
        "json": lambda: before_of_json("x", render("json", was, Run())),
        "baseline": lambda: before_of_json("x", baseline_text(entries_of(was, Baseline("known.json")))),
    }[kind]()
    same = compare(before, [report(AGAIN)])
    assert (same.new, same.fixed, same.known) == (set(), [], 1)
    other = compare(before, [report(OTHER)])
    assert other.new == {id(OTHER)} and other.known == 0 and [code for code, _ in other.fixed] == ["AM001"]


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not valid JSON"), ('{"a": 1}', "neither"), ('{"findings": [1]}', "neither"), ("[]", "not a baseline")]
)
def test_other_files_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        before_of_json("x.json", text)


def test_a_report_without_findings_makes_everything_new() -> None:
    before = before_of_json("x", json.dumps({"findings": []}))
    assert len(compare(before, [report(OLD)]).new) == 1
