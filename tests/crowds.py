"""A capture of many different hosts: the packets of all rule proofs, copied with other addresses and numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.locate import Int
from ibdissect.scrub.kinds import ScrubKind, kind_of
from ibdissect.wire.catalog import builtin
from tests.rules import test_rules as _every_case  # noqa: F401 - it imports them
from tests.rules.cases import CASES

NUMBERS = re.compile("p_key|transaction_id|comm_id|service_id|attribute_offset|qkey|q_key")
"""Fields that distinguish conversations although they do not identify a host."""
OTHERS = re.compile("attribute_id|attribute_modifier|^method$|^status$|psn|state|component_mask")
PERIOD_NS = 3_000_000_000
"""Less than the proofs take, so that time also goes back."""
FLOOD = 100_000
"""Bytes of a proof that needs thousands of packets."""
WORDS = {
    "lid": {ScrubKind.LID},
    "guid": {ScrubKind.GUID, ScrubKind.GID, ScrubKind.PREFIX},
    "qpn": {ScrubKind.QPN},
    "number": {ScrubKind.KEEP},
    "key": {ScrubKind.KEY},
    "text": {ScrubKind.TEXT},
    "address": {ScrubKind.IP4, ScrubKind.MAC},
    "other": {ScrubKind.KEEP},
}


@cache
def proofs() -> Chunk:
    """The packets of all proofs in sequence, as one chunk; without those of CAP003 and CAP016, each a flood of its own."""
    pieces, records = [], []
    at = 0
    for case in (case for code in sorted(CASES) for case in CASES[code]):  # in whatever order their files were imported
        for capture in (case.bad, case.twin) if len(case.bad) < FLOOD else ():
            for chunk in open_capture(io.BytesIO(capture)).chunks():
                pieces.append(chunk.data.copy())
                pseudo = np.where(chunk.pseudo >= 0, chunk.pseudo + at, -1)
                time = np.arange(len(chunk)) * 1_000_000
                records.append((chunk.offset + at, chunk.caplen, chunk.length, time, chunk.link, chunk.interface, pseudo))
                at += len(pieces[-1])
    columns = [np.concatenate(column) for column in zip(*records, strict=True)]
    offset, caplen, length, _, link, interface, pseudo = columns
    time_ns = np.arange(len(offset), dtype=np.int64) * 1_000_000
    return Chunk(
        first=1, base=0, data=np.concatenate(pieces), offset=offset, caplen=caplen, length=length, time_ns=time_ns,
        link=link, interface=interface, pseudo=pseudo,
    )  # fmt: skip


ALL = "lid guid qpn number key text address"


@cache
def _marks(what: str) -> tuple[tuple[Int, int], ...]:
    """Bytes of the proofs that a copy changes: their positions, and which byte of the copy's number to put there (0: lowest)."""
    kinds = {kind for word in what.split() for kind in WORDS[word]}
    chunk = proofs()
    table = ChunkTable(chunk)
    found: dict[int, list[Int]] = {0: [], 1: [], 2: []}
    for struct in builtin().structs:
        at = table.occurrences(struct).at
        for field in struct.fields if len(at) else ():
            kind = kind_of(field)
            if field.bit % 8 or field.bits % 8 or kind not in kinds:
                continue
            if kind is ScrubKind.KEEP and not (NUMBERS if "number" in what else OTHERS).search(field.name):
                continue
            size = field.bits // 8
            for bit in field.entries():
                begin = at + bit // 8
                values = np.stack([chunk.data[begin + i] for i in range(size)], axis=1)
                begin = begin[_ours(kind, values)]
                if not len(begin):
                    continue
                if size in (8, 16):
                    low = (begin + size - 3, begin + size - 2, begin + 1)
                    found[2] += (
                        [begin + 3] if kind in (ScrubKind.KEEP, ScrubKind.KEY) and size == 8 else []
                    )  # the other half of a transaction id
                    found[0] += [low[1]]
                    found[1] += [low[0]]
                else:
                    found[0].append(begin + min(size, 4) - 1)
                    found[1].append(begin + min(size, 4) - 2)
    return tuple((np.unique(np.concatenate([np.empty(0, np.int64), *spots])), part) for part, spots in found.items())


def _ours(kind: ScrubKind, values: Any) -> Any:  # Any: arrays of bytes, and which of them
    """Which values identify a host or group: unicast and multicast LIDs, ordinary queue pairs, other non-zero values."""
    wide = np.zeros(len(values), np.uint64)
    for column in values.T[-8:]:
        wide = wide << np.uint64(8) | column.astype(np.uint64)
    if kind is ScrubKind.LID:
        return (wide > 0) & (wide < 0xFFFF)
    if kind is ScrubKind.IP4:
        # 224.0.0.0/24: groups of a link, the same everywhere; and broadcasts
        return (wide != 0) & (wide >> np.uint64(8) != 0xE0_0000) & (wide != 0xFFFF_FFFF)
    if kind is ScrubKind.MAC:
        return (wide != 0) & (values[:, 0] & 1 == 0)  # groups are the same everywhere
    if kind is ScrubKind.QPN:
        return (wide > 1) & (wide < 0xFFFFFF)
    return wide != 0


def crowd(copies: int, *, at_once: int = 8, what: str = ALL, period_ns: int = PERIOD_NS) -> Iterator[Chunk]:
    """The proofs `copies` times, each with its own identities; `at_once` copies per chunk.

    `what`: which identities differ; `period_ns`: time from one copy to the next, 0 for a stopped clock.
    """
    base = proofs()
    n, size = len(base), len(base.data)
    for begin in range(0, copies, at_once):
        names = np.arange(begin, min(begin + at_once, copies))
        k = len(names)
        data = np.tile(base.data, (k, 1))
        for spots, part in _marks(what):
            mask = (names & 0xFF if part != 1 else names >> 8 & 0x3F).astype(np.uint8)
            data[:, spots] ^= mask[:, None]
        shift = np.repeat(np.arange(k, dtype=np.int64) * size, n)
        pseudo = np.tile(base.pseudo, k)
        yield Chunk(
            first=1 + begin * n, base=0, data=data.ravel(), offset=np.tile(base.offset, k) + shift, caplen=np.tile(base.caplen, k),
            length=np.tile(base.length, k), time_ns=np.tile(base.time_ns, k) + np.repeat(names * period_ns, n),
            link=np.tile(base.link, k), interface=np.tile(base.interface, k), pseudo=np.where(pseudo >= 0, pseudo + shift, -1),
        )  # fmt: skip
