"""Rules from a TOML file work like other rules: findings, masking, documentation, and clear errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint.finding import Severity
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.lint.toml_rules import rules_of
from ibdissect.pipeline.check import CheckOptions, check
from tests import commands
from tests.craft import erf_pcap, ethernet_pcap, gmp, native, rc, roce2, ud
from tests.decode.made import tables_of

MOST_SHOWN = 32

GOOD = {
    "code": "TOML001", "name": "wrong-lane", "severity": "error", "when": "bth.opcode == 100 and lrh.sl != 3 and frame.len > 40",
    "message": "SL {lrh.sl} from LID {infiniband.lrh.slid:04x} {{UD}}: {deth.q_key}, frame {frame.number}, {reth.dmalen}",
}  # fmt: skip
FRAMES = [
    ud(b"hello", dest_qp=0x48, q_key=0xC0FFEE, slid=10),
    rc(0x04, b"rc"),
    ud(b"good", dest_qp=0x48, q_key=0xC0FFEE, lrh={"sl": 3}),
    native(0x04)[:-3],
    ud(b"again", dest_qp=0x48, q_key=0xC0FFEF, slid=11, grh={"hop_lmt": 1}),
]


@pytest.fixture(autouse=True)
def _unregistered() -> Any:
    yield
    for code in [code for code in REGISTRY if code.startswith("TOML")]:
        del REGISTRY[code]


def capture(tmp_path: Path, frames: list[bytes]) -> str:
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap(frames))
    return str(path)


def test_a_finding_a_frame(tmp_path: Path) -> None:
    path = capture(tmp_path, FRAMES)
    report = check(path, CheckOptions(rules=rules_of([GOOD], "site.toml"), max_findings=None))
    assert [(f.code, f.name, f.severity, f.frame, f.message) for f in report.findings] == [
        ("TOML001", "wrong-lane", "error", 1, "UD LID 10 QP 0x000001 → LID 2 QP 0x000048: SL 0 from LID 000a {UD}: Q_Key#1, frame 1, ?"),
        ("TOML001", "wrong-lane", "error", 5, "UD LID 11 QP 0x000001 → LID 2 QP 0x000048: SL 0 from LID 000b {UD}: Q_Key#2, frame 5, ?"),
    ]
    # The first field of the filter is the OpCode: behind LRH (8), and behind GRH (40) in frame 5.
    assert [(f.field, f.value, [(s.frame, s.offset, s.length) for s in f.spans]) for f in report.findings] == [
        ("infiniband.bth.opcode", 100, [(1, 8, 1)]),
        ("infiniband.bth.opcode", 100, [(5, 48, 1)]),
    ]
    assert report.by_rule == {"TOML001": 2}


def test_counts_stay_exact_beyond_what_is_kept(tmp_path: Path) -> None:
    path = capture(tmp_path, FRAMES[:1] * 50)
    report = check(path, CheckOptions(rules=rules_of([GOOD], "site.toml"), max_findings=3))
    assert ([f.frame for f in report.findings], report.by_rule) == ([1, 2, 3], {"TOML001": 50})


def test_conditions_without_a_field(tmp_path: Path) -> None:
    table = {**GOOD, "when": "_ws.malformed", "message": "{_ws.malformed} in {frame.cap_len} of {frame.len} on {frame.interface_id}"}
    report = check(capture(tmp_path, FRAMES), CheckOptions(rules=rules_of([table], "x")))
    assert [(f.frame, f.message, f.spans, f.field) for f in report.findings] == [
        (4, "RC LID 1 → LID 2 QP 0x000012: LRH.PktLen is larger than the frame in 23 of 23 on 0", (), None)
    ]


def test_keys_in_values_are_masked(tmp_path: Path) -> None:
    table = {**GOOD, "when": "deth.q_key != 0", "message": "a UD packet"}
    path = capture(tmp_path, FRAMES)
    assert [f.value for f in check(path, CheckOptions(rules=rules_of([table], "x"))).findings] == [None, None, None]
    assert check(path, CheckOptions(rules=rules_of([table], "x"), show_keys=True)).findings[0].value == 0xC0FFEE
    table = {**GOOD, "when": "invariant.crc", "message": "ICRC {invariant.crc}"}
    assert check(path, CheckOptions(rules=rules_of([table], "x"))).findings[0].message.endswith(": ICRC (hidden)")


def found_in(tmp_path: Path, frames: bytes, **change: str) -> list[tuple[int, str, Any, list[tuple[int, int]]]]:
    """Frame, message, value and marked bytes of the findings of one rule; without who it was."""
    (tmp_path / "x.pcap").write_bytes(frames)
    report = check(str(tmp_path / "x.pcap"), CheckOptions(rules=rules_of([{**GOOD, **change}], "x"), show_keys=True))
    spans = [[(span.offset, span.length) for span in one.spans] for one in report.findings]
    return [(one.frame, one.message.rpartition(": ")[2], one.value, at) for one, at in zip(report.findings, spans, strict=True)]


def test_of_fields_of_one_name_the_first_in_the_frame_is_meant(tmp_path: Path) -> None:
    """A packet of IP over InfiniBand in RoCE: the outer address, although the structure of the inner one is declared first."""
    inner = b"\x08\0\0\0\x45\0\0\x14" + bytes(8) + b"\x0b\0\0\x01\x0b\0\0\x02"
    frame = roce2(0x64, inner, ext={"DETH": {"q_key": 0xB1B}})
    outer = ".".join(map(str, frame[26:30]))
    (found,) = found_in(tmp_path, ethernet_pcap([frame]), when="ip.src", message="{ip.src} {ipoib.type} {ipv6.src}")
    assert found == (1, f"{outer} 2048 ?", outer, [(26, 4)])
    packets = ethernet_pcap([frame])
    (found,) = found_in(tmp_path, packets, code="TOML002", when="ip.src == 11.0.0.1", message="{ip.version} {ip.dsfield.dscp}")
    assert found[0] == 1 and found[3] == [(26, 4)]


def test_a_field_that_does_not_apply_is_not_shown(tmp_path: Path) -> None:
    """What an ACK has where DATA has the length."""
    frames = [gmp(0x03, 0x92, 0x35, b"\1" + bytes((kind, 1, 0)) + b"\0\0\0\5\0\0\0\7", at=24) for kind in (1, 2, 3)]
    message = "{rmpp.payloadlength} {rmpp.newwindowlast} {rmpp.segmentnumber}"
    found = found_in(tmp_path, erf_pcap(frames), when="rmpp.rmpptype", message=message)
    assert [one[1] for one in found] == ["7 ? 5", "? 7 5", "? ? ?"]
    found = found_in(tmp_path, erf_pcap(frames), code="TOML002", when="rmpp.newwindowlast == 7", message="x")
    assert [(one[0], one[2], one[3][0][1]) for one in found] == [(2, 7, 4)]


def test_bytes_to_the_end_are_marked_and_not_shown(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, erf_pcap([rc(0x04, b"abcdefgh")]), when="infiniband.payload contains 61:62", message="x")
    assert found == (1, "x", None, [(20, 8)])


@pytest.mark.parametrize(("number", "good"), [(MOST_SHOWN - 1, True), (MOST_SHOWN, True), (MOST_SHOWN + 1, False)])
def test_as_many_fields_as_a_message_may_show(number: int, good: bool) -> None:
    if good:
        (rule,) = rules_of([{**GOOD, "message": "{lrh.sl:999}" * number}], "site.toml")
        assert len(rule.message.split("}")) == number + 1
        return
    with pytest.raises(ConfigError, match="shows more than 32 fields"):
        rules_of([{**GOOD, "message": "{lrh.sl:999}" * number}], "site.toml")


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("lrh.sl", "0999", "too wide"), ("lrh.sl", "999", ""), ("lrh.sl", "1000", "too wide"), ("lrh.sl", "04x", ""),
        ("grh.sgid", "x", "code 'x'"),
        ("grh.sgid", ">99", ""), ("frame.number", "d", ""), ("_ws.malformed", "d", "code 'd'"), ("_ws.malformed", "<3", ""),
    ],
)  # fmt: skip
def test_formats_that_suit_the_values(name: str, spec: str, said: str) -> None:
    if not said:
        assert rules_of([{**GOOD, "message": f"{{{name}:{spec}}}"}], "site.toml")
        return
    with pytest.raises(ConfigError, match=f"{name} cannot be written as '{spec}': .*{said}"):
        rules_of([{**GOOD, "message": f"{{{name}:{spec}}}"}], "site.toml")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, ("Wrong lane.", "site.toml", "0.1", "a frame that matches ")),
        ({"docs": "Why.", "reference": "Our lanes 3", "since": "2.5", "example": "SL 5"}, ("Why.", "Our lanes 3", "2.5", "SL 5")),
    ],
)  # fmt: skip
def test_what_a_rule_says_of_itself(change: dict[str, str], rule: tuple[str, str, str, str]) -> None:
    (made,) = rules_of([{**GOOD, **change}], "site.toml")
    assert (made.__doc__, made.reference, made.since) == rule[:3] and made.example.startswith(rule[3])
    assert made.example.removeprefix("a frame that matches ") == (change.get("example") or GOOD["when"])


@pytest.mark.parametrize(
    ("when", "marked"),
    [
        ("lrh.sl == 0 and bth.psn", "infiniband.lrh.sl"), ("not (grh or bth.psn == 5)", "infiniband.bth.psn"),
        ('not frame contains "bth.psn" and lrh.slid == 1 and bth.psn', "infiniband.lrh.slid"), ("frame.len > 4", None),
    ],
)  # fmt: skip
def test_the_first_field_that_a_condition_names_is_marked(tmp_path: Path, when: str, marked: str | None) -> None:
    path = capture(tmp_path, [rc(0x04, b"rc")])
    (finding,) = check(path, CheckOptions(rules=rules_of([{**GOOD, "when": when, "message": "x"}], "x"))).findings
    assert finding.field == marked


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"whn": "x"}, "rule 1, whn: there is no such key; did you mean when"),
        ({"when": 3}, "rule 1, when: must be a text"),
        ({"when": "lrh.sl == " + "9" * 5000}, r"rule 1, when: filter, column 11: .*[(]5000 characters[)] is too big"),
        ({"when": "bth.opcod == 1"}, "rule 1, when: filter, column 1"),
        ({"when": 'ibdissect.code == "PKY001"'}, "ibdissect.code is known only when all rules have run"),
        ({"message": "{lrh.sll}"}, r'rule 1, message: there is no field "lrh.sll"; did you mean .*lrh.sl'),
        ({"message": "{lrh.sl"}, "rule 1, message: "),
        ({"message": "{lrh.sl!r}"}, "there is no conversion !r"),
        ({"message": "{grh.sgid:d}"}, "cannot be written as 'd'"),
        ({"message": "{lrh.sl:99999999999}"}, "too wide"),
        ({"message": "{lrh.sl:999}" * 33}, "shows more than 32 fields"),
        ({"message": "{infiniband.payload}"}, "raw bytes"),
        ({"message": "one\ntwo"}, "message: holds what cannot be printed"),
        ({"docs": "one\n \x1b[31mtwo"}, "docs: holds what cannot be printed"),
        ({"example": "a\u202eb"}, "example: holds what cannot be printed"),
        ({"message": " ::error::x"}, "message: a line begins as commands to a CI job do"),
        ({"docs": "one\n  ##[error]two"}, "docs: a line begins as commands to a CI job do"),
        ({"severity": "bad"}, "'bad' is none of error, warning, info"),
        ({"name": "Wrong lane"}, "is not a name"),
        ({"code": "X001"}, "'X001' is not a rule code [(]2 to 8 capital letters and three digits[)]"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_file_and_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"site.toml: .*{message}"):
        rules_of([{**GOOD, **change}], "site.toml")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"nam": "x"}, "name"), ({"name": "Wrong lane"}, "small letters, digits and hyphens: wrong-dscp"),
        ({"name": "wrong--lane"}, "small"), ({"name": "-lane"}, "small"),
        ({"message": "{lrh.sl!r}"}, "!t is the value in words"), ({"message": "{lrh.sll}"}, "lrh.sl"),
    ],
)  # fmt: skip
def test_what_is_refused_comes_with_what_to_write(change: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules_of([{**GOOD, **change}], "site.toml")
    assert hint in f"{caught.value.hint} {caught.value}"


def test_a_missing_key_or_a_code_used_twice_is_refused() -> None:
    for key in ("code", "name", "when", "message"):
        with pytest.raises(ConfigError, match=f"rule 1, {key}: is missing"):
            rules_of([{name: value for name, value in GOOD.items() if name != key}], "site.toml")
    with pytest.raises(ConfigError, match="rule 2, code: TOML001 is declared twice"):
        rules_of([GOOD, GOOD], "site.toml")
    with pytest.raises(ConfigError, match="must be a table"):
        rules_of(["x"], "site.toml")


@pytest.mark.slow
def test_a_file_of_rules_is_a_plugin(tmp_path: Path) -> None:
    path = capture(tmp_path, FRAMES)
    file = tmp_path / "site.toml"
    file.write_text(
        "[[rule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in GOOD.items()) + 'docs = "A lane.\\n\\n## Why"'
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return commands.run(*words, "--plugin", str(file), text=True)

    copy = tmp_path / "y.pcap"
    copy.write_bytes(Path(path).read_bytes())
    both = json.loads(run("lint", path, str(copy), "--select", "TOML", "--jobs", "2", "--format", "json").stdout)
    assert both["by_rule"] == {"TOML001": 4}
    assert run("rules", "TOML001").stdout.startswith("TOML001 wrong-lane (error, since 0.1)\n\nA lane.\n")
    file.write_text(file.read_text().replace("TOML001", "PKY001"))
    refused = run("rules")
    assert refused.returncode == 2 and "site.toml: rule 1, code: rule PKY001 is already" in refused.stderr
    for hostile in ("x = " + "9" * 5000, "x = " + "[" * 5000):
        file.write_text(hostile)
        refused = run("rules")
        assert refused.returncode == 2 and "site.toml: not valid TOML" in refused.stderr and "Traceback" not in refused.stderr
    file.write_text("x = 1")
    assert "declares no rule" in run("rules").stderr


@pytest.mark.parametrize("when", ["deth.q_key > 5", "deth.q_key & 1", "deth.q_key == 0xc0ffee"])
def test_hidden_keys_are_not_compared(when: str, tmp_path: Path) -> None:
    rules, path = rules_of([{**GOOD, "when": when}], "site.toml"), capture(tmp_path, FRAMES)
    with pytest.raises(ConfigError, match=r"site\.toml: rule TOML001, when: .* a hidden Q_Key can only be tested"):
        CheckOptions(rules=rules)
    assert check(path, CheckOptions(rules=rules, show_keys=True)).findings
    hidden = rules_of([{**GOOD, "code": "TOML002", "when": "frame contains c0:ff:ee"}], "site.toml")
    assert not check(path, CheckOptions(rules=hidden)).findings
    assert check(path, CheckOptions(rules=hidden, show_keys=True)).findings


@pytest.mark.parametrize(("given", "wanted"), [("error", "error"), ("warning", "warning"), ("info", "info"), (None, "warning")])
def test_the_severity_is_the_one_that_the_table_gives(tmp_path: Path, given: str | None, wanted: str) -> None:
    table = {key: value for key, value in GOOD.items() if key != "severity"} | ({"severity": given} if given else {})
    (rule,) = rules_of([table], "x.toml")
    report = check(capture(tmp_path, FRAMES), CheckOptions(rules=[rule]))
    assert {finding.severity.value for finding in report.findings} == {rule.severity.value} == {wanted}
    assert {name: count for name, count in report.counts.items() if count} == {wanted: 2}


@pytest.mark.parametrize("severity", list(Severity))
def test_a_configured_severity_holds_for_findings_and_counts(tmp_path: Path, severity: Severity) -> None:
    (rule,) = rules_of([GOOD], "x.toml")
    report = check(capture(tmp_path, FRAMES), CheckOptions(rules=[rule], severities={"TOML001": severity}))
    assert {finding.severity for finding in report.findings} == {severity}
    assert {name: count for name, count in report.counts.items() if count} == {severity.value: 2}


@pytest.mark.parametrize(("most", "kept"), [(None, [1, 5]), (2, [1, 5]), (1, [1]), (0, [])])
def test_every_frame_is_told_also_beyond_what_is_kept(most: int | None, kept: list[int]) -> None:
    told: list[tuple[list[int], bool, int, int]] = []

    def tell(_rule: object, _lowered: object, one: object, frames: Any, at: int, size: int) -> None:
        told.append((list(frames), one is not None, at, size))

    linter = Linter(rules_of([GOOD], "site.toml"), max_findings=most, on_occurrence=tell)
    for table in tables_of(erf_pcap(FRAMES)):
        linter.feed(table)
    assert [one.frame for one in linter.finish()] == kept
    more = [frame for frame in (1, 5) if frame not in kept]
    assert told == [([frame], True, 8 + 40 * (frame == 5), 1) for frame in kept] + [(more, False, 0, 0)] * bool(more)
