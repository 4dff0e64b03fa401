"""What a finding tells, as tests compare it: the sentence, the bytes that are marked, and the frames that prove it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.finding import Finding
from ibdissect.lint.linter import Linter
from ibdissect.rules import load
from ibdissect.words import Rule
from tests.craft import erf_pcap

START_NS = 1_700_000_000_000_000_000


class Facts(NamedTuple):
    """A finding."""

    frame: int
    message: str
    marked: str
    """The marked bytes of the frame, as digits; empty for none."""
    value: Any
    """Of the field at fault."""
    proof: tuple[tuple[int, str], ...] = ()
    """Other frames, and what each shows."""
    evidence: str = "seen"
    times: int = 1


@cache
def rules() -> dict[str, type[Rule]]:
    """All rules by code."""
    return {rule.code: rule for rule in load()}


def lint(
    frames: Sequence[bytes], *codes: str, chunks: Sequence[int] = (), window: int = 1 << 20, skipped: int = 0, **file: Any
) -> list[Finding]:
    """What these rules find in a capture that holds the frames 1 ms apart (`step_ns`, `start_ns`).

    It is read in chunks of about `window` bytes, or in chunks of as many frames as `chunks` says and one with the rest. `skipped`: how many
    numbers of frames nobody has in front of each chunk but the first, as in a long capture.
    """
    linter = Linter([rules()[code] for code in codes], max_findings=None)
    for chunk in open_capture(io.BytesIO(erf_pcap(frames, **file)), window=window).chunks():
        at = 0
        for number, size in enumerate((*chunks, len(frames)) if chunks else (len(chunk),)):
            part = _part(chunk, at, size)
            linter.feed(ChunkTable(replace(part, first=part.first + number * skipped)))
            at += size
    found = linter.finish()
    linter.close()
    return found


def counted(frames: Sequence[bytes], code: str, **kw: Any) -> list[tuple[int, int]]:
    """First frame and number of packets of each finding."""
    return [(one.frame, one.times) for one in facts_of(frames, code, **kw)]


def _part(chunk: Chunk, at: int, size: int) -> Chunk:
    some = slice(at, at + size)
    columns = {name: getattr(chunk, name)[some] for name in ("offset", "caplen", "length", "time_ns", "link", "interface", "pseudo")}
    return replace(chunk, first=chunk.first + at, front=None, **columns)


def facts_of(frames: Sequence[bytes], code: str, **kw: Any) -> list[Facts]:
    """What one rule tells, with keys shown."""
    start, step = kw.get("start_ns", START_NS), kw.get("step_ns", 1_000_000)
    result = []
    for one in lint(frames, code, **kw):
        assert abs(one.time_ns - start - (one.frame - 1) * step) < 1000, "a finding has the time of its frame"
        marked = [frames[span.frame - 1][span.offset : span.offset + span.length].hex() for span in one.spans]
        assert {span.frame for span in one.spans} <= {one.frame} and bool(one.field) == (one.value is not None)
        one.finish(None)
        proof = tuple((other.frame, other.why) for other in one.related)
        result.append(Facts(one.frame, one.message, " ".join(marked), one.value, proof, str(one.evidence), one.count))
    return result
