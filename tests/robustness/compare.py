"""Findings that a manipulated capture has and the orderly one has not."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from unittest import mock

import ibdissect
from ibdissect.lint.finding import Finding
from ibdissect.lint.findings_from_hits import Grouping
from ibdissect.lint.rule import DeferredHit
from ibdissect.words import Hit, Rule

from .manipulations import Pcap

MEANT = {
    "CAP001": "frames are cut off: that is what a snap length does",
    "CAP018": "nothing of InfiniBand is left",
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


class Orderly:
    """What the linter says of orderly captures."""

    def __init__(self, *captures: bytes) -> None:
        self.words: set[tuple[str, str]] = set()
        self.frames: set[tuple[str, int]] = set()
        """Code and frame of every fault, also of those that are only counted in a finding about an earlier frame."""
        take = Grouping.take
        with mock.patch.object(Grouping, "take", lambda grouping, rule, hits: take(grouping, rule, self._noted(rule, hits))):
            for raw in captures:
                for one in findings_of(raw):
                    self.words.add((one.code, one.stable))
                    self.frames |= {(one.code, part.frame) for part in (one, *one.spans, *one.related)}

    def _noted(self, rule: Rule, hits: Iterable[Hit | DeferredHit]) -> Iterator[Hit | DeferredHit]:
        for hit in hits:
            self.frames.add((rule.code, hit.frame))
            yield hit


def new_findings(orderly: Orderly, manipulated: Pcap) -> list[New]:
    """Findings of the manipulated capture whose code the orderly one has neither in the same words, nor at that frame or related to it."""
    origins = [0, *manipulated.origins(), 0]
    return [
        New(one, origins[one.frame])
        for one in findings_of(manipulated.packed())
        if one.code not in MEANT and (one.code, one.stable) not in orderly.words and (one.code, origins[one.frame]) not in orderly.frames
    ]
