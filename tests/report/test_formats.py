"""The report formats contain what scripts rely on, and each is well-formed for any capture."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ibdissect.lint.finding import CaptureReport, Evidence, Finding, Related, Severity, Span
from ibdissect.report import FORMATS, Run, render, sarif
from ibdissect.rules import load
from tests.cases import every


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
    result = json.loads(render("json", [report(finding(), link_types=["ERF/InfiniBand"]), BROKEN], Run()))
    assert list(result) == ["schema", "tool", "captures", "findings", "counts", "by_rule"]
    assert result["schema"] == 1 and result["tool"]["name"] == "ibdissect"
    assert result["captures"][0] == {
        "path": "a b.pcap", "frames": 43, "checked": 43, "first_ns": 0, "last_ns": 0, "link_types": ["ERF/InfiniBand"],
        "status": "ok", "error": None, "left_out": 0,
    }  # fmt: skip
    assert result["captures"][1]["error"].startswith("x<&>.pcap")
    assert list(result["findings"][0]) == [
        "code", "name", "severity", "capture", "frame", "time_ns", "message", "field", "value", "spans", "related", "evidence", "count",
        "reference",
    ]  # fmt: skip
    assert result["findings"][0]["spans"] == [{"frame": 12, "offset": 48, "length": 4}]
    assert result["counts"] == {"error": 1, "warning": 0, "info": 0} and result["by_rule"] == {"AM001": 1}
    assert json.loads(render("jsonl", [report(finding())], Run())) == result["findings"][0]


def test_a_pipe_says_that_it_was_judged_in_one_pass() -> None:
    assert json.loads(render("json", [report(phases=1)], Run()))["captures"][0]["phases"] == 1


def test_full_text_is_greppable_and_sums_up() -> None:
    text = render("full", [report(finding())], Run())
    assert text.splitlines()[0] == "a b.pcap:12: ✖ error AM001 nodedescription-am ×2: modifier 0x00000001"
    assert "frame 12: LID 1 → LID 2" in text and "frame 3 (request)" in text
    assert text.endswith("Explain a rule: ibdissect rules AM001\n")
    assert render("full", [report(infiniband=43)], Run()) == "No findings: 43 frames in 1 capture checked with 0 rules.\n"
    assert "1 unreadable" in render("full", [BROKEN], Run()).splitlines()[-1] and "1 unreadable" in render("text", [BROKEN], Run())


def test_sarif_names_rule_place_and_fingerprint() -> None:
    run = json.loads(render("sarif", [report(finding()), BROKEN], Run(rules=tuple(load()))))["runs"][0]
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
    run = json.loads(render("sarif", [report(replace(finding(), **facts))], Run(rules=tuple(load()))))["runs"][0]
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region.keys() == {"startLine", "message"} and run["invocations"][0]["executionSuccessful"] is True


def test_paths_count_from_the_root_of_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    monkeypatch.chdir(tmp_path / "bench")
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
        one = [report(finding())]
        result = json.loads(render("sarif", one, Run(rules=tuple(load()))))["runs"][0]["results"][0]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bench/a%20b.pcap"
        assert render("github", one, Run()).startswith("::error file=bench/a b.pcap,")
        assert json.loads(render("gitlab", one, Run()))[0]["location"]["path"] == "bench/a b.pcap"
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        assert render("github", one, Run()).startswith("::error file=a b.pcap,")
        monkeypatch.delenv(variable)


def test_sarif_has_the_fingerprint_of_a_baseline_in_the_working_directory() -> None:
    def shown(**facts: Any) -> str:
        result = json.loads(render("sarif", [report(replace(finding(), **facts))], Run(rules=tuple(load()))))["runs"][0]["results"][0]
        found: str = result["partialFingerprints"]["ibdissect/v2"]
        return found

    assert shown() == shown(frame=99) == shown(capture="./b/../a b.pcap")
    assert len({shown(), shown(code="AM009"), shown(capture="b/a b.pcap"), shown(stable="another")}) == 4


def test_junit_fails_what_fails_the_run() -> None:
    hostile = finding(code="AM009", severity=Severity.WARNING, message="<&\x00\ud800>")
    root = ET.fromstring(render("junit", [report(finding(), hostile), BROKEN], Run(fail_rank=3)))
    numbers = {"tests": "3", "failures": "1", "errors": "1", "skipped": "0"}
    assert root.attrib == {"name": "ibdissect", **numbers, "time": "0.000"}
    assert [case.find("failure") is not None for case in root.iter("testcase")] == [False, True, False]
    assert root[0].get("failures") == "1" and root[1].get("errors") == "1"


def cases(text: str) -> dict[str, str]:
    """What became of each test, by suite and name: passed, failure, error or skipped."""
    found = {}
    for suite in ET.fromstring(text).iter("testsuite"):
        for case in suite.iter("testcase"):
            outcome = [one.tag for one in case if one.tag != "system-out"]
            found[f"{suite.get('name')} {case.get('name')}"] = outcome[0] if outcome else "passed"
    return found


def test_junit_has_the_same_tests_whatever_is_found() -> None:
    """So that a fault that was mended is a test that passes, and a new one is a test that passed before."""
    run = Run(rules=tuple(rule for rule in load() if rule.code in ("AM001", "AM009", "PKY001")))
    bad, good, unread = (cases(render("junit", [one], run)) for one in (report(finding()), report(), replace_path(BROKEN)))
    assert bad.keys() == good.keys() == unread.keys() == {"a b.pcap checked", "a b.pcap AM", "a b.pcap PKY"}
    assert (bad["a b.pcap AM"], good["a b.pcap AM"], unread["a b.pcap AM"]) == ("failure", "passed", "skipped")
    assert set(good.values()) == {"passed"} and unread["a b.pcap checked"] == "error"


def replace_path(report: CaptureReport) -> CaptureReport:
    return structs.replace(report, path="a b.pcap")


def test_a_junit_test_names_its_class_without_dots_and_its_first_failure() -> None:
    many = report(finding(frame=30), finding(frame=12, message="the first"), finding("AM009", Severity.INFO, 3, "below"))
    many.elapsed_s, many.seconds = 1.5, {"AM001": 0.25}
    root = ET.fromstring(render("junit", [many], Run(rules=tuple(load()), began_s=1e9)))
    (case,) = (one for one in root.iter("testcase") if one.get("name") == "AM")
    assert (case.get("classname"), case.get("file"), case.get("time")) == ("a b_pcap", "a b.pcap", "0.250")
    failure = case.find("failure")
    assert failure is not None and failure.get("message") == "AM001 nodedescription-am, frame 12: error: the first (and 1 more)"
    assert failure.text is not None and "below" in failure.text
    assert root[0].get("timestamp") == "2001-09-09T01:46:40" and root[0].get("time") == root.get("time") == "1.500"


EMPTY = {"path": "a b.pcap", "frames": 7, "checked": 7}
FORMATS_WITHOUT_A_HEAD = ("jsonl",)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("form", [name for name in FORMATS if name not in FORMATS_WITHOUT_A_HEAD])
def test_every_format_says_that_nothing_was_checked(form: str, allowed: bool) -> None:
    if form == "html":
        pytest.importorskip("jinja2")
    empty = CaptureReport(**EMPTY)  # type: ignore[arg-type]
    empty.judge_emptiness(allowed=allowed)
    text = render(form, [empty], Run(rules=tuple(load())))
    said = "no InfiniBand or RoCE was found in 7 frames"
    assert said in text or (form == "json" and allowed)
    if form == "json":
        (capture,) = json.loads(text)["captures"]
        assert capture["status"] == "empty" and (capture["error"] is None) == allowed


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in FORMATS_WITHOUT_A_HEAD])
def test_every_format_says_how_many_findings_it_leaves_out(form: str) -> None:
    if form == "html":
        pytest.importorskip("jinja2")
    one = report(finding())
    one.by_rule["AM001"] = 57
    text = render(form, [one], Run(rules=tuple(load())))
    assert ('"left_out": 56' if form == "json" else "56") in text


def test_sarif_counts_equal_findings() -> None:
    """As CodeQL does: of equal findings the first has :1, so that GitHub still knows an alert of which there was one."""
    equal = [finding(frame=frame) for frame in (5, 6, 7)]
    other = replace(finding(), stable="another")
    results = json.loads(render("sarif", [report(*equal, other)], Run(rules=tuple(load()))))["runs"][0]["results"]
    hashes = [one["partialFingerprints"]["primaryLocationLineHash"] for one in results]
    assert [text.partition(":")[2] for text in hashes] == ["1", "2", "3", "1"] and len(set(hashes)) == 4


def test_sarif_says_what_was_checked_and_by_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "addresses", lambda: {"Source": "https://x.example/a", "Documentation": "https://x.example/docs"})
    monkeypatch.setattr(sarif, "VERSION", "1.2.0.dev3+gabc")
    monkeypatch.setenv("GITHUB_JOB", "bench")
    reports = [report(finding()), CaptureReport(path="captures/deep/c.pcap")]
    run = json.loads(render("sarif", reports, Run(rules=tuple(load()))))["runs"][0]
    driver = run["tool"]["driver"]
    assert (driver["informationUri"], driver["semanticVersion"]) == ("https://x.example/a", "1.2.0-dev.3+gabc")
    (rule,) = driver["rules"]
    assert rule["helpUri"] == "https://x.example/docs/rules.md#am001-nodedescription-am"
    assert rule["fullDescription"]["text"] != rule["shortDescription"]["text"]
    assert run["artifacts"][0] == {"location": {"uri": "a%20b.pcap"}, "roles": ["analysisTarget"]}
    assert run["automationDetails"]["id"] == "ibdissect/bench/"
    alone = json.loads(render("sarif", reports[1:], Run()))["runs"][0]
    assert alone["automationDetails"]["id"] == "ibdissect/bench/captures/deep/"


@every(
    ("version", "wanted"),
    [("0.1.0", "0.1.0"), ("0.1.0.dev0", "0.1.0-dev.0"), ("1.2.3rc1", "1.2.3-rc.1"), ("1.0.0+g1", "1.0.0+g1"), ("strange", "0.0.0")],
)
def test_versions_as_semver_writes_them(version: str, wanted: str) -> None:
    assert sarif.semantic_version(version) == wanted


def test_github_escapes_what_would_end_a_command() -> None:
    line = render("github", [report(finding(message="a\nb%::"))], Run())
    assert line == "::error file=a b.pcap,title=AM001 nodedescription-am::frame 12: a%0Ab%25::\n"


def test_annotations_are_few_only_if_a_summary_has_the_rest() -> None:
    many = [finding(frame=frame) for frame in range(1, 13)] + [finding("AM009", frame=90), finding("PKY001", Severity.INFO)]
    reports = [BROKEN, report(*many)]
    assert render("github", reports, Run()).count("\n") == 1 + len(many)
    lines = render("github", reports, Run(summarized=True)).splitlines()
    assert lines[-1] == "4 more in the job summary"
    assert [line.partition(" ")[0] for line in lines[:-1]] == ["::error"] * 10 + ["::notice"]
    assert "title=unreadable" in lines[0] and "AM009" in lines[2], "first what was not checked, then one of each rule"
    assert len(re.findall(r"^\| (?:✖|ℹ) ", render("markdown", reports, Run()), re.M)) == len(many)
