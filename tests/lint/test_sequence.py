"""Rules about sequences find what follows, and what does not, across windows, and stay silent where the capture does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.errors import PluginError, SpecError
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.plugins import load
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import BTH, DETH
from ibdissect.words import Rule, previous, unless, within
from tests.cases import every
from tests.craft import erf_pcap, native
from tests.decode.made import tables_of
from tests.talk import PLUGIN, Said, capture

READ, OTHER, REPLY = "1:read", "2:read", "2:reply"
LATER: Said = ("1:read", 99, 2000)
CASES: dict[str, tuple[str, tuple[Said, ...], list[tuple[int, list[int]]]]] = {
    "a tag again": ("ACME021", ((READ, 1, 0), (READ, 2, 1), (READ, 1, 998)), [(3, [1])]),
    "a tag again at once": ("ACME021", ((READ, 1, 0), (READ, 1, 0)), [(2, [1])]),
    "a tag again after a second": ("ACME021", ((READ, 1, 0), (READ, 1, 1000)), [(2, [1])]),
    "a tag again after more": ("ACME021", ((READ, 1, 0), (READ, 1, 1001)), []),
    "the tag of the other side": ("ACME021", ((READ, 1, 0), (OTHER, 1, 1)), []),
    "the tag of a reply": ("ACME021", ((READ, 1, 0), (REPLY, 1, 1)), []),
    "no reply": ("ACME022", ((READ, 1, 0), (REPLY, 1, 1), (READ, 2, 1), LATER), [(3, [])]),
    "a reply in time": ("ACME022", ((READ, 1, 0), (REPLY, 1, 500), LATER), []),
    "a reply too late": ("ACME022", ((READ, 1, 0), (REPLY, 1, 501), LATER), [(1, [])]),
    "a reply to another": ("ACME022", ((READ, 1, 0), (REPLY, 2, 1), LATER), [(1, [])]),
    "the capture ends before": ("ACME022", ((READ, 2, 0), (REPLY, 2, 1), (READ, 1, 1), (READ, 3, 499)), []),
    "that side is not captured": ("ACME022", ((READ, 1, 0), (READ, 2, 1), LATER), []),
    "two reads, one reply": ("ACME022", ((READ, 1, 0), (READ, 1, 1), (REPLY, 1, 1), LATER), []),
}


def found(path: str, code: str, **options: Any) -> list[tuple[int, list[int]]]:
    plugins = load([PLUGIN])
    (rule,) = [one for one in plugins.rules if one.code == code]
    report = check(path, CheckOptions(rules=(rule,), catalog=plugins.catalog, **options))
    assert report.error is None, report.error
    return [(one.frame, [each.frame for each in one.related]) for one in report.findings]


@pytest.mark.parametrize("case", CASES)
def test_sequences(case: str, tmp_path: Path) -> None:
    code, said, expected = CASES[case]
    assert found(capture(tmp_path / "a.pcapng", *said), code) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [((1, 2, 3), []), ((1, 3, 2), [(3, [2])]), ((5, 5, 6), [(2, [1])]), ((0, 1), []), ((0, 0), [(2, [1])])],
)
def test_a_value_is_compared_with_the_one_before(numbers: tuple[int, ...], expected: list[tuple[int, list[int]]], tmp_path: Path) -> None:
    said = [(READ, tag, 1) for tag in range(len(numbers))]
    assert found(capture(tmp_path / "a.pcapng", *said, sequences=numbers), "ACME023") == expected


@pytest.mark.parametrize(("one_way", "expected"), [(True, []), (False, [(2, [1])])])
def test_one_way_or_both(one_way: bool, expected: list[tuple[int, list[int]]], tmp_path: Path) -> None:
    """The value before may be what the other side of the conversation said."""
    text = Path(PLUGIN).read_text(encoding="utf-8").replace("ACME0", f"WAY{int(one_way)}").replace("one_way=True", f"one_way={one_way}")
    (tmp_path / "ways.py").write_text(text, encoding="utf-8")
    plugins = load([str(tmp_path / "ways.py")])
    (rule,) = [one for one in plugins.rules if one.code == f"WAY{int(one_way)}23"]
    path = capture(tmp_path / "a.pcapng", (READ, 1, 0), (OTHER, 1, 1), sequences=(5, 4))
    report = check(path, CheckOptions(rules=(rule,), catalog=plugins.catalog))
    assert [(one.frame, [each.frame for each in one.related]) for one in report.findings] == expected


@pytest.mark.parametrize("case", ["a tag again", "no reply", "a reply too late", "a reply in time"])
def test_windows_make_no_difference(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, expected = CASES[case]
    path = capture(tmp_path / "a.pcapng", *said)
    monkeypatch.setattr("ibdissect.capture.opening.WINDOW", 256, raising=False)
    assert found(path, code) == expected


@pytest.mark.parametrize(("lost", "severity"), [(False, "warning"), (True, "info")])
def test_what_the_capture_may_have_lost_is_an_info(lost: bool, severity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(CaptureLoss, "between", lambda _self, frame, until_ns: asked.append((frame, until_ns)) or lost)
    plugins = load([PLUGIN])
    rules = tuple(one for one in plugins.rules if one.code == "ACME022")
    path = capture(tmp_path / "a.pcapng", (READ, 1, 0), (REPLY, 1, 1), (READ, 2, 1), LATER)
    (one,) = check(path, CheckOptions(rules=rules, catalog=plugins.catalog)).findings
    assert (one.frame, one.severity.value, asked) == (3, severity, [(3, one.time_ns + 500_000_000)])


@every(
    ("when", "said"),
    [
        ((BTH.psn == 1) | unless(BTH.psn == 2, within=1.0), "`unless` may be said once"),
        ((BTH.psn == 1) & unless(BTH.psn == 2, within=1.0) & unless(BTH.psn == 3, within=1.0), "`unless` may be said once"),
        ((BTH.psn == 1) & within(1.0), "`within` is about one `previous`"), (previous(DETH.srcqp) == 1, "is no field of BTH"),
        ((BTH.psn == 1) & unless(BTH.psn == 2, same=DETH.srcqp, within=1.0), "is no field of BTH"),
        (BTH.psn == previous(BTH.psn, same=(BTH.destqp, DETH.srcqp)), "is no field of BTH"),
    ],
)  # fmt: skip
def test_what_cannot_be_said(when: Any, said: str) -> None:
    wrong = type("Wrong", (Rule,), {"__doc__": "A fault.", "code": "ZZS009", "name": "wrong", "message": "x", "on": BTH, "when": when})
    REGISTRY.pop("ZZS009")
    with pytest.raises(SpecError, match=said):
        of_packets(wrong, 1 << 20)


def test_it_is_said_when_the_plugin_is_loaded(tmp_path: Path) -> None:
    text = Path(PLUGIN).read_text(encoding="utf-8").replace("(Talk.op == 1) & unless", "(Talk.op == 1) | unless")
    (tmp_path / "wrong.py").write_text(text.replace("ACME0", "SEQ0"), encoding="utf-8")
    with pytest.raises(PluginError, match=r"rule SEQ022: .*`unless` may be said once"):
        load([str(tmp_path / "wrong.py")])


def test_what_waited_long_enough_is_told_in_the_order_of_frames(tmp_path: Path) -> None:
    """Whatever the order of the tags: of a conversation the first one is the finding."""
    said = ((READ, 1, 0), (REPLY, 1, 1), (READ, 9, 1), (READ, 2, 1), (READ, 5, 1), LATER)
    assert found(capture(tmp_path / "a.pcapng", *said), "ACME022") == [(3, [])]


class Repeated(Rule):
    """A packet has the PSN of the one before."""

    code, name, message, on, when = "ZZS001", "repeated", "PSN {psn}", BTH, BTH.psn == previous(BTH.psn)


class RepeatedTo(Repeated):
    """The same, once for each destination."""

    code, name, flow = "ZZS002", "repeated-to", (BTH.destqp,)


class First(Repeated):
    """No packet with that PSN was the one before."""

    code, name, when = "ZZS003", "first", (BTH.psn == 5) & ~(previous(BTH.psn) == 5)


for one in (Repeated, RepeatedTo, First):
    REGISTRY.pop(one.code)


def of_packets(rule: type[Rule], window: int) -> tuple[Linter, list[tuple[int, int]]]:
    """Four conversations of two packets with the same PSN, of which two go to the same queue pair."""
    linter = Linter([rule])
    frames = [native(slid=lid, dlid=9, bth={"psn": 5, "destqp": qp}) for lid, qp in ((1, 7), (2, 7), (3, 8), (4, 6)) for _ in range(2)]
    for table in tables_of(erf_pcap(frames), window):
        linter.feed(table)
    return linter, [(one.frame, one.count) for one in linter.finish()]


@pytest.mark.parametrize("window", [60, 1 << 20])
def test_a_finding_for_each_conversation_or_each_flow(window: int) -> None:
    assert of_packets(Repeated, window)[1] == [(2, 1), (4, 1), (6, 1), (8, 1)]
    assert of_packets(RepeatedTo, window)[1] == [(2, 2), (6, 1), (8, 1)]
    assert of_packets(First, window)[1] == [(1, 1), (3, 1), (5, 1), (7, 1)]


@pytest.mark.parametrize("window", [60, 1 << 20])
def test_conversations_beyond_the_bound_are_counted_with_their_frame(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.lint.sequence.MAX_KEPT", 2)
    linter, found = of_packets(Repeated, window)
    (dropped,) = linter.context.dropped()  # of which CAP016 tells
    assert len(found) == 4 and (dropped.count, dropped.frame) == (2, 5)
