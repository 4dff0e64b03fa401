"""Findings that quote earlier frames of the subnet become infos exactly where the capture proves less, kind by kind, whatever the rule.

Each proof of the families below is taken as it is, and with one thing added: another interface, a long time, a handover, an answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect.lint.finding import Evidence, Finding, Severity
from ibdissect.lint.linter import Linter
from ibdissect.rules import load
from ibdissect.rules.shared.connection_rule import AgreedRule
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.wire.sm import SMInfo
from tests import craft
from tests.conftest import REPO
from tests.craft import build
from tests.decode.made import tables_of
from tests.made_interfaces import pcapng_of
from tests.rules.findings import START_NS, lint
from tests.rules.PKY.cases import TABLE, send
from tests.rules.test_kinds import records
from tests.rules.test_rules import CASES
from tests.standard import P_KEY_TABLE, PORT_INFO, SECOND_NS
from tests.subnet.made import ANSWER, GET, SET, answer, ask, node, p_keys, port_info, switch

GATED = {rule.code for rule in load() if issubclass(rule, (LearntFactRule, AgreedRule))}
FAMILIES = ("PKY", "LNK", "AM", "GRH", "MCG", "BTH018")
LOUD = (Severity.ERROR, Severity.WARNING)


def frames_of(capture: bytes) -> list[bytes]:
    """The packets of a proof without the headers of its container."""
    return [frame for _, frame in records(capture)]


def linted(capture: bytes) -> list[Finding]:
    linter = Linter(load())
    for table in tables_of(capture):
        linter.feed(table)
    return linter.finish()


def loud(findings: Sequence[Finding], code: str) -> list[Finding]:
    """Those that rest on earlier frames."""
    return [one for one in findings if one.code == code and one.severity in LOUD and one.evidence is not Evidence.SEEN]


PROOFS = [
    (code, i) for code in sorted(GATED) if code.startswith(FAMILIES) for i, one in enumerate(CASES[code])
    if not one.policy and not one.known and one.severity in ("", "error", "warning")
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("code", "i"), PROOFS, ids=lambda one: str(one))
def test_what_another_interface_showed_proves_nothing_here(code: str, i: int) -> None:
    """Facts on one interface, the packet on another: two subnets may be in one file."""
    frames = frames_of(CASES[code][i].bad)
    here = loud(linted(pcapng_of([(0, one) for one in frames])), code) if frames else []
    if not here or any(one.frame < related.frame for one in here for related in one.related):
        pytest.skip("it rests on no earlier frame alone")
    first = min(one.frame for one in here)
    apart = pcapng_of([(int(number == first), one) for number, one in enumerate(frames, 1)])
    assert [one for one in loud(linted(apart), code) if one.frame == first] == []


HANDOVER = ask(9, 0x20, method=SET, modifier=1, body=build(SMInfo, guid=1, sm_state=3))


def severity(frames: list[bytes], step_ns: int = 1_000_000) -> list[str]:
    return [str(one.severity) for one in lint(frames, "PKY003", step_ns=step_ns)]


def test_an_old_fact_needs_a_manager_in_sight() -> None:
    """A partition table holds for half an hour: only a person changes it."""
    assert severity([*TABLE, send(0x9999)], 900_000_000_000) == ["error"]
    assert severity([*TABLE, send(0x9999)], 901_000_000_000) == ["info"]


ROUTED: dict[str, Any] = {"path": [1], "header": {"transaction_id": 7 << 32 | 1}}
BY_ROUTE = [craft.smp(GET, 0x11, **ROUTED), craft.smp(ANSWER, 0x11, node(5), **ROUTED)]
ELSEWHERE = [craft.smp(method, 0x10, bytes(64), path=[], header={"transaction_id": 7 << 32 | 2}) for method in (SET, ANSWER)]
READ = [ask(5, 0x11), TABLE[0], ask(5, P_KEY_TABLE), TABLE[1]]
WRITTEN = [ask(7, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF)), answer(7, P_KEY_TABLE, p_keys(0xFFFF))]


@pytest.mark.slow
def test_the_manager_is_in_sight_where_it_asks() -> None:
    """Its Sets would take the same way as its Gets: the capture would show them, however long the table is left alone."""
    own: dict[str, Any] = {"path": [], "header": {"transaction_id": 7 << 32 | 3}}
    first = [craft.smp(GET, 0x11, **own), craft.smp(ANSWER, 0x11, switch(2), **own)]
    sweep = [*first, *BY_ROUTE, craft.smp(GET, PORT_INFO, modifier=1, **ROUTED), *ELSEWHERE]
    assert severity([*sweep, *READ, send(0x9999)], 901_000_000_000) == ["error"]
    assert severity([*first, *BY_ROUTE, *ELSEWHERE, *READ, send(0x9999)], 901_000_000_000) == ["info"], "NodeInfo comes along every link"
    assert severity([*first, *BY_ROUTE, *READ, send(0x9999)], 901_000_000_000) == ["info"], "this may be a tool"


@pytest.mark.slow
def test_partitions_that_are_being_changed() -> None:
    """A Set of another node's table, later than the table was read: what this one holds by now is not known, if its Sets are not seen."""
    seven = [ask(7, 0x11), answer(7, 0x11, node(7))]
    assert severity([*seven, *READ, *WRITTEN, send(0x9999)], 1_600_000_000) == ["error"], "within seconds"
    assert severity([*seven, *READ, *WRITTEN, send(0x9999)], 3_000_000_000) == ["info"]
    assert severity([*seven, *WRITTEN, *READ, send(0x9999)], 4_000_000_000) == ["error"], "before the table was read"


@pytest.mark.slow
@pytest.mark.parametrize("code", ["PKY001", "PKY003", "PKY004", "PKY011", "PKY018", "PKY022", "PKY023", "CM022", "SA023", "LNK022"])
@pytest.mark.parametrize("step", [12, 60])
def test_what_only_a_person_changes_is_known_for_minutes(code: str, step: int) -> None:
    """The proof of a rule, frame by frame so many seconds apart, is as loud as it was."""
    frames = frames_of(CASES[code][0].bad)
    assert loud(linted(craft.erf_pcap(frames)), code)
    assert loud(linted(craft.erf_pcap(frames, step_ns=step * 1_000_000_000)), code)


def other_firmware(step_ns: int) -> list[str]:
    """How loud it is that a node says something else of itself."""
    later = [craft.smp(GET, 0x11, **ROUTED), craft.smp(ANSWER, 0x11, node(5, partition_cap=64), **ROUTED)]
    own: dict[str, Any] = {"path": [], "header": {"transaction_id": 7 << 32 | 3}}
    sweep = [craft.smp(GET, 0x11, **own), craft.smp(ANSWER, 0x11, switch(2), **own), *ELSEWHERE]
    return [str(one.severity) for one in lint([*sweep, *BY_ROUTE, *later], "SEM034", step_ns=step_ns)]


def test_what_a_node_is_holds_until_it_may_have_been_restarted() -> None:
    """With other firmware or another configuration: a manager in sight does not see that."""
    assert other_firmware(500_000_000) == ["error"]
    assert other_firmware(1_000_000_000) == ["info"]


def test_a_handover_ends_what_was_known() -> None:
    assert severity([*TABLE, send(0x9999)]) == ["error"]
    assert severity([*TABLE, HANDOVER, send(0x9999)]) == ["info"]


@pytest.mark.slow
def test_a_standby_that_takes_over_ends_what_was_known() -> None:
    """It writes its LID into the ports, of which a capture on a host's link shows one."""

    def own(manager: int) -> list[bytes]:
        info = port_info(7, master_sm_lid=manager)
        return [craft.smp(SET, 0x15, info, slid=manager, dlid=7), craft.smp(ANSWER, 0x15, info, slid=7, dlid=manager)]

    seven = [ask(7, 0x11), answer(7, 0x11, node(7))]
    assert severity([*seven, *own(1), *READ, *own(1), send(0x9999)]) == ["error"]
    assert severity([*seven, *own(1), *READ, *own(9), send(0x9999)]) == ["info"]
    assert severity([*seven, *own(1), *own(9), *READ, send(0x9999)]) == ["error"], "it took over before the table was read"


@pytest.mark.slow
def test_what_nobody_recorded_is_not_known() -> None:
    """Two captures of one link in one file: the manager is in sight in both, and may have written the table in between."""
    own: dict[str, Any] = {"path": [], "header": {"transaction_id": 7 << 32 | 3}}
    first = [craft.smp(GET, 0x11, **own), craft.smp(ANSWER, 0x11, switch(2), **own)]
    known = [*first, *BY_ROUTE, craft.smp(GET, PORT_INFO, modifier=1, **ROUTED), *ELSEWHERE, *READ]
    for polls, each, pause, loud in (
        (0, 0, 1799, "error"), (0, 0, 1801, "info"), (6, 11, 59, "error"), (6, 11, 61, "info"), (3, 300, 1000, "error"),
        (3, 600, 1801, "info"),
    ):  # fmt: skip
        frames = [*known, *first * polls, send(0x9999)]
        steps = [0] * len(known) + [each, 0] * polls + [pause]
        times = [START_NS + i * 1_000_000 + sum(steps[: i + 1]) * SECOND_NS for i in range(len(frames))]
        found = linted(craft.interfaces_pcapng([(0, one) for one in frames], times=times))
        assert [str(one.severity) for one in found if one.code == "PKY003"] == [loud], (polls, each, pause)


@pytest.mark.slow
def test_who_writes_what_it_read_is_no_manager() -> None:
    """A tool on the host whose link is recorded: the manager writes the ports elsewhere."""

    def exchange(number: int, attribute: int, path: list[int], body: bytes, method: int = GET) -> list[bytes]:
        sent: dict[str, Any] = {"path": path, "header": {"transaction_id": 7 << 32 | number}}
        return [craft.smp(method, attribute, body if method == SET else b"", **sent), craft.smp(ANSWER, attribute, body, **sent)]

    seven = [ask(7, 0x11), answer(7, 0x11, node(7))]
    for manager, loud in ((6, "error"), (1, "info")):
        own, other = (port_info(lid, master_sm_lid=manager) for lid in (6, 5))
        home = [*exchange(1, 0x11, [], node(6)), *exchange(2, 0x15, [], own), *exchange(3, 0x11, [1], node(5))]
        frames = [*seven, *home, *exchange(4, 0x15, [1], other, SET), *READ, *WRITTEN, send(0x9999)]
        times = [START_NS + i * 1_000_000 + (i == len(frames) - 1) * 20 * SECOND_NS for i in range(len(frames))]
        found = linted(craft.interfaces_pcapng([(0, one) for one in frames], times=times))
        assert [str(one.severity) for one in found if one.code == "PKY003"] == [loud]


def test_what_was_acknowledged_was_not_dropped() -> None:
    def ack(syndrome: int, psn: int = 1, p_key: int = 0x9999) -> bytes:
        values = {"destqp": 0x50, "psn": psn, "p_key": p_key}
        return craft.rc(0x11, ext={"AETH": {"syndrome": syndrome}}, slid=5, dlid=3, bth=values)

    assert severity([*TABLE, send(0x9999)]) == ["error"]
    assert severity([*TABLE, send(0x9999), ack(0)])[:1] == ["info"]
    others = [*TABLE, send(0x9234), send(0x9999, psn=2)]
    assert severity([*others, ack(0, 1, 0x9234)]) == ["error"], "of an earlier packet"
    assert severity([*others, ack(0, 2, 0x9234)]) == ["info"]


def test_a_packet_that_is_not_watched_counts_as_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is reached makes it unknown whether it was."""
    frames = [*TABLE, send(0x9999), send(0x9998, qp=0x44)]
    assert severity(frames) == ["error", "error"]
    monkeypatch.setattr("ibdissect.rules.shared.answered_packets.MAX_WATCHED", 1)
    assert severity(frames) == ["error", "info"]


def test_rules_make_no_senders_of_transaction_ids() -> None:
    """The high word of a transaction id is a counter of each host: `subnet.route_senders` alone says who sent a directed route."""
    made = re.compile(r"transaction(_id|s)?\b[^\n]*>> ?(np\.uint64\()?32|high_word")
    root = REPO / "ibdissect/rules"
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if made.search(path.read_text())}
    assert found <= {"TXN/timing.py"}, "a list that may only shrink"


def test_rules_do_not_know_how_origins_are_kept() -> None:
    """Origins by number only where a sender was found: in `rules/shared`."""
    for path in sorted((REPO / "ibdissect/rules").rglob("*.py")):
        if path.parent.name == "shared":
            continue
        assert not re.search(r"\.origins\b", path.read_text()), path


def test_the_types_are_pure() -> None:
    """The engine builds its state on them: no arrays, no rules."""
    text = Path(REPO / "ibdissect/decode/identity.py").read_text()
    imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "msgspec", "typing", "addresses", "ibdissect.wire.numbers"} and "import numpy" not in text
    assert "if TYPE_CHECKING:\n    from .addresses" in text


def test_a_handover_before_its_facts_concerns_a_rule_about_all_ports_alone() -> None:
    """Another node is told of two managers, one after the other, before the counters of a port are read."""
    told = [ask(0x77, 0x11), answer(0x77, 0x11, node(0x77))]
    for manager in (0x40, 0x41):
        info = port_info(0x77, master_sm_lid=manager)
        told += [craft.smp(SET, PORT_INFO, info, slid=manager, dlid=0x77), craft.smp(ANSWER, PORT_INFO, info, slid=0x77, dlid=manager)]
    found = lint([*told, *(frame for _, frame in records(CASES["PM002"][0].bad))], "PM002")
    assert [str(one.severity) for one in found] == ["warning"]
