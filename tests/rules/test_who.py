"""Verdicts about requests, transfers and connections stay the same beside a second mirror, another network, and in another order."""

from __future__ import annotations

import io

import pytest

from ibdissect.capture.opening import open_capture
from tests.craft import interfaces_pcapng
from tests.rules.cases import CASES, Case
from tests.rules.test_rules import PCAPNG, lint
from tests.standard import LINK_ETHERNET, LINK_INFINIBAND, SECOND_NS

WITHIN_NS = 10_000_000

FAMILIES = ("TXN", "RC", "CM", "CC", "QKY004", "PM001", "PM002", "BTH018", "PKY005", "PKY021", "MAD004", "MAD005")
QUICK = {("TXN005", 4), ("TXN012", 3), ("TXN012", 5), ("TXN012", 10), *(("TXN019", i) for i in range(6))}
"""Proofs in which somebody repeats a datagram after 1 ms, as nobody does: beside many copies of a mirror, this is one, too."""
UNSURE = {"CM022_17", "PKY021_1", "PM002_3", "RC011_4", "TXN005_4", "TXN012_0", "TXN012_3", *(f"PM001_{i}" for i in (2, 3, 4, 6, 9, 14))}
"""Proofs that become an info, or nothing, beside the second network: it may be the same one."""
LATER_NS = SECOND_NS // 50
"""Nobody takes packets for copies that come so much later."""
PROOFS = [
    pytest.param(case, (code, i) in QUICK, id=f"{code}_{i}") for code, cases in sorted(CASES.items()) if code.startswith(FAMILIES)
    for i, case in enumerate(cases) if not (case.policy or case.known or case.damage or case.bad.startswith(PCAPNG))
]  # fmt: skip
MIRRORED = [
    pytest.param(*one.values, 1 + (n + other) % 2, marks=[pytest.mark.thorough] * other, id=f"{one.id}-{1 + (n + other) % 2}")
    for n, one in enumerate(PROOFS)
    for other in (0, 1)
]
"""Each proof with one or two interfaces; with --thorough each with both."""
Timed = list[tuple[int, int, bytes]]
"""Time, interface and frame of each record."""


def records(capture: bytes) -> tuple[int, Timed]:
    """The link type of a capture without ERF headers, and its records."""
    found, link = Timed(), LINK_INFINIBAND
    for chunk in open_capture(io.BytesIO(capture)).chunks():
        found += [(int(chunk.time_ns[row]), 0, chunk.frame_bytes(row)) for row in range(len(chunk))]
        link = LINK_ETHERNET if (chunk.link == LINK_ETHERNET).any() else link
    return link, found


def warned(case: Case, link: int, found: Timed) -> bool:
    capture = interfaces_pcapng([(interface, frame) for _, interface, frame in found], link=link, times=[time for time, *_ in found])
    return any(one.code == case.code and one.severity != "info" for one in lint(capture))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "quick", "interfaces"), MIRRORED)
def test_a_mirror_that_records_all_twice(case: Case, quick: bool, interfaces: int) -> None:
    """On one interface, or another mirror on another one."""
    for capture in (case.twin,) if quick else (case.bad, case.twin):
        link, found = records(capture)
        twice = [(time + 200 * copy, copy % interfaces, frame) for time, _, frame in found for copy in (0, 1)]
        assert warned(case, link, twice) == warned(case, link, found)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "quick"), PROOFS)
def test_another_network_with_the_same_numbers(case: Case, quick: bool, request: pytest.FixtureRequest) -> None:
    """The twin, on another interface: its answers and packets neither prove nor refute anything here."""
    (link, bad), (of_twin, twin) = records(case.bad), records(case.twin)
    if not bad or not twin or link != of_twin or not (shows_both_ways(bad) and shows_both_ways(twin)):
        return
    start = bad[0][0] - twin[0][0] + LATER_NS
    other = [(time + start, 1, frame) for time, _, frame in twin]
    if request.node.callspec.id not in UNSURE:
        assert warned(case, link, sorted([*bad, *other])) == warned(case, link, bad)
    if not warned(case, link, twin):
        again = [(time + LATER_NS, 1, frame) for time, _, frame in twin]
        assert not warned(case, link, sorted([*twin, *again]))


def shows_both_ways(found: Timed) -> bool:
    """Whether more than one sender is seen: two interfaces that each show one direction are taken for one network."""
    return len({frame[:12] if len(frame) > 60 else frame[1:8] for _, _, frame in found}) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("case", "quick"), PROOFS)
def test_neighbours_in_the_wrong_order(case: Case, quick: bool) -> None:
    """Of twins: what order proves may become an info."""
    link, found = records(case.twin)
    pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
    if not warned(case, link, found) and all(abs(pair[0][0] - pair[-1][0]) < WITHIN_NS for pair in pairs):
        assert not warned(case, link, [one for pair in pairs for one in pair[::-1]])
