"""Baselines recognise known findings whatever their frame number, and report new and fixed ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint.baseline import BEYOND, Baseline, BaselineComparison, baseline_text, entries_of, fingerprint, name_from, parse_baseline
from ibdissect.lint.finding import CaptureReport, Finding, Secret, Severity


def found(code: str, frame: int, template: str = "LID {lid} is wrong, PSN {psn}", **arguments: object) -> Finding:
    finding = Finding(
        code=code, name="x", severity=Severity.ERROR, frame=frame, time_ns=0, template=template,
        arguments={"lid": 1, "psn": frame, **arguments},
    )  # fmt: skip
    finding.finish(None)
    return finding


def report(path: str, *findings: Finding, beyond: int = 0) -> CaptureReport:
    by_rule: dict[str, int] = {}
    for finding in findings:
        by_rule[finding.code] = by_rule.get(finding.code, 0) + 1
    if beyond:
        by_rule[findings[0].code] += beyond
    counts = {"error": sum(by_rule.values()), "warning": 0, "info": 0}
    return CaptureReport(path=path, findings=list(findings), by_rule=by_rule, counts=counts)


def kept(*reports: CaptureReport) -> Baseline:
    return parse_baseline(baseline_text(entries_of(reports, Baseline("base.json"))), "base.json")


CODES = {"AAA001", "BBB001"}


def test_frame_numbers_and_psns_do_not_count_but_the_message_does() -> None:
    baseline = kept(report("a.pcap", found("AAA001", 5), found("AAA001", 6, lid=2)))
    comparison = BaselineComparison(baseline)
    now = report("a.pcap", found("AAA001", 70), found("AAA001", 71, lid=3), found("BBB001", 72))
    comparison.apply(now, CODES)
    assert [(f.code, f.frame) for f in now.findings] == [("AAA001", 71), ("BBB001", 72)]
    assert now.by_rule == {"AAA001": 1, "BBB001": 1} and now.counts == {"error": 2, "warning": 0, "info": 0}
    result = comparison.finish()
    assert (result.known, result.new, [entry.message for entry in result.fixed]) == (1, 2, ["LID 2 is wrong, PSN #"])


def test_more_of_the_same_is_new() -> None:
    comparison = BaselineComparison(kept(report("a.pcap", *(found("AAA001", i) for i in range(3)))))
    now = report("a.pcap", *(found("AAA001", 10 + i) for i in range(5)))
    comparison.apply(now, CODES)
    assert [f.frame for f in now.findings] == [13, 14] and now.by_rule == {"AAA001": 2}


def test_less_of_the_same_is_fixed() -> None:
    comparison = BaselineComparison(kept(report("a.pcap", *(found("AAA001", i) for i in range(3)))))
    now = report("a.pcap", found("AAA001", 1))
    comparison.apply(now, CODES)
    assert now.findings == [] and [entry.count for entry in comparison.finish().fixed] == [2]


def test_findings_that_are_only_counted_count_too() -> None:
    baseline = kept(report("a.pcap", found("AAA001", 1), beyond=7))
    assert [entry.count for entry in baseline.entries.values() if entry.fingerprint == BEYOND] == [7]
    comparison = BaselineComparison(baseline)
    now = report("a.pcap", found("AAA001", 1), beyond=9)
    comparison.apply(now, CODES)
    assert now.by_rule == {"AAA001": 2} and now.counts["error"] == 2 and now.findings == []


def test_only_what_was_checked_is_fixed() -> None:
    baseline = kept(report("a.pcap", found("AAA001", 1), found("BBB001", 2)), report("b.pcap", found("AAA001", 3)))
    comparison = BaselineComparison(baseline)
    comparison.apply(report("a.pcap"), {"AAA001"})
    result = comparison.finish()
    assert [(e.capture, e.code) for e in result.fixed] == [("a.pcap", "AAA001")] and result.unchecked == 2
    part = BaselineComparison(baseline, whole=False)
    part.apply(report("a.pcap"), CODES)
    assert part.finish().fixed == []
    unreadable = BaselineComparison(baseline)
    unreadable.apply(CaptureReport(path="a.pcap", status="unreadable", error="gone"), CODES)
    assert unreadable.finish().fixed == []


def test_captures_are_named_from_the_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert Baseline("../base.json").name_of("x.pcap") == "sub/x.pcap"
    assert Baseline("base.json").name_of(str(tmp_path / "x.pcap")) == "../x.pcap"
    assert Baseline("base.json").name_of("-") == "-"


def test_no_key_gets_in() -> None:
    secret = found("AAA001", 1, "holds {key}", key=Secret("M_Key", 0x1122334455667788))
    other = found("AAA001", 2, "holds {key}", key=Secret("M_Key", 0x99))
    assert secret.message == "holds M_Key 0x1122334455667788"
    text = baseline_text(entries_of([report("a.pcap", secret)], Baseline("b")))
    assert "1122334455667788" not in text and str(0x1122334455667788) not in text and "holds M_Key#" in text
    assert text == baseline_text(entries_of([report("a.pcap", other)], Baseline("b")))


def test_the_text_is_json_in_one_order_and_merges_line_by_line() -> None:
    findings = [found(code, i, lid=i) for i, code in enumerate(["BBB001", "AAA001"] * 4)]
    texts = set()
    for seed in range(5):
        random.Random(seed).shuffle(findings)
        texts.add(baseline_text(entries_of([report("ä.pcap", *findings)], Baseline("b"))))
    assert len(texts) == 1
    text = texts.pop()
    assert len(json.loads(text)) == 9 and text.isascii()
    lines = text.splitlines()
    assert len(lines) == 10
    # What a union merge of two sides makes: lines of both, in any order, some twice.
    merged = [lines[0], *reversed(lines[1:-1]), lines[3], lines[-1]]
    assert parse_baseline("\n".join(merged), "b").entries == parse_baseline(text, "b").entries


ENTRY = '{"capture": "a", "code": "AAA001", "count": 1, "fingerprint": "00", "message": "m"}'
HEAD = '[{"schema": 1, "tool": "ibdissect baseline"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"), ("{}", "is not a baseline"), ("[]", "is not a baseline"), ("[" * 100_000, "not valid JSON"),
        ("null", "is not a baseline"),
        ('[{"schema": 3, "tool": "ibdissect baseline"}]', "newer"), (HEAD, "line 1: is a damaged baseline"),
        (f"{HEAD}\n,{ENTRY}\n,3]", "entry 3"), (f"{HEAD},{ENTRY.replace('1,', '0,')}]", "entry 2"),
        (f"{HEAD},{ENTRY.replace('1,', 'true,')}]", "entry 2"), (f"{HEAD}\n<<<<<<< HEAD\n,{ENTRY}]", "conflict"),
        (f"{HEAD},{ENTRY.replace('message', 'massage')}]", "a finding has"),
    ],
)  # fmt: skip
def test_damage_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"base\.json: ") as caught:
        parse_baseline(text, "base.json")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("capture", "name"), [("-", "-"), ("s3://b/x.pcap", "s3://b/x.pcap"), ("/a/b/c.pcap", "b/c.pcap"), ("/c.pcap", "../c.pcap")]
)
def test_standard_input_and_urls_keep_their_names(capture: str, name: str) -> None:
    assert name_from("/a", capture) == name


def test_what_a_capture_holds_is_no_finding() -> None:
    text = json.dumps([{"tool": "ibdissect baseline", "schema": 1}, {"capture": "x.pcap", "sha256": "00"}])
    baseline = parse_baseline(text, "b.json")
    assert baseline.contents == {"x.pcap": "00"} and not baseline.entries


@pytest.mark.parametrize("status", ["unreadable", "empty"])
def test_a_capture_that_could_not_be_checked_fixes_nothing(status: str) -> None:
    baseline = kept(report("a.pcap", found("X001", 1)))
    again = BaselineComparison(baseline)
    left = dict(again.left)
    one = report("a.pcap", found("X001", 1))
    one.status = status
    again.apply(one, ["X001"])
    assert again.left == left and not again.checked and len(one.findings) == 1


def test_the_fingerprint_is_the_one_of_files_that_exist() -> None:
    one = found("AAA001", 5)
    assert fingerprint("a.pcap", one) == "9e5a258c6815c59443465bff33e4ed31"
    assert len({fingerprint(name, one) for name in ("a.pcap", "\udcff.pcap", "\udcfe.pcap")}) == 3, "names need not be UTF-8"


@pytest.mark.parametrize(("beyond", "entries"), [(0, [1]), (1, [1, 1]), (2, [1, 2])])
def test_findings_that_are_only_counted_have_an_entry_from_the_first_on(beyond: int, entries: list[int]) -> None:
    assert sorted(entry.count for entry in kept(report("a.pcap", found("AAA001", 1), beyond=beyond)).entries.values()) == entries


def test_what_captures_held_is_written_and_read() -> None:
    text = baseline_text([], {"b.pcap": "11", "a.pcap": "00"})
    assert parse_baseline(text, "b").contents == {"a.pcap": "00", "b.pcap": "11"} and text.index("a.pcap") < text.index("b.pcap")


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("[" * 100_000, "file", "--write-baseline"), ("[\n3", "line 2", "--write-baseline"), ("[]", "file", "--write-baseline"),
        (f'{HEAD},{{"capture": "a", "sha256": 3}}]', "entry 2", "--write-baseline"),
        (f"{HEAD}\n>>>>>>> theirs]", "line 2", "resolve the conflict"),
    ],
)  # fmt: skip
def test_where_the_damage_is_and_what_to_do(text: str, key: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_baseline(text, "b.json")
    assert caught.value.key == key and hint in str(caught.value)


def test_what_was_not_looked_for_is_listed_in_order() -> None:
    reports = [report(name, found("BBB001", 1), found("AAA001", 2), found("AAA001", 3, lid=2)) for name in ("b.pcap", "a.pcap")]
    comparison = BaselineComparison(kept(*reports))
    comparison.left = dict(reversed(comparison.left.items()))
    comparison.apply(report("a.pcap"), {"AAA001"})
    result = comparison.finish()
    assert [(one.capture, one.code) for one in result.not_checked] == [
        ("a.pcap", "BBB001"),
        *[("b.pcap", "AAA001")] * 2,
        ("b.pcap", "BBB001"),
    ]
    assert result.fixed == sorted(result.fixed) and [one.code for one in result.fixed] == ["AAA001"] * 2
    assert (result.unchecked, result.known, result.new) == (4, 0, 0)
    assert result.object()["not_checked"][0] == {"capture": "a.pcap", "code": "BBB001", "count": 1}


def test_copies_are_compared_with_the_entries_of_their_own_name() -> None:
    """Two captures are what one was: each may show all of its findings again, and only the owner says what is fixed."""
    baseline = kept(report("old.pcap", found("AAA001", 1)), report("x.pcap", found("AAA001", 1, lid=3)))
    comparison = BaselineComparison(baseline, known_as={"a.pcap": "old.pcap", "b.pcap": "old.pcap"}, owners={"old.pcap": "a.pcap"})
    for path, left in (("b.pcap", 1), ("a.pcap", 0)):
        now = report(path, found("AAA001", 7), found("AAA001", 8), found("AAA001", 9, lid=3))
        comparison.apply(now, CODES)
        assert [one.frame for one in now.findings] == [8, 9] and now.by_rule == {"AAA001": 2} and now.counts["error"] == 2
        assert comparison.left[next(key for key in comparison.left if key[0] == "old.pcap")] == left
    assert set(comparison.checked) == {"old.pcap"}


def test_the_captures_of_a_baseline() -> None:
    """Each with findings once, sorted."""
    known = kept(report("b.pcap", found("ZZZ001", 1, lid=1), found("ZZZ002", 2, lid=2)), report("a.pcap", found("ZZZ001", 3, lid=1)))
    assert known.captures == ["a.pcap", "b.pcap"] and kept().captures == []
