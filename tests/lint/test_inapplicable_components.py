"""A condition judges only components that the port has, with the values that count."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.lint.rule import REGISTRY
from ibdissect.wire.expr import Expr
from ibdissect.wire.mad import MAD
from ibdissect.wire.port_kinds import ADAPTER_PORT, ALL_PORTS, END_PORTS, EXTERNAL_PORT, LINK_PORTS, PORT_ZERO
from ibdissect.wire.sa_records import PKeyTableRecord
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable
from ibdissect.words import Rule
from tests.cases import every
from tests.craft import build, erf_pcap, native, sa_mad, smp, ud
from tests.rules.findings import rules
from tests.rules.test_rules import lint
from tests.subnet.files.made_files import parsed
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import SET, answer, ask, node, port_info, switch

NODE_INFO, PORT_INFO = 0x11, 0x15
CA, SWITCH, ROUTER = (answer(5, NODE_INFO, body) for body in (node(5), switch(5), node(5, node_type=3)))
SECOND = 1_000_000_000
BAD = {"neighbor_mtu": 9, "capability_mask": 1}


def judges(*codes: str) -> list[type[Rule]]:
    return [rules()[code] for code in codes]


def found(*frames: bytes) -> set[str]:
    """SEM003 judges a component of links, SEM062 one of ports with an agent."""
    return {one.code for one in lint(erf_pcap(frames), rules=judges("SEM003", "SEM062"))}


@every(
    ("who", "number", "codes"),
    [
        (CA, 0, {"SEM003", "SEM062"}),
        (CA, 1, {"SEM003", "SEM062"}),
        (ROUTER, 1, {"SEM003", "SEM062"}),
        (SWITCH, 0, {"SEM062"}),
        (SWITCH, 1, {"SEM003"}),
    ],
)
def test_kinds_of_ports(who: bytes, number: int, codes: set[str]) -> None:
    assert found(who, answer(5, PORT_INFO, port_info(5, **BAD), modifier=number)) == codes


@every(("number", "lid", "codes"), [(0, 5, {"SEM062"}), (1, 5, {"SEM003", "SEM062"}), (1, 0, {"SEM003"}),
                                                     (4, 5, {"SEM003", "SEM062"}), (5, 5, {"SEM003"}), (1, 0xFFFF, {"SEM003"}),
                                                     (1, 0xBFFF, {"SEM003", "SEM062"})])  # fmt: skip
def test_unknown_nodes(number: int, lid: int, codes: set[str]) -> None:
    """Number 0 may be a switch's, a numbered port without a LID, or with a number that no adapter has, an external one."""
    assert found(answer(5, PORT_INFO, port_info(lid, **BAD), modifier=number)) == codes


@pytest.mark.slow
def test_copies_in_a_set() -> None:
    """A read-only component of a Set has the value that the port showed; without that the copy counts, unless it is 0.

    A copy by which the Set is right was made of an answer that the capture lacks.
    """
    wide, narrow = (answer(5, PORT_INFO, port_info(5, mtu_cap=cap, neighbor_mtu=1)) for cap in (5, 3))

    def above(*frames: bytes) -> bool:
        return bool(lint(erf_pcap(frames), rules=judges("SEM004")))

    for copy in (0, 1, 3, 5):
        written = ask(5, PORT_INFO, method=SET, body=port_info(5, neighbor_mtu=4, mtu_cap=copy), modifier=1)
        assert above(CA, narrow, written) == (copy < 4)
        assert not above(CA, wide, written)
        assert above(written) == (0 < copy < 4)
        frames = [CA, narrow, written]
        size = len(erf_pcap(frames)) - len(erf_pcap(frames[:2]))
        apart = lint(erf_pcap(frames), window=size + 24, rules=judges("SEM004"))  # the Set is the first PortInfo of its window
        assert any(one.frame == 3 for one in apart) == (copy < 4)


def test_declarations() -> None:
    assert (PortInfo.neighbor_mtu.ports, PortInfo.capability_mask.ports) == (LINK_PORTS, END_PORTS)
    assert PortInfo.is_sm.ports == END_PORTS and PortInfo.is_sm.read_only, "bits are as their whole"
    assert PortInfo.mtu_cap.read_only and not PortInfo.neighbor_mtu.read_only
    assert LINK_PORTS | END_PORTS == ALL_PORTS and LINK_PORTS & END_PORTS & (PORT_ZERO | EXTERNAL_PORT) == 0


def hits(frames: list[bytes], condition: Expr, **more: Any) -> list[int]:
    """Frames in which a condition holds, of a rule about it."""
    rule = type("Made", (Rule,), {"__doc__": "A fault.", "code": "ZYA001", "name": "made", "message": "x", "when": condition, **more})
    REGISTRY.pop("ZYA001")
    return [one.frame for one in lint(erf_pcap(frames), rules=[rule])]


OF_PORTS = [CA, answer(5, PORT_INFO, port_info(5), modifier=1), answer(7, NODE_INFO, switch(7)),
            *(answer(7, PORT_INFO, port_info(7), modifier=number) for number in (0, 2))]  # fmt: skip
"""An adapter's port in frame 2, ports 0 and 2 of a switch in frames 4 and 5."""


@pytest.mark.parametrize(("path", "holds_s"), [(None, 10), ([1], 1800)])
def test_what_node_info_said_holds_for_a_while(path: list[int] | None, holds_s: int) -> None:
    """Until the next one: an adapter's LID may have been given to a switch, and a switch be cabled where the adapter was."""

    def sent(method: int, attribute: int, body: bytes) -> bytes:
        return smp(method, attribute, body, path=path) if path else smp(method, attribute, body, slid=5, dlid=1)

    told, shown = sent(0x81, NODE_INFO, node(5)), sent(0x81, PORT_INFO, port_info(5, **BAD))
    for window in (1, 1 << 20):
        for step, again in ((holds_s, 0), (holds_s + 1, 0), (holds_s + 1, 1)):
            frames = erf_pcap([told, shown, told if again else native(), shown], times=[SECOND, SECOND, *[(step + 1) * SECOND] * 2])
            judged = [one.frame for one in lint(frames, window=window, rules=judges("SEM003"))]
            assert judged == ([2, 4] if step == holds_s or again else [2])


def test_a_record_of_port_0_is_a_switchs_although_an_adapter_had_its_lid() -> None:
    records = [ud(sa_mad(0x81, 0x12, (5).to_bytes(2, "big") + bytes([number, 0]) + port_info(5, **BAD))) for number in (0, 1)]
    assert [found(CA, record) for record in records] == [{"SEM062"}, {"SEM003", "SEM062"}]


def test_records_are_about_the_port_that_has_their_lid_in_their_frame() -> None:
    """Another one may have it by now: the record of a port of a switch may be one of an adapter's."""
    record = ud(sa_mad(0x81, 0x12, (5).to_bytes(2, "big") + b"\1\0" + port_info(5, **BAD)))
    shown = [SWITCH, answer(5, PORT_INFO, port_info(5), modifier=0)]
    assert found(record) == found(record, *shown) == {"SEM003", "SEM062"} and found(*shown, record) == {"SEM003"}


@every(
    ("ports", "frames"),
    [
        (ALL_PORTS & ~EXTERNAL_PORT, [1, 2, 6, 7]), (ALL_PORTS & ~PORT_ZERO, [3, 4, 5, 7, 8]), (PORT_ZERO, [6]),
        (ALL_PORTS & ~PORT_ZERO & ~EXTERNAL_PORT, [7]), (ALL_PORTS, [*range(1, 9)]), (ADAPTER_PORT, []),
    ],
)  # fmt: skip
def test_kinds_of_ports_of_p_key_tables(ports: int, frames: list[int]) -> None:
    """The port's number is in the upper half of the modifier; most records are of adapters, which number their ports from 1. A rule about
    some kinds is silent where the table may be of another."""
    smps = [answer(5, 0x16, modifier=modifier, body=bytes(64)) for modifier in (0, 1, 1 << 16, 0xFF << 16, 3 << 16 | 7)]
    records = [ud(sa_mad(0x81, 0x33, build(PKeyTableRecord, lid=5, port_num=number))) for number in (0, 1, 255)]
    assert hits([*smps, *records], MAD.method > 0, on=PKeyTable, ports=ports) == frames


@every(
    ("condition", "shown", "written", "reported"),
    [
        (PortInfo.link_width_active == 1, {"link_width_active": 2}, {"link_width_active": 1}, False),
        ((PortInfo.lid == 1) & ~(PortInfo.diag_code > 3), {"diag_code": 4}, {"lid": 1}, False),
        ((PortInfo.lid == 1) & ~(PortInfo.diag_code > 3), {"diag_code": 3}, {"lid": 1}, True),
        (PortInfo.lmc + PortInfo.local_port_num == 3, {"local_port_num": 1}, {"lmc": 1, "local_port_num": 2}, False),
        (PortInfo.lmc + PortInfo.local_port_num == 3, {"local_port_num": 2}, {"lmc": 1, "local_port_num": 2}, True),
        (PortInfo.lid == 1, {"lid": 5}, {"lid": 1}, True),
    ],
)  # fmt: skip
def test_a_set_may_carry_copies_of_read_only_components(
    condition: Expr, shown: dict[str, int], written: dict[str, int], reported: bool
) -> None:
    before, after = (port_info(**{"lid": 5, **values}) for values in (shown, written))
    frames = [CA, answer(5, PORT_INFO, before), ask(5, PORT_INFO, method=SET, body=after, modifier=1)]
    assert (3 in hits(frames, condition)) is reported


@every(
    ("before", "copy", "low"),
    [
        (None, 0, False), (None, 1, True), (None, 5, False), (0, 5, False), (0, 0, True), (1, 5, False), (1, 0, True), (5, 1, False),
        (5, 0, False),
    ],
)  # fmt: skip
def test_a_copy_counts_only_where_nobody_knows_what_the_port_has(before: int | None, copy: int, low: bool) -> None:
    """A capacity of 0 in a Set says nothing; what the port answered counts, also 0, unless the copy is right. A bit may be 0."""

    class Low(Rule):
        """A capacity is low."""

        code, name, message, when = "ZYA004", "low", "low", PortInfo.mtu_cap < 2

    class Zero(Rule):
        """A bit is not set."""

        code, name, message, when = "ZYA005", "zero", "zero", PortInfo.is_sm == 0

    for one in ("ZYA004", "ZYA005"):
        REGISTRY.pop(one)
    shown = [answer(5, PORT_INFO, port_info(5, mtu_cap=before, capability_mask=0))] if before is not None else []
    frames = [CA, *shown, ask(5, PORT_INFO, method=SET, body=port_info(5, mtu_cap=copy, capability_mask=0), modifier=1)]
    found = lint(erf_pcap(frames), rules=[Low, Zero])
    assert [one.code for one in found if one.frame == len(frames)] == ["ZYA004"] * low + ["ZYA005"]


@every(("ports", "frames"), [(0, [2, 4, 5]), (ADAPTER_PORT, [2]), (END_PORTS, [2, 4]), (PORT_ZERO | EXTERNAL_PORT, [4, 5])])
def test_a_condition_of_what_all_ports_have_holds_as_written(ports: int, frames: list[int]) -> None:
    """Of the kinds of port that a rule judges."""
    assert hits(OF_PORTS, PortInfo.lmc == 0, ports=ports) == frames
    assert hits(OF_PORTS, PortInfo.lmc == 1, ports=ports) == []


@every(
    ("condition", "frames"),
    [
        (~(PortInfo.neighbor_mtu == 9), [2, 5]), (~(PortInfo.capability_mask == 9), [2, 4]),
        (~((PortInfo.neighbor_mtu == 9) & (PortInfo.lmc == 0)), [2, 5]), (~(PortInfo.neighbor_mtu == 5), []),
        ((PortInfo.neighbor_mtu == 5) & (PortInfo.capability_mask > 0), [2]),
    ],
)  # fmt: skip
def test_a_negation_does_not_hold_for_what_a_port_does_not_have(condition: Expr, frames: list[int]) -> None:
    """Port 0 has no neighbor, an external port no capabilities of its own."""
    assert hits(OF_PORTS, condition, on=PortInfo) == frames


def test_what_a_subnet_file_lists_holds() -> None:
    """However long after it the port shows itself."""
    listed = [parsed("ibnetdiscover", SAMPLES["ibnetdiscover"])[0]]
    shown = [answer(2, PORT_INFO, port_info(2, **BAD), modifier=number) for number in (0, 1)]
    judges_ = judges("SEM003", "SEM062")
    codes = [[one.code for one in lint(erf_pcap([frame]), known=listed, rules=judges_)] for frame in shown]
    assert codes == [["SEM062"], ["SEM003"]]


@pytest.mark.parametrize(("mask", "found"), [(0, True), (4, False), (6, True)])
def test_a_copy_of_bits_is_that_of_all(mask: int, found: bool) -> None:
    """A Set with another bit than the port showed has a newer copy, although this bit is 0 there; without any bit it has none."""

    class Bit(Rule):
        """A bit is set."""

        code, name, message, when = "ZYA007", "bit", "bit", PortInfo.is_sm == 1

    REGISTRY.pop("ZYA007")
    frames = [CA, answer(5, PORT_INFO, port_info(5, capability_mask=2))]
    written = ask(5, PORT_INFO, method=SET, body=port_info(5, capability_mask=mask), modifier=1)
    assert [one.frame for one in lint(erf_pcap([*frames, written]), rules=[Bit])] == [2] + [3] * found
