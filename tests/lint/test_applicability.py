"""A condition judges only components that the port has, with the values that count."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.lint.applicability import PortFacts, applying, compares_copies, declared, port_kinds
from ibdissect.lint.rule import REGISTRY
from ibdissect.subnet.model import Subnet
from ibdissect.wire.expr import Expr
from ibdissect.wire.port_kinds import ADAPTER_PORT, ALL_PORTS, END_PORTS, EXTERNAL_PORT, LINK_PORTS, PORT_ZERO
from ibdissect.wire.sa_records import PKeyTableRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable
from ibdissect.words import Rule, previous
from tests.craft import build, erf_pcap, native, sa_mad, smp, ud
from tests.decode.made import native_table, tables_of
from tests.rules.findings import rules
from tests.rules.test_rules import lint
from tests.subnet.made import SET, answer, ask, node, port_info, switch

NODE_INFO, PORT_INFO = 0x11, 0x15
CA, SWITCH, ROUTER = (answer(5, NODE_INFO, body) for body in (node(5), switch(5), node(5, node_type=3)))
NO_FACTS = (*[np.empty(0, np.int64)] * 3, np.empty((0, 64), np.uint8), *[np.empty(0, np.int64)] * 2)
SECOND = 1_000_000_000
BAD = {"neighbor_mtu": 9, "capability_mask": 1}


def judges(*codes: str) -> list[type[Rule]]:
    return [rules()[code] for code in codes]


def found(*frames: bytes) -> set[str]:
    """SEM003 judges a component of links, SEM062 one of ports with an agent."""
    return {one.code for one in lint(erf_pcap(frames), rules=judges("SEM003", "SEM062"))}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(("number", "lid", "codes"), [(0, 5, {"SEM062"}), (1, 5, {"SEM003", "SEM062"}), (1, 0, {"SEM003"}),
                                                     (4, 5, {"SEM003", "SEM062"}), (5, 5, {"SEM003"}), (1, 0xFFFF, {"SEM003"}),
                                                     (1, 0xBFFF, {"SEM003", "SEM062"})])  # fmt: skip
def test_unknown_nodes(number: int, lid: int, codes: set[str]) -> None:
    """Number 0 may be a switch's, a numbered port without a LID, or with a number that no adapter has, an external one."""
    assert found(answer(5, PORT_INFO, port_info(lid, **BAD), modifier=number)) == codes


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
    assert declared((PortInfo.lmc == 1) | (PortInfo.mtu_cap > 5)) and not declared(PortInfo.lmc == 1)
    assert LINK_PORTS | END_PORTS == ALL_PORTS and LINK_PORTS & END_PORTS & (PORT_ZERO | EXTERNAL_PORT) == 0


def test_kinds_without_facts() -> None:
    frames = [answer(5, PORT_INFO, port_info(lid), modifier=number) for number, lid in ((0, 5), (1, 5), (1, 0))]
    kinds = port_kinds(native_table(frames), PortInfo, None).tolist()
    assert kinds == [ALL_PORTS & ~EXTERNAL_PORT, ALL_PORTS & ~PORT_ZERO & ~EXTERNAL_PORT, ALL_PORTS & ~PORT_ZERO]
    assert all(kind & ADAPTER_PORT for kind in kinds)


def test_kinds_of_what_the_facts_do_not_know() -> None:
    """An SMP that nobody placed is about any port; a record is about the port that has its LID, in any chunk."""
    frames = [answer(5, PORT_INFO, port_info(5), modifier=1)] * 2
    facts = PortFacts(Subnet(), np.array([1]), np.array([2]), *NO_FACTS[2:])
    unknown, placed = port_kinds(native_table(frames), PortInfo, facts).tolist()
    assert (unknown, placed) == (ALL_PORTS & ~PORT_ZERO & ~EXTERNAL_PORT, EXTERNAL_PORT)


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


@pytest.mark.parametrize("before", range(3))
def test_records_are_about_the_port_that_has_their_lid_in_their_frame(before: int) -> None:
    subnet = Subnet()
    owner = subnet.node(7, 2)[0]
    owner.kind = 2
    subnet.assign(subnet.port(owner, 0, 2), 5, 0, 2 + before)
    body = (5).to_bytes(2, "big") + b"\1\0" + port_info(5)
    record = sa_mad(0x81, 0x12, body)
    *_, table = tables_of(erf_pcap([native()] * 2 + [ud(record)]), 1)
    (kind,) = port_kinds(table, PortInfo, PortFacts(subnet, *NO_FACTS)).tolist()
    unknown = ALL_PORTS & ~PORT_ZERO & ~EXTERNAL_PORT
    assert kind == (unknown | EXTERNAL_PORT if before < 2 else unknown), "2 + before is the frame that shows the LID"


def test_kinds_of_ports_of_p_key_tables_without_facts() -> None:
    """The port's number is in the upper half of the modifier; most records are of adapters, which number their ports from 1."""
    smps = [answer(5, 0x16, modifier=modifier, body=bytes(64)) for modifier in (0, 1, 1 << 16, 0xFF << 16, 3 << 16 | 7)]
    kinds = port_kinds(native_table(smps), PKeyTable, None).tolist()
    zero, numbered = ALL_PORTS & ~EXTERNAL_PORT, ALL_PORTS & ~PORT_ZERO
    assert kinds == [zero, zero, numbered, numbered, numbered]
    records = [ud(sa_mad(0x81, 0x33, build(PKeyTableRecord, lid=5, port_num=number))) for number in (0, 1, 255)]
    for facts in (None, PortFacts(Subnet(), *NO_FACTS)):
        assert port_kinds(native_table(records), PKeyTable, facts).tolist() == [PORT_ZERO, numbered & ~EXTERNAL_PORT, numbered]


@pytest.mark.parametrize(
    ("condition", "copies", "named"),
    [
        (PortInfo.link_width_active == 1, True, True), (PortInfo.lid == 1, False, True), (NodeInfo.num_ports == 1, False, False),
        ((PortInfo.lid == 1) & ~(PortInfo.diag_code > 3), True, True),
        (PortInfo.lmc + PortInfo.local_port_num == 3, True, True), ((NodeInfo.num_ports == 1) | (PortInfo.lid == 1), False, True),
    ],
)  # fmt: skip
def test_which_conditions_are_about_read_only_components(condition: Expr, copies: bool, named: bool) -> None:
    """A Set may carry copies of them; only attributes of ports are set so."""

    class Made(Rule):
        """A fault."""

        code, name, on, when = "ZYA001", "made", PortInfo, condition

    class Elsewhere(Made):
        """A fault of another structure."""

        code, name, on = "ZYA002", "elsewhere", NodeInfo

    class Never(Rule):
        """Has no condition."""

        code, name = "ZYA003", "never"

    for one in ("ZYA001", "ZYA002", "ZYA003"):
        REGISTRY.pop(one)
    assert [compares_copies(rule()) for rule in (Made, Elsewhere, Never)] == [copies, False, False]
    assert declared(condition) is named and not declared(None)


@pytest.mark.parametrize(
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


def test_a_set_is_judged_as_it_is_written_where_nothing_is_known() -> None:
    table = native_table([ask(5, PORT_INFO, method=SET, body=port_info(5, mtu_cap=cap), modifier=1) for cap in (0, 1, 5)])
    assert applying(table, PortInfo, PortInfo.mtu_cap < 2, 0, np.array([True, True, False]), None).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]), ([5, 0, 5, 5, 6], [1, 0, 2, 3, 4]), ([-5, 1, 0, 0, 0], [1, 2, 0, 3, 0]),
        ([5, 0, 0, 0, 5], [1, 0, 0, 3, 4]),
    ],
)  # fmt: skip
def test_what_packets_hold_counts_with_their_nodes(content: list[int], known: list[int]) -> None:
    """Row 3 is a PortInfo, for which one number stands already; rows 2 and 4 go to nodes of known kinds. 0: unknown."""
    facts = PortFacts(
        Subnet(), np.array([2, 4]), np.array([1, 2]), np.array([3]), np.empty((1, 64), np.uint8), np.array([9]), np.array([77])
    )
    found = facts.with_content(np.array(content)).tolist()
    assert [bool(one) for one in found] == [bool(one) for one in known]
    assert found[3] == (77 if any(content) else 0)
    assert len({*found} - {0}) == len({*known} - {0}), "equal packets to nodes of other kinds differ"


def test_what_packets_hold_is_not_enough_where_another_node_may_be() -> None:
    """A packet in order, judged as if nobody knew its node, may be a fault of the node that is known to be there."""
    one, there = np.empty((1, 64), np.uint8), np.array([9])
    facts = PortFacts(Subnet(), np.array([0, 1]), np.array([2, -2]), np.array([1]), one, there, there)
    assert facts.with_content(np.array([5, 5])).astype(bool).tolist() == [True, False]


def test_of_a_chunk_nothing_is_kept() -> None:
    """Rules share what they read, as long as the chunk lives."""
    table = native_table([CA, answer(5, PORT_INFO, port_info(5)), ask(5, PORT_INFO, method=SET, body=port_info(5), modifier=1)])
    facts = PortFacts(Subnet(), *NO_FACTS)
    kinds = port_kinds(table, PortInfo, facts)
    assert port_kinds(table, PortInfo, facts) is kinds
    for ports in (0, END_PORTS):
        applying(table, PortInfo, PortInfo.mtu_cap < 2, ports, np.array([False, False]), facts)
    assert len(facts.judges) == 2 and len(facts.kinds_of) == 1
    facts.close()
    assert not facts.judges and not facts.kinds_of


@pytest.mark.parametrize("ports", [0, ADAPTER_PORT, END_PORTS, PORT_ZERO | EXTERNAL_PORT])
@pytest.mark.parametrize("hits", [[False, False, False], [True, False, True], [True, True, True]])
def test_a_condition_of_what_all_ports_have_holds_as_written(ports: int, hits: list[bool]) -> None:
    """Of the kinds of port that a rule judges; the frames show an adapter's port, and ports 0 and 2 of a switch."""
    facts = PortFacts(Subnet(), np.array([0, 1, 2]), np.array([1, 2, 2]), *NO_FACTS[2:])
    table = native_table([answer(5, PORT_INFO, port_info(5), modifier=number) for number in (1, 0, 2)])
    kinds = [ADAPTER_PORT, PORT_ZERO, EXTERNAL_PORT]
    found = applying(table, PortInfo, PortInfo.lmc == 0, ports, np.array(hits), facts).tolist()
    assert not declared(PortInfo.lmc == 0)
    assert found == [hit and (not ports or not kind & ~ports) for hit, kind in zip(hits, kinds, strict=True)]


def test_a_negation_does_not_hold_for_what_a_port_does_not_have() -> None:
    """Port 0 has no neighbor, an external port no capabilities of its own."""
    facts = PortFacts(Subnet(), np.array([0, 1, 2]), np.array([1, 2, 2]), *NO_FACTS[2:])
    table = native_table([answer(5, PORT_INFO, port_info(5), modifier=number) for number in (1, 0, 2)])
    everywhere = np.ones(3, np.bool_)
    for condition, expected in (
        (~(PortInfo.neighbor_mtu == 9), [True, False, True]), (~(PortInfo.capability_mask == 9), [True, True, False]),
        (~((PortInfo.neighbor_mtu == 9) & (PortInfo.lmc == 0)), [True, False, True]), (~(PortInfo.neighbor_mtu == 5), [False] * 3),
        ((PortInfo.neighbor_mtu == 5) & (PortInfo.capability_mask > 0), [True, False, False]),
    ):  # fmt: skip
        assert applying(table, PortInfo, condition, 0, everywhere, facts).tolist() == expected


def test_what_was_shown_before_is_no_component_of_the_packet() -> None:
    assert not declared(previous(PortInfo.mtu_cap) == 1) and declared((previous(PortInfo.lid) == 1) & (PortInfo.mtu_cap == 1))


def test_other_structures_have_no_components_that_ports_lack() -> None:
    hits = np.array([True, False])
    assert applying(native_table([CA, SWITCH]), NodeInfo, NodeInfo.num_ports == 1, ADAPTER_PORT, hits, None) is hits


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
