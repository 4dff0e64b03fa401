"""Rules about attributes find what differs from earlier answers, across windows, and stay silent where none was shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ibdissect.errors import PluginError, SpecError
from ibdissect.lint.by_answers import AnswersEvaluator, all_compared, check, holds_in, value_in
from ibdissect.lint.rule import REGISTRY
from ibdissect.lint.sequence import Sequence, is_stateless
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.check import check as check_file
from ibdissect.plugins import load
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from ibdissect.words import previous, unless, within
from tests.craft import erf_pcap
from tests.decode.made import native_table
from tests.standard import NODE_INFO, PORT_INFO, SET
from tests.subnet.made import answer, ask, history, node, port_info, switch

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


@pytest.mark.parametrize(
    ("condition", "attribute", "said"),
    [
        (previous(LRH.slid) == 1, PORT_INFO, "neither of this attribute nor kept of NodeInfo"),
        (previous(SwitchInfo.life_time_value) == 1, PORT_INFO, "neither of this attribute nor kept of NodeInfo"),
        (previous(NodeInfo.node_guid) == 1, PORT_INFO, "neither of this attribute nor kept of NodeInfo"),
        (previous(LinearForwardingTable.port) == b"1", 0x19, "neither of this attribute nor kept of NodeInfo"),
        (previous(PortInfo.lid, one_way=True) == 1, PORT_INFO, "without where="),
        (previous(PortInfo.lid, same=PortInfo.lmc) == 1, PORT_INFO, "without where="),
        ((previous(PortInfo.lid) == 1) & within(1.0), PORT_INFO, "are for occurrences in conversations"),
        ((PortInfo.lid == 1) & unless(PortInfo.lid == 2, within=1.0), PORT_INFO, "are for occurrences in conversations"),
    ],
)
def test_what_cannot_be_said(condition: Any, attribute: int, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        check("Mine", condition, (attribute,))


@pytest.mark.parametrize("field", [SwitchInfo.linear_fdb_cap, NodeInfo.node_type, PortInfo.lid])
def test_what_can_be_said_of_any_attribute(field: Any) -> None:
    condition = previous(field) == 1
    check("Mine", condition, (0x19,))
    check("Mine", condition, (0x19, 0x1A))
    with pytest.raises(SpecError, match="name a field of the attribute"):
        check("Mine", condition, ())


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


def test_the_first_word_is_the_proof() -> None:
    both = (MAD.method == 1) & (previous(PortInfo.lmc) > 1) & (previous(PortInfo.lid) == 1)
    assert [one.name for one in all_compared(both)] == ["lmc", "lid"]
    assert [one.name for one in all_compared((BTH.psn == previous(PortInfo.lid)) | ~(previous(PortInfo.lmc) > 1))] == ["lid"]
    assert all_compared(BTH.psn == 1) == all_compared(None) == ()
    words = Sequence(BTH, (previous(BTH.psn) > BTH.psn) & (previous(BTH.destqp) == 1)).previous
    assert [word.field for word in words] == [BTH.psn, BTH.destqp]


def test_no_such_rule_judges_packets_of_uncertain_subnets() -> None:
    rules = {one.code: one for one in load([PLUGIN, str(Path(PLUGIN).with_name("talk.py"))]).rules}
    assert not any(is_stateless(rules[code]) for code in ("SITE001", "SITE003", "ACME021", "ACME022"))
    assert [is_stateless(REGISTRY[code]) for code in ("SEM003", "SEM008", "SEM012", "MKY007")] == [True, False, False, False]


def test_rules_about_the_same_smps_share_what_they_read() -> None:
    (event,) = [one for one in FabricFollower().feed(native_table([HOST, width(2), width(1)])) if isinstance(one, ChunkFollowed)]
    smps = history(PortInfo).of(event)
    whole, again, some = AnswersEvaluator(smps), AnswersEvaluator(smps), AnswersEvaluator(smps, np.array([1]))
    field = PortInfo.link_width_active
    assert whole.series(field) is again.series(field) and whole.series(MAD.method) is again.series(MAD.method)
    assert (some.series(field).values.tolist(), whole.series(field).values.tolist()) == ([1], [2, 1])
    fewer = field < previous(field)
    assert [one.mask(fewer).tolist() for one in (whole, again, some)] == [[False, True], [False, True], [True]]


def test_what_one_answer_holds() -> None:
    """Its own fields, those of its MAD, what was shown before (0: nothing), and arithmetic on them."""
    frames = [HOST, width(2, header={"transaction_id": 0x77}), width(1, header={"transaction_id": 0x78})]
    (event,) = [one for one in FabricFollower().feed(native_table(frames)) if isinstance(one, ChunkFollowed)]
    smps = history(PortInfo).of(event)
    first, second = smps.each(np.ones(2, np.bool_))
    field = PortInfo.link_width_active
    for operand, values in (
        (field, (2, 1)), (MAD.method, (0x81, 0x81)), (MAD.attribute_id, (PORT_INFO, PORT_INFO)), (MAD.transaction_id, (0x77, 0x78)),
        (previous(field), (0, 2)), (previous(NodeInfo.num_ports), (1, 1)), (field + 1, (3, 2)), (field + previous(field), (0, 3)),
    ):  # fmt: skip
        assert (value_in(first, operand), value_in(second, operand)) == values, operand
    assert [holds_in(one, field < previous(field)) for one in (first, second)] == [False, True]
    assert [holds_in(one, MAD.transaction_id == 0x77) for one in (first, second)] == [True, False]
    assert AnswersEvaluator(smps).series(MAD.transaction_id).values.tolist() == [0x77, 0x78]
