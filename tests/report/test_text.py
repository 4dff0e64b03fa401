"""The text begins with what matters, names who, what and when, says what to do, and ends with why the job failed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.report import Run, render
from ibdissect.report.text import capture_text, closing_text
from ibdissect.rules import load
from tests.cases import every

RULES = tuple(load())
RUN = Run(rules=RULES)
START = 1_795_226_403_000_000_000
ERROR, WARNING, INFO = Severity


def finding(code: str, severity: Severity, frame: int, message: str, **facts: Any) -> Finding:
    when = START + frame * 1_000_000
    return Finding(
        code=code, name="some-fault", severity=severity, frame=frame, time_ns=when, template="", message=message, capture="a.pcap", **facts
    )


def report(*findings: Finding, seconds: float = 18, **facts: Any) -> CaptureReport:
    counts = {level.value: sum(one.severity is level for one in findings) for level in Severity}
    by_rule = {one.code: sum(other.code == one.code for other in findings) for one in findings}
    values: dict[str, Any] = {
        "path": "a.pcap", "frames": 3790, "checked": 3790, "infiniband": 3790,
        "first_ns": START, "last_ns": START + int(seconds * 1e9), "counts": counts,
        "by_rule": by_rule,
    }  # fmt: skip
    return CaptureReport(findings=list(findings), **values | facts)


MIXED = [
    finding("TXN001", INFO, 5, "no answer from LID 9"),
    finding("PKY008", WARNING, 7, "the first entry of LID 4 is empty"),
    finding("MKY002", ERROR, 1082, "node0003 sends M_Key#3 to leaf02", count=3),
    finding("MKY002", ERROR, 1121, "node0003 sends M_Key#3 to leaf00", count=2),
    finding("AM009", INFO, 2, "the bit is set"),
]


def test_worst_first_with_who_what_when_and_what_to_do() -> None:
    assert capture_text(report(*MIXED), RUN).splitlines() == [
        "a.pcap  3,790 frames, 2026-11-21 02:00:03 to 02:00:21 UTC",
        "✖ error MKY002 A Set or TrapRepress carries another M_Key than the port holds  (2 findings, 5 packets)",
        "    :1082  +1.082 s  node0003 sends M_Key#3 to leaf02 ×3",
        "    :1121  +1.121 s  node0003 sends M_Key#3 to leaf00 ×2",
        "    do: Compare the configured keys of all subnet managers (opensm: `m_key` and the guid2mkey file), and find the sender.",
        "⚠ warning PKY008 The first entry of a P_Key table holds no partition, though others do  (1 finding)",
        "    :7  +0.007 s  the first entry of LID 4 is empty",
        "    do: Let the subnet manager put the default partition (0xFFFF or 0x7FFF) first; see the `pkeys` options of its configuration.",
        "ℹ 1 info (--infos shows them): TXN001 1",
    ]  # fmt: skip


def test_infos_and_notes() -> None:
    def codes(infos: bool | None, *findings: Finding) -> list[str]:
        text = capture_text(report(*findings), Run(rules=RULES, infos=infos))
        return [line.split()[2] for line in text.splitlines() if line[0] in "✖⚠ℹ" and "--infos" not in line]

    assert codes(True, *MIXED) == ["MKY002", "PKY008", "TXN001", "AM009"]
    assert codes(None, *MIXED) == codes(False, *MIXED) == ["MKY002", "PKY008"]
    assert "TXN001" not in capture_text(report(*MIXED), Run(rules=RULES, infos=False))
    note, info = MIXED[-1], MIXED[0]
    assert capture_text(report(note), RUN) == "" and capture_text(report(info), Run(rules=RULES, infos=False)) == ""
    assert capture_text(report(info, note), RUN).splitlines()[1:] == ["ℹ 1 info (--infos shows them): TXN001 1"]


def test_notes_are_rules_whose_advice_is_to_do_nothing() -> None:
    import re

    advice = {rule.code: inspect.cleandoc(rule.__doc__ or "").split("\n\n")[2] for rule in RULES if rule.severity is INFO}
    nothing = {code for code, said in advice.items() if re.match(r"Nothing(\.|;|, unless| urgent)", said)}
    assert RUN.notes == nothing and "AM009" in nothing


def test_an_info_of_a_rule_of_errors_is_no_note_of_it() -> None:
    lowered = finding("MKY002", INFO, 9, "LID 2 may have another key")
    text = capture_text(report(MIXED[2], lowered), RUN)
    assert "(1 finding, 3 packets)" in text and "ℹ 1 info (--infos shows them): MKY002 1" in text


def test_three_examples_and_the_frames_of_the_rest() -> None:
    many = [finding("MKY013", WARNING, frame, f"the key of port {frame} is {frame * 7} now") for frame in range(10, 30)]
    lines = capture_text(report(*many, by_rule={"MKY013": 120}), RUN).splitlines()
    assert lines[1].endswith("(120 findings)") and [line.split()[0] for line in lines[2:5]] == [":10", ":11", ":12"]
    assert lines[5] == "    and 117 more (--format concise lists all): " + ", ".join(f":{frame}" for frame in range(13, 25)) + ", ..."
    assert lines[6].startswith("    do: ") and len(lines) == 7


def test_one_sentence_for_many_ports() -> None:
    many = [finding("PKY008", WARNING, frame, f"the table of node{frame} HCA-1 port 1: it is empty", count=2) for frame in range(14)]
    lines = capture_text(report(*many[1:]), RUN).splitlines()
    assert lines[2] == "    :1  +0.001 s  the table of each of 13 ports: it is empty ×26"
    assert lines[3] == "        " + ", ".join(f"node{frame} HCA-1 port 1 :{frame}" for frame in range(1, 14))
    assert lines[4].startswith("    do: ")


def test_equal_sentences_are_shown_once() -> None:
    text = capture_text(report(*(finding("ROC004", ERROR, frame, "LID 1: wrong") for frame in (8, 39, 63))), RUN)
    assert ":8  +0.008 s  LID 1: wrong ×3\n        also :39, :63\n" in text


def test_members_of_sets_and_findings_without_a_frame() -> None:
    member = finding("MKY002", ERROR, 1082, "LID 1: m", file="cap_2.pcap", file_frame=7)
    assert "    cap_2.pcap:7  +1.082 s  LID 1: m\n" in capture_text(report(member), RUN)
    assert "    " + "  the file\n" in capture_text(report(finding("CAP018", WARNING, 0, "the file")), RUN)


def test_times_of_short_captures_and_of_none() -> None:
    text = capture_text(report(MIXED[2], seconds=0.5), RUN)
    assert text.startswith("a.pcap  3,790 frames in 0.500000 s, 2026-11-21 02:00:03 UTC\n") and ":1082  +1.082000 s  " in text
    text = capture_text(report(MIXED[2], first_ns=0, last_ns=0), RUN)
    assert text.startswith("a.pcap  3,790 frames\n") and "    :1082  node0003" in text
    assert " 02:00:03 to 2026-11-23 " in capture_text(report(MIXED[2], seconds=172_800), RUN)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_are_wrapped_for_terminals_only(width: int) -> None:
    wide = capture_text(report(*MIXED), RUN, width=width)
    assert max(map(len, wide.splitlines())) <= width
    assert " ".join(wide.split()) == " ".join(capture_text(report(*MIXED), RUN).split())


def test_colour_marks_and_does_not_break_lines() -> None:
    def paint(text: str, style: str) -> str:
        return f"<{style}>{text}</>"

    text = capture_text(report(*MIXED), RUN, paint, 60)
    assert "<error>✖ error MKY002</> " in text and "<path>a.pcap</>" in text and "<faint>    do:</> " in text
    import re

    assert re.sub("<[^>]*>", "", text) == capture_text(report(*MIXED), RUN, width=60)


def test_hostile_names_do_not_reach_the_terminal() -> None:
    text = capture_text(report(finding("MKY002", ERROR, 1, "m", file="\x1b[2J.pcap", file_frame=3), path="\x1b[2J\n.pcap"), RUN)
    assert "\x1b" not in text and len(text.splitlines()) == 4


BROKEN = CaptureReport(path="x.pcap", status="unreadable", error="x.pcap: is empty")


def last_line(reports: list[CaptureReport], run: Run) -> str:
    """What a text ends with."""
    return render("text", reports, run).splitlines(keepends=True)[-1]


@every(
    ("reports", "run", "verdict"),
    [
        ([report(*MIXED)], Run(), "Failed: there are errors (--fail-on error)."),
        ([report(*MIXED)], Run(fail_rank=2), "Failed: there are errors and warnings (--fail-on warning)."),
        ([report(*MIXED)], Run(fail_rank=1), "Failed: there are errors and warnings and infos (--fail-on info)."),
        ([report(*MIXED)], Run(fail_rank=4), "Passed (--fail-on never)."),
        ([report(*MIXED)], Run(exit_zero=True), "Passed, whatever was found (--exit-zero)."),
        ([report(*MIXED[:2])], Run(), "Passed (--fail-on error)."),
        ([report()], Run(), "Passed."),
        ([report(*MIXED), BROKEN], Run(), "Failed: 1 capture could not be checked."),
        ([report(status="interrupted")], Run(), "Interrupted."),
    ],
)
def test_the_last_line_says_why(reports: list[CaptureReport], run: Run, verdict: str) -> None:
    line = last_line(reports, run)
    assert f". {verdict}" in line
    assert line.endswith("Explain a rule: ibdissect rules MKY002\n") == (MIXED[2] in reports[0].findings)


def test_the_last_line_counts() -> None:
    assert last_line([report(*MIXED)], RUN).startswith("Found 2 errors, 1 warning, 2 infos: 3,790 frames in 1 capture checked with ")
    assert last_line([report()], Run()) == "No findings: 3,790 frames in 1 capture checked with 0 rules. Passed.\n"


def test_captures_are_separated_and_quiet_ones_leave_no_gap() -> None:
    text = render("text", [report(), report(MIXED[2]), report(MIXED[-1]), report(MIXED[1])], RUN)
    assert text.count("\n\n") == 1 and text.startswith("a.pcap  3,790") and "\n\na.pcap  3,790" in text


def test_the_last_line_is_wrapped_between_words() -> None:
    lines = closing_text([report(*MIXED)], RUN, 60).splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines) + "\n" == closing_text([report(*MIXED)], RUN)


def test_frames_without_a_sentence_are_in_order() -> None:
    said = ["one is wrong", "this one is other", "that was odd", *["a first one", "a second thing"] * 2]
    some = [finding("MKY002", ERROR, frame, text) for frame, text in enumerate(said, 1)]
    assert "    and 4 more (--format concise lists all): :4, :5, :6, :7" in capture_text(report(*some), RUN).splitlines()
