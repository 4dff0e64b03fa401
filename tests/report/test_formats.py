"""Do the report formats contain what scripts rely on, and is each well-formed for any capture?"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibdissect.lint.baseline import Baseline, entries_of
from ibdissect.lint.finding import CaptureReport, Evidence, Finding, Related, Severity, Span
from ibdissect.report import Run
from ibdissect.report.github import MOST, github_text
from ibdissect.report.gitlab import gitlab_text
from ibdissect.report.json import json_text, jsonl_text
from ibdissect.report.junit import junit_text
from ibdissect.report.markdown import markdown_text
from ibdissect.report.sarif import sarif_text
from ibdissect.report.text import capture_text, statistics_text, summary_text
from ibdissect.rules import load


def finding(code: str = "AM001", severity: Severity = Severity.ERROR, frame: int = 12, message: str = "modifier 0x00000001") -> Finding:
    return Finding(
        code=code, name="nodedescription-am", severity=severity, frame=frame, time_ns=5, template="", message=message,
        capture="a b.pcap", field="infiniband.mad.attributemodifier", value=1, spans=(Span(frame, 48, 4),), starts=1000,
        related=(Related(3, "request"),), evidence=Evidence.LEARNT, count=2, reference="IBA 14", context="LID 1 → LID 2  SMP  x",
    )  # fmt: skip


def report(*findings: Finding, **kw: object) -> CaptureReport:
    counts = {s.value: sum(f.severity is s for f in findings) for s in Severity}
    by_rule = {f.code: sum(g.code == f.code for g in findings) for f in findings}
    return CaptureReport(path="a b.pcap", frames=43, checked=43, findings=list(findings), counts=counts, by_rule=by_rule, **kw)  # type: ignore[arg-type]


BROKEN = CaptureReport(path="x<&>.pcap", status="unreadable", error="x<&>.pcap: is empty\x1b")


def test_json_is_the_contract() -> None:
    result = json.loads(json_text([report(finding(), link_types=["ERF/InfiniBand"]), BROKEN], Run()))
    assert list(result) == ["schema", "tool", "captures", "findings", "counts", "by_rule"]
    assert result["schema"] == 1 and result["tool"]["name"] == "ibdissect"
    assert result["captures"][0] == {
        "path": "a b.pcap", "frames": 43, "checked": 43, "first_ns": 0, "last_ns": 0, "link_types": ["ERF/InfiniBand"],
        "status": "ok", "error": None,
    }  # fmt: skip
    assert result["captures"][1]["error"].startswith("x<&>.pcap")
    assert list(result["findings"][0]) == [
        "code", "name", "severity", "capture", "frame", "time_ns", "message", "field", "value", "spans", "related", "evidence", "count",
        "reference",
    ]  # fmt: skip
    assert result["findings"][0]["spans"] == [{"frame": 12, "offset": 48, "length": 4}]
    assert result["counts"] == {"error": 1, "warning": 0, "info": 0} and result["by_rule"] == {"AM001": 1}
    assert json.loads(jsonl_text([report(finding())], Run())) == result["findings"][0]


def test_a_pipe_says_that_it_was_judged_in_one_pass() -> None:
    assert json.loads(json_text([report(phases=1)], Run()))["captures"][0]["phases"] == 1


def test_text_is_greppable_and_sums_up() -> None:
    text = capture_text(report(finding()))
    assert text.splitlines()[0] == "a b.pcap:12: ✖ error AM001 nodedescription-am ×2: modifier 0x00000001"
    assert "frame 12: LID 1 → LID 2" in text and "frame 3 (request)" in text
    assert summary_text([report(finding())], 9).endswith("Explain a rule: ibdissect rules AM001\n")
    assert summary_text([report()], 9) == "No findings: 43 frames in 1 capture checked with 9 rules.\n"
    assert "1 unreadable" in summary_text([BROKEN], 9)
    assert capture_text(BROKEN) == ""
    assert statistics_text([report(finding())], {"AM001": "n"}).split() == ["1", "AM001", "n"]


def test_sarif_names_rule_place_and_fingerprint() -> None:
    run = json.loads(sarif_text([report(finding()), BROKEN], Run(rules=tuple(load()))))["runs"][0]
    result = run["results"][0]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "AM001" == result["ruleId"]
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "a%20b.pcap"
    assert where["region"] == {"startLine": 1, "byteOffset": 1048, "byteLength": 4, "message": {"text": "in frame 12"}}
    assert run["invocations"][0]["executionSuccessful"] is False
    related = result["relatedLocations"][0]["physicalLocation"]
    assert related["region"] == {"startLine": 1}
    assert result["partialFingerprints"]["primaryLocationLineHash"] == result["partialFingerprints"]["ibdissect/v2"] + ":1"


@pytest.mark.parametrize("facts", [{"starts": None}, {"spans": (Span(3, 48, 4),)}, {"spans": ()}])
def test_sarif_gives_no_bytes_whose_place_in_the_file_is_unknown(facts: Any) -> None:
    run = json.loads(sarif_text([report(replace(finding(), **facts))], Run(rules=tuple(load()))))["runs"][0]
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region.keys() == {"startLine", "message"} and run["invocations"][0]["executionSuccessful"] is True


def test_paths_count_from_the_root_of_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    monkeypatch.chdir(tmp_path / "bench")
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
        one = [report(finding())]
        result = json.loads(sarif_text(one, Run(rules=tuple(load()))))["runs"][0]["results"][0]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bench/a%20b.pcap"
        assert github_text(one, Run()).startswith("::error file=bench/a b.pcap,")
        assert json.loads(gitlab_text(one, Run()))[0]["location"]["path"] == "bench/a b.pcap"
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        assert github_text(one, Run()).startswith("::error file=a b.pcap,")
        monkeypatch.delenv(variable)

def test_sarif_has_the_fingerprint_of_a_baseline_in_the_working_directory() -> None:
    def shown(**facts: Any) -> str:
        result = json.loads(sarif_text([report(replace(finding(), **facts))], Run(rules=tuple(load()))))["runs"][0]["results"][0]
        found: str = result["partialFingerprints"]["ibdissect/v2"]
        return found

    (entry,) = entries_of([report(finding())], Baseline("known.json"))
    assert shown() == shown(frame=99) == shown(capture="./b/../a b.pcap") == entry.fingerprint
    assert len({shown(), shown(code="AM009"), shown(capture="b/a b.pcap"), shown(stable="another")}) == 4


def test_junit_fails_what_fails_the_run() -> None:
    hostile = finding(code="AM009", severity=Severity.WARNING, message="<&\x00\ud800>")
    root = ET.fromstring(junit_text([report(finding(), hostile), BROKEN], Run(fail_rank=3)))
    assert root.attrib == {"name": "ibdissect", "tests": "3", "failures": "1", "errors": "1"}
    assert [case.find("failure") is not None for case in root.iter("testcase")] == [True, False, False]
    assert "failures" in root.attrib and root[0].get("failures") == "1"


def test_github_escapes_what_would_end_a_command() -> None:
    line = github_text([report(finding(message="a\nb%::"))], Run())
    assert line == "::error file=a b.pcap,title=AM001 nodedescription-am::frame 12: a%0Ab%25::\n"


def test_annotations_are_few_only_if_a_summary_has_the_rest() -> None:
    many = [finding(frame=frame) for frame in range(1, 13)] + [finding("AM009", frame=90), finding("PKY001", Severity.INFO)]
    reports = [BROKEN, report(*many)]
    assert github_text(reports, Run()).count("\n") == 1 + len(many)
    lines = github_text(reports, Run(summarized=True)).splitlines()
    assert lines[-1] == "4 more in the job summary"
    assert [line.partition(" ")[0] for line in lines[:-1]] == ["::error"] * MOST + ["::notice"]
    assert "title=unreadable" in lines[0] and "AM009" in lines[2], "first what was not checked, then one of each rule"
    assert len(re.findall(r"^\| (?:✖|ℹ) ", markdown_text(reports, Run()), re.M)) == len(many)
