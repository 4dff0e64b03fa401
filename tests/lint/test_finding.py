"""Keys are masked and hostile strings escaped in a finished finding."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
from typing import Any

import pytest

from ibdissect.lint.finding import CaptureReport, Finding, Related, Secret, Severity, Span, value_of
from ibdissect.wire.headers import BTH, DETH, GRH
from ibdissect.wire.sm import SMP, NodeDescription
from ibdissect.wire.spec import Field
from tests.cases import every


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
    assert isinstance(value_of(DETH.q_key, 1), Secret)


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


@every(
    ("given", "remarkable"),
    [
        ({}, False),
        ({"status": "interrupted"}, True),
        ({"error": "x"}, True),
        ({"status": "truncated"}, False),
        ({"undecoded": 5}, True),
        ({"undecoded": 4}, False),
        ({"undecoded": 5, "frames": 10}, False),
        ({"infiniband": 0, "judged": 0}, True),
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


@every(
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


@every(("counted", "kept", "left"), [(0, 0, 0), (3, 3, 0), (3, 2, 1), (5, 0, 5)])
def test_findings_that_are_counted_and_not_listed(counted: int, kept: int, left: int) -> None:
    report = CaptureReport(path="x", by_rule={"A": counted}, findings=[finding("x")] * kept)
    assert report.left_out == left and report.left_out_text.startswith(f"{left} finding" if left else "")
    assert bool(report.left_out_text) is bool(left)


def test_a_new_report_counts_nothing_but_itself() -> None:
    report = CaptureReport(path="x")
    numbers = {name: getattr(report, name) for name in report.__struct_fields__ if isinstance(getattr(report, name), int | float)}
    assert {name for name, number in numbers.items() if number} == {"captures"} and report.captures == 1


@every(
    ("report", "doubts"),
    [
        ({"frames": 0}, ["the capture holds no frames"]), ({"undecoded": 5}, ["5 of 9 frames could not be decoded"]),
        ({"undecoded": 4, "infiniband": 0, "judged": 0}, ["no InfiniBand or RoCE was found in 9 frames"]),
        ({"infiniband": 0, "judged": 0, "by_rule": {"CAP018": 1}}, []), ({"infiniband": 0}, []), ({"judged": 0}, []),
        ({"frames": 0, "status": "unreadable"}, []), ({"frames": 0, "status": "interrupted"}, []), ({"status": "empty", "error": "x"}, []),
        ({"status": "empty", "judged": 0, "checked": 9}, ["nothing could be checked: no InfiniBand or RoCE was found in 9 frames"]),
        ({"unnumbered": 2}, ["2 keys have no number of their own (shown as #?): there are too many of their kind"]), ({}, []),
    ],
)  # fmt: skip
def test_what_makes_findings_doubtful(report: dict[str, object], doubts: list[str]) -> None:
    assert CaptureReport(path="x", **{"frames": 9, "infiniband": 9, "judged": 9, **report}).doubts == doubts  # type: ignore[arg-type]


@every(
    ("report", "why"),
    [
        ({}, None), ({"error": "gone"}, "gone"), ({"status": "interrupted", "frames": 7}, "interrupted: only frames 1 to 7 were checked"),
        ({"status": "interrupted", "error": "gone"}, "interrupted: it was not checked"),
    ],
)  # fmt: skip
def test_why_findings_may_be_missing(report: dict[str, object], why: str | None) -> None:
    assert CaptureReport(path="x", **report).incomplete == why  # type: ignore[arg-type]


def test_every_number_of_a_sum() -> None:
    total = CaptureReport(path="")
    other = CaptureReport(
        path="x", captures=2, frames=3, checked=5, infiniband=7, judged=11, undecoded=13, counts={"error": 17}, seconds={"A": 0.5}
    )
    total.add(other)
    total.add(other)
    names = ("captures", "frames", "checked", "infiniband", "judged", "undecoded")
    assert [getattr(total, name) for name in names] == [5, 6, 10, 14, 22, 26]
    assert (total.counts, total.seconds, total.by_rule, total.findings) == ({"error": 34}, {"A": 1.0}, {}, [])


def test_severities_are_ordered_and_told_by_a_sign() -> None:
    assert [(one.rank, one.sign) for one in (Severity.ERROR, Severity.WARNING, Severity.INFO)] == [(3, "✖"), (2, "⚠"), (1, "ℹ")]


@pytest.mark.parametrize(
    ("related", "place"),
    [(Related(7, "x"), "frame 7"), (Related(0, "x", "a\x1b.conf", 12), "a\\x1b.conf:12"), (Related(0, "x", "a.conf"), "a.conf")],
)
def test_the_place_of_what_is_related(related: Related, place: str) -> None:
    assert related.place == place


@every(
    ("template", "value", "message", "stable"),
    [
        ("{x}", Secret("Q_Key", 0x1F, 32), "Q_Key 0x0000001f", "Q_Key#"), ("{x}", Secret("", 5, 16), "0x0005", "#"),
        ("{x}", Secret("P", 0, 12), "P 0x000", "0"),
        ("{x!t}", Secret("P", 9, 8), "P 0x09", "P#"), ("{x!t}", 5, "5", "5"), ("{x!s}", 5, "5", "5"), ("{x!r}", "a", "'a'", "'a'"),
        ("{x}", None, "?", "?"),
        ("{x}", b"\x01\xff", "01ff", "01ff"), ("{x:04x}", 255, "00ff", "00ff"), ("{x}", 1.5, "1.5", "#"), ("{psn}", 5, "5", "#"),
        ("{psn}", "5", "5", "5"),
        ("{BTH.psn}", 5, "?", "?"), ("{y}", 7, "7", "7"), ("QP {x} PSN {x}", 7, "QP 7 PSN 7", "QP # PSN #"),
        ("{x} ms of {x}", 7, "7 ms of 7", "# ms of 7"),
        ("{x:data VL}", 1, "1 data VL", "1 data VLs"), ("{x:entry}", 2, "2 entries", "2 entries"), ("{psn:port}", 1, "1 port", "# ports"),
    ],
)  # fmt: skip
def test_how_values_are_written(template: str, value: object, message: str, stable: str) -> None:
    """In the message, and where recordings are compared."""
    found = finding(template, x=value, y=value, psn=value, BTH=None)
    found.finish(None)
    assert (found.message, found.stable, found.arguments) == (message, stable, {})


def test_a_message_that_names_what_no_hit_gives() -> None:
    for arguments, said in (({"a": 1, "b": 2}, "the hit gives a, b"), ({}, "the hit gives no values")):
        with pytest.raises(KeyError, match=f"the message names x, but {said}"):
            finding("{x}", **arguments).finish(None)


@every(
    ("value", "shown", "masked"),
    [
        (Secret("M_Key", 9), 9, None), (Secret("M_Key", 0), 0, 0), (b"\x01\x02", "0102", "0102"), ("a\n", "a\\x0a", "a\\x0a"), (7, 7, 7),
        (None, None, None),
        (value_of(BTH.psn, 9), 9, 9), (True, True, True),
    ],
)  # fmt: skip
def test_the_value_of_a_finished_finding(value: object, shown: object, masked: object) -> None:
    for mask, wanted in ((None, shown), (number, masked)):
        one = finding("x", value)
        one.finish(mask)
        assert one.value == wanted and type(one.value) is type(wanted)


@every(
    ("field", "value", "wanted"),
    [
        (DETH.q_key, 5, Secret("Q_Key", 5, 32)), (SMP.m_key, 5, Secret("M_Key", 5, 64)), (DETH.srcqp, 5, 5), (SMP.m_key, (1, 2),
        "2 keys, hidden"),
        (SMP.m_key, (1,), "1 key, hidden"), (SMP.m_key, b"\1\0", Secret("M_Key", 256, 64)), (GRH.sgid, bytes(16), bytes(16)),
        (DETH.srcqp, True, True),
    ],
)  # fmt: skip
def test_which_values_are_secret(field: Field[Any], value: object, wanted: object) -> None:
    found = value_of(field, value)
    assert found == wanted and isinstance(found, Secret) is isinstance(wanted, Secret)
    text = finding("{x}", x=found)
    text.finish(None)
    assert (text.message == "::") is (field is GRH.sgid) and bool(getattr(found, "text", "")) is (type(wanted) is int)


def test_secrets_of_a_finding() -> None:
    """Those of arguments and of structures among them; a checksum that tells a key has no number."""
    smp = SMP(bytes(24) + b"\1" * 8 + bytes(224))
    found = finding("x", Secret("", 3), a=Secret("Q_Key", 0, 32), b=Secret("", 4), c=5, SMP=smp)
    assert found.secrets() == [Secret("Q_Key", 0, 32), Secret("M_Key", int.from_bytes(b"\1" * 8, "big"), 64)]
