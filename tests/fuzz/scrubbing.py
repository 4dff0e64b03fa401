"""Checks of a scrubbed capture of broken packets: read back whole, laid out as before, without a key."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import numpy as np

from ibdissect import Capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.hidden.key_numbers import secret_fields
from tests.scrub.made import scrubbed

LEAST = 4
"""Different bytes of a key that is looked for; others may stand there by chance."""


def scrubbed_well(blob: bytes) -> Iterator[str]:
    """What is wrong with the scrubbed capture, in words."""
    clean = scrubbed(blob, "pcapng")
    with Capture(io.BytesIO(blob)) as before, Capture(io.BytesIO(clean)) as after:
        tables, again = list(before.tables()), list(after.tables())
        if after.damage:
            yield f"the scrubbed file is damaged: {after.damage[0]}"
        mine, theirs = _frames(tables), _frames(again)
        if len(mine) != len(theirs):
            yield f"{len(mine)} frames, {len(theirs)} when scrubbed"
            return
        for number, (one, two) in enumerate(zip(mine, theirs, strict=True), 1):
            # A record that ends inside its ERF header has no frame: an empty record is written for it.
            if one != two and (one["captured"] or two["captured"]):
                yield f"frame {number} is laid out otherwise: {sorted({*one.items()} ^ {*two.items()})[:4]}"
        blobs = [table.chunk.frame_bytes(row) for table in again for row in range(len(table))]
        for frame, key, name in keys(tables):
            if key in blobs[frame - 1]:
                yield f"{name} {key.hex()} is left in frame {frame}"


def keys(tables: Iterable[ChunkTable]) -> Iterator[tuple[int, bytes, str]]:
    """The keys of a capture: frame, bytes, name; without those of few different bytes, or that stand in their frame twice.

    Mutation copies words: an address may hold what the key holds, and stays as it is.
    """
    for table in tables:
        for field in secret_fields(table.catalog):
            found = table.occurrences(field.owner)
            if not len(found):
                continue
            start, stop = field.bit // 8, (field.bit + field.bits) // 8
            for row, key in zip(found.rows.tolist(), table.matrix(field.owner)[:, start:stop], strict=True):
                if len(set(key.tolist())) >= LEAST and table.chunk.frame_bytes(row).count(key.tobytes()) == 1:
                    yield table.chunk.first + row, key.tobytes(), field.filter_name


def _frames(tables: Iterable[ChunkTable]) -> list[dict[str, int]]:
    """What of each frame must stay as it is: sizes, time, link type, verdict, where headers that are read start."""
    found: list[dict[str, int]] = []
    for table in tables:
        chunk, located = table.chunk, table.located
        first = len(found)
        found += [{} for _ in range(len(table))]
        for name, values in (
            ("captured", chunk.caplen), ("wire", chunk.length), ("ns", chunk.time_ns), ("link", chunk.link),
            ("malformed", located.malformed),
        ):  # fmt: skip
            for row, value in enumerate(values.tolist()):
                found[first + row][name] = value
        for name, at in located.start.items():
            if name == "skipped":  # zeros in the place of what was not read may look like a chain of headers
                continue
            for row in np.flatnonzero(at >= 0).tolist():
                found[first + row][name] = int(at[row] - chunk.offset[row])
    return found
