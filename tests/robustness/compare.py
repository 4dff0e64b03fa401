"""Which findings does a manipulated capture have that the orderly one has not?"""

from __future__ import annotations

import io
from dataclasses import dataclass

import ibdissect
from ibdissect.lint.finding import Finding

from .manipulations import Pcap

MEANT = {
    "CAP001": "frames are cut off: that is what a snap length does",
    "CAP017": "two captures are interleaved: they are of two subnets",
}
"""Findings that tell what a manipulation did, and are right."""


@dataclass(frozen=True)
class New:
    """A finding that only the manipulated capture has."""

    finding: Finding
    origin: int
    """Frame of the orderly capture."""


def findings_of(raw: bytes) -> list[Finding]:
    """All findings of a capture in memory."""
    with ibdissect.open(io.BytesIO(raw)) as capture:
        return capture.lint()


def new_findings(orderly: list[Finding], manipulated: Pcap) -> list[New]:
    """Findings of the manipulated capture whose code the orderly one has neither in the same words, nor at that frame or related to it."""
    frames = {(one.code, part.frame) for one in orderly for part in (one, *one.spans, *one.related)}
    words = {(one.code, one.stable) for one in orderly}
    origins = [0, *manipulated.origins(), 0]
    return [
        New(one, origins[one.frame])
        for one in findings_of(manipulated.packed())
        if one.code not in MEANT and (one.code, one.stable) not in words and (one.code, origins[one.frame]) not in frames
    ]
