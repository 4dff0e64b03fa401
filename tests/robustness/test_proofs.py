"""Nobody is accused when the proof of a rule, or its twin, lost packets, was cut, exchanged, doubled, merged or beside another subnet."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from unittest import mock

import pytest

from ibdissect.lint.findings_from_hits import Grouping
from ibdissect.lint.rule import DeferredHit
from ibdissect.words import Hit, Rule
from tests.rules.cases import CASES, Case
from tests.rules.test_rules import PCAPNG, RULES, lint

from .compare import MEANT
from .manipulations import MANIPULATIONS, Pcap, at_time, interleaved_with, of_another_subnet, read, read_bytes
from .test_slice import CAPTURES

ONE_PACKET = frozenset({
    "AM017", "AM021", "BTH018", "CC001", "CM004", "CM008", "CM017", "CNX001", "CNX002", "CNX003", "CNX004", "CNX005", "CNX006",
    "CNX007", "CNX008", "CNX009", "CNX010", "CNX011", "CNX012", "CNX013", "CNX014", "GRH003", "GRH009", "LNK019", "LNK024", "MCG005",
    "MKY001", "MKY002", "MKY004", "MKY007", "MKY012", "MKY013", "MKY015", "PKY003", "PKY005", "PKY011", "PKY015", "PKY016", "PKY021",
    "PM001", "PTS001", "PTS002", "PTS003", "PTS005", "QKY005", "RC001", "RC009", "RC011", "RC012", "RC019", "ROC008", "SA006", "SEM004",
    "SEM012", "SEM024", "SEM025", "SEM026", "SEM027", "SEM029", "SEM030", "SMP018", "SMP019", "SMP025", "TXN001", "TXN002", "TXN010",
    "TXN012", "TXN018", "TXN019",
})  # fmt: skip
"""Rules whose twin is legal because of one packet, or whose proof is a different fault without one; nothing shows that it is missing. They
may report themselves.
"""
SAYS_LESS = {
    "CNX008": ("CNX004", "without the REQ its partition is unknown; that nobody acknowledges is left"),
    "CNX014": ("CNX013", "without the packets that show the MTU, the request is refused as before, and nothing says why"),
    "RC011": ("RC001", "a packet is lost and not sent again, whether or not the responder asked for it"),
}
"""Proofs that show less without some packets: the rule that tells what is left, and why that is so."""
STEP = 30
"""Of so many manipulations one is tried; all of them with --thorough."""
MOST = 60
"""Frames of a proof from which single ones are not left out one by one."""
AGAIN = ("MAD005", "CM005")
"""Requests that are answered before they are sent, or sent again after a restart: what some manipulations show of two packets."""


def single(pcap: Pcap) -> Iterator[tuple[str, Pcap]]:
    """Every packet left out, exchanged with its neighbour and doubled; every later start."""
    records = list(pcap.records)
    for i, one in enumerate(records):
        yield f"without {i + 1}", pcap.with_records(records[:i] + records[i + 1 :])
        yield f"{i + 1} doubled", pcap.with_records([*records[: i + 1], at_time(one, one.time_ns + 2000, pcap.link), *records[i + 1 :]])
        if i:
            before = records[i - 1]
            both = [at_time(one, before.time_ns, pcap.link), at_time(before, one.time_ns, pcap.link)]
            yield f"{i} and {i + 1} exchanged", pcap.with_records([*records[: i - 1], *both, *records[i + 1 :]])
            yield f"from {i + 1}", pcap.with_records(records[i:])


def beside(pcap: Pcap, other: Pcap) -> bytes:
    """A pcapng file with two interfaces; the second records the capture, the first one another subnet."""
    parts = [struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)]
    parts += [struct.pack("<IIHHIHHBxxxHHI", 1, 32, one.link, 0, 0, 9, 1, 9, 0, 0, 32) for one in (other, pcap)]
    shift = pcap.records[0].time_ns - other.records[0].time_ns
    packets = [(one.time_ns, 1, one) for one in pcap.records]
    packets += [(one.time_ns + shift, 0, at_time(one, one.time_ns + shift, other.link)) for one in other.records]
    for time_ns, interface, one in sorted(packets, key=lambda packet: packet[:2]):
        data = one.data + bytes(-len(one.data) % 4)
        size = 32 + len(data)
        parts += [struct.pack("<IIIIIII", 6, size, interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(one.data), one.length), data]
        parts.append(struct.pack("<I", size))
    return b"".join(parts)


def manipulated(pcap: Pcap) -> Iterator[tuple[str, bytes]]:
    """The capture in all ways."""
    guest = of_another_subnet(read(CAPTURES / "opensm-first-sweep.pcap"))
    yield "beside another subnet", beside(pcap, guest)
    yield "merged with another subnet", interleaved_with(guest)(pcap).packed()
    for name, manipulate in MANIPULATIONS.items():
        yield name, manipulate(pcap).packed()
    if len(pcap.records) <= MOST:
        for name, made in single(pcap):
            yield name, made.packed()


def reported(proof: Case, *captures: bytes) -> set[str]:
    """Codes of all that rules report in orderly captures, also of what is dropped later."""
    codes: set[str] = set()
    take = Grouping.take

    def noted(grouping: Grouping, rule: Rule, hits: Iterable[Hit | DeferredHit]) -> None:
        listed = list(hits)
        codes.update(rule.code for _ in listed[:1])
        take(grouping, rule, listed)

    with mock.patch.object(Grouping, "take", noted):
        return codes | {one.code for raw in captures for one in lint(raw, proof.policy, proof.known)}


def accused(proof: Case, kind: str, start: int, step: int) -> set[tuple[str, ...]]:
    """New errors and warnings in the manipulated captures."""
    raw = proof.bad if kind == "proof" else proof.twin
    pcap = read_bytes(raw)
    codes = reported(proof, raw, pcap.packed()) | ({proof.code} & ONE_PACKET) | {SAYS_LESS.get(proof.code, (proof.code, ""))[0]}
    new = set()
    for name, blob in [*manipulated(pcap)][start % step :: step]:
        for one in lint(blob, proof.policy, proof.known):
            if one.severity != "info" and one.code not in codes and one.code not in MEANT and one.code not in AGAIN:
                new.add((name, one.code, str(one.frame), one.message))
    return new


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["proof", "twin"])
@pytest.mark.parametrize("code", sorted(rule.code for rule in RULES))
def test_nobody_is_accused(code: str, kind: str, pytestconfig: pytest.Config) -> None:
    thorough = pytestconfig.getoption("--thorough")
    proofs = [one for one in CASES[code] if one.bad[:4] != PCAPNG != one.twin[:4] and not one.damage]
    for proof in proofs if thorough else proofs[:1]:
        assert accused(proof, kind, int(code[-3:]), 1 if thorough else STEP) == set()
