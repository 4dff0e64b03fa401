"""What a capture of RoCE shows around the packet that is judged: whatever the rule, the finding ends where it must.

Each proof is taken with its earlier packets in another VLAN, with the set-up of another connection on its queue pair in front of the packet
at fault, or with an acknowledgement of that packet behind it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.lint.finding import Finding
from ibdissect.wire import cm
from tests.craft import interfaces_pcapng
from tests.diagnosis.lab import US, Lab
from tests.rules.cases import CASES, Case
from tests.rules.test_kinds import GSI, Timed, placed, quoted, resting
from tests.rules.test_rules import lint

TYPE_AT, IPV4, BTH_AT, BTH_END = 12, b"\x08\x00\x45", 42, 54
"""Where the Ethertype and the BTH of RoCE v2 over IPv4 stand in a frame without a tag."""
ANSWERS = range(0x0D, 0x13)
"""OpCodes of RC: READ responses, acknowledgements, answers to atomics."""
TAG = struct.pack(">HH", 0x8100, 77)


class Packet(NamedTuple):
    """What the BTH and IP of a frame say."""

    source: bytes
    target: bytes
    opcode: int
    qpn: int
    psn: int

    @classmethod
    def of(cls, frame: bytes) -> Packet:
        opcode, qpn, psn = struct.unpack_from(">B3xII", frame, BTH_AT)
        return cls(frame[26:30], frame[30:34], opcode, qpn & 0xFFFFFF, psn & 0xFFFFFF)

    @property
    def connected(self) -> bool:
        return self.opcode >> 5 == 0 and self.qpn > GSI


def records(capture: bytes) -> Timed:
    """The frames of a proof; none if not all are RoCE v2 over IPv4 without a tag."""
    found = Timed()
    for chunk in open_capture(io.BytesIO(capture)).chunks():
        rows = zip(chunk.time_ns.tolist(), chunk.offset.tolist(), chunk.length.tolist(), strict=True)
        found += [(time, bytes(chunk.data[start : start + size])) for time, start, size in rows]
    return found if all(frame[TYPE_AT : TYPE_AT + 3] == IPV4 and len(frame) > BTH_END for _, frame in found) else []


def pcapng(some: Timed) -> bytes:
    return interfaces_pcapng([(0, frame) for _, frame in some], link=1, times=[time for time, _ in some])


def in_another_vlan(some: Timed, at: int) -> Timed:
    return [*((time, frame[:TYPE_AT] + TAG + frame[TYPE_AT:]) for time, frame in some[:at]), *some[at:]]


def connected_again(some: Timed, at: int) -> Timed:
    """Another connection between the packet's hosts is set up, whose queue pair is that of the packet."""
    packet = Packet.of(some[at][1])
    if not packet.connected:
        return []
    lab, back = Lab(packet.source, packet.target, 0x777, packet.qpn), {"local_communication_id": 0x7002, "remote_communication_id": 0x7001}
    lab.req(0, local_communication_id=0x7001)
    lab.rep(US, packet.psn, **back)
    lab.short(2 * US, cm.RTU_ID, cm.RTU, local_communication_id=0x7001, remote_communication_id=0x7002)
    return placed(some, at, [frame for _, frame in lab.frames])


def acknowledged(some: Timed, at: int) -> Timed:
    """The host at the other end acknowledges the packet at once."""
    time, frame = some[at]
    packet = Packet.of(frame)
    answers = [other for _, one in some if (other := Packet.of(one)).connected and other.source == packet.target]
    if not packet.connected or packet.opcode in ANSWERS or not answers:
        return []
    nearest = min(reversed(answers), key=lambda one: (packet.psn - one.psn) % (1 << 24))  # of several queue pairs
    lab = Lab(packet.source, packet.target, nearest.qpn, packet.qpn)
    lab.answer(0, packet.psn, msn=packet.psn)
    return [*some[: at + 1], (time + US, lab.frames[0][1]), *some[at + 1 :]]


class Kind(NamedTuple):
    changed: Callable[[Timed, int], Timed]
    """The frames of the capture, given those of the proof and which is at fault; none if it does not apply."""
    added: int
    """How many frames come in front of the one at fault."""
    stays: dict[str, tuple[str, ...]]
    """Why a verdict holds all the same, and the rules concerned."""


KINDS = {
    "in another VLAN": Kind(
        in_another_vlan,
        0,
        {"one direction in each, as where each direction of one link is tapped": ("CNX001", "CNX002", "CNX003")},
    ),
    "connected again": Kind(connected_again, 3, {}),
    "acknowledged": Kind(acknowledged, 0, {"sent too soon or with an old PSN, answered or not": ("CNX010", "CNX015")}),
}


@cache
def proven(capture: bytes) -> tuple[Timed, list[Finding]]:
    """The frames of a proof, and what is found in them."""
    some = records(capture)
    return some, lint(pcapng(some)) if some else []


def holds(case: Case, kind: Kind) -> Iterator[bool]:
    """For each finding of a proof that rests on earlier frames: whether it is still reported as an error or warning."""
    some, found = proven(case.bad)
    for one in resting(found, case.code):
        changed = kind.changed(some, one.frame - 1)
        if changed:
            yield quoted(lint(pcapng(changed)), case.code, one.frame + kind.added, 1, one.frame - 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_verdict_ends_where_it_must(name: str) -> None:
    kind = KINDS[name]
    tried = {
        code: [found for case in cases if not (case.policy or case.known or case.damage) for found in holds(case, kind)]
        for code, cases in CASES.items()
    }
    assert sum(map(len, tried.values())) > 5, "the proofs have no such packets"
    assert {code for code, found in tried.items() if any(found)} == {code for codes in kind.stays.values() for code in codes}
