"""Rules about attributes find what differs from earlier answers, across windows, and stay silent where none was shown."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ibdissect.errors import PluginError
from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.check import check as check_file
from ibdissect.plugins import load
from tests.cases import few
from tests.craft import erf_pcap
from tests.standard import NODE_INFO, PORT_INFO, SET
from tests.subnet.made import answer, ask, node, port_info, switch
from tests.subnet.test_separate_subnets import HERE, THERE, mixed

PLUGIN = str(Path(__file__).parents[2] / "docs/examples/ports.py")
HOST, OTHER = answer(5, NODE_INFO, node(5)), answer(6, NODE_INFO, node(6))
SWITCH = answer(5, NODE_INFO, switch(5))
PAGE = 0x30
Found = list[tuple[int, str, list[tuple[int, str]]]]


def width(lanes: int, lid: int = 5, **more: Any) -> bytes:
    return answer(lid, PORT_INFO, port_info(lid, link_width_active=lanes), **more)


def overruns(count: int, lid: int = 5, *, method: int = 0x81, lanes: int = 1) -> bytes:
    body = port_info(lid, overrun_errors=count, link_width_supported=lanes)
    return answer(lid, PORT_INFO, body) if method == 0x81 else ask(lid, PORT_INFO, method=method, body=body)


def timeout(code: int, method: int = 0x81) -> bytes:
    body = port_info(5, subnet_time_out=code)
    return answer(5, PORT_INFO, body) if method == 0x81 else ask(5, PORT_INFO, method=method, body=body)


def page(number: int, following: int) -> bytes:
    return answer(5, PAGE, bytes((0, following)), modifier=number)


def set_port(number: int) -> bytes:
    return ask(5, PORT_INFO, method=SET, body=port_info(0), modifier=number)


LAST, NAME = "0x0002c90200400050 port 8", "0x0002c90300001050 port 1 (LID 5)"
CASES: dict[str, tuple[str, list[bytes], Found]] = {
    "fewer lanes": ("SITE001", [HOST, width(2), width(1)], [(3, f"{NAME} runs with LinkWidthActive 1, 2 before", [(2, "showed 2")])]),
    "as many lanes": ("SITE001", [HOST, width(2), width(2)], []),
    "more lanes": ("SITE001", [HOST, width(1), width(2)], []),
    "no lanes, which the other bound excludes": ("SITE001", [HOST, width(2), width(0)], []),
    "nothing before": ("SITE001", [HOST, width(1)], []),
    "another host": ("SITE001", [HOST, OTHER, width(2), width(1, 6)], []),
    "an unknown host": ("SITE001", [width(2), width(1)], []),
    "what failed": ("SITE001", [HOST, width(2), width(1, header={"status": 0x1C})], []),
    "raised by three": ("SITE002", [HOST, overruns(8), overruns(11, method=SET)],
                        [(3, f"Set(PortInfo) from LID 1 of {NAME} with OverrunErrors 11; it supports widths 1", [(2, "said otherwise")])]),
    "raised by two": ("SITE002", [HOST, overruns(8), overruns(10, method=SET)], []),
    "of a wide port": ("SITE002", [HOST, overruns(8, lanes=3), overruns(11, method=SET, lanes=1)], []),
    "read only": ("SITE002", [HOST, overruns(8), overruns(11)], []),
    "the last port": ("SITE003", [SWITCH, set_port(8)],
                      [(2, f"Set(PortInfo) from LID 1 of the last one of 8 ports of {LAST}", [(1, "NodeInfo: 8 ports")])]),
    "the port before": ("SITE003", [SWITCH, set_port(7)], []),
    "NodeInfo that comes later": ("SITE003", [set_port(8), SWITCH], []),
    "no switch": ("SITE003", [HOST, ask(5, PORT_INFO, method=SET, body=port_info(5), modifier=1)], []),
    "a form without proof": ("SITE005", [HOST, timeout(18), timeout(7, SET)],
                             [(3, f"Set(PortInfo) from LID 1 of {NAME} with SubnetTimeOut 7: below 8", [])]),
    "the next form": ("SITE005", [HOST, timeout(18), timeout(8, SET)],
                      [(3, f"Set(PortInfo) from LID 1 of {NAME} with SubnetTimeOut 8: it had 18", [(2, "SubnetTimeOut 18")])]),
    "no form": ("SITE005", [HOST, timeout(18), timeout(18, SET)], []),
    "what all forms need": ("SITE005", [HOST, timeout(18), timeout(0, SET)], []),
    "another page": ("SITE004", [HOST, page(1, 2), page(1, 3)],
                     [(3, f"page 1 of {NAME} names 3 as the next one, 2 before", [(2, "said otherwise")])]),
    "the same page": ("SITE004", [HOST, page(1, 2), page(1, 2)], []),
    "other pages": ("SITE004", [HOST, page(1, 2), page(2, 3)], []),
}  # fmt: skip


def found(path: Path, code: str, frames: list[bytes]) -> Found:
    path.write_bytes(erf_pcap(frames))
    plugins = load([PLUGIN])
    (rule,) = [one for one in plugins.rules if one.code == code]
    report = check_file(str(path), CheckOptions(rules=[rule], catalog=plugins.catalog))
    assert report.error is None, report.error
    return [(one.frame, one.message, [(each.frame, each.why) for each in one.related]) for one in report.findings]


@pytest.mark.parametrize("case", CASES)
def test_answers_before(case: str, tmp_path: Path) -> None:
    code, frames, expected = CASES[case]
    assert found(tmp_path / "a.pcap", code, frames) == expected


def test_one_among_many(tmp_path: Path) -> None:
    """Of more SMPs than are judged at once, only those are looked at further for which the first part of the condition holds."""
    frames = [HOST, *[overruns(9)] * 600, overruns(12, method=SET)]
    said = CASES["raised by three"][2][0][1].replace("11", "12")
    assert found(tmp_path / "a.pcap", "SITE002", frames) == [(602, said, [(601, "said otherwise")])]


@pytest.mark.parametrize("case", ["fewer lanes", "raised by three", "the last port", "another page", "another host"])
def test_windows_make_no_difference(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, frames, expected = CASES[case]
    monkeypatch.setattr("ibdissect.capture.opening.WINDOW", 256, raising=False)
    assert found(tmp_path / "a.pcap", code, frames) == expected


OWN = """
from ibdissect.lint.sequence import previous, unless, within
from ibdissect.rules.shared.attribute_rule import ANSWERED, AttributeRule, Fault
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable, SLtoVLMappingTable


class Own(AttributeRule):
    "Something is wrong. Why. What to do."

    code, name, example = "OWNN001", "own", "any"
    message, why = "{port}", "shown"
"""


NUMBERS = count(1)


def loaded(path: Path, *lines: str) -> Any:
    """A rule with these lines, and a code that no other one has."""
    path.mkdir(exist_ok=True)
    text = OWN.replace("OWNN001", f"OWNN{next(NUMBERS):03d}") + "".join(f"    {line}\n" for line in lines)
    (path / "own.py").write_text(text, encoding="utf-8")
    return load([str(path / "own.py")])


@pytest.mark.parametrize(
    ("condition", "at", "said"),
    [
        ("(previous(LRH.slid) == 1)", "PortInfo.lid", "neither of this attribute nor kept of NodeInfo"),
        ("(previous(SwitchInfo.life_time_value) == 1)", "PortInfo.lid", "neither of this attribute nor kept of NodeInfo"),
        ("(previous(NodeInfo.node_guid) == 1)", "PortInfo.lid", "neither of this attribute nor kept of NodeInfo"),
        ('(previous(LinearForwardingTable.port) == b"1")', "LinearForwardingTable.port", "neither of this attribute nor kept of NodeInfo"),
        ("(previous(PortInfo.lid, one_way=True) == 1)", "PortInfo.lid", "without where="),
        ("(previous(PortInfo.lid, same=PortInfo.lmc) == 1)", "PortInfo.lid", "without where="),
        ("(previous(PortInfo.lid) == 1) & within(1.0)", "PortInfo.lid", "are for occurrences in conversations"),
        ("(PortInfo.lid == 1) & unless(PortInfo.lid == 2, within=1.0)", "PortInfo.lid", "are for occurrences in conversations"),
        ("(previous(PortInfo.lid) == 1)", "", "name a field of the attribute"),
    ],
)
def test_what_cannot_be_said(condition: str, at: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=said):
        loaded(tmp_path, *([f"at = {at}"] if at else []), f"when = ANSWERED & {condition}")


@pytest.mark.parametrize("field", ["SwitchInfo.linear_fdb_cap", "NodeInfo.node_type", "PortInfo.lid"])
def test_what_can_be_said_of_any_attribute(field: str, tmp_path: Path) -> None:
    assert len(loaded(tmp_path, "at = LinearForwardingTable.port", f"when = ANSWERED & (previous({field}) == 1)").rules) == 1


def test_it_is_said_when_the_plugin_is_loaded(tmp_path: Path) -> None:
    text = Path(PLUGIN).read_text(encoding="utf-8").replace("SITE", "WRONG")
    (tmp_path / "wrong.py").write_text(text.replace("(at < previous(at))", "(at < previous(NodeInfo.revision))"), encoding="utf-8")
    with pytest.raises(PluginError, match=r"Narrower\.when: .*NodeInfo\.revision.* kept of NodeInfo"):
        load([str(tmp_path / "wrong.py")])


def test_a_message_that_quotes_what_nobody_says(tmp_path: Path) -> None:
    text = Path(PLUGIN).read_text(encoding="utf-8").replace("SITE", "QUOTE")
    (tmp_path / "wrong.py").write_text(text.replace("of {ports} ports", "of {port_count} ports"), encoding="utf-8")
    with pytest.raises(PluginError, match=r"QUOTE003: its message names 'port_count', which is neither a word of `says` nor"):
        load([str(tmp_path / "wrong.py")])


def told(path: Path, frames: list[bytes], *lines: str, **options: Any) -> Found:
    """What a rule of its own finds."""
    plugins = loaded(path, *lines)
    (path / "a.pcap").write_bytes(erf_pcap(frames))
    report = check_file(str(path / "a.pcap"), CheckOptions(rules=plugins.rules, catalog=plugins.catalog, **options))
    assert report.error is None, report.error
    return [(one.frame, one.message, [(each.frame, each.why) for each in one.related]) for one in report.findings]


@few(
    ("condition", "proof"),
    [
        ("(previous(PortInfo.lmc) == 0) & (previous(NodeInfo.num_ports) == 1)", 2),
        ("(previous(NodeInfo.num_ports) == 1) & (previous(PortInfo.lmc) == 0)", 1),
        ("(PortInfo.lid == previous(PortInfo.lid)) | ~(previous(NodeInfo.num_ports) > 1)", 2),
        ("~(previous(PortInfo.lmc) > 1) & (PortInfo.lmc < previous(NodeInfo.num_ports))", 1),
    ],
    fast=(0, 2, 3),
)  # fmt: skip
def test_the_first_word_is_the_proof(condition: str, proof: int, tmp_path: Path) -> None:
    """What is negated proves nothing."""
    frames = [HOST, answer(5, PORT_INFO, port_info(5)), ask(5, PORT_INFO, method=SET, body=port_info(5))]
    found = told(tmp_path, frames, "at = PortInfo.lid", f"when = (MAD.method == {SET}) & ({condition})")
    assert [(frame, related) for frame, _, related in found] == [(3, [(proof, "shown")])]


@pytest.mark.parametrize("condition", ["PortInfo.lmc == previous(PortInfo.lmc)", "PortInfo.link_width_active > previous(PortInfo.lmc)"])
def test_a_condition_may_be_a_single_comparison(condition: str, tmp_path: Path) -> None:
    frames = [HOST, *(answer(5, PORT_INFO, port_info(5)) for _ in range(2))]
    assert [frame for frame, _, _ in told(tmp_path, frames, "at = PortInfo.lmc", f"when = {condition}")] == [3]


@pytest.mark.slow
def test_no_such_rule_judges_packets_of_uncertain_subnets(tmp_path: Path) -> None:
    """Nor do sequences. One packet is enough for SEM003."""
    frames = [HOST, width(2), answer(5, PORT_INFO, port_info(5, link_width_active=1, neighbor_mtu=9))]
    plugins, own = load([PLUGIN]), loaded(tmp_path, "at = PortInfo.lmc", "when = ANSWERED & (PortInfo.lmc == 0)")
    rules = [*(one for one in plugins.rules if one.code == "SITE001"), *own.rules, REGISTRY["SEM003"]]
    all_three = [own.rules[0].code, "SEM003", "SITE001"]
    for raw, codes in ((erf_pcap(frames), all_three), (mixed([*HERE, *frames], THERE, interfaces=False), ["SEM003"])):
        (tmp_path / "a.pcap").write_bytes(raw)
        report = check_file(str(tmp_path / "a.pcap"), CheckOptions(rules=rules, catalog=plugins.catalog))
        assert sorted({one.code for one in report.findings if one.frame > report.frames - len(frames)}) == codes


@pytest.mark.slow
def test_what_one_answer_holds(tmp_path: Path) -> None:
    """Its own fields, those of its MAD, what was shown before (0: nothing), and arithmetic on them."""
    frames = [HOST, width(2, header={"transaction_id": 0x77}), width(1, header={"transaction_id": 0x78})]
    says = {
        "own": "at", "method": "MAD.method", "attribute": "MAD.attribute_id", "tid": "MAD.transaction_id", "was": "previous(at)",
        "ports": "previous(NodeInfo.num_ports)", "more": "at + 1", "both": "at + previous(at)",
    }  # fmt: skip
    words = ", ".join(f"{name!r}: {what}" for name, what in says.items())
    quoted = " ".join(f"{name}={{{name}}}" for name in says)
    forms = 'Fault(MAD.transaction_id == 0x77, "the first"), Fault(at < previous(at), "fewer")'
    for tid, message in (
        (0x77, f"own=2 method=129 attribute=21 tid=119 was=0 ports=1 more=3 both=0 the first of {NAME}"),
        (0x78, f"own=1 method=129 attribute=21 tid=120 was=2 ports=1 more=2 both=3 fewer of {NAME}"),
    ):
        found = told(tmp_path / str(tid), frames, "at = PortInfo.link_width_active", f"says = {{{words}}}", f"faults = ({forms})",
                     f'message = "{quoted} {{what}} of {{port}}"', f"when = ANSWERED & (MAD.transaction_id == {tid})")  # fmt: skip
        assert [(frame, text) for frame, text, _ in found] == [(tid - 0x77 + 2, message)]
