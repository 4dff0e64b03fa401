"""Are keys masked and hostile strings escaped in a finished finding?"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys

import pytest

from ibdissect.lint.finding import CaptureReport, Finding, Gid, Related, Secret, Severity, Span, value_of
from ibdissect.wire.headers import DETH, GRH
from ibdissect.wire.sm import SMP, NodeDescription


def finding(template: str, value: object = None, **arguments: object) -> Finding:
    return Finding(
        code="XYZ001", name="x", severity=Severity.ERROR, frame=1, time_ns=0, template=template, value=value, arguments=arguments
    )


def number(secret: Secret) -> str:
    return f"{secret.kind}#1"


def test_keys_are_masked_wherever_a_message_may_take_them_from() -> None:
    smp = SMP(bytes(24) + bytes(range(1, 9)) + bytes(224))
    found = finding("{key} and {SMP.m_key}", Secret("M_Key", 5), key=Secret("M_Key", 5), SMP=smp)
    assert {s.value for s in found.secrets()} == {5, 0x0102030405060708}
    found.finish(number)
    assert found.message == "M_Key#1 and M_Key#1" and found.value is None


def test_zero_stays_zero_and_show_keys_shows() -> None:
    found = finding("{a} {b}", Secret("Q_Key", 7, 32), a=Secret("Q_Key", 0, 32), b=Secret("Q_Key", 7, 32))
    found.finish(None)
    assert found.message == "Q_Key 0x00000000 Q_Key 0x00000007" and found.value == 7
    found = finding("{a}", Secret("Q_Key", 0, 32), a=Secret("Q_Key", 0, 32))
    found.finish(number)
    assert found.message == "Q_Key 0x00000000" and found.value == 0


def test_strings_of_the_capture_cannot_steer_a_terminal() -> None:
    node = NodeDescription(b"\x1b]0;x\x07\xe2\x80\xaeevil".ljust(64, b"\0"))
    found = finding("{NodeDescription.node_string} {text}", "\x1b[2J", NodeDescription=node, text="a\nb")
    found.finish(None)
    assert "\x1b" not in found.message and "\u202e" not in found.message and "\n" not in found.message
    assert found.value == "\\x1b[2J"


def test_addresses_read_as_addresses() -> None:
    grh = GRH(bytes(8) + bytes.fromhex("fe80" + 13 * "00" + "01") + bytes(16))
    found = finding("{GRH.sgid} {raw}", GRH=grh, raw=value_of(GRH.dgid, bytes(16)))
    found.finish(None)
    assert found.message == "fe80::1 ::"
    assert isinstance(value_of(GRH.sgid, grh.sgid), Gid) and isinstance(value_of(DETH.q_key, 1), Secret)


def test_findings_are_dataclasses_for_whoever_takes_them_further() -> None:
    found = finding("{n} times", n=3)
    found.spans, found.related = (Span(1, 8, 2),), (Related(3, "request"),)
    found.finish(number)
    row = dataclasses.asdict(found)
    assert (row["code"], row["message"], row["severity"]) == ("XYZ001", "3 times", "error")
    assert row["spans"] == ({"frame": 1, "offset": 8, "length": 2},)
    assert row["related"] == ({"frame": 3, "why": "request", "file": "", "line": 0},)
    assert dataclasses.astuple(found.spans[0]) == (1, 8, 2)
    names = [field.name for field in dataclasses.fields(Related)]
    assert names == ["frame", "why", "file", "line"] == list(inspect.signature(Related).parameters)
    assert dataclasses.replace(found, frame=7).frame == 7 and found.frame == 1
    if sys.version_info >= (3, 13):
        assert copy.replace(found, frame=7).frame == 7


def test_spans_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Span(1, 8, 2).offset = 9  # type: ignore[misc]


def test_findings_make_a_table_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([finding("a"), finding("b")])
    assert list(table["code"]) == ["XYZ001", "XYZ001"] and "arguments" in table.columns


@pytest.mark.parametrize(
    ("given", "remarkable"),
    [
        ({}, False),
        ({"status": "interrupted"}, True),
        ({"error": "x"}, True),
        ({"status": "truncated"}, False),
        ({"undecoded": 5}, True),
        ({"undecoded": 4}, False),
        ({"undecoded": 5, "frames": 10}, False),
        ({"infiniband": 0}, True),
        ({"frames": 0}, True),
        ({"unnumbered": 1}, True),
    ],
)
def test_what_a_line_about_a_clean_capture_does_not_say(given: dict[str, object], remarkable: bool) -> None:
    report = CaptureReport(path="x", **{"frames": 9, "infiniband": 9, "judged": 9, **given})  # type: ignore[arg-type]
    assert report.remarkable is remarkable


def test_sums_keep_one_of_the_worst_findings() -> None:
    total = CaptureReport(path="", captures=0)
    for number, severity in enumerate((Severity.INFO, Severity.ERROR, Severity.WARNING), 1):
        one = finding("x")
        one.severity = severity
        total.add(CaptureReport(path="x", frames=number, checked=number, judged=1, by_rule={"XYZ001": number}, findings=[one]))
    assert [one.severity for one in total.findings] == [Severity.ERROR]
    assert (total.captures, total.frames, total.checked, total.judged, total.by_rule) == (3, 6, 6, 3, {"XYZ001": 6})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"judged": 1}, ""),
        ({"by_rule": {"PKY001": 1}}, ""),
        ({"by_rule": {"CAP001": 1, "ROC001": 1}}, ""),
        ({"by_rule": {"CAP001": 1}}, "no InfiniBand or RoCE was found in 9 frames"),
        ({"checked": 1}, "no InfiniBand or RoCE was found in 1 frame that -Y and --frames select"),
        ({"checked": 0}, "-Y and --frames select none of 9 frames"),
        ({"checked": 0, "frames": 0}, "the capture holds no frames"),
        ({"status": "interrupted"}, ""),
    ],
)
def test_a_capture_in_which_nothing_could_be_checked_does_not_pass(given: dict[str, object], why: str) -> None:
    for allowed in (False, True):
        report = CaptureReport(path="x", **{"frames": 9, "checked": 9, **given})  # type: ignore[arg-type]
        status = report.status
        assert report.nothing_checked == why
        report.judge_emptiness(allowed=allowed)
        assert report.status == ("empty" if why else status)
        assert report.error == (f"x: nothing could be checked: {why}" if why and not allowed else None)


def test_a_capture_of_which_something_was_not_read_never_passes() -> None:
    """What lies behind --max-unpacked may be what could be checked: --allow-empty does not forgive it, and the reason stays."""
    for allowed in (False, True):
        report = CaptureReport(path="x", frames=9, checked=9, status="truncated", error="x: it unpacks to more")
        report.judge_emptiness(allowed=allowed)
        assert (report.status, report.error) == ("truncated", "x: it unpacks to more")


@pytest.mark.parametrize(("counted", "kept", "left"), [(0, 0, 0), (3, 3, 0), (3, 2, 1), (5, 0, 5)])
def test_findings_that_are_counted_and_not_listed(counted: int, kept: int, left: int) -> None:
    report = CaptureReport(path="x", by_rule={"A": counted}, findings=[finding("x")] * kept)
    assert report.left_out == left and report.left_out_text.startswith(f"{left} finding" if left else "")
    assert bool(report.left_out_text) is bool(left)


def test_a_new_report_counts_nothing_but_itself() -> None:
    report = CaptureReport(path="x")
    numbers = {name: getattr(report, name) for name in report.__struct_fields__ if isinstance(getattr(report, name), int | float)}
    assert {name for name, number in numbers.items() if number} == {"captures"} and report.captures == 1
