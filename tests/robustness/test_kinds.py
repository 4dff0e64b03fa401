"""Nobody is accused, and a verdict becomes an info, kind by kind, whatever the rule. The proofs of all rules are changed by script."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ibdissect.lint.finding import Evidence, Finding, Severity
from ibdissect.rules.shared.attribute_rule import AttributeRule
from ibdissect.rules.shared.not_seen import LearntFactRule
from tests.cases import few
from tests.craft import ud
from tests.rules.cases import CASES, Case
from tests.rules.test_rules import BY_CODE, PCAPNG, RULES, lint

from .compare import MEANT
from .kinds import MANAGER, answered, erf_record, ids_again, lids_again, other_hosts_ids, other_vlan, paths_answered, second_manager
from .manipulations import ERF, SECOND, Pcap, at_time, doubles, mirrors_apart, read_bytes
from .test_proofs import beside, reported

LATER_NS = 50_000_000
LOSS_AT = 12, 14
"""Bytes of an ERF record that count lost packets."""

NOTHING_BETWEEN = {
    "CAP017": "two subnets are mixed, whatever is missing",
    "CM004": "both messages name their sender", "CM005": "counts what was sent", "CM012": "the REJ refuses the REQ that it names",
    "CNX004": "counts what was sent, and nobody answers afterwards",
    "PKY021": "a queue pair has one P_Key, which both of its packets show",
    "PKY013": "the trap repeats the packet that is shown", "TXN013": "both numbers are the sender's own", "TXN019": "both Sets are there",
}  # fmt: skip
"""Rules whose verdicts no missing packet changes, and why; a list that may only shrink."""


def on_two_interfaces(pcap: Pcap, proof: Case) -> bytes:
    """Another subnet with the same LIDs, queue pairs and transaction ids, and nothing wrong, on the other interface, a little later."""
    twin = read_bytes(proof.twin)
    return beside(pcap, twin.with_records([at_time(one, one.time_ns + LATER_NS, twin.link) for one in twin.records]))


def beside_a_longer_one(pcap: Pcap, _proof: Case) -> bytes:
    """Another interface, with nothing but two packets of another subnet, the second an hour after the first."""
    start = pcap.records[0].time_ns
    frame = ud(bytes(8), dest_qp=0x777, src_qp=0x778, q_key=0x1234, slid=MANAGER, dlid=MANAGER + 1)
    return beside(pcap, Pcap(ERF, tuple(erf_record(frame, start + wait * SECOND) for wait in (0, 3600))))


def made(change: Callable[[Pcap], Pcap | None]) -> Callable[[Pcap, Case], bytes | None]:
    def packed(pcap: Pcap, _proof: Case) -> bytes | None:
        changed = change(pcap)
        return changed.packed() if changed is not None else None

    return packed


KINDS: dict[str, Callable[[Pcap, Case], bytes | None]] = {
    "another subnet with the same numbers on another interface": on_two_interfaces,
    "another interface that is captured for an hour": beside_a_longer_one,
    "a second manager with the same high word": made(second_manager),
    "another host with the same transaction ids": made(other_hosts_ids),
    "transaction ids used again": made(ids_again),
    "LIDs that other hosts get": made(lids_again), "paths of the subnet administration": made(paths_answered),
    "another tenant with the same numbers in a VLAN": made(other_vlan),
    "copies of a mirror": made(doubles), "copies of a late mirror that loses packets": made(mirrors_apart),
}  # fmt: skip


def a_third(first: int) -> list[Any]:
    """Every third rule for parametrize; the others only with --thorough."""
    return [pytest.param(code, marks=[pytest.mark.thorough] * (i % 3 != first)) for i, code in enumerate(sorted(BY_CODE))]


def files(code: str, thorough: bool) -> list[Case]:
    """The proofs of a rule that are pcap files and rest on nothing but the capture."""
    plain = [one for one in CASES[code] if not (one.damage or one.policy or one.known)]
    found = [one for one in plain if PCAPNG not in (one.bad[:4], one.twin[:4])]
    return found if thorough else found[:1]


@pytest.mark.slow
@pytest.mark.parametrize("code", a_third(0))
def test_what_stands_beside_accuses_nobody(code: str, pytestconfig: pytest.Config) -> None:
    thorough = pytestconfig.getoption("--thorough")
    for proof in files(code, thorough):
        for which, raw in enumerate((proof.bad, proof.twin)):
            pcap = read_bytes(raw)
            known = reported(proof, raw, pcap.packed(), proof.twin) | MEANT.keys()
            for kind in [*KINDS] if thorough else [[*KINDS][(int(code[-3:]) + which) % len(KINDS)]]:
                changed = KINDS[kind](pcap, proof)
                new = [one for one in lint(changed) if one.severity != "info" and one.code not in known] if changed else []
                assert [(one.code, one.frame, one.message) for one in new] == [], kind


def resting(findings: Sequence[Finding]) -> list[Finding]:
    """Errors and warnings that rest on earlier frames."""
    loud = [one for one in findings if one.severity is not Severity.INFO and one.evidence is not Evidence.SEEN]
    return [one for one in loud if any(0 < part.frame < one.frame for part in one.related)]


@cache
def facts(raw: bytes) -> tuple[tuple[str, int], ...]:
    """Code and frame of what a proof says that rests on earlier frames."""
    return tuple((one.code, one.frame) for one in resting(lint(raw)))


def losing_before(pcap: Pcap, frames: set[int]) -> Pcap:
    """The card lost packets right before some frames, and counted them."""
    start, stop = LOSS_AT
    counted = [
        replace(one, data=one.data[:start] + struct.pack(">H", 1) + one.data[stop:]) if one.origin in frames else one
        for one in pcap.records
    ]  # fmt: skip
    return pcap.with_records(counted)


@pytest.mark.slow
@pytest.mark.parametrize("code", a_third(1))
def test_lost_packets_make_it_an_info(code: str, pytestconfig: pytest.Config) -> None:
    """What earlier frames showed may have changed in packets that the capture lacks."""
    for proof in files(code, pytestconfig.getoption("--thorough")):
        pcap = read_bytes(proof.bad)
        frames = {frame for _, frame in facts(proof.bad)} if pcap.link == ERF else set()
        if frames:
            found = {one.code for one in resting(lint(losing_before(pcap, frames).packed()))}
            assert found - NOTHING_BETWEEN.keys() == set()


@few("code", ["LNK020", "LNK021", "LNK022"], fast=(2,))
def test_a_path_of_the_subnet_administration_overrules(code: str) -> None:
    """What it names is there: facts that forbid the packet are outdated."""
    proof = files(code, False)[0]
    before = {one.frame for one in resting(lint(proof.bad)) if one.code == code}
    changed = paths_answered(read_bytes(proof.bad))
    assert before and changed is not None
    assert [one.frame for one in resting(lint(changed.packed())) if one.code == code] == []


def loud_alone(code: str, proof: Case) -> bool:
    """Whether a rule's verdict stands although packets are missing before the frames that prove it."""
    rules = [BY_CODE[code]]
    frames = {one.frame for one in resting(lint(proof.bad, rules=rules))}
    return bool(resting(lint(losing_before(read_bytes(proof.bad), frames).packed(), rules=rules)))


def test_the_lists_name_rules_that_need_them() -> None:
    for code in NOTHING_BETWEEN:
        assert any(loud_alone(code, proof) for proof in files(code, True)), code


REFUTED = [
    rule.code for rule in RULES
    if (
        rule.refusable or rule.taken if issubclass(rule, AttributeRule)
        else issubclass(rule, LearntFactRule) and rule.refutes is LearntFactRule.refutes
    )
]  # fmt: skip
"""Rules that say that a packet is dropped or refused: a good answer refutes them."""


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(REFUTED))
def test_what_was_answered_was_not_refused(code: str, pytestconfig: pytest.Config) -> None:
    for proof in files(code, pytestconfig.getoption("--thorough")):
        pcap = read_bytes(proof.bad)
        frames = {frame for known, frame in facts(proof.bad) if known == code}
        changed = answered(pcap, frames)
        if changed is not None:
            assert [one.frame for one in resting(lint(changed.packed())) if one.code == code and one.frame in frames] == []
