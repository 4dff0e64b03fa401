"""Do verdicts about requests, transfers and connections stay the same when a second mirror records everything again?"""

from __future__ import annotations

import io

import pytest

from ibdissect.capture.chunk import LINK_ETHERNET, LINK_INFINIBAND
from ibdissect.capture.opening import open_capture
from tests.craft import ethernet_pcap
from tests.rules.cases import CASES, Case
from tests.rules.test_rules import PCAPNG, lint

FAMILIES = ("TXN", "RC", "CM", "CC", "QKY004", "PM001", "PM002", "BTH018", "PKY005")
QUICK = {("CM005", 1), ("TXN005", 4), ("TXN012", 3), ("TXN012", 5), ("TXN012", 10), ("TXN019", 0), ("TXN019", 1)}
"""Proofs in which somebody repeats a datagram after 1 ms, as nobody does: beside many copies of a mirror, this is one, too."""
PROOFS = [
    pytest.param(case, (code, i) in QUICK, id=f"{code}_{i}") for code, cases in sorted(CASES.items()) if code.startswith(FAMILIES)
    for i, case in enumerate(cases) if not (case.policy or case.known or case.damage or case.bad.startswith(PCAPNG))
]  # fmt: skip


def recorded(capture: bytes, times: int) -> bytes:
    """The capture without ERF headers, each frame recorded so often, 200 ns apart."""
    step, link, frames = 1_000_000, LINK_INFINIBAND, list[bytes]()
    stamps = list[int]()
    for chunk in open_capture(io.BytesIO(capture)).chunks():
        stamps += chunk.time_ns.tolist()
        frames += [chunk.frame_bytes(row) for row in range(len(chunk))]
        link = LINK_ETHERNET if (chunk.link == LINK_ETHERNET).any() else link
    parts = [
        ethernet_pcap([frame], start_ns=stamp + 200 * copy, step_ns=step, link=link)
        for stamp, frame in zip(stamps, frames, strict=True) for copy in range(times)
    ]  # fmt: skip
    head = len(ethernet_pcap([]))
    return ethernet_pcap([], link=link) + b"".join(part[head:] for part in parts)


def warned(case: Case, capture: bytes) -> bool:
    return any(one.code == case.code and one.severity != "info" for one in lint(capture))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "quick"), PROOFS)
def test_a_mirror_that_records_all_twice(case: Case, quick: bool) -> None:
    for capture in (case.twin,) if quick else (case.bad, case.twin):
        assert warned(case, recorded(capture, 2)) == warned(case, recorded(capture, 1))
